//! Eigenvalues and eigenvectors of Hermitian matrices.

use tpud_graph::Node;
use tpud_stablehlo::{Builder, Direction, Monoid, Scalar, Value};

use super::matrix::{
    adjoint, along, flattened, keep, positions, real, reshaped_as, shaped, triangle, typed, zeros,
};
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;
type Built = tpud_stablehlo::Result<Value>;

// aten::_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)
/// Only one triangle is read. Eigenvectors are as they come: torch, too, leaves their phase open.
fn lower_eigh(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let mut out = zeros(ctx, node)?;
    let a = flattened(ctx, node, "A")?;
    if ctx.b.ty(a).elements() == 0 {
        return Ok(out.into());
    }
    let upper = ctx.opt_text(node, "UPLO")?.is_some_and(|uplo| uplo.eq_ignore_ascii_case("U"));
    let a = hermitian(&mut ctx.b, a, upper)?;
    let (a, size) = normalized(&mut ctx.b, a)?;
    let (vectors, values) = ctx.b.eigh(a)?;
    let size = along(&mut ctx.b, size, values, &[0])?;
    let values = ctx.b.mul(values, size)?;
    if !ctx.boolean(node, "compute_v")? {
        out[0] = reshaped_as(&mut ctx.b, values, out[0])?;
        return Ok(out.into());
    }
    Ok(shaped(ctx, node, &[values, vectors])?.into())
}

/// The Hermitian matrix of which one triangle is given.
fn hermitian(b: &mut Builder, a: Value, upper: bool) -> Built {
    let beyond = if upper { Direction::Gt } else { Direction::Lt };
    let half = triangle(b, a, beyond)?;
    let other = adjoint(b, half)?;
    let (row, column) = (positions(b, a, 1)?, positions(b, a, 2)?);
    let on = b.compare(Direction::Eq, row, column)?;
    let line = real(b, a)?;
    let line = keep(b, on, line)?;
    let line = typed(b, line, a)?;
    let sum = b.add(half, other)?;
    b.add(sum, line)
}

/// Matrices whose largest element is 1, so that no square overflows, and what they were divided by: `[batch]`. Zero,
/// infinite and NaN matrices stay as they are.
pub(super) fn normalized(b: &mut Builder, a: Value) -> tpud_stablehlo::Result<(Value, Value)> {
    let size = if b.element(a).is_complex() {
        let (re, im) = (b.real(a)?, b.imag(a)?);
        let (re, im) = (b.abs(re)?, b.abs(im)?);
        b.max(re, im)?
    } else {
        b.abs(a)?
    };
    let largest = b.reduce_monoid(size, Monoid::Max, &[1, 2])?;
    let zero = b.splat_like(Scalar::Int(0), largest)?;
    let one = b.splat_like(Scalar::Int(1), largest)?;
    let usable = b.compare(Direction::Gt, largest, zero)?;
    let finite = b.is_finite(largest)?;
    let usable = b.and(usable, finite)?;
    let largest = b.select(usable, largest, one)?;
    let divisor = typed(b, largest, a)?;
    let divisor = along(b, divisor, a, &[0])?;
    Ok((b.div(a, divisor)?, largest))
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[Rule::new("aten._linalg_eigh.default", lower_eigh)];
