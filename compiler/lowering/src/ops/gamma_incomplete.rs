//! The regularised incomplete gamma functions: `igamma` (the lower part) and `igammac` (the upper part).
//!
//! The plane is divided as in Cephes and torch: Temme's expansion where both arguments are large and close, else one of
//! two power series or a continued fraction. Each loop runs for the elements that need it.

use std::f64::consts::{E, PI};

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Scalar, Unary, Value};

use super::gamma::lgamma_positive;
use super::temme::TEMME;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::{Built, Lowering, pointwise};
use crate::registry::Rule;

/// No sum takes more terms than this.
const MOST_TERMS: f64 = 2000.0;

/// Lanczos' g, for the coefficients below.
const LANCZOS_G: f64 = 6.02468004077673;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Lower,
    Upper,
}

/// The relative size of the terms that are left out.
fn precision(ctx: &LoweringContext<'_>, x: Value) -> f64 {
    0.5 * if ctx.b.element(x) == ElementType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) }
}

/// `x^a · exp(-x) / Γ(a)`, with Lanczos' approximation where x is close to a.
fn prefix(ctx: &mut LoweringContext<'_>, a: Value, x: Value) -> Built {
    let (log, gamma) = (ctx.b.log(x)?, lgamma_positive(ctx, a)?);
    let power = ctx.b.mul(a, log)?;
    let exponent = ctx.b.sub(power, x)?;
    let exponent = ctx.b.sub(exponent, gamma)?;
    let apart = ctx.b.exp(exponent)?;
    let close = close_prefix(ctx, a, x)?;
    let distance = ctx.b.sub(a, x)?;
    let distance = ctx.b.abs(distance)?;
    let limit = ctx.times(a, 0.4)?;
    let is_apart = ctx.b.compare(Direction::Gt, distance, limit)?;
    Ok(ctx.b.select(is_apart, apart, close)?)
}

fn close_prefix(ctx: &mut LoweringContext<'_>, a: Value, x: Value) -> Built {
    let base = ctx.plus(a, LANCZOS_G - 0.5)?;
    let root = ctx.times(base, 1.0 / E)?;
    let root = ctx.b.sqrt(root)?;
    let sum = lanczos(ctx, a)?;
    let scale = ctx.b.div(root, sum)?;
    let (difference, ratio) = (ctx.b.sub(a, x)?, ctx.b.div(x, base)?);
    let (growth, power) = (ctx.b.exp(difference)?, ctx.b.pow(ratio, a)?);
    let small = ctx.b.mul(growth, power)?;
    let shifted = ctx.b.sub(x, base)?;
    let relative = ctx.b.div(shifted, base)?;
    let log = ctx.b.unary(Unary::Log1p, relative)?;
    let excess = ctx.b.sub(log, relative)?;
    let excess = ctx.b.mul(a, excess)?;
    let rest = ctx.times(x, 0.5 - LANCZOS_G)?;
    let rest = ctx.b.div(rest, base)?;
    let exponent = ctx.b.add(excess, rest)?;
    let large = ctx.b.exp(exponent)?;
    let larger = ctx.b.max(a, x)?;
    let is_small = ctx.compare_number(Direction::Lt, larger, 200.0)?;
    let factor = ctx.b.select(is_small, small, large)?;
    Ok(ctx.b.mul(scale, factor)?)
}

fn lanczos(ctx: &mut LoweringContext<'_>, a: Value) -> Built {
    let (mut over, mut under) = (LANCZOS_OVER, LANCZOS_UNDER);
    let low = ctx.rational(a, &over, &under)?;
    over.reverse();
    under.reverse();
    let inverse = ctx.over(1.0, a)?;
    let high = ctx.rational(inverse, &over, &under)?;
    let is_high = ctx.compare_number(Direction::Gt, a, 1.0)?;
    Ok(ctx.b.select(is_high, high, low)?)
}

/// Where `part ≤ eps · |whole|` in size.
fn reached(ctx: &mut LoweringContext<'_>, part: Value, whole: Value) -> Built {
    let eps = precision(ctx, whole);
    let (part, whole) = (ctx.b.abs(part)?, ctx.b.abs(whole)?);
    let limit = ctx.times(whole, eps)?;
    Ok(ctx.b.compare(Direction::Le, part, limit)?)
}

/// Runs `step` while any element is open. The state is (term number, open, values of the step…, constants…), of which
/// `step` gets the number and what follows `open`, and returns the new values and where it is done.
fn iterate(
    ctx: &mut LoweringContext<'_>,
    open: Value,
    values: &[Value],
    constants: &[Value],
    step: impl FnOnce(&mut LoweringContext<'_>, Value, &[Value]) -> Result<(Vec<Value>, Value), RuleError>,
) -> Result<Vec<Value>, RuleError> {
    let count = ctx.scalar(Scalar::Int(1), ctx.b.element(values[0]))?;
    let mut state = vec![count, open];
    state.extend(values.iter().chain(constants));
    let dims = ctx.b.dims(open).to_vec();
    let changing = values.len();
    let busy = |ctx: &mut LoweringContext<'_>, state: &[Value]| {
        let allowed = ctx.compare_number(Direction::Le, state[0], MOST_TERMS)?;
        let allowed = ctx.b.broadcast_to(allowed, &dims)?;
        Ok(ctx.b.and(allowed, state[1])?)
    };
    let out = ctx.repeat_while(&state, busy, |ctx, state| {
        let number = ctx.b.broadcast_to(state[0], &dims)?;
        let (new, done) = step(ctx, number, &state[2..])?;
        let going = ctx.b.not(done)?;
        let mut next = vec![ctx.plus(state[0], 1.0)?, ctx.b.and(state[1], going)?];
        for (new, old) in new.into_iter().zip(&state[2..]) {
            next.push(ctx.b.select(state[1], new, *old)?);
        }
        next.extend(&state[2 + changing..]);
        Ok(next)
    })?;
    Ok(out[2..2 + changing].to_vec())
}

/// The lower part as a power series.
fn lower_series(ctx: &mut LoweringContext<'_>, a: Value, x: Value, open: Value) -> Built {
    let one = ctx.fill_like(Scalar::Int(1), x)?;
    let sums = iterate(ctx, open, &[one, one], &[a, x], |ctx, number, state| {
        let below = ctx.b.add(state[2], number)?;
        let factor = ctx.b.div(state[3], below)?;
        let term = ctx.b.mul(state[0], factor)?;
        let sum = ctx.b.add(state[1], term)?;
        let done = reached(ctx, term, sum)?;
        Ok((vec![term, sum], done))
    })?;
    let factor = prefix(ctx, a, x)?;
    let product = ctx.b.mul(sums[1], factor)?;
    Ok(ctx.b.div(product, a)?)
}

/// The upper part of small arguments as a power series.
fn upper_series(ctx: &mut LoweringContext<'_>, a: Value, x: Value, open: Value) -> Built {
    let (one, zero) = (ctx.fill_like(Scalar::Int(1), x)?, ctx.fill_like(Scalar::Int(0), x)?);
    let sums = iterate(ctx, open, &[one, zero], &[a, x], |ctx, number, state| {
        let ratio = ctx.b.div(state[3], number)?;
        let factor = ctx.b.mul(state[0], ratio)?;
        let factor = ctx.b.neg(factor)?;
        let below = ctx.b.add(state[2], number)?;
        let term = ctx.b.div(factor, below)?;
        let sum = ctx.b.add(state[1], term)?;
        let done = reached(ctx, term, sum)?;
        Ok((vec![factor, sum], done))
    })?;
    let log = ctx.b.log(x)?;
    let power = ctx.b.mul(a, log)?;
    let next = ctx.plus(a, 1.0)?;
    let gamma = lgamma_positive(ctx, next)?;
    let exponent = ctx.b.sub(power, gamma)?;
    let first = ctx.b.unary(Unary::Expm1, exponent)?;
    let gamma = lgamma_positive(ctx, a)?;
    let exponent = ctx.b.sub(power, gamma)?;
    let factor = ctx.b.exp(exponent)?;
    let rest = ctx.b.mul(factor, sums[1])?;
    let sum = ctx.b.add(first, rest)?;
    Ok(ctx.b.neg(sum)?)
}

/// The upper part as a continued fraction. Its numerators and denominators are scaled down when they grow.
fn upper_fraction(ctx: &mut LoweringContext<'_>, a: Value, x: Value, open: Value) -> Built {
    let large = if ctx.b.element(x) == ElementType::F64 { 4_503_599_627_370_496.0 } else { 16_777_216.0 };
    let one = ctx.fill_like(Scalar::Int(1), x)?;
    let y = ctx.minus_from(1.0, a)?;
    let z = ctx.b.add(x, y)?;
    let z = ctx.plus(z, 1.0)?;
    let (p, q) = (ctx.plus(x, 1.0)?, ctx.b.mul(z, x)?);
    let start = ctx.b.div(p, q)?;
    let sums = iterate(ctx, open, &[start, one, x, p, q], &[y, z], |ctx, number, state| {
        let [old, p_before, q_before, p, q, y, z] = state else {
            return Err(RuleError::Internal("the fraction's state".into()));
        };
        let y = ctx.b.add(*y, number)?;
        let double = ctx.b.add(number, number)?;
        let z = ctx.b.add(*z, double)?;
        let weight = ctx.b.mul(y, number)?;
        let mut join = |now: Value, before: Value| -> Built {
            let (now, before) = (ctx.b.mul(now, z)?, ctx.b.mul(before, weight)?);
            Ok(ctx.b.sub(now, before)?)
        };
        let (p_next, q_next) = (join(*p, *p_before)?, join(*q, *q_before)?);
        let usable = ctx.compare_number(Direction::Ne, q_next, 0.0)?;
        let ratio = ctx.b.div(p_next, q_next)?;
        let change = ctx.b.sub(*old, ratio)?;
        let close = reached(ctx, change, ratio)?;
        let done = ctx.b.and(close, usable)?;
        let value = ctx.b.select(usable, ratio, *old)?;
        let size = ctx.b.abs(p_next)?;
        let grown = ctx.compare_number(Direction::Gt, size, large)?;
        let mut values = vec![value];
        for each in [*p, *q, p_next, q_next] {
            let scaled = ctx.times(each, 1.0 / large)?;
            values.push(ctx.b.select(grown, scaled, each)?);
        }
        Ok((values, done))
    })?;
    let factor = prefix(ctx, a, x)?;
    Ok(ctx.b.mul(sums[0], factor)?)
}

/// Temme's uniform expansion of either part.
fn uniform(ctx: &mut LoweringContext<'_>, a: Value, x: Value, part: Part) -> Built {
    let (orders, powers) = if ctx.b.element(x) == ElementType::F64 { (13, 18) } else { (6, 9) };
    let sign = if part == Part::Lower { -1.0 } else { 1.0 };
    let difference = ctx.b.sub(x, a)?;
    let sigma = ctx.b.div(difference, a)?;
    let log = ctx.b.unary(Unary::Log1p, sigma)?;
    let excess = ctx.b.sub(sigma, log)?;
    let zero = ctx.fill_like(Scalar::Int(0), x)?;
    let excess = ctx.b.max(excess, zero)?;
    let square = ctx.b.add(excess, excess)?;
    let size = ctx.b.sqrt(square)?;
    let direction = ctx.b.sign(sigma)?;
    let eta = ctx.b.mul(size, direction)?;
    let mut rows = Vec::with_capacity(orders);
    for row in TEMME.iter().take(orders) {
        let mut row = row[..powers].to_vec();
        row.reverse();
        rows.push(ctx.polynomial(eta, &row)?);
    }
    let mut sum = zero;
    for row in rows.into_iter().rev() {
        let part = ctx.b.div(sum, a)?;
        sum = ctx.b.add(part, row)?;
    }
    let half = ctx.times(a, 0.5)?;
    let scale = ctx.b.sqrt(half)?;
    let place = ctx.b.mul(eta, scale)?;
    let place = ctx.times(place, sign)?;
    let tail = ctx.b.unary(Unary::Erfc, place)?;
    let tail = ctx.times(tail, 0.5)?;
    let exponent = ctx.b.mul(a, excess)?;
    let exponent = ctx.b.neg(exponent)?;
    let bell = ctx.b.exp(exponent)?;
    let width = ctx.times(a, 2.0 * PI)?;
    let width = ctx.b.sqrt(width)?;
    let bell = ctx.b.div(bell, width)?;
    let correction = ctx.b.mul(bell, sum)?;
    let correction = ctx.times(correction, sign)?;
    Ok(ctx.b.add(tail, correction)?)
}

/// Where the uniform expansion holds: both large, and close for their size.
fn is_uniform(ctx: &mut LoweringContext<'_>, a: Value, x: Value) -> Built {
    let distance = ctx.b.sub(x, a)?;
    let distance = ctx.b.abs(distance)?;
    let relative = ctx.b.div(distance, a)?;
    let (above, below) =
        (ctx.compare_number(Direction::Gt, a, 20.0)?, ctx.compare_number(Direction::Lt, a, 200.0)?);
    let medium = ctx.b.and(above, below)?;
    let close = ctx.compare_number(Direction::Lt, relative, 0.3)?;
    let medium = ctx.b.and(medium, close)?;
    let large = ctx.compare_number(Direction::Gt, a, 200.0)?;
    let root = ctx.b.sqrt(a)?;
    let limit = ctx.over(4.5, root)?;
    let close = ctx.b.compare(Direction::Lt, relative, limit)?;
    let large = ctx.b.and(large, close)?;
    Ok(ctx.b.or(medium, large)?)
}

/// Where the lower series serves the upper part, too.
fn by_lower_series(ctx: &mut LoweringContext<'_>, a: Value, x: Value) -> Built {
    let log = ctx.b.log(x)?;
    let border = ctx.over(-0.4, log)?;
    let small = ctx.b.compare(Direction::Lt, border, a)?;
    let stretched = ctx.times(x, 1.1)?;
    let middle = ctx.b.compare(Direction::Lt, stretched, a)?;
    let large = ctx.b.compare(Direction::Lt, x, a)?;
    let is_small = ctx.compare_number(Direction::Le, x, 0.5)?;
    let is_large = ctx.compare_number(Direction::Gt, x, 1.1)?;
    let rest = ctx.b.select(is_small, small, middle)?;
    Ok(ctx.b.select(is_large, large, rest)?)
}

fn incomplete(ctx: &mut LoweringContext<'_>, node: &Node, part: Part) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [a, x]| {
        let regular = regular(ctx, a, x)?;
        let both_uniform = is_uniform(ctx, a, x)?;
        let steps = ctx.b.not(both_uniform)?;
        let open = ctx.b.and(regular, steps)?;
        let lower = if part == Part::Lower {
            let past_one = ctx.compare_number(Direction::Gt, x, 1.0)?;
            let past_a = ctx.b.compare(Direction::Gt, x, a)?;
            let beyond = ctx.b.and(past_one, past_a)?;
            ctx.b.not(beyond)?
        } else {
            by_lower_series(ctx, a, x)?
        };
        let upper = ctx.b.not(lower)?;
        let upper = ctx.b.and(open, upper)?;
        let far = ctx.compare_number(Direction::Gt, x, 1.1)?;
        let near = ctx.b.not(far)?;
        let (by_fraction, by_series) = (ctx.b.and(upper, far)?, ctx.b.and(upper, near)?);
        let lower = ctx.b.and(open, lower)?;
        let below = lower_series(ctx, a, x, lower)?;
        let fraction = upper_fraction(ctx, a, x, by_fraction)?;
        let series = upper_series(ctx, a, x, by_series)?;
        let above = ctx.b.select(by_series, series, fraction)?;
        let value = if part == Part::Lower {
            let rest = ctx.minus_from(1.0, above)?;
            ctx.b.select(lower, below, rest)?
        } else {
            let rest = ctx.minus_from(1.0, below)?;
            ctx.b.select(lower, rest, above)?
        };
        let expanded = uniform(ctx, a, x, part)?;
        let value = ctx.b.select(both_uniform, expanded, value)?;
        at_borders(ctx, a, x, part, (value, regular))
    })
}

/// Where both arguments are positive and finite.
fn regular(ctx: &mut LoweringContext<'_>, a: Value, x: Value) -> Built {
    let mut all = ctx.b.compare(Direction::Eq, a, a)?;
    for each in [a, x] {
        let (positive, finite) = (ctx.compare_number(Direction::Gt, each, 0.0)?, ctx.b.is_finite(each)?);
        let here = ctx.b.and(positive, finite)?;
        all = ctx.b.and(all, here)?;
    }
    Ok(all)
}

/// The values where an argument is 0 or infinite; NaN where one is negative, or both are 0 or infinite.
fn at_borders(
    ctx: &mut LoweringContext<'_>,
    a: Value,
    x: Value,
    part: Part,
    (value, regular): (Value, Value),
) -> Built {
    let (all, nothing) = if part == Part::Lower { (1.0, 0.0) } else { (0.0, 1.0) };
    let nan = ctx.fill_like(Scalar::Float(f64::NAN), x)?;
    let mut border = nan;
    let a_zero = ctx.compare_number(Direction::Eq, a, 0.0)?;
    let x_zero = ctx.compare_number(Direction::Eq, x, 0.0)?;
    let a_infinite = ctx.compare_number(Direction::Eq, a, f64::INFINITY)?;
    let x_infinite = ctx.compare_number(Direction::Eq, x, f64::INFINITY)?;
    let x_positive = ctx.compare_number(Direction::Gt, x, 0.0)?;
    // Not positive, or NaN, which these limits do not depend on.
    let mut unless = |v: Value, direction: Direction| -> Built {
        let wrong = ctx.compare_number(direction, v, 0.0)?;
        Ok(ctx.b.not(wrong)?)
    };
    let (a_above, a_legal) = (unless(a, Direction::Le)?, unless(a, Direction::Lt)?);
    let x_legal = unless(x, Direction::Lt)?;
    // Everything lies below x, or nothing does.
    for (one, other, result) in [
        (a_zero, x_positive, all),
        (x_infinite, a_legal, all),
        (a_infinite, x_legal, nothing),
        (x_zero, a_above, nothing),
    ] {
        let here = ctx.b.and(one, other)?;
        let elsewhere = ctx.b.not(here)?;
        border = ctx.select_or(elsewhere, border, result)?;
    }
    let both = ctx.b.and(a_infinite, x_infinite)?;
    border = ctx.b.select(both, nan, border)?;
    Ok(ctx.b.select(regular, value, border)?)
}

// aten::igamma(Tensor self, Tensor other) -> Tensor
fn lower_igamma(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    incomplete(ctx, node, Part::Lower)
}

// aten::igammac(Tensor self, Tensor other) -> Tensor
fn lower_igammac(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    incomplete(ctx, node, Part::Upper)
}

const LANCZOS_OVER: [f64; 13] = [
    0.006061842346248907,
    0.5098416655656676,
    19.519927882476175,
    449.9445569063168,
    6955.999602515376,
    75999.29304014542,
    601859.6171681099,
    3481712.154980646,
    14605578.087685067,
    43338889.32467614,
    86363131.2881386,
    103794043.11634454,
    56906521.913471565,
];

const LANCZOS_UNDER: [f64; 13] = [
    1.0,
    66.0,
    1925.0,
    32670.0,
    357423.0,
    2637558.0,
    13339535.0,
    45995730.0,
    105258076.0,
    150917976.0,
    120543840.0,
    39916800.0,
    0.0,
];

/// The rules of this family.
pub(crate) const RULES: &[Rule] =
    &[Rule::new("aten.igamma.default", lower_igamma), Rule::new("aten.igammac.default", lower_igammac)];
