//! Windows over memory: `unfold`, `as_strided`.

use tpud_graph::Node;
use tpud_stablehlo::{GatherDims, Scalar, TensorType, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::index_element;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

/// Windows that need more slices than this are gathered.
const MOST_SLICES: i64 = 16;

/// `[…, length]` to `[…, count, size]`: the windows of `size` elements at `0, step, 2·step, …` of the last dimension.
/// Each is cut into pieces of at most `step` elements, and the first pieces of all windows are one slice, and so on.
fn windows(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    (count, size, step): (i64, i64, i64),
) -> Result<Value, RuleError> {
    let dims = ctx.b.dims(x).to_vec();
    let last = dims.len() - 1;
    if count == 1 || size == 0 {
        let x = ctx.b.slice_dim(x, last, 0, size, 1)?;
        let shape: Vec<i64> = dims[..last].iter().copied().chain([1, size]).collect();
        let x = ctx.b.reshape(x, &shape)?;
        let shape: Vec<i64> = dims[..last].iter().copied().chain([count, size]).collect();
        return Ok(ctx.b.broadcast_to(x, &shape)?);
    }
    if (size - 1) / step + 1 > MOST_SLICES {
        return gathered_windows(ctx, x, (count, size, step));
    }
    let zero = ctx.scalar(Scalar::Int(0), ctx.b.element(x))?;
    let none = vec![0; dims.len()];
    let mut pieces = Vec::new();
    for start in (0..size).step_by(usize::try_from(step).unwrap_or(1)) {
        let width = step.min(size - start);
        let limit = start + (count - 1) * step + width;
        let line = ctx.b.slice_dim(x, last, start, limit, 1)?;
        let mut fill = none.clone();
        fill[last] = step - width;
        let line = ctx.b.pad(line, zero, &none, &fill, &none)?;
        let shape: Vec<i64> = dims[..last].iter().copied().chain([count, step]).collect();
        let rows = ctx.b.reshape(line, &shape)?;
        pieces.push(ctx.b.slice_dim(rows, last + 1, 0, width, 1)?);
    }
    Ok(ctx.b.concatenate(&pieces, last + 1)?)
}

fn gathered_windows(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    (count, size, step): (i64, i64, i64),
) -> Result<Value, RuleError> {
    let dims = ctx.b.dims(x).to_vec();
    let last = dims.len() - 1;
    let line = TensorType::new(index_element(dims[last]), vec![count]);
    let starts = ctx.b.iota(&line, 0)?;
    let step = ctx.b.splat(Scalar::Int(step), &line)?;
    let starts = ctx.b.mul(starts, step)?;
    let mut window = dims.clone();
    window[last] = size;
    let numbers = GatherDims {
        offset_dims: (0..last).chain([last + 1]).map(|d| d as i64).collect(),
        start_index_map: vec![last as i64],
        index_vector_dim: 1,
        ..GatherDims::default()
    };
    Ok(ctx.b.gather(x, starts, &numbers, &window)?)
}

// aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)
fn lower_unfold(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let x = ctx.tensor(node, "self")?;
    let rank = ctx.b.rank(x);
    if ty.elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &ty)?.into());
    }
    if rank == 0 {
        return Ok(ctx.b.reshape(x, &ty.dims)?.into());
    }
    let dim = ctx.dim(node, "dimension", rank)?;
    let (size, step) = (ctx.int(node, "size")?, ctx.int(node, "step")?);
    let order: Vec<i64> = (0..rank).filter(|d| *d != dim).chain([dim]).map(|d| d as i64).collect();
    let x = ctx.b.transpose(x, &order)?;
    let x = windows(ctx, x, (ty.dims[dim], size, step))?;
    // [others…, count, size]: the windows go where the dimension was.
    let mut back: Vec<i64> = (0..rank as i64 - 1).collect();
    back.insert(dim, rank as i64 - 1);
    back.push(rank as i64);
    Ok(ctx.b.transpose(x, &back)?.into())
}

// aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)
/// Values are dense, so the operand's memory is its elements in order: the client refuses other operands. The longest
/// stride cuts it into windows, the next one cuts these, and so on; a stride of 0 repeats.
fn lower_as_strided(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    if ty.elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &ty)?.into());
    }
    let x = ctx.tensor(node, "self")?;
    let count = ctx.b.ty(x).elements();
    let flat = ctx.b.reshape(x, &[count])?;
    let stride = ctx.ints(node, "stride")?;
    let offset = ctx.opt_int(node, "storage_offset")?.unwrap_or(0);
    if stride.len() != ty.rank() || offset < 0 || stride.iter().any(|s| *s < 0) {
        return Err(RuleError::Internal(format!("strides {stride:?} from {offset} for {ty}")));
    }
    let reach = 1 + (0..ty.rank()).map(|d| (ty.dims[d] - 1) * stride[d]).sum::<i64>();
    if offset + reach > count {
        return Err(RuleError::unsupported(format!(
            "as_strided reads {reach} elements from {offset} on, but the tensor has {count}: what lies in memory after a \
             view is not known",
        )));
    }
    let mut x = ctx.b.slice_dim(flat, 0, offset, offset + reach, 1)?;
    let mut order: Vec<usize> = (0..ty.rank()).filter(|d| stride[*d] > 0 && ty.dims[*d] > 1).collect();
    order.sort_by_key(|d| (std::cmp::Reverse(stride[*d]), *d));
    let mut size = reach;
    for &d in &order {
        size -= (ty.dims[d] - 1) * stride[d];
        x = windows(ctx, x, (ty.dims[d], size, stride[d]))?;
    }
    // [cut dimensions…, 1], longest stride first; the others are broadcast.
    let cut: Vec<i64> = order.iter().map(|d| ty.dims[*d]).collect();
    let x = ctx.b.reshape(x, &cut)?;
    let map: Vec<i64> = order.iter().map(|d| *d as i64).collect();
    let mut ascending: Vec<usize> = (0..order.len()).collect();
    ascending.sort_by_key(|i| order[*i]);
    let x = ctx.b.transpose(x, &ascending.iter().map(|i| *i as i64).collect::<Vec<_>>())?;
    let mut sorted = map;
    sorted.sort_unstable();
    Ok(ctx.b.broadcast_in_dim(x, &ty.dims, &sorted)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] =
    &[Rule::new("aten.as_strided.default", lower_as_strided), Rule::new("aten.unfold.default", lower_unfold)];
