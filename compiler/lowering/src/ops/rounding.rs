//! Rounding, magnitude and sign. What rounds leaves integers as they are.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, Scalar, Unary, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::{Built, Lowering, pointwise};
use crate::registry::Rule;

/// A rounding of floats.
fn rounding(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
    f: impl FnOnce(&mut LoweringContext<'_>, Value) -> Built,
) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| if ctx.b.element(x).is_float() { f(ctx, x) } else { Ok(x) })
}

// aten::floor(Tensor self) -> Tensor
fn lower_floor(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    rounding(ctx, node, |ctx, x| Ok(ctx.b.floor(x)?))
}

// aten::ceil(Tensor self) -> Tensor
fn lower_ceil(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    rounding(ctx, node, |ctx, x| Ok(ctx.b.unary(Unary::Ceil, x)?))
}

// aten::trunc(Tensor self) -> Tensor
fn lower_trunc(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    rounding(ctx, node, |ctx, x| ctx.truncated(x))
}

// aten::frac(Tensor self) -> Tensor
fn lower_frac(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    rounding(ctx, node, |ctx, x| {
        let whole = ctx.truncated(x)?;
        Ok(ctx.b.sub(x, whole)?)
    })
}

// aten::round(Tensor self) -> Tensor
// Halves go to the even neighbour.
fn lower_round(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    rounding(ctx, node, |ctx, x| Ok(ctx.b.unary(Unary::RoundEven, x)?))
}

// aten::round.decimals(Tensor self, *, int decimals) -> Tensor
fn lower_round_decimals(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let decimals = ctx.int(node, "decimals")?;
    let exponent = i32::try_from(decimals.unsigned_abs()).unwrap_or(i32::MAX);
    let scale = 10f64.powi(exponent);
    rounding(ctx, node, |ctx, x| {
        let factor = ctx.fill_like(Scalar::Float(scale), x)?;
        let scaled = if decimals < 0 { ctx.b.div(x, factor)? } else { ctx.b.mul(x, factor)? };
        let whole = ctx.b.unary(Unary::RoundEven, scaled)?;
        Ok(if decimals < 0 { ctx.b.mul(whole, factor)? } else { ctx.b.div(whole, factor)? })
    })
}

// aten::abs(Tensor self) -> Tensor
// Of a complex number the magnitude, which is real.
fn lower_abs(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    Ok(ctx.b.abs(x)?.into())
}

// aten::sign(Tensor self) -> Tensor
// aten::sgn(Tensor self) -> Tensor
// NaN has sign 0. Of a complex number: x / |x|.
fn lower_sign(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let element = ctx.b.element(x);
    if element.is_complex() || element.is_signed_integer() {
        return Ok(ctx.b.sign(x)?.into());
    }
    if !element.is_float() {
        let positive = ctx.compare_number(Direction::Ne, x, 0.0)?;
        return ctx.rounded(node, positive);
    }
    let sign = ctx.b.sign(x)?;
    let number = ctx.b.compare(Direction::Eq, x, x)?;
    Ok(ctx.select_or(number, sign, 0.0)?.into())
}

// aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor
// aten::copysign.Scalar(Tensor self, Scalar other) -> Tensor
fn lower_copysign(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [x, y]| {
        let size = ctx.b.abs(x)?;
        let negated = ctx.b.neg(size)?;
        let negative = ctx.sign_bit(y)?;
        Ok(ctx.b.select(negative, negated, size)?)
    })
}

// aten::heaviside(Tensor self, Tensor values) -> Tensor
// NaN gives 0.
fn lower_heaviside(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "values"], |ctx, [x, at_zero]| {
        let positive = ctx.compare_number(Direction::Gt, x, 0.0)?;
        let step = ctx.convert(positive, ctx.b.element(x))?;
        let zero = ctx.compare_number(Direction::Eq, x, 0.0)?;
        Ok(ctx.b.select(zero, at_zero, step)?)
    })
}

// aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor
fn lower_nan_to_num(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let element = ctx.b.element(x);
    if element.is_complex() {
        return Err(RuleError::unsupported(
            "nan_to_num of complex numbers: apply it to view_as_real of the tensor",
        ));
    }
    if !element.is_float() {
        return Ok(x.into());
    }
    let largest = largest_finite(element)?;
    let mut result = x;
    for (name, default, special) in
        [("nan", 0.0, f64::NAN), ("posinf", largest, f64::INFINITY), ("neginf", -largest, f64::NEG_INFINITY)]
    {
        let value = ctx.opt_float(node, name)?.unwrap_or(default);
        let value = ctx.fill_like(Scalar::Float(value), x)?;
        let here =
            if special.is_nan() { ctx.is_nan(x)? } else { ctx.compare_number(Direction::Eq, x, special)? };
        result = ctx.b.select(here, value, result)?;
    }
    Ok(result.into())
}

fn largest_finite(element: tpud_stablehlo::ElementType) -> Result<f64, RuleError> {
    use tpud_stablehlo::ElementType as E;
    match element {
        E::F64 => Ok(f64::MAX),
        E::F32 => Ok(f64::from(f32::MAX)),
        E::BF16 => Ok((2.0 - 2f64.powi(-7)) * 2f64.powi(127)),
        E::F16 => Ok(65504.0),
        other => Err(RuleError::unsupported(format!("nan_to_num of {other}: convert to bfloat16 first"))),
    }
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.floor.default", lower_floor),
    Rule::new("aten.ceil.default", lower_ceil),
    Rule::new("aten.trunc.default", lower_trunc),
    Rule::new("aten.frac.default", lower_frac),
    Rule::new("aten.round.default", lower_round),
    Rule::new("aten.round.decimals", lower_round_decimals),
    Rule::new("aten.abs.default", lower_abs),
    Rule::new("aten.sign.default", lower_sign),
    Rule::new("aten.sgn.default", lower_sign),
    Rule::new("aten.copysign.Tensor", lower_copysign),
    Rule::new("aten.copysign.Scalar", lower_copysign),
    Rule::new("aten.heaviside.default", lower_heaviside),
    Rule::new("aten.nan_to_num.default", lower_nan_to_num),
];
