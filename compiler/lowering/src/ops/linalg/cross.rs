//! Cross products.

use tpud_graph::Node;
use tpud_stablehlo::{Scalar, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::Built;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// Dimension `dim`, of size 3, turned by `by` places.
fn turned(ctx: &mut LoweringContext<'_>, x: Value, dim: usize, by: i64) -> Built {
    let (front, back) = (ctx.b.slice_dim(x, dim, by, 3, 1)?, ctx.b.slice_dim(x, dim, 0, by, 1)?);
    Ok(ctx.b.concatenate(&[front, back], dim)?)
}

// aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor
fn lower_cross(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let out = ctx.output_type(node, 0)?;
    if out.elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &out)?.into());
    }
    let dim = ctx.dim(node, "dim", out.rank())?;
    let wide = out.with_element(accumulation_type(out.element));
    let (x, y) = (ctx.operand(node, "self", &wide)?, ctx.operand(node, "other", &wide)?);
    let (x1, x2) = (turned(ctx, x, dim, 1)?, turned(ctx, x, dim, 2)?);
    let (y1, y2) = (turned(ctx, y, dim, 1)?, turned(ctx, y, dim, 2)?);
    let (forward, backward) = (ctx.b.mul(x1, y2)?, ctx.b.mul(x2, y1)?);
    let cross = ctx.b.sub(forward, backward)?;
    Ok(ctx.convert(cross, out.element)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[Rule::new("aten.linalg_cross.default", lower_cross)];
