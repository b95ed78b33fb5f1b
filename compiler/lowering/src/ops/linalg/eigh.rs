//! Eigenvalues and eigenvectors of Hermitian matrices.

use tpud_graph::Node;
use tpud_stablehlo::{Builder, Direction, Monoid, Result as Step, Scalar, SortOrder, Value};

use super::matrix::{
    adjoint, along, diagonal, flattened, identity, keep, positions, product, real, reshaped_as, shaped,
    triangle, typed, zeros,
};
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;
type Built = Step<Value>;

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
    let wanted = ctx.boolean(node, "compute_v")?;
    let (vectors, values) = ctx.b.eigh(a)?;
    let (vectors, values) = if wanted { refined(&mut ctx.b, a, vectors, values)? } else { (vectors, values) };
    let size = along(&mut ctx.b, size, values, &[0])?;
    let values = ctx.b.mul(values, size)?;
    if !wanted {
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

/// One step of Ogita's and Aishima's iteration, which squares the error of eigenvectors that are nearly right: XLA stops
/// at half of the digits of f64, and its vectors lose orthogonality as rotations add up.
///
/// With R = I - Vᴴ·V and S = Vᴴ·A·V, the new vectors are V + V·E, where E is (S + R·Λ) / (λⱼ - λᵢ), and R / 2 for
/// eigenvalues too close to be told apart.
fn refined(b: &mut Builder, a: Value, v: Value, values: Value) -> Step<(Value, Value)> {
    let vh = adjoint(b, v)?;
    let gram = product(b, vh, v)?;
    let unit = identity(b, &b.ty(v).clone())?;
    let r = b.sub(unit, gram)?;
    let av = product(b, a, v)?;
    let s = product(b, vh, av)?;
    let quotient = {
        let (top, below) = (diagonal(b, s)?, diagonal(b, gram)?);
        let (top, below) = (real(b, top)?, real(b, below)?);
        b.div(top, below)?
    };
    let column = along(b, quotient, v, &[0, 2])?;
    let row = along(b, quotient, v, &[0, 1])?;
    let gap = b.sub(column, row)?;
    let limit = limit(b, s, r, values)?;
    let limit = along(b, limit, gap, &[0])?;
    let width = b.abs(gap)?;
    let apart = b.compare(Direction::Gt, width, limit)?;
    let one = b.splat_like(Scalar::Int(1), gap)?;
    let gap = b.select(apart, gap, one)?;
    let (gap, column) = (typed(b, gap, v)?, typed(b, column, v)?);
    let share = b.mul(r, column)?;
    let share = b.add(s, share)?;
    let turned = b.div(share, gap)?;
    let half = b.splat_like(Scalar::Float(0.5), r)?;
    let stretched = b.mul(r, half)?;
    let step = b.select(apart, turned, stretched)?;
    let step = product(b, v, step)?;
    // Equal eigenvalues may have changed places by a rounding error.
    let sorted = b.sort_by_key(&[quotient], 1, SortOrder::Ascending)?;
    Ok((b.add(v, step)?, sorted[0]))
}

/// `[batch]`: how far apart eigenvalues must be: twice what is off the diagonal of `s`, and of `r` times the norm.
fn limit(b: &mut Builder, s: Value, r: Value, values: Value) -> Built {
    let (row, column) = (positions(b, s, 1)?, positions(b, s, 2)?);
    let off = b.compare(Direction::Ne, row, column)?;
    let outside = keep(b, off, s)?;
    let (outside, r) = (frobenius(b, outside)?, frobenius(b, r)?);
    let size = b.abs(values)?;
    let largest = b.reduce_monoid(size, Monoid::Max, &[1])?;
    let r = b.mul(r, largest)?;
    let sum = b.add(outside, r)?;
    b.add(sum, sum)
}

/// `[batch]`: the root of the sum of all squares.
fn frobenius(b: &mut Builder, x: Value) -> Built {
    let size = b.abs(x)?;
    let square = b.mul(size, size)?;
    let sum = b.reduce_monoid(square, Monoid::Sum, &[1, 2])?;
    b.sqrt(sum)
}

/// Matrices whose largest element is 1, so that no square overflows, and what they were divided by: `[batch]`. Zero,
/// infinite and NaN matrices stay as they are.
pub(super) fn normalized(b: &mut Builder, a: Value) -> Step<(Value, Value)> {
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
