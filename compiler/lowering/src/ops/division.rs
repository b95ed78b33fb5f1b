//! Division and its relatives: `div` with its rounding modes, `floor_divide`, `remainder`, `fmod`.
//!
//! XLA may turn a division by a broadcast operand into a product with its reciprocal: 1 ulp, and 0 for divisors whose
//! reciprocal is subnormal.
//!
//! Integer division by zero: eager torch raises an error, which compiled code does only with the option `checks`. Without
//! it, the result is XLA's answer, -1 (all bits set), and the dividend as remainder.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, Scalar, TensorType, Value};

use crate::checks::CheckKind;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::{Built, Lowering, pointwise};
use crate::registry::Rule;

// aten::div.Tensor(Tensor self, Tensor other) -> Tensor
// aten::div.Scalar(Tensor self, Scalar other) -> Tensor
fn lower_div(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let y = divisor(ctx, node)?;
        Ok(ctx.b.div(x, y)?)
    })
}

/// A constant to divide by. XLA would multiply with its inverse, which is one unit in the last place off unless it is a
/// power of two: it must not see that it is a constant.
pub(super) fn constant_divisor(ctx: &mut LoweringContext<'_>, number: Scalar, ty: &TensorType) -> Built {
    let constant = ctx.scalar(number, ty.element)?;
    let hidden = ctx.b.optimization_barrier(&[constant])?;
    Ok(ctx.b.broadcast_to(hidden[0], &ty.dims)?)
}

/// The second operand.
fn divisor(ctx: &mut LoweringContext<'_>, node: &Node) -> Built {
    let wide = ctx.compute_type(node)?;
    match ctx.opt_number(node, "other")? {
        Some(number) if wide.element.is_float() && !is_power_of_two(number.as_f64()) => {
            constant_divisor(ctx, number, &wide)
        }
        _ => ctx.exact_operand(node, "other"),
    }
}

fn is_power_of_two(number: f64) -> bool {
    number.is_normal() && number.to_bits().trailing_zeros() >= 52
}

// aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor
// aten::div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor
fn lower_div_mode(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    match ctx.opt_text(node, "rounding_mode")? {
        None => lower_div(ctx, node),
        Some("floor") => lower_floor_divide(ctx, node),
        Some("trunc") => pointwise(ctx, node, ["self"], |ctx, [x]| {
            let y = divisor(ctx, node)?;
            check_divisor(ctx, y)?;
            let quotient = ctx.b.div(x, y)?;
            if !ctx.b.element(x).is_float() {
                return Ok(quotient);
            }
            // By a narrow tensor of several elements torch rounds the quotient first, maybe to the next integer.
            let alone = ctx.opt_number(node, "other")?.is_some()
                || ctx.tensor(node, "other").map(|other| ctx.b.ty(other).elements() == 1)?;
            let narrow = ctx.output_type(node, 0)?.element;
            let quotient = if alone { quotient } else { ctx.rounded_as(quotient, narrow)? };
            ctx.truncated(quotient)
        }),
        Some(other) => Err(RuleError::unsupported(format!(
            "rounding mode {other:?} is unknown: it should be None, \"trunc\" or \"floor\""
        ))),
    }
}

// aten::floor_divide(Tensor self, Tensor other) -> Tensor
// aten::floor_divide.Scalar(Tensor self, Scalar other) -> Tensor
fn lower_floor_divide(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let y = ctx.exact_operand(node, "other")?;
        check_divisor(ctx, y)?;
        if ctx.b.element(x).is_float() { float_floor_divide(ctx, x, y) } else { int_floor_divide(ctx, x, y) }
    })
}

/// Eager PyTorch raises on an integer division by zero.
fn check_divisor(ctx: &mut LoweringContext<'_>, divisor: Value) -> Result<(), RuleError> {
    if !ctx.checking() || !ctx.b.element(divisor).is_integer() {
        return Ok(());
    }
    let by_zero = ctx.compare_number(Direction::Eq, divisor, 0.0)?;
    ctx.check(by_zero, CheckKind::Runtime, "ZeroDivisionError: an integer is divided by zero")
}

fn int_floor_divide(ctx: &mut LoweringContext<'_>, x: Value, y: Value) -> Built {
    let quotient = ctx.b.div(x, y)?;
    if ctx.b.element(x).is_unsigned_integer() {
        return Ok(quotient);
    }
    let rest = ctx.b.rem(x, y)?;
    let below = signs_differ(ctx, rest, y)?;
    let one = ctx.plus(quotient, -1.0)?;
    Ok(ctx.b.select(below, one, quotient)?)
}

/// Python's floor division: from the exact remainder, so that rounding of `x / y` can't step over an integer.
fn float_floor_divide(ctx: &mut LoweringContext<'_>, x: Value, y: Value) -> Built {
    let rest = ctx.b.rem(x, y)?;
    let exact = ctx.b.sub(x, rest)?;
    let quotient = ctx.b.div(exact, y)?;
    let below = signs_differ(ctx, rest, y)?;
    let less = ctx.plus(quotient, -1.0)?;
    let quotient = ctx.b.select(below, less, quotient)?;
    // `quotient` is an integer but for rounding.
    let floor = ctx.b.floor(quotient)?;
    let excess = ctx.b.sub(quotient, floor)?;
    let up = ctx.compare_number(Direction::Gt, excess, 0.5)?;
    let above = ctx.plus(floor, 1.0)?;
    let nearest = ctx.b.select(up, above, floor)?;
    let ratio = ctx.b.div(x, y)?;
    // A zero takes the sign of x / y.
    let signed_zero = ctx.times(ratio, 0.0)?;
    let is_zero = ctx.compare_number(Direction::Eq, quotient, 0.0)?;
    let result = ctx.b.select(is_zero, signed_zero, nearest)?;
    let by_zero = ctx.compare_number(Direction::Eq, y, 0.0)?;
    Ok(ctx.b.select(by_zero, ratio, result)?)
}

/// Where a remainder is not zero and has not the sign of the divisor.
fn signs_differ(ctx: &mut LoweringContext<'_>, rest: Value, divisor: Value) -> Built {
    let rest_negative = ctx.compare_number(Direction::Lt, rest, 0.0)?;
    let divisor_negative = ctx.compare_number(Direction::Lt, divisor, 0.0)?;
    let differ = ctx.b.xor(rest_negative, divisor_negative)?;
    let not_zero = ctx.compare_number(Direction::Ne, rest, 0.0)?;
    Ok(ctx.b.and(differ, not_zero)?)
}

// aten::remainder.Tensor(Tensor self, Tensor other) -> Tensor
// aten::remainder.Scalar(Tensor self, Scalar other) -> Tensor
// aten::remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
fn lower_remainder(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [x, y]| {
        check_divisor(ctx, y)?;
        let rest = ctx.b.rem(x, y)?;
        if ctx.b.element(x).is_unsigned_integer() {
            return Ok(rest);
        }
        let differ = signs_differ(ctx, rest, y)?;
        let moved = ctx.b.add(rest, y)?;
        Ok(ctx.b.select(differ, moved, rest)?)
    })
}

// aten::fmod.Tensor(Tensor self, Tensor other) -> Tensor
// aten::fmod.Scalar(Tensor self, Scalar other) -> Tensor
fn lower_fmod(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [x, y]| {
        check_divisor(ctx, y)?;
        Ok(ctx.b.rem(x, y)?)
    })
}

// aten::reciprocal(Tensor self) -> Tensor
fn lower_reciprocal(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let one = ctx.fill_like(Scalar::Int(1), x)?;
        Ok(ctx.b.div(one, x)?)
    })
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.div.Tensor", lower_div),
    Rule::new("aten.div.Scalar", lower_div),
    Rule::new("aten.div.Tensor_mode", lower_div_mode),
    Rule::new("aten.div.Scalar_mode", lower_div_mode),
    Rule::new("aten.floor_divide.default", lower_floor_divide),
    Rule::new("aten.floor_divide.Scalar", lower_floor_divide),
    Rule::new("aten.remainder.Tensor", lower_remainder),
    Rule::new("aten.remainder.Scalar", lower_remainder),
    Rule::new("aten.remainder.Scalar_Tensor", lower_remainder),
    Rule::new("aten.fmod.Tensor", lower_fmod),
    Rule::new("aten.fmod.Scalar", lower_fmod),
    Rule::new("aten.reciprocal.default", lower_reciprocal),
];
