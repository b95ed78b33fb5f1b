//! Sums and products of one result per element: `add`, `mul`, `addcmul`, `lerp`, …

use tpud_graph::Node;
use tpud_stablehlo::{Direction, Scalar, Value};

use crate::context::LoweringContext;
use crate::pointwise::{Built, Lowering, pointwise};
use crate::registry::Rule;

// aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
// aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
fn lower_add(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [x, y]| {
        let y = scaled_by_alpha(ctx, node, y)?;
        Ok(ctx.b.add(x, y)?)
    })
}

// aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
// aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
fn lower_sub(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [x, y]| {
        let y = scaled_by_alpha(ctx, node, y)?;
        Ok(ctx.b.sub(x, y)?)
    })
}

// aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
// aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
fn lower_rsub(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [x, y]| {
        let x = scaled_by_alpha(ctx, node, x)?;
        Ok(ctx.b.sub(y, x)?)
    })
}

fn is_one(factor: Scalar) -> bool {
    matches!(factor, Scalar::Int(1) | Scalar::Bool(true) | Scalar::Float(1.0))
}

/// `x · alpha`, with `alpha` rounded to the type of the output first.
fn scaled_by_alpha(ctx: &mut LoweringContext<'_>, node: &Node, x: Value) -> Built {
    let alpha = ctx.opt_number(node, "alpha")?.unwrap_or(Scalar::Int(1));
    if is_one(alpha) {
        return Ok(x);
    }
    let alpha = ctx.wide_operand(node, "alpha")?;
    Ok(ctx.b.mul(x, alpha)?)
}

/// `x · value`, with `value` as exact as `x`.
fn scaled_by_value(ctx: &mut LoweringContext<'_>, node: &Node, x: Value) -> Built {
    let value = ctx.opt_number(node, "value")?.unwrap_or(Scalar::Int(1));
    if is_one(value) {
        return Ok(x);
    }
    let value = ctx.fill_like(value, x)?;
    Ok(ctx.b.mul(x, value)?)
}

// aten::mul.Tensor(Tensor self, Tensor other) -> Tensor
// aten::mul.Scalar(Tensor self, Scalar other) -> Tensor
fn lower_mul(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let y = ctx.exact_operand(node, "other")?;
        Ok(ctx.b.mul(x, y)?)
    })
}

// aten::neg(Tensor self) -> Tensor
fn lower_neg(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| Ok(ctx.b.neg(x)?))
}

// aten::square(Tensor self) -> Tensor
fn lower_square(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| Ok(ctx.b.mul(x, x)?))
}

// aten::deg2rad(Tensor self) -> Tensor
fn lower_deg2rad(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| ctx.times(x, std::f64::consts::PI / 180.0))
}

// aten::rad2deg(Tensor self) -> Tensor
fn lower_rad2deg(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| ctx.times(x, 180.0 / std::f64::consts::PI))
}

// aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor
fn lower_addcmul(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "tensor1", "tensor2"], |ctx, [x, y, z]| {
        let y = scaled_by_value(ctx, node, y)?;
        let product = ctx.b.mul(y, z)?;
        Ok(ctx.b.add(x, product)?)
    })
}

// aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor
fn lower_addcdiv(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "tensor1", "tensor2"], |ctx, [x, y, z]| {
        let y = scaled_by_value(ctx, node, y)?;
        let quotient = ctx.b.div(y, z)?;
        Ok(ctx.b.add(x, quotient)?)
    })
}

// aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor
// aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor
// Starts from the nearer end, so that both ends are met exactly.
fn lower_lerp(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "end"], |ctx, [start, end]| {
        let weight = ctx.exact_operand(node, "weight")?;
        let distance = ctx.b.sub(end, start)?;
        let step = ctx.b.mul(weight, distance)?;
        let from_start = ctx.b.add(start, step)?;
        let rest = ctx.minus_from(1.0, weight)?;
        let step = ctx.b.mul(distance, rest)?;
        let from_end = ctx.b.sub(end, step)?;
        let size = ctx.b.abs(weight)?;
        let near = ctx.compare_number(Direction::Lt, size, 0.5)?;
        Ok(ctx.b.select(near, from_start, from_end)?)
    })
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.add.Tensor", lower_add),
    Rule::new("aten.add.Scalar", lower_add),
    Rule::new("aten.sub.Tensor", lower_sub),
    Rule::new("aten.sub.Scalar", lower_sub),
    Rule::new("aten.rsub.Tensor", lower_rsub),
    Rule::new("aten.rsub.Scalar", lower_rsub),
    Rule::new("aten.mul.Tensor", lower_mul),
    Rule::new("aten.mul.Scalar", lower_mul),
    Rule::new("aten.neg.default", lower_neg),
    Rule::new("aten.square.default", lower_square),
    Rule::new("aten.deg2rad.default", lower_deg2rad),
    Rule::new("aten.rad2deg.default", lower_rad2deg),
    Rule::new("aten.addcmul.default", lower_addcmul),
    Rule::new("aten.addcdiv.default", lower_addcdiv),
    Rule::new("aten.lerp.Tensor", lower_lerp),
    Rule::new("aten.lerp.Scalar", lower_lerp),
];
