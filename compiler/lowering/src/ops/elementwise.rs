//! Arithmetic of one result per element: `add`, `mul`, `exp`, …

use tpud_graph::Node;
use tpud_stablehlo::{Binary, Scalar};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

// aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
fn lower_add(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    scaled(ctx, node, Binary::Add)
}

// aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
fn lower_sub(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    scaled(ctx, node, Binary::Sub)
}

/// `self ± alpha · other`, all in the result's type.
fn scaled(ctx: &mut LoweringContext<'_>, node: &Node, op: Binary) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let lhs = ctx.operand(node, "self", &ty)?;
    let mut rhs = ctx.operand(node, "other", &ty)?;
    let alpha = ctx.opt_number(node, "alpha")?.unwrap_or(Scalar::Int(1));
    if alpha.as_f64() != 1.0 {
        let factor = ctx.fill_like(alpha, rhs)?;
        rhs = ctx.b.mul(rhs, factor)?;
    }
    Ok(ctx.b.binary(op, lhs, rhs)?.into())
}

// aten::mul.Tensor(Tensor self, Tensor other) -> Tensor
fn lower_mul(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let lhs = ctx.operand(node, "self", &ty)?;
    let rhs = ctx.operand(node, "other", &ty)?;
    Ok(ctx.b.mul(lhs, rhs)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.add.Tensor", lower_add),
    Rule::new("aten.add.Scalar", lower_add),
    Rule::new("aten.mul.Tensor", lower_mul),
    Rule::new("aten.mul.Scalar", lower_mul),
    Rule::new("aten.sub.Tensor", lower_sub),
    Rule::new("aten.sub.Scalar", lower_sub),
];
