//! Triangular systems, Cholesky factors, cross products, distances.

use tpud_graph::Node;
use tpud_stablehlo::{Binary, Direction, ElementType, Monoid, Scalar, TensorType, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::Built;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// A matrix argument with its batch dimensions broadcast.
fn batched(ctx: &mut LoweringContext<'_>, node: &Node, name: &str, batch: &[i64]) -> Built {
    let x = ctx.tensor(node, name)?;
    let dims = ctx.b.dims(x).to_vec();
    let matrix = &dims[dims.len().saturating_sub(2)..];
    Ok(ctx.b.broadcast_to(x, &[batch, matrix].concat())?)
}

// aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False)
//   -> Tensor
fn lower_solve_triangular(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let out = ctx.output_type(node, 0)?;
    if out.elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &out)?.into());
    }
    let batch = &out.dims[..out.rank() - 2];
    let (a, b) = (batched(ctx, node, "self", batch)?, batched(ctx, node, "B", batch)?);
    let left = ctx.boolean(node, "left")?;
    let (lower, unit) = (!ctx.boolean(node, "upper")?, ctx.boolean(node, "unitriangular")?);
    Ok(ctx.b.triangular_solve(a, b, left, lower, unit, "NO_TRANSPOSE")?.into())
}

// aten::linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)
/// Where a matrix is not positive definite, the factor is NaN (torch leaves it half done) and `info` is not 0.
fn lower_cholesky_ex(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (out, info) = (ctx.output_type(node, 0)?, ctx.output_type(node, 1)?);
    if out.elements() == 0 {
        return Ok([ctx.b.splat(Scalar::Int(0), &out)?, ctx.b.splat(Scalar::Int(0), &info)?].into());
    }
    if ctx.boolean(node, "check_errors")? {
        return Err(RuleError::unsupported("a compiled program cannot raise; look at `info` instead"));
    }
    let x = ctx.tensor(node, "self")?;
    let upper = ctx.boolean(node, "upper")?;
    let factor = ctx.b.cholesky(x, !upper)?;
    let grid = TensorType::new(ElementType::I32, out.dims.clone());
    let (row, column) = (ctx.b.iota(&grid, out.rank() - 2)?, ctx.b.iota(&grid, out.rank() - 1)?);
    let direction = if upper { Direction::Le } else { Direction::Ge };
    let kept = ctx.b.compare(direction, row, column)?;
    let factor = ctx.select_or(kept, factor, 0.0)?;
    let nan = ctx.is_nan(factor)?;
    let size = out.dims[out.rank() - 1] as f64;
    // The order of the first leading minor that failed; size + 1 when none did.
    let order = ctx.plus(row, 1.0)?;
    let order = ctx.select_or(nan, order, size + 1.0)?;
    let last = [out.rank() as i64 - 2, out.rank() as i64 - 1];
    let first = ctx.b.reduce_monoid(order, Monoid::Min, &last)?;
    let failed = ctx.compare_number(Direction::Le, first, size)?;
    let first = ctx.select_or(failed, first, 0.0)?;
    Ok([factor, ctx.convert(first, info.element)?].into())
}

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

// aten::_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor
/// Always from the differences: torch's other way for p = 2, through a matrix product, loses digits.
fn lower_cdist(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let out = ctx.output_type(node, 0)?;
    let (x, y) = (ctx.tensor(node, "x1")?, ctx.tensor(node, "x2")?);
    let size = ctx.b.dims(x).last().copied().unwrap_or(0);
    if out.elements() == 0 || size == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &out)?.into());
    }
    let full = out.with_dims([&out.dims[..], &[size]].concat());
    let rank = out.rank();
    let placed = |ctx: &mut LoweringContext<'_>, v: Value, new: usize| {
        let mut dims = ctx.b.dims(v).to_vec();
        dims.insert(dims.len() - new, 1);
        let v = ctx.b.reshape(v, &dims)?;
        ctx.fit(v, &full)
    };
    let (x, y) = (placed(ctx, x, 1)?, placed(ctx, y, 2)?);
    let difference = ctx.b.sub(x, y)?;
    let distance = ctx.b.abs(difference)?;
    let last = [rank as i64];
    let p = ctx.float(node, "p")?;
    let result = if p == 0.0 {
        let differs = ctx.convert(distance, ElementType::Bool)?;
        let ones = ctx.convert(differs, out.element)?;
        ctx.b.reduce_monoid(ones, Monoid::Sum, &last)?
    } else if p == f64::INFINITY {
        ctx.b.reduce_monoid(distance, Monoid::Max, &last)?
    } else if p == 1.0 {
        ctx.b.reduce_monoid(distance, Monoid::Sum, &last)?
    } else if p == 2.0 {
        let square = ctx.b.mul(distance, distance)?;
        let sum = ctx.b.reduce_monoid(square, Monoid::Sum, &last)?;
        ctx.b.sqrt(sum)?
    } else {
        let exponent = ctx.fill_like(Scalar::Float(p), distance)?;
        let power = ctx.b.binary(Binary::Pow, distance, exponent)?;
        let sum = ctx.b.reduce_monoid(power, Monoid::Sum, &last)?;
        let root = ctx.fill_like(Scalar::Float(1.0 / p), sum)?;
        ctx.b.binary(Binary::Pow, sum, root)?
    };
    Ok(result.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._cdist_forward.default", lower_cdist),
    Rule::new("aten.linalg_cholesky_ex.default", lower_cholesky_ex),
    Rule::new("aten.linalg_cross.default", lower_cross),
    Rule::new("aten.linalg_solve_triangular.default", lower_solve_triangular),
];
