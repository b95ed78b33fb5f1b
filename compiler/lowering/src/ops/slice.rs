//! Parts of a tensor, and tensors with a part replaced: `slice`, `select`, `split`, `slice_scatter`, …

use tpud_graph::Node;
use tpud_stablehlo::{ElementType, Scalar, TensorType, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

/// Start, end and step along a dimension of `size` elements, clamped as Python's slices are.
fn bounds(ctx: &LoweringContext<'_>, node: &Node, size: i64) -> Result<(i64, i64, i64), RuleError> {
    let clamp = |i: i64| (if i < 0 { i.saturating_add(size) } else { i }).clamp(0, size);
    let start = clamp(ctx.opt_int(node, "start")?.unwrap_or(0));
    let end = clamp(ctx.opt_int(node, "end")?.unwrap_or(size)).max(start);
    Ok((start, end, ctx.opt_int(node, "step")?.unwrap_or(1)))
}

/// A position along a dimension of `size` elements; -1 is the last.
fn position(ctx: &LoweringContext<'_>, node: &Node, size: i64) -> Result<i64, RuleError> {
    let index = ctx.int(node, "index")?;
    let wrapped = if index < 0 { index + size } else { index };
    if (0..size).contains(&wrapped) {
        return Ok(wrapped);
    }
    Err(RuleError::Internal(format!("index {index} is out of range for {size} elements")))
}

// aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)
fn lower_slice(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dim = ctx.dim(node, "dim", ctx.b.rank(x))?;
    let (start, end, step) = bounds(ctx, node, ctx.b.dims(x)[dim])?;
    Ok(ctx.b.slice_dim(x, dim, start, end, step)?.into())
}

// aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)
fn lower_select(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dim = ctx.dim(node, "dim", ctx.b.rank(x))?;
    let index = position(ctx, node, ctx.b.dims(x)[dim])?;
    let line = ctx.b.slice_dim(x, dim, index, index + 1, 1)?;
    let ty = ctx.output_type(node, 0)?;
    Ok(ctx.b.reshape(line, &ty.dims)?.into())
}

/// Consecutive slices along `dim`, as many and as long as the node's outputs.
fn pieces(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dim = ctx.dim(node, "dim", ctx.b.rank(x))?;
    let mut start = 0;
    let mut parts = Vec::with_capacity(node.outputs.len());
    for i in 0..node.outputs.len() {
        let end = start + ctx.output_type(node, i)?.dims[dim];
        parts.push(ctx.b.slice_dim(x, dim, start, end, 1)?);
        start = end;
    }
    Ok(parts.into())
}

// aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]
fn lower_split_with_sizes(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pieces(ctx, node)
}

// aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]
fn lower_split(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pieces(ctx, node)
}

// aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]
fn lower_unbind(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dim = ctx.dim(node, "dim", ctx.b.rank(x))?;
    let mut dims = ctx.b.dims(x).to_vec();
    let count = dims.remove(dim);
    let mut parts = Vec::with_capacity(node.outputs.len());
    for i in 0..count {
        let line = ctx.b.slice_dim(x, dim, i, i + 1, 1)?;
        parts.push(ctx.b.reshape(line, &dims)?);
    }
    Ok(parts.into())
}

/// `x` with `part` in place of the elements `start, start + step, …` of dimension `dim`.
fn replace(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    part: Value,
    dim: usize,
    (start, step): (i64, i64),
) -> Result<Value, RuleError> {
    let ty = ctx.b.ty(x).clone();
    let count = ctx.b.dims(part)[dim];
    if count == 0 || ty.elements() == 0 {
        return Ok(x);
    }
    if step == 1 {
        let mut starts = vec![ctx.scalar(Scalar::Int(0), ElementType::I64)?; ty.rank()];
        starts[dim] = ctx.scalar(Scalar::Int(start), ElementType::I64)?;
        return Ok(ctx.b.dynamic_update_slice(x, part, &starts)?);
    }
    // Spread the part over the dimension, and take it where it landed.
    let (mut low, mut high, mut interior) = (vec![0; ty.rank()], vec![0; ty.rank()], vec![0; ty.rank()]);
    (low[dim], interior[dim]) = (start, step - 1);
    high[dim] = ty.dims[dim] - start - ((count - 1) * step + 1);
    let zero = ctx.scalar(Scalar::Int(0), ty.element)?;
    let spread = ctx.b.pad(part, zero, &low, &high, &interior)?;
    let line = ctx.b.splat(Scalar::Bool(true), &TensorType::new(ElementType::Bool, vec![count]))?;
    let no = ctx.scalar(Scalar::Bool(false), ElementType::Bool)?;
    let hit = ctx.b.pad(line, no, &[start], &[high[dim]], &[step - 1])?;
    let hit = ctx.b.broadcast_in_dim(hit, &ty.dims, &[dim as i64])?;
    Ok(ctx.b.select(hit, spread, x)?)
}

// aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor
fn lower_slice_scatter(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let ty = ctx.b.ty(x).clone();
    let dim = ctx.dim(node, "dim", ty.rank())?;
    let (start, end, step) = bounds(ctx, node, ty.dims[dim])?;
    let mut part = ty.clone();
    part.dims[dim] = (end - start + step - 1) / step;
    let src = ctx.operand(node, "src", &part)?;
    Ok(replace(ctx, x, src, dim, (start, step))?.into())
}

// aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor
fn lower_select_scatter(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let ty = ctx.b.ty(x).clone();
    let dim = ctx.dim(node, "dim", ty.rank())?;
    let index = position(ctx, node, ty.dims[dim])?;
    let (mut line, mut part) = (ty.clone(), ty);
    line.dims.remove(dim);
    part.dims[dim] = 1;
    let src = ctx.operand(node, "src", &line)?;
    let src = ctx.b.reshape(src, &part.dims)?;
    Ok(replace(ctx, x, src, dim, (index, 1))?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.select.int", lower_select),
    Rule::new("aten.select_scatter.default", lower_select_scatter),
    Rule::new("aten.slice.Tensor", lower_slice),
    Rule::new("aten.slice_scatter.default", lower_slice_scatter),
    Rule::new("aten.split.Tensor", lower_split),
    Rule::new("aten.split_with_sizes.default", lower_split_with_sizes),
    Rule::new("aten.unbind.int", lower_unbind),
];
