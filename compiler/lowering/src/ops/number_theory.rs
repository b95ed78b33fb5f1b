//! Exact relations of numbers: common divisors and multiples, neighbouring floats.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Monoid, Scalar, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::{Built, Lowering, pointwise};
use crate::registry::Rule;

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

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.gcd.default", lower_gcd),
    Rule::new("aten.lcm.default", lower_lcm),
    Rule::new("aten.nextafter.default", lower_nextafter),
];
