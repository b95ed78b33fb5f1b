//! Pieces of matrix algorithms, over `[batch, rows, columns]`.

use tpud_graph::Node;
use tpud_stablehlo::{
    Builder, Direction, DotDims, ElementType, GatherDims, Result, Scalar, TensorType, Value,
};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::products;

/// Positions and counters.
const INDEX: ElementType = ElementType::I32;

/// A matrix argument with its batch flattened to one dimension.
pub(super) fn flattened(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
    name: &str,
) -> std::result::Result<Value, RuleError> {
    let x = ctx.tensor(node, name)?;
    flat(ctx, x, 2)
}

/// `x` with all dimensions but the last `kept` as one.
pub(super) fn flat(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    kept: usize,
) -> std::result::Result<Value, RuleError> {
    let dims = ctx.b.dims(x);
    let Some(at) = dims.len().checked_sub(kept) else {
        return Err(RuleError::Internal(format!("{} has no {kept} last dimensions", ctx.b.ty(x))));
    };
    let batch = dims[..at].iter().product();
    let to = [&[batch], &dims[at..]].concat();
    Ok(ctx.b.reshape(x, &to)?)
}

/// Outputs of one node, reshaped to what torch says.
pub(super) fn shaped(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
    values: &[Value],
) -> std::result::Result<Vec<Value>, RuleError> {
    values
        .iter()
        .enumerate()
        .map(|(i, value)| Ok(ctx.b.reshape(*value, &ctx.output_type(node, i)?.dims)?))
        .collect()
}

/// Zeros for every output of a node that has nothing to compute.
pub(super) fn zeros(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
) -> std::result::Result<Vec<Value>, RuleError> {
    (0..node.outputs.len())
        .map(|i| {
            let ty = ctx.output_type(node, i)?;
            Ok(ctx.b.splat(Scalar::Int(0), &ty)?)
        })
        .collect()
}

/// `body` for each i of `0..count`; it gets i (0-d) and the carried values. Bodies build all they need, XLA hoists it.
pub(super) fn counted_loop(
    b: &mut Builder,
    count: i64,
    carried: &[Value],
    body: impl FnOnce(&mut Builder, Value, &[Value]) -> Result<Vec<Value>>,
) -> Result<Vec<Value>> {
    let zero = b.scalar(Scalar::Int(0), INDEX)?;
    let out = b.while_loop(
        &[&[zero], carried].concat(),
        |b, args| {
            let end = b.scalar(Scalar::Int(count), INDEX)?;
            b.compare(Direction::Lt, args[0], end)
        },
        |b, args| {
            let mut next = vec![plus(b, args[0], 1)?];
            next.extend(body(b, args[0], &args[1..])?);
            Ok(next)
        },
    )?;
    Ok(out[1..].to_vec())
}

/// `x + number`
pub(super) fn plus(b: &mut Builder, x: Value, number: i64) -> Result<Value> {
    let number = b.splat_like(Scalar::Int(number), x)?;
    b.add(x, number)
}

/// `mask ? x : 0`
pub(super) fn keep(b: &mut Builder, mask: Value, x: Value) -> Result<Value> {
    let zero = b.splat_like(Scalar::Int(0), x)?;
    b.select(mask, x, zero)
}

fn starts(b: &mut Builder, x: Value, dim: usize, at: Value) -> Result<Vec<Value>> {
    let zero = b.scalar(Scalar::Int(0), INDEX)?;
    let mut starts = vec![zero; b.rank(x)];
    starts[dim] = at;
    Ok(starts)
}

/// Line `at` (0-d) of `dim`, which keeps the size 1.
pub(super) fn line(b: &mut Builder, x: Value, dim: usize, at: Value) -> Result<Value> {
    let starts = starts(b, x, dim, at)?;
    let mut sizes = b.dims(x).to_vec();
    sizes[dim] = 1;
    b.dynamic_slice(x, &starts, &sizes)
}

/// `x` with `new` as line `at` of `dim`.
pub(super) fn set_line(b: &mut Builder, x: Value, dim: usize, at: Value, new: Value) -> Result<Value> {
    let starts = starts(b, x, dim, at)?;
    b.dynamic_update_slice(x, new, &starts)
}

/// The position along `dim` of each element of a tensor like `x`.
pub(super) fn positions(b: &mut Builder, x: Value, dim: usize) -> Result<Value> {
    let ty = b.ty(x).with_element(INDEX);
    b.iota(&ty, dim)
}

/// Where the position along `dim` compares so with `at`, which broadcasts to `x` or is 0-d.
pub(super) fn where_position(
    b: &mut Builder,
    x: Value,
    dim: usize,
    direction: Direction,
    at: Value,
) -> Result<Value> {
    let position = positions(b, x, dim)?;
    let at = spread(b, at, x)?;
    b.compare(direction, position, at)
}

/// `v` broadcast to the sizes of `x`: 0-d, or with the same number of dimensions.
pub(super) fn spread(b: &mut Builder, v: Value, x: Value) -> Result<Value> {
    let dims = b.dims(x).to_vec();
    b.broadcast_to(v, &dims)
}

/// `v` in the shape of `like`.
pub(super) fn reshaped_as(b: &mut Builder, v: Value, like: Value) -> Result<Value> {
    let dims = b.dims(like).to_vec();
    b.reshape(v, &dims)
}

/// `v` broadcast to the sizes of `like`; its dimensions are those of `like` that `map` names.
pub(super) fn along(b: &mut Builder, v: Value, like: Value, map: &[i64]) -> Result<Value> {
    let dims = b.dims(like).to_vec();
    b.broadcast_in_dim(v, &dims, map)
}

/// The complex conjugate; a real value is its own.
pub(super) fn conjugate(b: &mut Builder, x: Value) -> Result<Value> {
    if !b.element(x).is_complex() {
        return Ok(x);
    }
    let (re, im) = (b.real(x)?, b.imag(x)?);
    let im = b.neg(im)?;
    b.complex(re, im)
}

/// A real value in the element type of `like`.
pub(super) fn typed(b: &mut Builder, x: Value, like: Value) -> Result<Value> {
    if b.element(like).is_complex() && !b.element(x).is_complex() {
        let zero = b.splat_like(Scalar::Int(0), x)?;
        return b.complex(x, zero);
    }
    b.convert(x, b.element(like))
}

/// The real part; a real value is its own.
pub(super) fn real(b: &mut Builder, x: Value) -> Result<Value> {
    if b.element(x).is_complex() { b.real(x) } else { Ok(x) }
}

/// `[batch, columns, rows]`
pub(super) fn transposed(b: &mut Builder, x: Value) -> Result<Value> {
    b.transpose(x, &[0, 2, 1])
}

/// The conjugate transpose.
pub(super) fn adjoint(b: &mut Builder, x: Value) -> Result<Value> {
    let x = transposed(b, x)?;
    conjugate(b, x)
}

/// `x · y`, as exact as the element type: a factorisation is no place to round operands.
pub(super) fn product(b: &mut Builder, x: Value, y: Value) -> Result<Value> {
    let dims =
        DotDims { lhs_batch: vec![0], rhs_batch: vec![0], lhs_contract: vec![2], rhs_contract: vec![1] };
    products::exact_dot(b, x, y, &dims)
}

/// Unit matrices of the type of `x`.
pub(super) fn identity(b: &mut Builder, ty: &TensorType) -> Result<Value> {
    let grid = ty.with_element(INDEX);
    let (row, column) = (b.iota(&grid, 1)?, b.iota(&grid, 2)?);
    let diagonal = b.compare(Direction::Eq, row, column)?;
    let (one, zero) = (b.splat(Scalar::Int(1), ty)?, b.splat(Scalar::Int(0), ty)?);
    b.select(diagonal, one, zero)
}

/// The diagonal of `[batch, n, n]`, as `[batch, n]`.
pub(super) fn diagonal(b: &mut Builder, x: Value) -> Result<Value> {
    let (batch, n) = (b.dims(x)[0], b.dims(x)[1]);
    let x = b.reshape(x, &[batch, n * n])?;
    b.slice_dim(x, 1, 0, n * n, n + 1)
}

/// The part of a matrix on and above the diagonal (or below).
pub(super) fn triangle(b: &mut Builder, x: Value, direction: Direction) -> Result<Value> {
    let (row, column) = (positions(b, x, 1)?, positions(b, x, 2)?);
    let kept = b.compare(direction, column, row)?;
    keep(b, kept, x)
}

/// `[batch, rows, columns]` with zeros after the given sizes.
pub(super) fn padded(b: &mut Builder, x: Value, rows: i64, columns: i64) -> Result<Value> {
    let zero = b.scalar(Scalar::Int(0), b.element(x))?;
    let high = [0, rows - b.dims(x)[1], columns - b.dims(x)[2]];
    b.pad(x, zero, &[0; 3], &high, &[0; 3])
}

/// Rows (`dim` 1) or columns (2) in the order that `[batch, count]` positions give for each matrix.
pub(super) fn take_lines(b: &mut Builder, x: Value, order: Value, dim: usize) -> Result<Value> {
    let mut window = b.dims(x).to_vec();
    (window[0], window[dim]) = (1, 1);
    let dims = GatherDims {
        offset_dims: vec![3 - dim as i64],
        collapsed_slice_dims: vec![dim as i64],
        operand_batching_dims: vec![0],
        start_indices_batching_dims: vec![0],
        start_index_map: vec![dim as i64],
        index_vector_dim: 2,
    };
    b.gather(x, order, &dims, &window)
}
