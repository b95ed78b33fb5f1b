//! LU factors with partial pivoting, and systems solved by them.
//!
//! Pivots are LAPACK's: row `i` was exchanged with row `pivots[i]`, counted from 1, one exchange after the other.

use tpud_graph::Node;
use tpud_stablehlo::{Builder, Direction, ElementType, Monoid, Scalar, TensorType, Value};

use super::matrix::{
    adjoint, along, counted_loop, flat, flattened, identity, keep, line, plus, positions, real, reshaped_as,
    set_line, shaped, spread, take_lines, triangle, where_position, zeros,
};
use crate::checks::CheckKind;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;
type Built = tpud_stablehlo::Result<Value>;

// aten::linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False)
//   -> (Tensor LU, Tensor pivots, Tensor info)
/// A singular matrix has a zero on the diagonal of U, and its place (from 1) in `info`.
fn lower_lu_factor_ex(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    if ctx.output_type(node, 0)?.elements() == 0 {
        return Ok(zeros(ctx, node)?.into());
    }
    let pivot = ctx.boolean(node, "pivot")?;
    let a = flattened(ctx, node, "A")?;
    let (batch, count) = (ctx.b.dims(a)[0], ctx.b.dims(a)[1].min(ctx.b.dims(a)[2]));
    let pivots = ctx.b.splat(Scalar::Int(0), &TensorType::new(ElementType::I32, vec![batch, count]))?;
    let info = ctx.b.splat(Scalar::Int(0), &TensorType::new(ElementType::I32, vec![batch, 1]))?;
    let found =
        counted_loop(&mut ctx.b, count, &[a, pivots, info], |b, i, carried| eliminate(b, i, carried, pivot))?;
    if ctx.boolean(node, "check_errors")? {
        if !ctx.checking() {
            return Err(RuleError::unsupported(
                "without the option `checks` a compiled program cannot raise",
            ));
        }
        let nothing = ctx.fill_like(Scalar::Int(0), found[2])?;
        let singular = ctx.b.compare(Direction::Ne, found[2], nothing)?;
        ctx.check(singular, CheckKind::LinAlg, "the input matrix is singular")?;
    }
    Ok(shaped(ctx, node, &found)?.into())
}

/// One column: the pivot's row comes up, the rows below lose their entry in column `i`.
fn eliminate(
    b: &mut Builder,
    i: Value,
    carried: &[Value],
    pivot: bool,
) -> tpud_stablehlo::Result<Vec<Value>> {
    let (mut a, pivots, info) = (carried[0], carried[1], carried[2]);
    let at = if pivot { pivot_row(b, a, i)? } else { spread(b, i, info)? };
    if pivot {
        a = exchanged(b, a, i, at)?;
    }
    let one_based = plus(b, at, 1)?;
    let pivots = set_line(b, pivots, 1, i, one_based)?;

    let (row, column) = (line(b, a, 1, i)?, line(b, a, 2, i)?);
    let corner = line(b, row, 2, i)?;
    let nothing = b.splat_like(Scalar::Int(0), corner)?;
    let singular = b.compare(Direction::Eq, corner, nothing)?;
    let one = b.splat_like(Scalar::Int(1), corner)?;
    let divisor = b.select(singular, one, corner)?;
    let divisor = spread(b, divisor, column)?;
    let factors = b.div(column, divisor)?;

    let below = where_position(b, a, 1, Direction::Gt, i)?;
    let right = where_position(b, a, 2, Direction::Gt, i)?;
    let here = where_position(b, a, 2, Direction::Eq, i)?;
    let (factors, row) = (spread(b, factors, a)?, spread(b, row, a)?);
    let step = b.mul(factors, row)?;
    let reduced = b.sub(a, step)?;
    let inside = b.and(below, right)?;
    let a = b.select(inside, reduced, a)?;
    let under = b.and(below, here)?;
    let a = b.select(under, factors, a)?;

    let singular = b.reshape(singular, &[b.dims(info)[0], 1])?;
    let zero = b.splat_like(Scalar::Int(0), info)?;
    let first = b.compare(Direction::Eq, info, zero)?;
    let first = b.and(first, singular)?;
    let place = spread(b, i, info)?;
    let place = plus(b, place, 1)?;
    let info = b.select(first, place, info)?;
    Ok(vec![a, pivots, info])
}

/// `[batch, 1]`: the row from `i` on whose entry in column `i` is the largest by LAPACK's measure, |re| + |im|; the
/// first of several. NaN is less than every number.
fn pivot_row(b: &mut Builder, a: Value, i: Value) -> Built {
    let column = line(b, a, 2, i)?;
    let mut size = real(b, column)?;
    size = b.abs(size)?;
    if b.element(column).is_complex() {
        let imaginary = b.imag(column)?;
        let imaginary = b.abs(imaginary)?;
        size = b.add(size, imaginary)?;
    }
    let number = b.compare(Direction::Eq, size, size)?;
    let least = b.splat_like(Scalar::Float(-1.0), size)?;
    let size = b.select(number, size, least)?;
    let candidate = where_position(b, size, 1, Direction::Ge, i)?;
    let never = b.splat_like(Scalar::Float(-2.0), size)?;
    let size = b.select(candidate, size, never)?;
    let largest = b.reduce_monoid(size, Monoid::Max, &[1, 2])?;
    let largest = along(b, largest, size, &[0])?;
    let chosen = b.compare(Direction::Eq, size, largest)?;
    let row = positions(b, size, 1)?;
    let last = b.splat_like(Scalar::Int(b.dims(a)[1] - 1), row)?;
    let row = b.select(chosen, row, last)?;
    let first = b.reduce_monoid(row, Monoid::Min, &[1, 2])?;
    b.reshape(first, &[b.dims(a)[0], 1])
}

/// `x` with line `i` of dimension 1 and line `at` (`[batch, 1]`) exchanged.
fn exchanged(b: &mut Builder, x: Value, i: Value, at: Value) -> Built {
    let rank = b.rank(x);
    let mut dims = vec![1; rank];
    dims[0] = b.dims(x)[0];
    let at = b.reshape(at, &dims)?;
    let other = where_position(b, x, 1, Direction::Eq, at)?;
    let picked = keep(b, other, x)?;
    // One term of each sum is not zero.
    let picked = b.reduce_monoid(picked, Monoid::Sum, &[1])?;
    let upper = line(b, x, 1, i)?;
    let picked = reshaped_as(b, picked, upper)?;
    let upper = spread(b, upper, x)?;
    let x = b.select(other, upper, x)?;
    set_line(b, x, 1, i, picked)
}

/// `[batch, rows]`: which row of the matrix became row `r` of the factors.
fn permutation(b: &mut Builder, pivots: Value, rows: i64) -> Built {
    let (batch, count) = (b.dims(pivots)[0], b.dims(pivots)[1]);
    let order = b.iota(&TensorType::new(ElementType::I32, vec![batch, rows]), 1)?;
    if count == 0 {
        return Ok(order);
    }
    let found = counted_loop(b, count, &[order, pivots], |b, i, carried| {
        let (order, pivots) = (carried[0], carried[1]);
        let at = line(b, pivots, 1, i)?;
        let at = plus(b, at, -1)?;
        Ok(vec![exchanged(b, order, i, at)?, pivots])
    })?;
    Ok(found[0])
}

/// The permutation that undoes another.
fn undone(b: &mut Builder, order: Value) -> Built {
    let (batch, n) = (b.dims(order)[0], b.dims(order)[1]);
    let grid = b.broadcast_in_dim(order, &[batch, n, n], &[0, 1])?;
    let column = positions(b, grid, 2)?;
    let here = b.compare(Direction::Eq, grid, column)?;
    let row = positions(b, grid, 1)?;
    let row = keep(b, here, row)?;
    b.reduce_monoid(row, Monoid::Sum, &[1])
}

// aten::lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True)
//   -> (Tensor P, Tensor L, Tensor U)
fn lower_lu_unpack(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let mut out = zeros(ctx, node)?;
    let x = flattened(ctx, node, "LU_data")?;
    let (rows, columns) = (ctx.b.dims(x)[1], ctx.b.dims(x)[2]);
    let count = rows.min(columns);
    if ctx.boolean(node, "unpack_pivots")? && ctx.b.ty(out[0]).elements() > 0 {
        let pivots = ctx.tensor(node, "LU_pivots")?;
        let pivots = flat(ctx, pivots, 1)?;
        let order = permutation(&mut ctx.b, pivots, rows)?;
        let batch = ctx.b.dims(order)[0];
        let grid = ctx.b.broadcast_in_dim(order, &[batch, rows, rows], &[0, 2])?;
        let row = positions(&mut ctx.b, grid, 1)?;
        let ones = ctx.b.compare(Direction::Eq, row, grid)?;
        let p = ctx.convert(ones, ctx.b.element(out[0]))?;
        out[0] = reshaped_as(&mut ctx.b, p, out[0])?;
    }
    if ctx.boolean(node, "unpack_data")? && count > 0 && ctx.b.ty(x).elements() > 0 {
        let left = ctx.b.slice_dim(x, 2, 0, count, 1)?;
        let under = triangle(&mut ctx.b, left, Direction::Lt)?;
        let ty = ctx.b.ty(left).clone();
        let ones = identity(&mut ctx.b, &ty)?;
        let l = ctx.b.add(under, ones)?;
        let top = ctx.b.slice_dim(x, 1, 0, count, 1)?;
        let u = triangle(&mut ctx.b, top, Direction::Ge)?;
        out[1] = reshaped_as(&mut ctx.b, l, out[1])?;
        out[2] = reshaped_as(&mut ctx.b, u, out[2])?;
    }
    Ok(out.into())
}

// aten::linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor
/// With A = P·L·U: A·X = B, Aᴴ·X = B, and from the right the adjoint of the other one.
fn lower_lu_solve(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let out = ctx.output_type(node, 0)?;
    if out.elements() == 0 {
        return Ok(zeros(ctx, node)?.into());
    }
    let batch = &out.dims[..out.rank() - 2];
    let n = ctx.b.dims(ctx.tensor(node, "LU")?).last().copied().unwrap_or(0);
    let mut operand = |name: &str, kept: usize| {
        let x = ctx.tensor(node, name)?;
        let dims = ctx.b.dims(x).to_vec();
        let x = ctx.b.broadcast_to(x, &[batch, &dims[dims.len() - kept..]].concat())?;
        flat(ctx, x, kept)
    };
    let (lu, pivots, mut x) = (operand("LU", 2)?, operand("pivots", 1)?, operand("B", 2)?);
    let left = ctx.boolean(node, "left")?;
    // X·A = B is Aᴴ·Xᴴ = Bᴴ.
    let adjoint_factors = ctx.boolean(node, "adjoint")? == left;
    let b = &mut ctx.b;
    if !left {
        x = adjoint(b, x)?;
    }
    let order = permutation(b, pivots, n)?;
    if adjoint_factors {
        x = b.triangular_solve(lu, x, true, false, false, "ADJOINT")?;
        x = b.triangular_solve(lu, x, true, true, true, "ADJOINT")?;
        let order = undone(b, order)?;
        x = take_lines(b, x, order, 1)?;
    } else {
        x = take_lines(b, x, order, 1)?;
        x = b.triangular_solve(lu, x, true, true, true, "NO_TRANSPOSE")?;
        x = b.triangular_solve(lu, x, true, false, false, "NO_TRANSPOSE")?;
    }
    if !left {
        x = adjoint(b, x)?;
    }
    Ok(ctx.b.reshape(x, &out.dims)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.linalg_lu_factor_ex.default", lower_lu_factor_ex),
    Rule::new("aten.linalg_lu_solve.default", lower_lu_solve),
    Rule::new("aten.lu_unpack.default", lower_lu_unpack),
];
