//! The exponential of square matrices.

use tpud_graph::Node;
use tpud_stablehlo::{Builder, Direction, ElementType, Monoid, Scalar, Unary, Value};

use super::matrix::{flattened, identity, plus, product, spread, typed, zeros};
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;
type Built = tpud_stablehlo::Result<Value>;

/// The Taylor polynomial has the degree `BLOCK²`: fifteen correct digits below a norm of 1/2.
const BLOCK: usize = 4;

// aten::linalg_matrix_exp(Tensor self) -> Tensor
/// exp(A) = exp(A / 2ˢ)^(2ˢ), with the s of each matrix by its norm.
fn lower_matrix_exp(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let out = ctx.output_type(node, 0)?;
    if out.elements() == 0 {
        return Ok(zeros(ctx, node)?.into());
    }
    let a = flattened(ctx, node, "self")?;
    let a = ctx.convert(a, accumulation_type(out.element))?;
    let squarings = squarings(&mut ctx.b, a)?;
    let scaled = scaled(&mut ctx.b, a, squarings)?;
    let x = taylor(&mut ctx.b, scaled)?;
    let x = squared(&mut ctx.b, x, squarings)?;
    let x = ctx.convert(x, out.element)?;
    Ok(ctx.b.reshape(x, &out.dims)?.into())
}

/// `[batch, 1, 1]`: how often to halve each matrix until its 1-norm is below 1/2. As i32; NaN and infinity: 0.
fn squarings(b: &mut Builder, a: Value) -> Built {
    let size = b.abs(a)?;
    let norm = b.reduce_monoid(size, Monoid::Sum, &[1])?;
    let norm = b.reduce_monoid(norm, Monoid::Max, &[1])?;
    let norm = b.reshape(norm, &[b.dims(a)[0], 1, 1])?;
    let one = b.splat_like(Scalar::Int(1), norm)?;
    let finite = b.is_finite(norm)?;
    let norm = b.select(finite, norm, one)?;
    let norm = b.max(norm, one)?;
    let log = b.log(norm)?;
    let ln2 = b.splat_like(Scalar::Float(std::f64::consts::LN_2), log)?;
    let count = b.div(log, ln2)?;
    let count = b.unary(Unary::Ceil, count)?;
    let count = b.convert(count, ElementType::I32)?;
    plus(b, count, 1)
}

/// `a / 2ˢ`, by an exact power of two.
fn scaled(b: &mut Builder, a: Value, squarings: Value) -> Built {
    let exponent = b.convert(squarings, b.element(a).real())?;
    let half = b.splat_like(Scalar::Float(0.5), exponent)?;
    let factor = b.pow(half, exponent)?;
    let factor = typed(b, factor, a)?;
    let factor = spread(b, factor, a)?;
    b.mul(a, factor)
}

/// The Taylor polynomial, by Horner's rule in `a⁴` over polynomials of degree 3.
fn taylor(b: &mut Builder, a: Value) -> Built {
    let mut powers = vec![identity(b, &b.ty(a).clone())?, a];
    while powers.len() <= BLOCK {
        let next = product(b, powers[powers.len() - 1], a)?;
        powers.push(next);
    }
    let mut factorial = vec![1.0];
    for k in 1..=BLOCK * BLOCK {
        factorial.push(factorial[k - 1] * k as f64);
    }
    let term = |b: &mut Builder, power: Value, k: usize| {
        let factor = b.splat_like(Scalar::Float(1.0 / factorial[k]), power)?;
        b.mul(power, factor)
    };
    let mut sum = term(b, powers[BLOCK], BLOCK * BLOCK)?;
    for block in (0..BLOCK).rev() {
        if block < BLOCK - 1 {
            sum = product(b, sum, powers[BLOCK])?;
        }
        for (i, power) in powers[..BLOCK].iter().enumerate().rev() {
            let next = term(b, *power, block * BLOCK + i)?;
            sum = b.add(sum, next)?;
        }
    }
    Ok(sum)
}

/// Squares each matrix as often as its count says.
fn squared(b: &mut Builder, x: Value, squarings: Value) -> Built {
    let most = b.reduce_monoid(squarings, Monoid::Max, &[0, 1, 2])?;
    let zero = b.scalar(Scalar::Int(0), ElementType::I32)?;
    let out = b.while_loop(
        &[zero, most, x, squarings],
        |b, args| b.compare(Direction::Lt, args[0], args[1]),
        |b, args| {
            let square = product(b, args[2], args[2])?;
            let step = spread(b, args[0], square)?;
            let count = spread(b, args[3], square)?;
            let wanted = b.compare(Direction::Lt, step, count)?;
            let x = b.select(wanted, square, args[2])?;
            Ok(vec![plus(b, args[0], 1)?, args[1], x, args[3]])
        },
    )?;
    Ok(out[2])
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[Rule::new("aten.linalg_matrix_exp.default", lower_matrix_exp)];
