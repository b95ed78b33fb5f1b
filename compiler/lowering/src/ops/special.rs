//! Compound functions that are careful at the edges: `xlogy`, `logit`, `logaddexp`, `hypot`, …

use std::f64::consts::{LN_2, PI};

use tpud_graph::Node;
use tpud_stablehlo::{Binary, Direction, Scalar, Unary, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::{Built, Lowering, pointwise};
use crate::registry::Rule;

// aten::atan2(Tensor self, Tensor other) -> Tensor
fn lower_atan2(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [y, x]| Ok(ctx.b.binary(Binary::Atan2, y, x)?))
}

// aten::hypot(Tensor self, Tensor other) -> Tensor
// Scaled by the longer side, so that no square overflows; an infinite side wins over NaN.
fn lower_hypot(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [x, y]| {
        let (x, y) = (ctx.b.abs(x)?, ctx.b.abs(y)?);
        let (long, short) = (ctx.b.max(x, y)?, ctx.b.min(x, y)?);
        let ratio = ctx.b.div(short, long)?;
        let square = ctx.b.mul(ratio, ratio)?;
        let sum = ctx.plus(square, 1.0)?;
        let root = ctx.b.sqrt(sum)?;
        let length = ctx.b.mul(long, root)?;
        let zero = ctx.compare_number(Direction::Eq, long, 0.0)?;
        let length = ctx.b.select(zero, long, length)?;
        let x_infinite = ctx.compare_number(Direction::Eq, x, f64::INFINITY)?;
        let y_infinite = ctx.compare_number(Direction::Eq, y, f64::INFINITY)?;
        let infinite = ctx.b.or(x_infinite, y_infinite)?;
        let finite = ctx.b.not(infinite)?;
        ctx.select_or(finite, length, f64::INFINITY)
    })
}

// aten::logaddexp(Tensor self, Tensor other) -> Tensor
fn lower_logaddexp(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    log_add(ctx, node, 1.0)
}

// aten::logaddexp2(Tensor self, Tensor other) -> Tensor
fn lower_logaddexp2(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    log_add(ctx, node, LN_2)
}

/// `max(x, y) + log(1 + base^-|x-y|)` to a base of which `ln` is the logarithm; equal infinities stay.
fn log_add(ctx: &mut LoweringContext<'_>, node: &Node, ln: f64) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [x, y]| {
        if ctx.b.element(x).is_complex() {
            return Err(RuleError::unsupported("logaddexp of complex numbers: write it with exp and log"));
        }
        let larger = ctx.b.max(x, y)?;
        let difference = ctx.b.sub(x, y)?;
        let distance = ctx.b.abs(difference)?;
        let exponent = ctx.times(distance, -ln)?;
        let power = ctx.b.exp(exponent)?;
        let log = ctx.b.unary(Unary::Log1p, power)?;
        let log = ctx.times(log, 1.0 / ln)?;
        let sum = ctx.b.add(larger, log)?;
        // inf - inf is NaN: where both are the same infinity, that is the result.
        let equal = ctx.b.compare(Direction::Eq, x, y)?;
        let size = ctx.b.abs(x)?;
        let infinite = ctx.compare_number(Direction::Eq, size, f64::INFINITY)?;
        let same = ctx.b.and(equal, infinite)?;
        Ok(ctx.b.select(same, x, sum)?)
    })
}

// aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor
// aten::xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor
// aten::xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor
fn lower_xlogy(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    x_log(ctx, node, Unary::Log)
}

// aten::special_xlog1py(Tensor self, Tensor other) -> Tensor
fn lower_xlog1py(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    x_log(ctx, node, Unary::Log1p)
}

/// `x · log(y)`, and 0 where x is 0, unless y is NaN.
fn x_log(ctx: &mut LoweringContext<'_>, node: &Node, log: Unary) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [x, y]| {
        let log = ctx.b.unary(log, y)?;
        let product = ctx.b.mul(x, log)?;
        let zero = ctx.compare_number(Direction::Eq, x, 0.0)?;
        let number = ctx.b.compare(Direction::Eq, y, y)?;
        let vanishes = ctx.b.and(zero, number)?;
        let zeros = ctx.fill_like(Scalar::Int(0), product)?;
        Ok(ctx.b.select(vanishes, zeros, product)?)
    })
}

// aten::special_entr(Tensor self) -> Tensor
fn lower_entr(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let log = ctx.b.log(x)?;
        let product = ctx.b.mul(x, log)?;
        let entropy = ctx.b.neg(product)?;
        let not_zero = ctx.compare_number(Direction::Ne, x, 0.0)?;
        let entropy = ctx.select_or(not_zero, entropy, 0.0)?;
        let negative = ctx.compare_number(Direction::Lt, x, 0.0)?;
        let fits = ctx.b.not(negative)?;
        ctx.select_or(fits, entropy, f64::NEG_INFINITY)
    })
}

// aten::logit(Tensor self, float? eps=None) -> Tensor
fn lower_logit(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let margin = ctx.opt_float(node, "eps")?;
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let x = match margin {
            Some(eps) => clamped(ctx, x, eps)?,
            None => x,
        };
        let rest = ctx.minus_from(1.0, x)?;
        let odds = ctx.b.div(x, rest)?;
        Ok(ctx.b.log(odds)?)
    })
}

/// Moves what lies outside of `[eps, 1 - eps]` to its ends.
fn clamped(ctx: &mut LoweringContext<'_>, x: Value, eps: f64) -> Built {
    let low = ctx.fill_like(Scalar::Float(eps), x)?;
    let high = ctx.minus_from(1.0, low)?;
    let above = ctx.b.compare(Direction::Gt, x, high)?;
    let x_or_high = ctx.b.select(above, high, x)?;
    let below = ctx.b.compare(Direction::Lt, x, low)?;
    Ok(ctx.b.select(below, low, x_or_high)?)
}

// aten::logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor
fn lower_logit_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let margin = ctx.opt_float(node, "eps")?;
    pointwise(ctx, node, ["grad_output", "self"], |ctx, [grad, x]| {
        let rest = ctx.minus_from(1.0, x)?;
        let product = ctx.b.mul(x, rest)?;
        let slope = ctx.b.div(grad, product)?;
        // Outside of the margin the gradient is 0; without one it is NaN outside of [0, 1].
        let eps = ctx.fill_like(Scalar::Float(margin.unwrap_or(0.0)), x)?;
        let high = ctx.minus_from(1.0, eps)?;
        let below = ctx.b.compare(Direction::Lt, x, eps)?;
        let above = ctx.b.compare(Direction::Gt, x, high)?;
        let outside = ctx.b.or(below, above)?;
        let inside = ctx.b.not(outside)?;
        ctx.select_or(inside, slope, if margin.is_some() { 0.0 } else { f64::NAN })
    })
}

// aten::sinc(Tensor self) -> Tensor
fn lower_sinc(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let angle = ctx.times(x, PI)?;
        let sine = ctx.b.unary(Unary::Sine, angle)?;
        let ratio = ctx.b.div(sine, angle)?;
        let not_zero = ctx.compare_number(Direction::Ne, x, 0.0)?;
        ctx.select_or(not_zero, ratio, 1.0)
    })
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.atan2.default", lower_atan2),
    Rule::new("aten.hypot.default", lower_hypot),
    Rule::new("aten.logaddexp.default", lower_logaddexp),
    Rule::new("aten.logaddexp2.default", lower_logaddexp2),
    Rule::new("aten.xlogy.Tensor", lower_xlogy),
    Rule::new("aten.xlogy.Scalar_Self", lower_xlogy),
    Rule::new("aten.xlogy.Scalar_Other", lower_xlogy),
    Rule::new("aten.special_xlog1py.default", lower_xlog1py),
    Rule::new("aten.special_entr.default", lower_entr),
    Rule::new("aten.logit.default", lower_logit),
    Rule::new("aten.logit_backward.default", lower_logit_backward),
    Rule::new("aten.sinc.default", lower_sinc),
];
