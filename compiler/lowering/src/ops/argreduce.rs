//! Reductions that yield positions: `argmax`, `argmin`, `max.dim`, `min.dim`.
//!
//! The first occurrence wins, and a NaN beats every number, as in torch.

use tpud_graph::{Arg, Node};
use tpud_stablehlo::{Direction, ElementType, Monoid, Scalar, TensorType, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

/// (extreme value, its first index as i64) along `dim`, which disappears.
pub(crate) fn arg_extreme(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    dim: usize,
    max: bool,
) -> Result<(Value, Value), RuleError> {
    ctx.with_elements(x, &[dim as i64])?;
    let source = ctx.b.element(x);
    let x = if source == ElementType::Bool { ctx.convert(x, ElementType::I8)? } else { x };
    let element = ctx.b.element(x);
    let index_ty = TensorType::new(ElementType::I64, ctx.b.dims(x).to_vec());
    let index = ctx.b.iota(&index_ty, dim)?;
    let monoid = if max { Monoid::Max } else { Monoid::Min };
    let init = ctx.scalar(monoid.neutral(element), element)?;
    let no_index = ctx.scalar(Scalar::Int(i64::MAX), ElementType::I64)?;
    let direction = if max { Direction::Gt } else { Direction::Lt };
    let out = ctx.b.reduce(&[x, index], &[init, no_index], &[dim as i64], |b, args| {
        let [a, i, c, j] = args else { return Ok(vec![]) };
        let (a, i, c, j) = (*a, *i, *c, *j);
        let mut better = b.compare(direction, a, c)?;
        let mut equal = b.compare(Direction::Eq, a, c)?;
        if b.element(a).is_float() {
            let (a_nan, c_nan) = (b.compare(Direction::Ne, a, a)?, b.compare(Direction::Ne, c, c)?);
            let c_number = b.not(c_nan)?;
            let a_only = b.and(a_nan, c_number)?;
            let both = b.and(a_nan, c_nan)?;
            better = b.or(better, a_only)?;
            equal = b.or(equal, both)?;
        }
        let earlier = b.compare(Direction::Lt, i, j)?;
        let tie = b.and(equal, earlier)?;
        let first = b.or(better, tie)?;
        Ok(vec![b.select(first, a, c)?, b.select(first, i, j)?])
    })?;
    Ok((ctx.convert(out[0], source)?, out[1]))
}

// aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
fn lower_max_dim(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    lower_dim(ctx, node, true)
}

// aten::min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
fn lower_min_dim(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    lower_dim(ctx, node, false)
}

fn lower_dim(ctx: &mut LoweringContext<'_>, node: &Node, max: bool) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dim = ctx.dim(node, "dim", ctx.b.rank(x))?;
    let x = if ctx.b.rank(x) == 0 { ctx.b.reshape(x, &[1])? } else { x };
    let (value, index) = arg_extreme(ctx, x, dim, max)?;
    let dims = ctx.output_type(node, 0)?.dims;
    Ok([ctx.b.reshape(value, &dims)?, ctx.b.reshape(index, &dims)?].into())
}

// aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
fn lower_argmax(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    lower_arg(ctx, node, true)
}

// aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
fn lower_argmin(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    lower_arg(ctx, node, false)
}

fn lower_arg(ctx: &mut LoweringContext<'_>, node: &Node, max: bool) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let whole = matches!(node.arg("dim"), None | Some(Arg::None));
    let (x, dim) = if whole || ctx.b.rank(x) == 0 {
        let n = ctx.b.ty(x).elements();
        (ctx.b.reshape(x, &[n])?, 0)
    } else {
        (x, ctx.dim(node, "dim", ctx.b.rank(x))?)
    };
    let (_, index) = arg_extreme(ctx, x, dim, max)?;
    let dims = ctx.output_type(node, 0)?.dims;
    Ok(ctx.b.reshape(index, &dims)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.argmax.default", lower_argmax),
    Rule::new("aten.argmin.default", lower_argmin),
    Rule::new("aten.max.dim", lower_max_dim),
    Rule::new("aten.min.dim", lower_min_dim),
];
