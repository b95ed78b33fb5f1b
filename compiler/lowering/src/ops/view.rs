//! Shapes of the same elements: `view`, `expand`, `permute`, `unsqueeze`, `squeeze`, …

use tpud_graph::Node;

use crate::args::wrap_dim;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

// aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)
// aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)
// aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)
/// Any op that keeps the row-major order of the elements: torch already said the new sizes.
fn lower_view(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let ty = ctx.output_type(node, 0)?;
    Ok(ctx.b.reshape(x, &ty.dims)?.into())
}

// aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)
fn lower_expand(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let ty = ctx.output_type(node, 0)?;
    Ok(ctx.b.broadcast_to(x, &ty.dims)?.into())
}

// aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)
fn lower_permute(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let rank = ctx.b.rank(x);
    let order = ctx
        .ints(node, "dims")?
        .into_iter()
        .map(|d| Ok(wrap_dim(d, rank)? as i64))
        .collect::<Result<Vec<i64>, RuleError>>()?;
    Ok(ctx.b.transpose(x, &order)?.into())
}

// aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)
fn lower_transpose(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let rank = ctx.b.rank(x);
    let (a, b) = (ctx.dim(node, "dim0", rank)?, ctx.dim(node, "dim1", rank)?);
    let mut order: Vec<i64> = (0..rank as i64).collect();
    if rank > 0 {
        order.swap(a, b);
    }
    Ok(ctx.b.transpose(x, &order)?.into())
}

// aten::t(Tensor(a) self) -> Tensor(a)
fn lower_t(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let order: Vec<i64> = (0..ctx.b.rank(x) as i64).rev().collect();
    Ok(ctx.b.transpose(x, &order)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._reshape_alias.default", lower_view),
    Rule::new("aten._unsafe_view.default", lower_view),
    Rule::new("aten.expand.default", lower_expand),
    Rule::new("aten.permute.default", lower_permute),
    Rule::new("aten.reshape.default", lower_view),
    Rule::new("aten.squeeze.default", lower_view),
    Rule::new("aten.squeeze.dim", lower_view),
    Rule::new("aten.squeeze.dims", lower_view),
    Rule::new("aten.t.default", lower_t),
    Rule::new("aten.transpose.int", lower_transpose),
    Rule::new("aten.unsqueeze.default", lower_view),
    Rule::new("aten.view.default", lower_view),
];
