//! Functions of one number: exponential, logarithmic and trigonometric. Integers are computed as f32.

use tpud_graph::Node;
use tpud_stablehlo::{Scalar, Unary};

use crate::context::LoweringContext;
use crate::pointwise::{Lowering, pointwise, unary};
use crate::registry::Rule;

// aten::sqrt(Tensor self) -> Tensor
fn lower_sqrt(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Sqrt)
}

// aten::rsqrt(Tensor self) -> Tensor
fn lower_rsqrt(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Rsqrt)
}

// aten::exp(Tensor self) -> Tensor
fn lower_exp(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Exp)
}

// aten::exp2(Tensor self) -> Tensor
fn lower_exp2(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let two = ctx.fill_like(Scalar::Int(2), x)?;
        Ok(ctx.b.pow(two, x)?)
    })
}

// aten::expm1(Tensor self) -> Tensor
fn lower_expm1(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Expm1)
}

// aten::log(Tensor self) -> Tensor
fn lower_log(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Log)
}

// aten::log1p(Tensor self) -> Tensor
fn lower_log1p(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Log1p)
}

// aten::log2(Tensor self) -> Tensor
fn lower_log2(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    logarithm(ctx, node, 2.0)
}

// aten::log10(Tensor self) -> Tensor
fn lower_log10(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    logarithm(ctx, node, 10.0)
}

/// A division rather than a product with 1 / ln(base): it rounds once less.
fn logarithm(ctx: &mut LoweringContext<'_>, node: &Node, base: f64) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let log = ctx.b.log(x)?;
        let scale = ctx.fill_like(Scalar::Float(base.ln()), log)?;
        Ok(ctx.b.div(log, scale)?)
    })
}

// aten::sin(Tensor self) -> Tensor
fn lower_sin(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Sine)
}

// aten::cos(Tensor self) -> Tensor
fn lower_cos(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Cosine)
}

// aten::tan(Tensor self) -> Tensor
fn lower_tan(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Tan)
}

// aten::asin(Tensor self) -> Tensor
fn lower_asin(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Asin)
}

// aten::acos(Tensor self) -> Tensor
fn lower_acos(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Acos)
}

// aten::atan(Tensor self) -> Tensor
fn lower_atan(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Atan)
}

// aten::sinh(Tensor self) -> Tensor
fn lower_sinh(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Sinh)
}

// aten::cosh(Tensor self) -> Tensor
fn lower_cosh(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Cosh)
}

// aten::tanh(Tensor self) -> Tensor
fn lower_tanh(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Tanh)
}

// aten::asinh(Tensor self) -> Tensor
fn lower_asinh(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Asinh)
}

// aten::acosh(Tensor self) -> Tensor
fn lower_acosh(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Acosh)
}

// aten::atanh(Tensor self) -> Tensor
fn lower_atanh(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Atanh)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.sqrt.default", lower_sqrt),
    Rule::new("aten.rsqrt.default", lower_rsqrt),
    Rule::new("aten.exp.default", lower_exp),
    Rule::new("aten.exp2.default", lower_exp2),
    Rule::new("aten.expm1.default", lower_expm1),
    Rule::new("aten.log.default", lower_log),
    Rule::new("aten.log1p.default", lower_log1p),
    Rule::new("aten.log2.default", lower_log2),
    Rule::new("aten.log10.default", lower_log10),
    Rule::new("aten.sin.default", lower_sin),
    Rule::new("aten.cos.default", lower_cos),
    Rule::new("aten.tan.default", lower_tan),
    Rule::new("aten.asin.default", lower_asin),
    Rule::new("aten.acos.default", lower_acos),
    Rule::new("aten.atan.default", lower_atan),
    Rule::new("aten.sinh.default", lower_sinh),
    Rule::new("aten.cosh.default", lower_cosh),
    Rule::new("aten.tanh.default", lower_tanh),
    Rule::new("aten.asinh.default", lower_asinh),
    Rule::new("aten.acosh.default", lower_acosh),
    Rule::new("aten.atanh.default", lower_atanh),
];
