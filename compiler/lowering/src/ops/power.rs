//! Powers: `pow` in its overloads.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, Scalar, Value};

use crate::context::LoweringContext;
use crate::pointwise::{Built, Lowering, pointwise};
use crate::registry::Rule;

// aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor
// aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor
fn lower_pow(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "exponent"], |ctx, [base, exponent]| power(ctx, base, exponent))
}

/// Integers wrap; a negative exponent gives 0, or ±1 for a base of ±1.
fn power(ctx: &mut LoweringContext<'_>, base: Value, exponent: Value) -> Built {
    let power = ctx.b.pow(base, exponent)?;
    if !ctx.b.element(base).is_signed_integer() {
        return Ok(power);
    }
    let (zero, one) = (ctx.fill_like(Scalar::Int(0), base)?, ctx.fill_like(Scalar::Int(1), base)?);
    let is_one = ctx.b.compare(Direction::Eq, base, one)?;
    let is_minus_one = ctx.compare_number(Direction::Eq, base, -1.0)?;
    let lowest_bit = ctx.b.and(exponent, one)?;
    let odd = ctx.b.compare(Direction::Ne, lowest_bit, zero)?;
    let sign = ctx.b.select(odd, base, one)?;
    let inverse = ctx.b.select(is_minus_one, sign, zero)?;
    let inverse = ctx.b.select(is_one, one, inverse)?;
    let negative = ctx.b.compare(Direction::Lt, exponent, zero)?;
    Ok(ctx.b.select(negative, inverse, power)?)
}

// aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor
// The exponents that torch computes by other means are computed likewise.
fn lower_pow_scalar(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let number = ctx.number(node, "exponent")?;
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let inexact = ctx.b.element(x).is_float() || ctx.b.element(x).is_complex();
        let exponent = if matches!(number, Scalar::Complex(..)) { f64::NAN } else { number.as_f64() };
        if exponent == 0.0 {
            return ctx.fill_like(Scalar::Int(1), x);
        }
        if exponent == 1.0 {
            return Ok(x);
        }
        if exponent == 2.0 {
            return Ok(ctx.b.mul(x, x)?);
        }
        if exponent == 3.0 {
            let square = ctx.b.mul(x, x)?;
            return Ok(ctx.b.mul(square, x)?);
        }
        if exponent == 0.5 && inexact {
            return Ok(ctx.b.sqrt(x)?);
        }
        if exponent == -0.5 && inexact {
            return Ok(ctx.b.rsqrt(x)?);
        }
        if exponent == -1.0 && inexact {
            return ctx.over(1.0, x);
        }
        if exponent == -2.0 && inexact {
            let square = ctx.b.mul(x, x)?;
            return ctx.over(1.0, square);
        }
        let exponent = ctx.fill_like(number, x)?;
        power(ctx, x, exponent)
    })
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.pow.Tensor_Tensor", lower_pow),
    Rule::new("aten.pow.Scalar", lower_pow),
    Rule::new("aten.pow.Tensor_Scalar", lower_pow_scalar),
];
