//! Products of 8-bit integers: `_int_mm`. The other quantised ops are taken apart in the client.

use tpud_graph::Node;
use tpud_stablehlo::DotDims;

use crate::context::LoweringContext;
use crate::pointwise::Lowering;
use crate::products;
use crate::registry::Rule;

// aten::_int_mm(Tensor self, Tensor mat2) -> Tensor
/// Sums of 32 bits over operands of 8, as a TPU's matrix unit and vector instructions for dot products compute them.
fn lower_int_mm(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let (lhs, rhs) = (ctx.tensor(node, "self")?, ctx.tensor(node, "mat2")?);
    let dims = DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..DotDims::default() };
    Ok(products::dot_to(&mut ctx.b, ctx.options, (lhs, rhs), &dims, ty.element)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[Rule::new("aten._int_mm.default", lower_int_mm)];
