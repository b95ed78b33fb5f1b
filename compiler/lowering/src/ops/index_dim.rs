//! Indexing of one dimension or of the flat tensor: `embedding`, `index_select`, `index_add`, `index_copy`, `take`, …
//! See `indices.rs` for indices out of range.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Scalar, TensorType, Value};

use super::scatter::{Reduction, reduce_into};
use crate::checks::CheckKind;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::{Combine, Target};
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// `self` with at least one dimension, `dim`, and `index` as 1-d positions along it.
fn along(ctx: &mut LoweringContext<'_>, node: &Node) -> Result<(Value, usize, Value), RuleError> {
    let x = ctx.tensor(node, "self")?;
    let x = if ctx.b.rank(x) == 0 { ctx.b.reshape(x, &[1])? } else { x };
    let dim = ctx.dim(node, "dim", ctx.b.rank(x))?;
    let index = ctx.tensor(node, "index")?;
    let count = ctx.b.ty(index).elements();
    let index = ctx.b.reshape(index, &[count])?;
    Ok((x, dim, index))
}

/// Eager PyTorch raises on positions out of range, if the tensor that is written to has elements.
fn check_lines(
    ctx: &mut LoweringContext<'_>,
    (x, dim, index): (Value, usize, Value),
    wraps: bool,
) -> Result<(), RuleError> {
    if ctx.b.ty(x).elements() == 0 {
        return Ok(());
    }
    let size = ctx.b.dims(x)[dim];
    ctx.check_index(index, (dim, size), wraps, CheckKind::Index)
}

/// The tensor argument `name`, in the sizes of `x` with as many lines along `dim` as there are indices.
fn lines(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
    name: &str,
    (x, dim, index): (Value, usize, Value),
) -> Result<Value, RuleError> {
    let mut dims = ctx.b.dims(x).to_vec();
    dims[dim] = ctx.b.ty(index).elements();
    let source = ctx.tensor(node, name)?;
    let source = ctx.convert(source, ctx.b.element(x))?;
    Ok(ctx.b.reshape(source, &dims)?)
}

/// Back to the sizes of the result, which may have no dimension.
fn shaped(ctx: &mut LoweringContext<'_>, node: &Node, out: Value) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    Ok(ctx.b.reshape(out, &ty.dims)?.into())
}

// aten::index_select(Tensor self, int dim, Tensor index) -> Tensor
fn lower_index_select(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (x, dim, index) = along(ctx, node)?;
    let size = ctx.b.dims(x)[dim];
    ctx.check_index(index, (dim, size), false, CheckKind::Index)?;
    let index = ctx.index(index, size)?;
    let out = ctx.take_along(x, index, dim)?;
    shaped(ctx, node, out)
}

// aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor
fn lower_index_add(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (x, dim, index) = along(ctx, node)?;
    check_lines(ctx, (x, dim, index), false)?;
    let mut source = lines(ctx, node, "source", (x, dim, index))?;
    let alpha = ctx.opt_number(node, "alpha")?.unwrap_or(Scalar::Int(1));
    if alpha.as_f64() != 1.0 || matches!(alpha, Scalar::Complex(..)) {
        let factor = ctx.fill_like(alpha, source)?;
        source = ctx.b.mul(source, factor)?;
    }
    let index = ctx.index(index, ctx.b.dims(x)[dim])?;
    let target = Target::along(ctx, index, dim, ctx.b.rank(x));
    let out = ctx.scatter(x, &target, source, Combine::Sum)?;
    shaped(ctx, node, out)
}

// aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor
/// One line (a cache that grows by a token) is written in place.
fn lower_index_copy(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (x, dim, index) = along(ctx, node)?;
    check_lines(ctx, (x, dim, index), false)?;
    let source = lines(ctx, node, "source", (x, dim, index))?;
    let ty = ctx.b.ty(x).clone();
    let position = ctx.index(index, ty.dims[dim])?;
    let out = if ctx.b.dims(index) == [1] && ty.elements() > 0 {
        let zero = ctx.scalar(Scalar::Int(0), ctx.b.element(position))?;
        let mut starts = vec![zero; ty.rank()];
        starts[dim] = ctx.b.reshape(position, &[])?;
        ctx.b.dynamic_update_slice(x, source, &starts)?
    } else {
        let target = Target::along(ctx, position, dim, ty.rank());
        ctx.scatter(x, &target, source, Combine::Replace)?
    };
    shaped(ctx, node, out)
}

// aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor
// aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor
fn lower_index_fill(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (x, dim, index) = along(ctx, node)?;
    check_lines(ctx, (x, dim, index), true)?;
    let mut ty = ctx.b.ty(x).clone();
    let index = ctx.wrapped_index(index, ty.dims[dim])?;
    ty.dims[dim] = ctx.b.ty(index).elements();
    let value = ctx.operand(node, "value", &ty)?;
    let target = Target::along(ctx, index, dim, ty.rank());
    let out = ctx.scatter(x, &target, value, Combine::Replace)?;
    shaped(ctx, node, out)
}

// aten::index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor
fn lower_index_reduce(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (x, dim, index) = along(ctx, node)?;
    check_lines(ctx, (x, dim, index), false)?;
    let source = lines(ctx, node, "source", (x, dim, index))?;
    let reduction = Reduction::named(ctx, node)?;
    let include_self = ctx.boolean(node, "include_self")?;
    let index = ctx.index(index, ctx.b.dims(x)[dim])?;
    let target = Target::along(ctx, index, dim, ctx.b.rank(x));
    let out = reduce_into(ctx, x, &target, source, reduction, include_self)?;
    shaped(ctx, node, out)
}

// aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor
fn lower_embedding(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let weight = ctx.tensor(node, "weight")?;
    let indices = ctx.tensor(node, "indices")?;
    let rows = ctx.b.dims(weight)[0];
    ctx.check_index(indices, (0, rows), false, CheckKind::Index)?;
    let indices = ctx.index(indices, rows)?;
    Ok(ctx.take_along(weight, indices, 0)?.into())
}

// aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq) -> Tensor
fn lower_embedding_dense_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let (rows, width) = (ty.dims[0], ty.dims[1]);
    let indices = ctx.tensor(node, "indices")?;
    let count = ctx.b.ty(indices).elements();
    let indices = ctx.b.reshape(indices, &[count])?;
    let indices = ctx.index(indices, rows)?;
    let grad = ctx.tensor(node, "grad_output")?;
    let grad = ctx.b.reshape(grad, &[count, width])?;
    let mut grad = ctx.convert(grad, accumulation_type(ty.element))?;
    if ctx.boolean(node, "scale_grad_by_freq")? && ty.elements() > 0 {
        let line = TensorType::new(ctx.b.element(grad), vec![rows]);
        let (zeros, one) = (ctx.b.splat(Scalar::Int(0), &line)?, Scalar::Int(1));
        let ones = ctx.b.splat(one, &line.with_dims(vec![count]))?;
        let target = Target::along(ctx, indices, 0, 1);
        let counts = ctx.scatter(zeros, &target, ones, Combine::Sum)?;
        let counts = ctx.take_along(counts, indices, 0)?;
        let counts = ctx.b.broadcast_in_dim(counts, &[count, width], &[0])?;
        grad = ctx.b.div(grad, counts)?;
    }
    // Rows of the padding index go out of range, where a scatter drops them.
    let padding = ctx.int(node, "padding_idx")?;
    let padded = ctx.fill_like(Scalar::Int(padding), indices)?;
    let outside = ctx.fill_like(Scalar::Int(rows), indices)?;
    let is_padding = ctx.b.compare(Direction::Eq, indices, padded)?;
    let indices = ctx.b.select(is_padding, outside, indices)?;
    let zeros = ctx.b.splat(Scalar::Int(0), &ty.with_element(ctx.b.element(grad)))?;
    let target = Target::along(ctx, indices, 0, 2);
    let out = ctx.scatter(zeros, &target, grad, Combine::Sum)?;
    Ok(ctx.convert(out, ty.element)?.into())
}

/// The flat `self` and wrapped positions in it.
fn flat(ctx: &mut LoweringContext<'_>, node: &Node) -> Result<(Value, Value), RuleError> {
    let x = ctx.tensor(node, "self")?;
    let count = ctx.b.ty(x).elements();
    let x = ctx.b.reshape(x, &[count])?;
    let index = ctx.tensor(node, "index")?;
    ctx.check_index(index, (0, count), true, CheckKind::Index)?;
    let index = ctx.wrapped_index(index, count)?;
    Ok((x, index))
}

// aten::take(Tensor self, Tensor index) -> Tensor
fn lower_take(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (x, index) = flat(ctx, node)?;
    Ok(ctx.take_along(x, index, 0)?.into())
}

// aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor
fn lower_put(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (x, index) = flat(ctx, node)?;
    let source = ctx.tensor(node, "source")?;
    let dims = ctx.b.dims(index).to_vec();
    let source = ctx.b.reshape(source, &dims)?;
    let combine = if ctx.boolean(node, "accumulate")? { Combine::Sum } else { Combine::Replace };
    let target = Target::along(ctx, index, 0, 1);
    let out = ctx.scatter(x, &target, source, combine)?;
    shaped(ctx, node, out)
}

// aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor
/// The n-th true position takes the n-th element of `source`; positions are counted by a running sum.
fn lower_masked_scatter(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let x = ctx.operand(node, "self", &ty)?;
    let mask = ctx.operand(node, "mask", &ty.with_element(ElementType::Bool))?;
    let source = ctx.tensor(node, "source")?;
    let count = ctx.b.ty(source).elements();
    let message = format!("the source has {count} elements, fewer than the mask has true ones");
    super::index::check_count(ctx, mask, (Direction::Gt, count), message)?;
    if count == 0 || ty.elements() == 0 {
        return Ok(x.into());
    }
    let source = ctx.b.reshape(source, &[count])?;
    let position = super::index::nth_true(ctx, mask, count)?;
    let picked = ctx.take_along(source, position, 0)?;
    let picked = ctx.b.reshape(picked, &ty.dims)?;
    Ok(ctx.b.select(mask, picked, x)?.into())
}

// aten::masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor
/// The gradient of the n-th true position goes to the n-th element of the source; the rest of the source gets zeros.
fn lower_masked_scatter_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let count = ty.elements();
    let grad = ctx.tensor(node, "grad_output")?;
    let shape = ctx.b.ty(grad).clone();
    let mask = ctx.operand(node, "mask", &shape.with_element(ElementType::Bool))?;
    let line = [shape.elements()];
    let (grad, mask) = (ctx.b.reshape(grad, &line)?, ctx.b.reshape(mask, &line)?);
    let zeros = ctx.b.splat(Scalar::Int(0), &ty.with_dims(vec![count]))?;
    let position = super::index::nth_true(ctx, mask, count)?;
    let outside = ctx.fill_like(Scalar::Int(count), position)?;
    let position = ctx.b.select(mask, position, outside)?;
    let target = Target::along(ctx, position, 0, 1);
    let out = ctx.scatter(zeros, &target, grad, Combine::Replace)?;
    shaped(ctx, node, out)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.embedding.default", lower_embedding),
    Rule::new("aten.embedding_dense_backward.default", lower_embedding_dense_backward),
    Rule::new("aten.index_add.default", lower_index_add),
    Rule::new("aten.index_copy.default", lower_index_copy),
    Rule::new("aten.index_fill.int_Scalar", lower_index_fill),
    Rule::new("aten.index_fill.int_Tensor", lower_index_fill),
    Rule::new("aten.index_reduce.default", lower_index_reduce),
    Rule::new("aten.index_select.default", lower_index_select),
    Rule::new("aten.masked_scatter.default", lower_masked_scatter),
    Rule::new("aten.masked_scatter_backward.default", lower_masked_scatter_backward),
    Rule::new("aten.put.default", lower_put),
    Rule::new("aten.take.default", lower_take),
];
