//! Adaptive pooling: the windows follow from the size of the output, and overlap when it does not divide the input.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Literal, Monoid, Scalar, TensorType, Value};

use super::pool::{larger, least, spatial_of};
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::index_element;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// (start, end) of each of `count` windows over `size` elements.
fn bounds(size: i64, count: i64) -> Vec<(i64, i64)> {
    (0..count).map(|i| (i * size / count, ((i + 1) * size + count - 1) / count)).collect()
}

/// Of `count` windows over `size` elements: the length of the longest, then for each place in each window the element
/// there and whether it belongs to the window.
fn elements(size: i64, count: i64) -> (i64, Vec<i64>, Vec<u8>) {
    let bounds = bounds(size, count);
    let longest = bounds.iter().map(|(start, end)| end - start).max().unwrap_or(0);
    let places = || bounds.iter().flat_map(|(start, end)| (*start..start + longest).map(|i| (i, *end)));
    let index = places().map(|(i, _)| i.min(size - 1)).collect();
    let inside = places().map(|(i, end)| u8::from(i < end)).collect();
    (longest, index, inside)
}

/// Positions in the flattened plane, shaped [windows, elements of a window] for each spatial dimension; `last` beyond
/// the end of a window. Made of sums of constants: XLA's CPU plugin folds a gather of an iota wrongly.
fn window_positions(
    ctx: &mut LoweringContext<'_>,
    plane: &[i64],
    counts: &[i64],
    element: ElementType,
) -> Result<Value, RuleError> {
    let lines: Vec<_> = plane.iter().zip(counts).map(|(size, count)| elements(*size, *count)).collect();
    let dims: Vec<i64> =
        lines.iter().zip(counts).flat_map(|((longest, ..), count)| [*count, *longest]).collect();
    let ty = TensorType::new(element, dims.clone());
    let mut position = ctx.b.splat(Scalar::Int(0), &ty)?;
    let mut inside = ctx.b.splat(Scalar::Bool(true), &ty.with_element(ElementType::Bool))?;
    for (s, (longest, index, within)) in lines.into_iter().enumerate() {
        let stride: i64 = plane[s + 1..].iter().product();
        let line = TensorType::new(element, vec![counts[s], longest]);
        let bytes = index.iter().flat_map(|i| Scalar::Int(i * stride).to_bytes(element)).collect();
        let steps = ctx.b.constant(Literal::dense(line.clone(), bytes)?)?;
        let within = ctx.b.constant(Literal::dense(line.with_element(ElementType::Bool), within)?)?;
        let place = [2 * s as i64, 2 * s as i64 + 1];
        let steps = ctx.b.broadcast_in_dim(steps, &dims, &place)?;
        let within = ctx.b.broadcast_in_dim(within, &dims, &place)?;
        position = ctx.b.add(position, steps)?;
        inside = ctx.b.and(inside, within)?;
    }
    let last = ctx.b.splat(Monoid::Min.neutral(element), &ty)?;
    Ok(ctx.b.select(inside, position, last)?)
}

/// Dimension `dim` taken apart into [windows, elements of a window]; shorter windows are filled with `fill`.
fn windows(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    (dim, count): (usize, i64),
    fill: Scalar,
) -> Result<Value, RuleError> {
    let mut dims = ctx.b.dims(x).to_vec();
    let size = dims[dim];
    if size % count == 0 {
        dims.splice(dim..=dim, [count, size / count]);
        return Ok(ctx.b.reshape(x, &dims)?);
    }
    let (longest, index, inside) = elements(size, count);
    let index = index.iter().flat_map(|i| (*i as i32).to_le_bytes()).collect();
    let index = Literal::dense(TensorType::new(ElementType::I32, vec![count, longest]), index)?;
    let index = ctx.b.constant(index)?;
    let taken = ctx.take_along(x, index, dim)?;
    let inside = Literal::dense(TensorType::new(ElementType::Bool, vec![count, longest]), inside)?;
    let inside = ctx.b.constant(inside)?;
    let out = ctx.b.dims(taken).to_vec();
    let inside = ctx.b.broadcast_in_dim(inside, &out, &[dim as i64, dim as i64 + 1])?;
    let fill = ctx.fill_like(fill, taken)?;
    Ok(ctx.b.select(inside, taken, fill)?)
}

// aten::_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor
// aten::_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor
fn lower_adaptive_avg_pool(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let out = ctx.output_type(node, 0)?;
    if out.elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &out)?.into());
    }
    let spatial = spatial_of(node)?;
    let x = ctx.tensor(node, "self")?;
    let mut x = ctx.convert(x, accumulation_type(out.element))?;
    for dim in out.rank() - spatial..out.rank() {
        let (size, count) = (ctx.b.dims(x)[dim], out.dims[dim]);
        let split = windows(ctx, x, (dim, count), Scalar::Int(0))?;
        let total = ctx.b.reduce_monoid(split, Monoid::Sum, &[dim as i64 + 1])?;
        let element = ctx.b.element(total);
        let lengths = bounds(size, count)
            .iter()
            .flat_map(|(start, end)| Scalar::Int(end - start).to_bytes(element))
            .collect();
        let lengths = ctx.b.constant(Literal::dense(TensorType::new(element, vec![count]), lengths)?)?;
        let dims = ctx.b.dims(total).to_vec();
        let lengths = ctx.b.broadcast_in_dim(lengths, &dims, &[dim as i64])?;
        x = ctx.b.div(total, lengths)?;
    }
    Ok(ctx.convert(x, out.element)?.into())
}

// aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)
// aten::adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)
fn lower_adaptive_max_pool(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (out, index_out) = (ctx.output_type(node, 0)?, ctx.output_type(node, 1)?);
    if out.elements() == 0 {
        return Ok([ctx.b.splat(Scalar::Int(0), &out)?, ctx.b.splat(Scalar::Int(0), &index_out)?].into());
    }
    let spatial = spatial_of(node)?;
    let mut x = ctx.tensor(node, "self")?;
    let shape = ctx.b.dims(x).to_vec();
    let lead = shape.len() - spatial;
    let element = index_element(shape[lead..].iter().product());
    let position = window_positions(ctx, &shape[lead..], &out.dims[lead..], element)?;
    let lowest = Monoid::Max.neutral(out.element);
    let mut inner = Vec::new();
    for s in 0..spatial {
        // Each dimension before this one has become two.
        let (dim, count) = (out.rank() - spatial + 2 * s, out.dims[out.rank() - spatial + s]);
        x = windows(ctx, x, (dim, count), lowest)?;
        inner.push(dim as i64 + 1);
    }
    let split = ctx.b.dims(x).to_vec();
    let position = ctx.b.broadcast_to(position, &split)?;
    let inits = least(ctx, out.element, element)?;
    let best = ctx.b.reduce(&[x, position], &inits, &inner, larger)?;
    Ok([best[0], ctx.convert(best[1], index_out.element)?].into())
}

// aten::_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor
// aten::_adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self) -> Tensor
/// Each dimension in turn: an element gets the share of every window it is in.
fn lower_adaptive_avg_pool_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let grad = ctx.tensor(node, "grad_output")?;
    if ty.elements() == 0 || ctx.b.ty(grad).elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &ty)?.into());
    }
    let mut grad = ctx.convert(grad, accumulation_type(ty.element))?;
    for dim in ty.rank() - spatial_of(node)?..ty.rank() {
        grad = spread_windows(ctx, grad, (dim, ty.dims[dim]))?;
    }
    Ok(ctx.convert(grad, ty.element)?.into())
}

/// The adjoint of the mean over the windows of a dimension of `size`.
fn spread_windows(
    ctx: &mut LoweringContext<'_>,
    grad: Value,
    (dim, size): (usize, i64),
) -> Result<Value, RuleError> {
    let mut dims = ctx.b.dims(grad).to_vec();
    let (count, element) = (dims[dim], ctx.b.element(grad));
    let bounds = bounds(size, count);
    if size % count == 0 {
        let share = ctx.times(grad, count as f64 / size as f64)?;
        let map: Vec<i64> = (0..dims.len()).map(|d| (d + usize::from(d > dim)) as i64).collect();
        let mut split = dims.clone();
        split.insert(dim + 1, size / count);
        dims[dim] = size;
        let wide = ctx.b.broadcast_in_dim(share, &split, &map)?;
        return Ok(ctx.b.reshape(wide, &dims)?);
    }
    // The windows that hold element e are consecutive; there are at most `most` of them.
    let holders: Vec<(i64, i64)> = (0..size)
        .map(|e| {
            let first = bounds.iter().position(|(_, end)| e < *end).unwrap_or(0) as i64;
            let last = bounds.iter().rposition(|(start, _)| *start <= e).unwrap_or(0) as i64;
            (first, last)
        })
        .collect();
    let most = holders.iter().map(|(first, last)| last - first + 1).max().unwrap_or(1);
    let (mut index, mut weight) = (Vec::new(), Vec::new());
    for (first, last) in &holders {
        for i in *first..first + most {
            let window = i.min(count - 1);
            let (start, end) = bounds[window as usize];
            let share = if i <= *last { 1.0 / (end - start) as f64 } else { 0.0 };
            index.extend((window as i32).to_le_bytes());
            weight.extend(Scalar::Float(share).to_bytes(element));
        }
    }
    let index = Literal::dense(TensorType::new(ElementType::I32, vec![size, most]), index)?;
    let index = ctx.b.constant(index)?;
    let taken = ctx.take_along(grad, index, dim)?;
    let weight = ctx.b.constant(Literal::dense(TensorType::new(element, vec![size, most]), weight)?)?;
    let out = ctx.b.dims(taken).to_vec();
    let weight = ctx.b.broadcast_in_dim(weight, &out, &[dim as i64, dim as i64 + 1])?;
    let share = ctx.b.mul(taken, weight)?;
    // A window that does not hold the element must not reach it, not even as 0 · inf.
    let zero = ctx.fill_like(Scalar::Int(0), share)?;
    let inside = ctx.b.compare(Direction::Ne, weight, zero)?;
    let share = ctx.b.select(inside, share, zero)?;
    Ok(ctx.b.reduce_monoid(share, Monoid::Sum, &[dim as i64 + 1])?)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._adaptive_avg_pool2d.default", lower_adaptive_avg_pool),
    Rule::new("aten._adaptive_avg_pool2d_backward.default", lower_adaptive_avg_pool_backward),
    Rule::new("aten._adaptive_avg_pool3d.default", lower_adaptive_avg_pool),
    Rule::new("aten._adaptive_avg_pool3d_backward.default", lower_adaptive_avg_pool_backward),
    Rule::new("aten.adaptive_avg_pool1d.default", lower_adaptive_avg_pool),
    Rule::new("aten.adaptive_max_pool1d.default", lower_adaptive_max_pool),
    Rule::new("aten.adaptive_max_pool2d.default", lower_adaptive_max_pool),
    Rule::new("aten.adaptive_max_pool3d.default", lower_adaptive_max_pool),
];
