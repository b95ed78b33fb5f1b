//! Complex numbers: parts, polar form, conjugates, the view as pairs of reals.

use tpud_graph::Node;
use tpud_stablehlo::{Binary, Direction, Scalar, Unary};

use crate::context::LoweringContext;
use crate::pointwise::Lowering;
use crate::registry::Rule;

// aten::complex(Tensor real, Tensor imag) -> Tensor
fn lower_complex(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let parts = ty.with_element(ty.element.real());
    let (re, im) = (ctx.operand(node, "real", &parts)?, ctx.operand(node, "imag", &parts)?);
    Ok(ctx.b.complex(re, im)?.into())
}

// aten::polar(Tensor abs, Tensor angle) -> Tensor
fn lower_polar(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let parts = ty.with_element(ty.element.real());
    let (length, angle) = (ctx.operand(node, "abs", &parts)?, ctx.operand(node, "angle", &parts)?);
    let (cosine, sine) = (ctx.b.unary(Unary::Cosine, angle)?, ctx.b.unary(Unary::Sine, angle)?);
    let (re, im) = (ctx.b.mul(length, cosine)?, ctx.b.mul(length, sine)?);
    Ok(ctx.b.complex(re, im)?.into())
}

// aten::real(Tensor(a) self) -> Tensor(a)
fn lower_real(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    Ok(if ctx.b.element(x).is_complex() { ctx.b.real(x)? } else { x }.into())
}

// aten::imag(Tensor(a) self) -> Tensor(a)
fn lower_imag(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    Ok(ctx.b.imag(x)?.into())
}

// aten::view_as_real(Tensor(a) self) -> Tensor(a)
fn lower_view_as_real(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let (mut dims, last) = (ctx.b.dims(x).to_vec(), ctx.b.rank(x));
    dims.push(1);
    let (re, im) = (ctx.b.real(x)?, ctx.b.imag(x)?);
    let (re, im) = (ctx.b.reshape(re, &dims)?, ctx.b.reshape(im, &dims)?);
    Ok(ctx.b.concatenate(&[re, im], last)?.into())
}

// aten::view_as_complex(Tensor(a) self) -> Tensor(a)
fn lower_view_as_complex(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (x, ty) = (ctx.tensor(node, "self")?, ctx.output_type(node, 0)?);
    let last = ty.rank();
    let (re, im) = (ctx.b.slice_dim(x, last, 0, 1, 1)?, ctx.b.slice_dim(x, last, 1, 2, 1)?);
    let (re, im) = (ctx.b.reshape(re, &ty.dims)?, ctx.b.reshape(im, &ty.dims)?);
    Ok(ctx.b.complex(re, im)?.into())
}

// aten::angle(Tensor self) -> Tensor
// Of a real number 0, or π if it is negative; NaN stays NaN.
fn lower_angle(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    if ctx.b.element(x).is_complex() {
        let (re, im) = (ctx.b.real(x)?, ctx.b.imag(x)?);
        return Ok(ctx.b.binary(Binary::Atan2, im, re)?.into());
    }
    let ty = ctx.output_type(node, 0)?;
    let x = ctx.convert(x, ty.element)?;
    let negative = ctx.compare_number(Direction::Lt, x, 0.0)?;
    let (pi, zero) =
        (ctx.b.splat(Scalar::Float(std::f64::consts::PI), &ty)?, ctx.b.splat(Scalar::Int(0), &ty)?);
    let angle = ctx.b.select(negative, pi, zero)?;
    let nan = ctx.is_nan(x)?;
    Ok(ctx.b.select(nan, x, angle)?.into())
}

// aten::_conj(Tensor(a) self) -> Tensor(a)
// aten::_conj_physical(Tensor self) -> Tensor
// aten::conj_physical(Tensor self) -> Tensor
fn lower_conj(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    if !ctx.b.element(x).is_complex() {
        return Ok(x.into());
    }
    let (re, im) = (ctx.b.real(x)?, ctx.b.imag(x)?);
    let im = ctx.b.neg(im)?;
    Ok(ctx.b.complex(re, im)?.into())
}

// aten::resolve_conj(Tensor(a) self) -> Tensor(a)
// aten::resolve_neg(Tensor(a) self) -> Tensor(a)
// Values here have no pending conjugation or negation.
fn lower_resolved(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    Ok(ctx.tensor(node, "self")?.into())
}

// aten::_neg_view(Tensor(a) self) -> Tensor(a)
fn lower_neg_view(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    Ok(ctx.b.neg(x)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.complex.default", lower_complex),
    Rule::new("aten.polar.default", lower_polar),
    Rule::new("aten.real.default", lower_real),
    Rule::new("aten.imag.default", lower_imag),
    Rule::new("aten.view_as_real.default", lower_view_as_real),
    Rule::new("aten.view_as_complex.default", lower_view_as_complex),
    Rule::new("aten.angle.default", lower_angle),
    Rule::new("aten._conj.default", lower_conj),
    Rule::new("aten._conj_physical.default", lower_conj),
    Rule::new("aten.conj_physical.default", lower_conj),
    Rule::new("aten.resolve_conj.default", lower_resolved),
    Rule::new("aten.resolve_neg.default", lower_resolved),
    Rule::new("aten._neg_view.default", lower_neg_view),
];
