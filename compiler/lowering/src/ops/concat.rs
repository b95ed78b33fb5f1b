//! Tensors put together from whole tensors: `cat`, `stack`, `repeat`, `flip`, `roll`.

use tpud_graph::Node;
use tpud_stablehlo::Value;

use crate::args::wrap_dim;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

// aten::cat(Tensor[] tensors, int dim=0) -> Tensor
/// A 1-d tensor without elements joins tensors of any rank: torch keeps this for old programs.
fn lower_cat(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let mut parts = Vec::new();
    for part in ctx.tensors(node, "tensors")? {
        if ctx.b.dims(part) != [0] || ty.rank() == 1 {
            parts.push(ctx.convert(part, ty.element)?);
        }
    }
    if parts.is_empty() {
        return Ok(ctx.b.splat(tpud_stablehlo::Scalar::Int(0), &ty)?.into());
    }
    let dim = ctx.dim(node, "dim", ty.rank())?;
    Ok(ctx.b.concatenate(&parts, dim)?.into())
}

// aten::stack(Tensor[] tensors, int dim=0) -> Tensor
fn lower_stack(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let dim = ctx.dim(node, "dim", ty.rank())?;
    let mut line = ty.dims.clone();
    line[dim] = 1;
    let mut parts = Vec::new();
    for part in ctx.tensors(node, "tensors")? {
        let part = ctx.convert(part, ty.element)?;
        parts.push(ctx.b.reshape(part, &line)?);
    }
    Ok(ctx.b.concatenate(&parts, dim)?.into())
}

// aten::repeat(Tensor self, SymInt[] repeats) -> Tensor
/// Each size `d` repeated `r` times is `[d]` broadcast to `[r, d]` and flattened.
fn lower_repeat(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let repeats = ctx.ints(node, "repeats")?;
    let ty = ctx.output_type(node, 0)?;
    let dims = ctx.b.dims(x).to_vec();
    let new = repeats.len().saturating_sub(dims.len());
    let (mut wide, mut map) = (Vec::new(), Vec::new());
    for (i, &count) in repeats.iter().enumerate() {
        let size = if i < new { 1 } else { dims[i - new] };
        if count != 1 {
            wide.push(count);
        }
        if i >= new {
            map.push(wide.len() as i64);
            wide.push(size);
        }
    }
    let wide = ctx.b.broadcast_in_dim(x, &wide, &map)?;
    Ok(ctx.b.reshape(wide, &ty.dims)?.into())
}

// aten::flip(Tensor self, int[] dims) -> Tensor
fn lower_flip(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let rank = ctx.b.rank(x);
    if rank == 0 || ctx.ints(node, "dims")?.is_empty() {
        return Ok(x.into());
    }
    let dims = ctx.dims(node, "dims", rank)?;
    Ok(ctx.b.reverse(x, &dims)?.into())
}

/// `x` rotated by `shift` along one dimension.
fn rotate(ctx: &mut LoweringContext<'_>, x: Value, shift: i64, dim: usize) -> Result<Value, RuleError> {
    let size = ctx.b.dims(x)[dim];
    let shift = if size == 0 { 0 } else { shift.rem_euclid(size) };
    if shift == 0 {
        return Ok(x);
    }
    let last = ctx.b.slice_dim(x, dim, size - shift, size, 1)?;
    let first = ctx.b.slice_dim(x, dim, 0, size - shift, 1)?;
    Ok(ctx.b.concatenate(&[last, first], dim)?)
}

// aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor
fn lower_roll(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let ty = ctx.b.ty(x).clone();
    let shifts = ctx.ints(node, "shifts")?;
    let dims = ctx.opt_ints(node, "dims")?.unwrap_or_default();
    if dims.is_empty() || ty.rank() == 0 {
        let flat = ctx.b.reshape(x, &[ty.elements()])?;
        let rolled = rotate(ctx, flat, shifts.first().copied().unwrap_or(0), 0)?;
        return Ok(ctx.b.reshape(rolled, &ty.dims)?.into());
    }
    let mut rolled = x;
    for (&shift, &dim) in shifts.iter().zip(&dims) {
        rolled = rotate(ctx, rolled, shift, wrap_dim(dim, ty.rank())?)?;
    }
    Ok(rolled.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.cat.default", lower_cat),
    Rule::new("aten.flip.default", lower_flip),
    Rule::new("aten.repeat.default", lower_repeat),
    Rule::new("aten.roll.default", lower_roll),
    Rule::new("aten.stack.default", lower_stack),
];
