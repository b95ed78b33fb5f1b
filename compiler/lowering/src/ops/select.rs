//! Choice per element: `where`, `masked_fill`.

use tpud_graph::Node;
use tpud_stablehlo::ElementType;

use crate::context::LoweringContext;
use crate::pointwise::Lowering;
use crate::registry::Rule;

// aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor
// aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor
// aten::where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor
// aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor
fn lower_where(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    choose(ctx, node, "condition", "self", "other")
}

// aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor
// aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor
fn lower_masked_fill(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    choose(ctx, node, "mask", "value", "self")
}

fn choose(ctx: &mut LoweringContext<'_>, node: &Node, pred: &str, on_true: &str, on_false: &str) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let pred = ctx.operand(node, pred, &ty.with_element(ElementType::Bool))?;
    let on_true = ctx.operand(node, on_true, &ty)?;
    let on_false = ctx.operand(node, on_false, &ty)?;
    Ok(ctx.b.select(pred, on_true, on_false)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.where.self", lower_where),
    Rule::new("aten.where.ScalarSelf", lower_where),
    Rule::new("aten.where.ScalarOther", lower_where),
    Rule::new("aten.where.Scalar", lower_where),
    Rule::new("aten.masked_fill.Scalar", lower_masked_fill),
    Rule::new("aten.masked_fill.Tensor", lower_masked_fill),
];
