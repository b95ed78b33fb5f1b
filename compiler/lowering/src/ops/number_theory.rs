//! Exact relations of numbers: common divisors and multiples, neighbouring floats, mantissas.

use tpud_graph::Node;
use tpud_stablehlo::{Binary, Direction, ElementType, Monoid, Scalar, Unary, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::{Built, Lowering, pointwise};
use crate::registry::Rule;
use crate::types::accumulation_type;

// aten::gcd(Tensor self, Tensor other) -> Tensor
fn lower_gcd(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [x, y]| greatest_common_divisor(ctx, x, y))
}

// aten::lcm(Tensor self, Tensor other) -> Tensor
// Of 0 and 0 it is 0.
fn lower_lcm(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [x, y]| {
        let divisor = greatest_common_divisor(ctx, x, y)?;
        let not_zero = ctx.compare_number(Direction::Ne, divisor, 0.0)?;
        let safe = ctx.select_or(not_zero, divisor, 1.0)?;
        let part = ctx.b.div(x, safe)?;
        let product = ctx.b.mul(part, y)?;
        Ok(ctx.b.abs(product)?)
    })
}

/// Euclid's algorithm on all elements at once, until the last one is done.
fn greatest_common_divisor(ctx: &mut LoweringContext<'_>, x: Value, y: Value) -> Built {
    let all: Vec<i64> = (0..ctx.b.rank(x) as i64).collect();
    let (x, y) = (ctx.b.abs(x)?, ctx.b.abs(y)?);
    let found = ctx.b.while_loop(
        &[x, y],
        |b, args| {
            let zero = b.splat_like(Scalar::Int(0), args[1])?;
            let running = b.compare(Direction::Ne, args[1], zero)?;
            b.reduce_monoid(running, Monoid::Or, &all)
        },
        |b, args| {
            let zero = b.splat_like(Scalar::Int(0), args[1])?;
            let running = b.compare(Direction::Ne, args[1], zero)?;
            let rest = b.rem(args[0], args[1])?;
            Ok(vec![b.select(running, args[1], args[0])?, b.select(running, rest, zero)?])
        },
    )?;
    found.first().copied().ok_or_else(|| RuleError::Internal("the loop carries nothing".into()))
}

// aten::nextafter(Tensor self, Tensor other) -> Tensor
// The bits of a float, read as an integer, count its neighbours away from zero.
fn lower_nextafter(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let bits = match ty.element {
        ElementType::F64 => ElementType::I64,
        ElementType::F32 => ElementType::I32,
        ElementType::F16 | ElementType::BF16 => ElementType::I16,
        other => return Err(RuleError::unsupported(format!("nextafter of {other}"))),
    };
    let (x, y) = (ctx.operand(node, "self", &ty)?, ctx.operand(node, "other", &ty)?);
    let x_bits = ctx.b.bitcast(x, bits)?;
    let y_negative = ctx.sign_bit(y)?;
    let x_negative = ctx.sign_bit(x)?;
    // From zero: the smallest number with the sign of the target.
    let (smallest, lowest) = (
        ctx.fill_like(Scalar::Int(1), x_bits)?,
        ctx.fill_like(Scalar::Int(smallest_negative(bits)), x_bits)?,
    );
    let from_zero = ctx.b.select(y_negative, lowest, smallest)?;
    // Else one step: away from zero where the target lies further out on the same side.
    let up = ctx.b.compare(Direction::Gt, y, x)?;
    let outwards = ctx.b.xor(up, x_negative)?;
    let (more, less) = (ctx.plus(x_bits, 1.0)?, ctx.plus(x_bits, -1.0)?);
    let step = ctx.b.select(outwards, more, less)?;
    // XLA may flush subnormals, so zero is recognised by its bits.
    let without_sign = ctx.fill_like(Scalar::Int(!smallest_negative(bits) | 1), x_bits)?;
    let magnitude = ctx.b.and(x_bits, without_sign)?;
    let x_is_zero = ctx.compare_number(Direction::Eq, magnitude, 0.0)?;
    let moved = ctx.b.select(x_is_zero, from_zero, step)?;
    let moved = ctx.b.bitcast(moved, ty.element)?;
    let equal = ctx.b.compare(Direction::Eq, x, y)?;
    let result = ctx.b.select(equal, y, moved)?;
    let (x_nan, y_nan) = (ctx.is_nan(x)?, ctx.is_nan(y)?);
    let result = ctx.b.select(y_nan, y, result)?;
    Ok(ctx.b.select(x_nan, x, result)?.into())
}

/// The bits of the negative float that is next to zero, for the width of the given integer.
fn smallest_negative(bits: ElementType) -> i64 {
    (-1i64 << (8 * bits.byte_width() - 1)) | 1
}

/// The layout of a float.
struct Layout {
    bits: ElementType,
    /// Bits of the fraction, and how many lie above it.
    digits: i64,
    above: i64,
    bias: i64,
}

// aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)
// From the bits, as XLA takes subnormals for zero: `mantissa · 2^exponent` with a mantissa in [1/2, 1). Zeros,
// infinities and NaN have the exponent 0.
fn lower_frexp(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let x = ctx.tensor(node, "self")?;
    let x = ctx.convert(x, accumulation_type(ty.element))?;
    let layout = match ctx.b.element(x) {
        ElementType::F64 => Layout { bits: ElementType::I64, digits: 52, above: 11, bias: 1023 },
        _ => Layout { bits: ElementType::I32, digits: 23, above: 8, bias: 127 },
    };
    let largest = 2 * layout.bias + 1;
    let raw = ctx.b.bitcast(x, layout.bits)?;
    let places = ctx.fill_like(Scalar::Int(layout.digits), raw)?;
    let high = ctx.b.binary(Binary::ShiftRightLogical, raw, places)?;
    let mask = ctx.fill_like(Scalar::Int(largest), raw)?;
    let biased = ctx.b.and(high, mask)?;
    let mask = ctx.fill_like(Scalar::Int((1 << layout.digits) - 1), raw)?;
    let fraction = ctx.b.and(raw, mask)?;
    let (low, top) = (
        ctx.compare_number(Direction::Eq, biased, 0.0)?,
        ctx.compare_number(Direction::Eq, biased, largest as f64)?,
    );
    // A subnormal's first bit is moved to where the hidden one of other numbers is.
    let zeros = ctx.b.unary(Unary::CountLeadingZeros, fraction)?;
    let shift = ctx.plus(zeros, -(layout.above as f64))?;
    let moved = ctx.b.binary(Binary::ShiftLeft, fraction, shift)?;
    let moved = ctx.b.and(moved, mask)?;
    let significant = ctx.b.select(low, moved, fraction)?;
    let less = ctx.minus_from((2 - layout.bias) as f64, shift)?;
    let exponent = ctx.plus(biased, (1 - layout.bias) as f64)?;
    let exponent = ctx.b.select(low, less, exponent)?;
    let mantissa = assembled(ctx, raw, significant, &layout)?;
    let mantissa = ctx.b.bitcast(mantissa, ctx.b.element(x))?;
    let none = ctx.compare_number(Direction::Eq, fraction, 0.0)?;
    let zero = ctx.b.and(low, none)?;
    let special = ctx.b.or(zero, top)?;
    let mantissa = ctx.b.select(special, x, mantissa)?;
    let nothing = ctx.fill_like(Scalar::Int(0), exponent)?;
    let exponent = ctx.b.select(special, nothing, exponent)?;
    let exponent = ctx.convert(exponent, ctx.output_type(node, 1)?.element)?;
    Ok([ctx.convert(mantissa, ty.element)?, exponent].into())
}

/// The bits of the float in [1/2, 1), or its negative, with the given fraction and the sign of `raw`.
fn assembled(ctx: &mut LoweringContext<'_>, raw: Value, fraction: Value, layout: &Layout) -> Built {
    let sign = ctx.fill_like(Scalar::Int(-1 << (layout.digits + layout.above)), raw)?;
    let sign = ctx.b.and(raw, sign)?;
    let half = ctx.fill_like(Scalar::Int((layout.bias - 1) << layout.digits), raw)?;
    let size = ctx.b.or(fraction, half)?;
    Ok(ctx.b.or(sign, size)?)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.frexp.Tensor", lower_frexp),
    Rule::new("aten.gcd.default", lower_gcd),
    Rule::new("aten.lcm.default", lower_lcm),
    Rule::new("aten.nextafter.default", lower_nextafter),
];
