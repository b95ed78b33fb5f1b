//! Triangles and diagonals of matrices: `tril`, `triu`, `diagonal`, `diag_embed`, `diagonal_scatter`, `trace`.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Monoid, Scalar, TensorType, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::index_element;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

/// Keeps the elements whose column relates to `row + diagonal` in this way, and puts zeros elsewhere.
fn triangle(ctx: &mut LoweringContext<'_>, node: &Node, keep: Direction) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let ty = ctx.b.ty(x).clone();
    if ty.elements() == 0 {
        return Ok(x.into());
    }
    let (rows, columns) = (ty.dims[ty.rank() - 2], ty.dims[ty.rank() - 1]);
    // Beyond the corners the diagonal changes nothing more.
    let diagonal = ctx.int(node, "diagonal")?.clamp(-rows - 1, columns + 1);
    let grid = TensorType::new(index_element(rows.saturating_add(columns) + 2), vec![rows, columns]);
    let (row, column) = (ctx.b.iota(&grid, 0)?, ctx.b.iota(&grid, 1)?);
    let offset = ctx.b.splat(Scalar::Int(diagonal), &grid)?;
    let edge = ctx.b.add(row, offset)?;
    let kept = ctx.b.compare(keep, column, edge)?;
    let kept = ctx.b.broadcast_to(kept, &ty.dims)?;
    let zeros = ctx.fill_like(Scalar::Int(0), x)?;
    Ok(ctx.b.select(kept, x, zeros)?.into())
}

// aten::tril(Tensor self, SymInt diagonal=0) -> Tensor
fn lower_tril(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    triangle(ctx, node, Direction::Le)
}

// aten::triu(Tensor self, SymInt diagonal=0) -> Tensor
fn lower_triu(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    triangle(ctx, node, Direction::Ge)
}

/// Where a diagonal lies: first row, first column, length.
fn extent(rows: i64, columns: i64, offset: i64) -> (i64, i64, i64) {
    let (row, column) = ((-offset).max(0), offset.max(0));
    (row, column, (rows - row).min(columns - column).max(0))
}

/// The order of dimensions that puts `dim1` and `dim2` last.
fn matrices_last(rank: usize, dim1: usize, dim2: usize) -> Vec<i64> {
    let others = (0..rank).filter(|d| *d != dim1 && *d != dim2);
    others.chain([dim1, dim2]).map(|d| d as i64).collect()
}

fn inverse(order: &[i64]) -> Vec<i64> {
    let mut inverse = vec![0; order.len()];
    for (i, &d) in order.iter().enumerate() {
        inverse[d as usize] = i as i64;
    }
    inverse
}

/// The diagonal of `[…, rows, columns]`: in a flat square it is every `n + 1`-th element.
fn take_diagonal(ctx: &mut LoweringContext<'_>, x: Value, offset: i64) -> Result<Value, RuleError> {
    let dims = ctx.b.dims(x).to_vec();
    let at = dims.len() - 2;
    let (row, column, n) = extent(dims[at], dims[at + 1], offset);
    let mut line = dims[..at].to_vec();
    line.push(n);
    if n == 0 {
        let ty = ctx.b.ty(x).with_dims(line);
        return Ok(ctx.b.splat(Scalar::Int(0), &ty)?);
    }
    let x = ctx.b.slice_dim(x, at, row, row + n, 1)?;
    let x = ctx.b.slice_dim(x, at + 1, column, column + n, 1)?;
    line[at] = n * n;
    let x = ctx.b.reshape(x, &line)?;
    Ok(ctx.b.slice_dim(x, at, 0, n * n, n + 1)?)
}

/// `[…, rows, columns]` with `line` on the diagonal and zeros elsewhere.
fn spread_diagonal(
    ctx: &mut LoweringContext<'_>,
    line: Value,
    (rows, columns): (i64, i64),
    offset: i64,
) -> Result<Value, RuleError> {
    let ty = ctx.b.ty(line).clone();
    let at = ty.rank() - 1;
    let (row, column, n) = extent(rows, columns, offset);
    let mut square = ty.dims[..at].to_vec();
    square.extend([rows, columns]);
    if n == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &ty.with_dims(square))?);
    }
    let zero = ctx.scalar(Scalar::Int(0), ty.element)?;
    let (none, mut interior) = (vec![0; ty.rank()], vec![0; ty.rank()]);
    interior[at] = n;
    let flat = ctx.b.pad(line, zero, &none, &none, &interior)?;
    (square[at], square[at + 1]) = (n, n);
    let x = ctx.b.reshape(flat, &square)?;
    let none = vec![0; at + 2];
    let (mut low, mut high) = (none.clone(), none.clone());
    (low[at], low[at + 1]) = (row, column);
    (high[at], high[at + 1]) = (rows - row - n, columns - column - n);
    Ok(ctx.b.pad(x, zero, &low, &high, &none)?)
}

// aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)
fn lower_diagonal(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let rank = ctx.b.rank(x);
    let order = matrices_last(rank, ctx.dim(node, "dim1", rank)?, ctx.dim(node, "dim2", rank)?);
    let x = ctx.b.transpose(x, &order)?;
    let offset = ctx.int(node, "offset")?;
    Ok(take_diagonal(ctx, x, offset)?.into())
}

// aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor
fn lower_diag_embed(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let line = ctx.tensor(node, "self")?;
    let rank = ctx.b.rank(line) + 1;
    let order = matrices_last(rank, ctx.dim(node, "dim1", rank)?, ctx.dim(node, "dim2", rank)?);
    let offset = ctx.int(node, "offset")?;
    let size = ctx.b.dims(line)[rank - 2] + offset.abs();
    let x = spread_diagonal(ctx, line, (size, size), offset)?;
    Ok(ctx.b.transpose(x, &inverse(&order))?.into())
}

// aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor
fn lower_diagonal_scatter(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let rank = ctx.b.rank(x);
    let order = matrices_last(rank, ctx.dim(node, "dim1", rank)?, ctx.dim(node, "dim2", rank)?);
    let offset = ctx.int(node, "offset")?;
    let x = ctx.b.transpose(x, &order)?;
    let ty = ctx.b.ty(x).clone();
    let shape = (ty.dims[rank - 2], ty.dims[rank - 1]);
    let src = ctx.tensor(node, "src")?;
    let src = ctx.convert(src, ty.element)?;
    let new = spread_diagonal(ctx, src, shape, offset)?;
    let n = extent(shape.0, shape.1, offset).2;
    let ones = ctx.b.splat(Scalar::Bool(true), &TensorType::new(ElementType::Bool, vec![n]))?;
    let here = spread_diagonal(ctx, ones, shape, offset)?;
    let here = ctx.b.broadcast_to(here, &ty.dims)?;
    let out = ctx.b.select(here, new, x)?;
    Ok(ctx.b.transpose(out, &inverse(&order))?.into())
}

// aten::trace(Tensor self) -> Tensor
fn lower_trace(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let element = ctx.output_type(node, 0)?.element;
    let line = take_diagonal(ctx, x, 0)?;
    let line = ctx.convert(line, crate::types::accumulation_type(element))?;
    let sum = ctx.b.reduce_monoid(line, Monoid::Sum, &[0])?;
    Ok(ctx.convert(sum, element)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.diag_embed.default", lower_diag_embed),
    Rule::new("aten.diagonal.default", lower_diagonal),
    Rule::new("aten.diagonal_scatter.default", lower_diagonal_scatter),
    Rule::new("aten.trace.default", lower_trace),
    Rule::new("aten.tril.default", lower_tril),
    Rule::new("aten.triu.default", lower_triu),
];
