//! Cholesky factors and triangular systems.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Monoid, Scalar, TensorType};

use crate::checks::CheckKind;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::Built;
use crate::registry::{Outputs, Rule};

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
    let check_errors = ctx.boolean(node, "check_errors")?;
    if check_errors && !ctx.checking() {
        return Err(RuleError::unsupported("without the option `checks` a compiled program cannot raise"));
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
    if check_errors {
        ctx.check(failed, CheckKind::LinAlg, "linalg.cholesky_ex: the input is not positive-definite")?;
    }
    Ok([factor, ctx.convert(first, info.element)?].into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.linalg_cholesky_ex.default", lower_cholesky_ex),
    Rule::new("aten.linalg_solve_triangular.default", lower_solve_triangular),
];
