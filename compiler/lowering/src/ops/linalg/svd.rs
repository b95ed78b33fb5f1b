//! Singular value decompositions: one-sided Jacobi rotations on the triangular factor of a QR decomposition.
//!
//! With A = Q·R and a product J of rotations that makes the columns of Rᴴ·J orthogonal, Rᴴ·J = V·Σ and
//! A = (Q·J)·Σ·Vᴴ. V comes from another QR decomposition, so both factors are orthogonal also where A lacks rank.

use tpud_graph::Node;
use tpud_stablehlo::{
    Builder, Direction, ElementType, Monoid, Result as Step, Scalar, SortOrder, TensorType, Value,
};

use super::eigh::normalized;
use super::matrix::{
    adjoint, along, conjugate, counted_loop, diagonal, flattened, identity, keep, padded, plus, product,
    real, reshaped_as, take_lines, triangle, typed, zeros,
};
use super::qr::orthogonal;
use crate::checks::CheckKind;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

/// Rotations converge quadratically; ten sweeps do for thousands of columns.
const SWEEPS: i64 = 40;

// aten::_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None)
//   -> (Tensor U, Tensor S, Tensor Vh)
/// Singular vectors are as they come: torch, too, leaves their phase open.
fn lower_svd(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (full, vectors) = (ctx.boolean(node, "full_matrices")?, ctx.boolean(node, "compute_uv")?);
    let mut out = zeros(ctx, node)?;
    let a = flattened(ctx, node, "A")?;
    if ctx.checking() {
        let magnitude = ctx.b.abs(a)?;
        let finite = ctx.b.is_finite(magnitude)?;
        let violated = ctx.b.not(finite)?;
        let message = "the algorithm failed to converge because the input matrix contained non-finite values";
        ctx.check(violated, CheckKind::LinAlg, message)?;
    }
    let dims = ctx.b.dims(a).to_vec();
    let b = &mut ctx.b;
    if b.ty(a).elements() == 0 {
        // An empty product of reflections is the unit matrix.
        for i in [0, 2] {
            let dims = b.dims(out[i]).to_vec();
            if b.ty(out[i]).elements() > 0 && dims.len() > 1 {
                let n = dims[dims.len() - 1];
                let ty = b.ty(out[i]).with_dims(vec![dims.iter().product::<i64>() / (n * n), n, n]);
                let ones = identity(b, &ty)?;
                out[i] = b.reshape(ones, &dims)?;
            }
        }
        return Ok(out.into());
    }
    let wide = dims[1] < dims[2];
    let tall = if wide { adjoint(b, a)? } else { a };
    let (tall, size) = normalized(b, tall)?;
    let (left, values, right) = decomposed(b, tall, full, vectors)?;
    let size = along(b, size, values, &[0])?;
    let values = b.mul(values, size)?;
    out[1] = reshaped_as(b, values, out[1])?;
    if let (Some(left), Some(right)) = (left, right) {
        let (u, v) = if wide { (right, left) } else { (left, right) };
        let vh = adjoint(b, v)?;
        out[0] = reshaped_as(b, u, out[0])?;
        out[2] = reshaped_as(b, vh, out[2])?;
    }
    Ok(out.into())
}

/// U, the singular values in descending order, and V of a matrix with at least as many rows as columns.
fn decomposed(
    b: &mut Builder,
    a: Value,
    full: bool,
    vectors: bool,
) -> Step<(Option<Value>, Value, Option<Value>)> {
    let (rows, n) = (b.dims(a)[1], b.dims(a)[2]);
    let (reflectors, scales) = b.qr(a)?;
    let square = b.slice_dim(reflectors, 1, 0, n, 1)?;
    let r = triangle(b, square, Direction::Ge)?;
    let start = adjoint(b, r)?;
    let (w, rotation) = rotated(b, start, vectors)?;
    let (values, order) = ranked(b, w)?;
    let Some(rotation) = rotation else { return Ok((None, values, None)) };

    let w = take_lines(b, w, order, 2)?;
    let (packed, w_scales) = b.qr(w)?;
    let v = orthogonal(b, packed, w_scales, n)?;
    // The QR decomposition of orthogonal columns is the columns' directions, up to signs.
    let corner = diagonal(b, packed)?;
    let corner = real(b, corner)?;
    let zero = b.splat_like(Scalar::Int(0), corner)?;
    let (plus, minus) = (b.splat_like(Scalar::Int(1), corner)?, b.splat_like(Scalar::Int(-1), corner)?);
    let negative = b.compare(Direction::Lt, corner, zero)?;
    let sign = b.select(negative, minus, plus)?;
    let sign = typed(b, sign, v)?;
    let sign = along(b, sign, v, &[0, 2])?;
    let v = b.mul(v, sign)?;

    let rotation = take_lines(b, rotation, order, 2)?;
    let q = orthogonal(b, reflectors, scales, if full { rows } else { n })?;
    let first = b.slice_dim(q, 2, 0, n, 1)?;
    let mut u = product(b, first, rotation)?;
    if full && rows > n {
        let rest = b.slice_dim(q, 2, n, rows, 1)?;
        u = b.concatenate(&[u, rest], 2)?;
    }
    Ok((Some(u), values, Some(v)))
}

/// The lengths of the columns in descending order, and which column each is.
fn ranked(b: &mut Builder, w: Value) -> Step<(Value, Value)> {
    let squares = squared(b, w)?;
    let sum = b.reduce_monoid(squares, Monoid::Sum, &[1])?;
    let length = b.sqrt(sum)?;
    let positions = b.iota(&b.ty(length).with_element(ElementType::I32), 1)?;
    let sorted = b.sort_by_key(&[length, positions], 1, SortOrder::Descending)?;
    Ok((sorted[0], sorted[1]))
}

/// |x|² of each element.
fn squared(b: &mut Builder, x: Value) -> Step<Value> {
    if !b.element(x).is_complex() {
        return b.mul(x, x);
    }
    let (re, im) = (b.real(x)?, b.imag(x)?);
    let (re, im) = (b.mul(re, re)?, b.mul(im, im)?);
    b.add(re, im)
}

/// `[batch, n, n]` with its columns made orthogonal, and the product of the rotations that did it.
///
/// Columns are rotated in n / 2 disjoint pairs at once; between rounds they move on by one place, so that in a sweep
/// every column meets every other once.
fn rotated(b: &mut Builder, start: Value, vectors: bool) -> Step<(Value, Option<Value>)> {
    let n = b.dims(start)[2];
    let even = n + n % 2;
    let mut both = padded(b, start, n, even)?;
    if vectors {
        let ty = TensorType::new(b.element(start), vec![b.dims(start)[0], even, even]);
        let unit = identity(b, &ty)?;
        both = b.concatenate(&[both, unit], 1)?;
    }
    let halves = [b.slice_dim(both, 2, 0, even / 2, 1)?, b.slice_dim(both, 2, even / 2, even, 1)?];
    let element = b.element(start).real();
    let tolerance = tolerance(element, n);
    let sweep = b.scalar(Scalar::Int(0), ElementType::I32)?;
    let worst = b.scalar(Scalar::Int(1), element)?;
    let done = b.while_loop(
        &[sweep, worst, halves[0], halves[1]],
        |b, args| {
            let last = b.scalar(Scalar::Int(SWEEPS), ElementType::I32)?;
            let more = b.compare(Direction::Lt, args[0], last)?;
            let limit = b.splat_like(Scalar::Float(tolerance), args[1])?;
            let open = b.compare(Direction::Gt, args[1], limit)?;
            b.and(more, open)
        },
        |b, args| {
            let none = b.splat_like(Scalar::Int(0), args[1])?;
            let swept = counted_loop(b, even - 1, &[none, args[2], args[3]], |b, _, carried| {
                rotate_pairs(b, carried, n, tolerance)
            })?;
            let mut next = vec![plus(b, args[0], 1)?];
            next.extend(swept);
            Ok(next)
        },
    )?;
    let both = b.concatenate(&done[2..], 2)?;
    let both = b.slice_dim(both, 2, 0, n, 1)?;
    let w = b.slice_dim(both, 1, 0, n, 1)?;
    let rotation = if vectors { Some(b.slice_dim(both, 1, n, 2 * n, 1)?) } else { None };
    Ok((w, rotation))
}

/// The cosine between two columns that counts as orthogonal: what rounding leaves of it.
fn tolerance(element: ElementType, n: i64) -> f64 {
    let epsilon = if element == ElementType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    epsilon * (n as f64).sqrt().max(4.0)
}

/// One round: the largest cosine so far, and both halves rotated and moved on.
fn rotate_pairs(b: &mut Builder, carried: &[Value], n: i64, tolerance: f64) -> Step<Vec<Value>> {
    let (worst, left, right) = (carried[0], carried[1], carried[2]);
    let (x, y) = (b.slice_dim(left, 1, 0, n, 1)?, b.slice_dim(right, 1, 0, n, 1)?);
    let (xx, yy) = (squared(b, x)?, squared(b, y)?);
    let (xx, yy) = (b.reduce_monoid(xx, Monoid::Sum, &[1])?, b.reduce_monoid(yy, Monoid::Sum, &[1])?);
    let xc = conjugate(b, x)?;
    let xy = b.mul(xc, y)?;
    let xy = b.reduce_monoid(xy, Monoid::Sum, &[1])?;
    let size = b.abs(xy)?;

    let (rx, ry) = (b.sqrt(xx)?, b.sqrt(yy)?);
    let lengths = b.mul(rx, ry)?;
    let limit = b.splat_like(Scalar::Float(tolerance), lengths)?;
    let limit = b.mul(limit, lengths)?;
    let turn = b.compare(Direction::Gt, size, limit)?;
    let one = b.splat_like(Scalar::Int(1), size)?;
    let safe_size = b.select(turn, size, one)?;
    let safe_lengths = b.select(turn, lengths, one)?;
    let cosine = b.div(size, safe_lengths)?;
    let cosine = keep(b, turn, cosine)?;
    let cosine = b.reduce_monoid(cosine, Monoid::Max, &[0, 1])?;
    let worst = b.max(worst, cosine)?;

    let (s, half) = angle(b, (xx, yy), safe_size)?;
    let s = keep(b, turn, s)?;
    // The phase makes the product of the columns real.
    let safe = typed(b, safe_size, xy)?;
    let phase = b.div(xy, safe)?;
    let unit = b.splat_like(Scalar::Int(1), phase)?;
    let phase = b.select(turn, phase, unit)?;
    let phase = conjugate(b, phase)?;
    let wide = |b: &mut Builder, v: Value| {
        let v = typed(b, v, left)?;
        along(b, v, left, &[0, 2])
    };
    let (s, half, phase) = (wide(b, s)?, wide(b, half)?, wide(b, phase)?);
    // c·x - s·y and s·x + c·y as small steps from x and y: errors stay in proportion to the angle.
    let right = b.mul(right, phase)?;
    let (hx, hy) = (b.mul(half, left)?, b.mul(half, right)?);
    let (from_x, from_y) = (b.add(right, hx)?, b.sub(left, hy)?);
    let (from_x, from_y) = (b.mul(s, from_x)?, b.mul(s, from_y)?);
    let (left, right) = (b.sub(left, from_x)?, b.add(right, from_y)?);
    let (left, right) = moved_on(b, left, right)?;
    Ok(vec![worst, left, right])
}

/// Sine, and tangent of the half, of the angle by which two columns become orthogonal: from their squared lengths and
/// their product.
fn angle(b: &mut Builder, (xx, yy): (Value, Value), xy: Value) -> Step<(Value, Value)> {
    let one = b.splat_like(Scalar::Int(1), xy)?;
    let difference = b.sub(yy, xx)?;
    let twice = b.add(xy, xy)?;
    let zeta = b.div(difference, twice)?;
    let size = b.abs(zeta)?;
    // Beyond the root of the largest number, the square is dropped: sqrt(1 + ζ²) is |ζ|.
    let huge = b.splat_like(Scalar::Float(1e15), size)?;
    let bounded = b.min(size, huge)?;
    let square = b.mul(bounded, bounded)?;
    let square = b.add(square, one)?;
    let root = b.sqrt(square)?;
    let sum = b.add(size, root)?;
    let tangent = b.div(one, sum)?;
    let zero = b.splat_like(Scalar::Int(0), zeta)?;
    let negative = b.compare(Direction::Lt, zeta, zero)?;
    let reversed = b.neg(tangent)?;
    let tangent = b.select(negative, reversed, tangent)?;
    let square = b.mul(tangent, tangent)?;
    let square = b.add(square, one)?;
    let root = b.sqrt(square)?;
    let sine = b.div(tangent, root)?;
    // s / (1 + c)
    let sum = b.add(root, one)?;
    Ok((sine, b.div(tangent, sum)?))
}

/// Every column but the first moves on by one place, around through both halves.
fn moved_on(b: &mut Builder, left: Value, right: Value) -> Step<(Value, Value)> {
    let half = b.dims(left)[2];
    if half == 1 {
        return Ok((left, right));
    }
    let fixed = b.slice_dim(left, 2, 0, 1, 1)?;
    let up = b.slice_dim(right, 2, 0, 1, 1)?;
    let stay = b.slice_dim(left, 2, 1, half - 1, 1)?;
    let down = b.slice_dim(left, 2, half - 1, half, 1)?;
    let back = b.slice_dim(right, 2, 1, half, 1)?;
    Ok((b.concatenate(&[fixed, up, stay], 2)?, b.concatenate(&[back, down], 2)?))
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[Rule::new("aten._linalg_svd.default", lower_svd)];
