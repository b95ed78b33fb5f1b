//! Comparisons and predicates: bool results.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Scalar, Value};

use crate::context::LoweringContext;
use crate::pointwise::{Built, Lowering};
use crate::registry::Rule;

// aten::eq.Tensor(Tensor self, Tensor other) -> Tensor
// aten::eq.Scalar(Tensor self, Scalar other) -> Tensor
fn lower_eq(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    compare(ctx, node, Direction::Eq)
}

// aten::ne.Tensor(Tensor self, Tensor other) -> Tensor
// aten::ne.Scalar(Tensor self, Scalar other) -> Tensor
fn lower_ne(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    compare(ctx, node, Direction::Ne)
}

// aten::lt.Tensor(Tensor self, Tensor other) -> Tensor
// aten::lt.Scalar(Tensor self, Scalar other) -> Tensor
fn lower_lt(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    compare(ctx, node, Direction::Lt)
}

// aten::le.Tensor(Tensor self, Tensor other) -> Tensor
// aten::le.Scalar(Tensor self, Scalar other) -> Tensor
fn lower_le(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    compare(ctx, node, Direction::Le)
}

// aten::gt.Tensor(Tensor self, Tensor other) -> Tensor
// aten::gt.Scalar(Tensor self, Scalar other) -> Tensor
fn lower_gt(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    compare(ctx, node, Direction::Gt)
}

// aten::ge.Tensor(Tensor self, Tensor other) -> Tensor
// aten::ge.Scalar(Tensor self, Scalar other) -> Tensor
fn lower_ge(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    compare(ctx, node, Direction::Ge)
}

/// Operands meet in their common type, as `torch.result_type` says.
fn compare(ctx: &mut LoweringContext<'_>, node: &Node, direction: Direction) -> Lowering {
    let element = ctx.common_element(node, &["self", "other"])?;
    let ty = ctx.output_type(node, 0)?.with_element(element);
    let lhs = ctx.operand(node, "self", &ty)?;
    let rhs = ctx.operand(node, "other", &ty)?;
    Ok(ctx.b.compare(direction, lhs, rhs)?.into())
}

/// A predicate of floats; of complex numbers where `any` (or else all) of the parts have it; `otherwise` for the types
/// without infinities and NaN.
fn classify(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
    any: bool,
    otherwise: bool,
    of_float: fn(&mut LoweringContext<'_>, Value) -> Built,
) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let element = ctx.b.element(x);
    if element.is_complex() {
        let (re, im) = (ctx.b.real(x)?, ctx.b.imag(x)?);
        let (re, im) = (of_float(ctx, re)?, of_float(ctx, im)?);
        return Ok(if any { ctx.b.or(re, im)? } else { ctx.b.and(re, im)? }.into());
    }
    if element.is_float() {
        return Ok(of_float(ctx, x)?.into());
    }
    let ty = ctx.output_type(node, 0)?;
    Ok(ctx.b.splat(Scalar::Bool(otherwise), &ty)?.into())
}

// aten::isnan(Tensor self) -> Tensor
fn lower_isnan(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    classify(ctx, node, true, false, |ctx, x| ctx.is_nan(x))
}

// aten::isinf(Tensor self) -> Tensor
fn lower_isinf(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    classify(ctx, node, true, false, |ctx, x| {
        let size = ctx.b.abs(x)?;
        ctx.compare_number(Direction::Eq, size, f64::INFINITY)
    })
}

// aten::isfinite(Tensor self) -> Tensor
fn lower_isfinite(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    classify(ctx, node, false, true, |ctx, x| Ok(ctx.b.is_finite(x)?))
}

// aten::isposinf(Tensor self) -> Tensor
fn lower_isposinf(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    classify(ctx, node, true, false, |ctx, x| ctx.compare_number(Direction::Eq, x, f64::INFINITY))
}

// aten::isneginf(Tensor self) -> Tensor
fn lower_isneginf(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    classify(ctx, node, true, false, |ctx, x| ctx.compare_number(Direction::Eq, x, f64::NEG_INFINITY))
}

// aten::signbit(Tensor self) -> Tensor
fn lower_signbit(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    if matches!(ctx.b.element(x), ElementType::Bool) || ctx.b.element(x).is_unsigned_integer() {
        return Ok(ctx.b.splat(Scalar::Bool(false), &ctx.output_type(node, 0)?)?.into());
    }
    Ok(ctx.sign_bit(x)?.into())
}

// aten::logical_not(Tensor self) -> Tensor
fn lower_logical_not(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let x = ctx.operand(node, "self", &ty)?;
    Ok(ctx.b.not(x)?.into())
}

// aten::logical_and(Tensor self, Tensor other) -> Tensor
fn lower_logical_and(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let (x, y) = (ctx.operand(node, "self", &ty)?, ctx.operand(node, "other", &ty)?);
    Ok(ctx.b.and(x, y)?.into())
}

// aten::logical_or(Tensor self, Tensor other) -> Tensor
fn lower_logical_or(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let (x, y) = (ctx.operand(node, "self", &ty)?, ctx.operand(node, "other", &ty)?);
    Ok(ctx.b.or(x, y)?.into())
}

// aten::logical_xor(Tensor self, Tensor other) -> Tensor
fn lower_logical_xor(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let (x, y) = (ctx.operand(node, "self", &ty)?, ctx.operand(node, "other", &ty)?);
    Ok(ctx.b.xor(x, y)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.eq.Tensor", lower_eq),
    Rule::new("aten.eq.Scalar", lower_eq),
    Rule::new("aten.ne.Tensor", lower_ne),
    Rule::new("aten.ne.Scalar", lower_ne),
    Rule::new("aten.lt.Tensor", lower_lt),
    Rule::new("aten.lt.Scalar", lower_lt),
    Rule::new("aten.le.Tensor", lower_le),
    Rule::new("aten.le.Scalar", lower_le),
    Rule::new("aten.gt.Tensor", lower_gt),
    Rule::new("aten.gt.Scalar", lower_gt),
    Rule::new("aten.ge.Tensor", lower_ge),
    Rule::new("aten.ge.Scalar", lower_ge),
    Rule::new("aten.isnan.default", lower_isnan),
    Rule::new("aten.isinf.default", lower_isinf),
    Rule::new("aten.isfinite.default", lower_isfinite),
    Rule::new("aten.isposinf.default", lower_isposinf),
    Rule::new("aten.isneginf.default", lower_isneginf),
    Rule::new("aten.signbit.default", lower_signbit),
    Rule::new("aten.logical_not.default", lower_logical_not),
    Rule::new("aten.logical_and.default", lower_logical_and),
    Rule::new("aten.logical_or.default", lower_logical_or),
    Rule::new("aten.logical_xor.default", lower_logical_xor),
];
