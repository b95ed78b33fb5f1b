//! Distributions that are drawn by rejection: gamma, Dirichlet, Poisson, binomial.
//!
//! All elements propose in every turn of a loop, until each has accepted a proposal. The number of turns is bounded,
//! far beyond what chance needs; an element that never accepts (a parameter that is NaN) keeps its first value. Counts
//! are computed in f64, whose logarithms of factorials are exact enough.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Monoid, Scalar, Unary, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::{Built, Lowering};
use crate::random::Stream;
use crate::registry::Rule;

/// The chance of another turn is below 1/2 for each element, and mostly far below.
const TURNS: i64 = 1000;

/// What an element does in one turn.
struct Turn {
    /// Whether it is done.
    done: Value,
    /// Its values after this turn; they stay if it was done before.
    values: Vec<Value>,
}

/// Repeats `turn` from `first` on, until every element is done. Elements that are done do not change.
fn repeat(
    ctx: &mut LoweringContext<'_>,
    stream: Stream,
    first: &[Value],
    turn: impl FnOnce(&mut LoweringContext<'_>, Stream, &[Value]) -> Result<Turn, RuleError>,
) -> Result<Vec<Value>, RuleError> {
    let ty = ctx.b.ty(first[0]).with_element(ElementType::Bool);
    let open = ctx.b.splat(Scalar::Bool(true), &ty)?;
    let mut inits = vec![ctx.scalar(Scalar::Int(0), ElementType::I64)?, open];
    inits.extend(first);
    let looped = ctx.repeat_while(
        &inits,
        |ctx, carried| {
            let limit = ctx.scalar(Scalar::Int(TURNS), ElementType::I64)?;
            let more = ctx.b.compare(Direction::Lt, carried[0], limit)?;
            let more = ctx.b.broadcast_to(more, &ty.dims)?;
            Ok(ctx.b.and(carried[1], more)?)
        },
        |ctx, carried| next_turn(ctx, stream, carried, turn),
    );
    Ok(looped?.split_off(2))
}

fn next_turn(
    ctx: &mut LoweringContext<'_>,
    stream: Stream,
    carried: &[Value],
    turn: impl FnOnce(&mut LoweringContext<'_>, Stream, &[Value]) -> Result<Turn, RuleError>,
) -> Result<Vec<Value>, RuleError> {
    let (count, open, old) = (carried[0], carried[1], &carried[2..]);
    let inside = stream.in_turn(ctx, count)?;
    let Turn { done, values } = turn(ctx, inside, old)?;
    let one = ctx.fill_like(Scalar::Int(1), count)?;
    let not_done = ctx.b.not(done)?;
    let mut next = vec![ctx.b.add(count, one)?, ctx.b.and(open, not_done)?];
    for (new, old) in values.into_iter().zip(old) {
        next.push(ctx.b.select(open, new, *old)?);
    }
    Ok(next)
}

/// Gamma of scale 1 by Marsaglia and Tsang; below shape 1 that of shape + 1, times a power of a uniform number.
fn gamma(ctx: &mut LoweringContext<'_>, mut stream: Stream, shape: Value) -> Built {
    let ty = ctx.b.ty(shape).clone();
    let small = ctx.compare_number(Direction::Lt, shape, 1.0)?;
    let larger = ctx.plus(shape, 1.0)?;
    let boosted = ctx.b.select(small, larger, shape)?;
    let d = ctx.plus(boosted, -1.0 / 3.0)?;
    let root = ctx.times(d, 9.0)?;
    let c = ctx.b.rsqrt(root)?;
    let waited = stream.exponential(ctx, &ty)?;
    let cubes = repeat(ctx, stream, &[d], |ctx, mut stream, _| {
        let x = stream.normal(ctx, &ty)?;
        let wait = stream.exponential(ctx, &ty)?;
        let cx = ctx.b.mul(c, x)?;
        let v = ctx.plus(cx, 1.0)?;
        let positive = ctx.compare_number(Direction::Gt, v, 0.0)?;
        let v = ctx.select_or(positive, v, 1.0)?;
        let square = ctx.b.mul(v, v)?;
        let cube = ctx.b.mul(square, v)?;
        // log u < x²/2 + d (1 - v³ + log v³), where -log u is the exponential number.
        let half = ctx.b.mul(x, x)?;
        let half = ctx.times(half, 0.5)?;
        let log = ctx.b.log(cube)?;
        let rest = ctx.minus_from(1.0, cube)?;
        let rest = ctx.b.add(rest, log)?;
        let rest = ctx.b.mul(d, rest)?;
        let bound = ctx.b.add(half, rest)?;
        let log_u = ctx.b.neg(wait)?;
        let below = ctx.b.compare(Direction::Lt, log_u, bound)?;
        let sample = ctx.b.mul(d, cube)?;
        Ok(Turn { done: ctx.b.and(positive, below)?, values: vec![sample] })
    })?;
    let exponent = ctx.b.div(waited, shape)?;
    let exponent = ctx.b.neg(exponent)?;
    let power = ctx.b.exp(exponent)?;
    let factor = ctx.select_or(small, power, 1.0)?;
    Ok(ctx.b.mul(cubes[0], factor)?)
}

fn least_normal(element: ElementType) -> f64 {
    match element {
        ElementType::F64 => f64::MIN_POSITIVE,
        ElementType::F16 => (-14f64).exp2(),
        _ => f32::MIN_POSITIVE.into(),
    }
}

/// Gamma numbers of the shapes in `self`, at least the smallest normal number of the output's dtype.
fn gamma_of_self(ctx: &mut LoweringContext<'_>, node: &Node) -> Built {
    let shape = ctx.wide_operand(node, "self")?;
    let stream = Stream::of(ctx, node)?;
    let x = gamma(ctx, stream, shape)?;
    let least = least_normal(ctx.output_type(node, 0)?.element);
    let least = ctx.fill_like(Scalar::Float(least), x)?;
    Ok(ctx.b.max(x, least)?)
}

// aten::_standard_gamma(Tensor self, Generator? generator=None) -> Tensor
fn lower_standard_gamma(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = gamma_of_self(ctx, node)?;
    ctx.rounded(node, x)
}

// aten::_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor
fn lower_sample_dirichlet(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = gamma_of_self(ctx, node)?;
    let ty = ctx.b.ty(x).clone();
    let Some(last) = ty.rank().checked_sub(1) else {
        return Err(RuleError::unsupported("a Dirichlet distribution needs a dimension"));
    };
    let sum = ctx.b.reduce_monoid(x, Monoid::Sum, &[last as i64])?;
    let others: Vec<i64> = (0..last as i64).collect();
    let sum = ctx.b.broadcast_in_dim(sum, &ty.dims, &others)?;
    let part = ctx.b.div(x, sum)?;
    let low = ctx.fill_like(Scalar::Float(least_normal(ctx.output_type(node, 0)?.element)), part)?;
    let high = ctx.fill_like(Scalar::Float(1.0 - f64::from(f32::EPSILON) / 2.0), part)?;
    let part = ctx.b.clamp(low, part, high)?;
    ctx.rounded(node, part)
}

/// `log x!`
fn log_factorial(ctx: &mut LoweringContext<'_>, x: Value) -> Built {
    let x = ctx.plus(x, 1.0)?;
    Ok(ctx.b.unary(Unary::Lgamma, x)?)
}

/// A proposal of Hörmann's transformed rejection: `k` for the test that is left to the distribution.
struct Proposal {
    k: Value,
    /// Accepted without a test.
    quick: Value,
    /// Outside of the region where the test is worth it.
    hopeless: Value,
    /// The logarithm that the test compares with that of the probability, without the constant of the distribution.
    log: Value,
}

/// `floor((2a / (1/2 - |u|) + b) u + c)`; `v_quick` bounds the second uniform number where no test is needed.
fn propose(
    ctx: &mut LoweringContext<'_>,
    stream: &mut Stream,
    [a, b, c, v_quick]: [Value; 4],
) -> Result<Proposal, RuleError> {
    let ty = ctx.b.ty(a).clone();
    let u = stream.positive(ctx, &ty)?;
    let u = ctx.plus(u, -0.5)?;
    let v = stream.positive(ctx, &ty)?;
    let size = ctx.b.abs(u)?;
    let us = ctx.minus_from(0.5, size)?;
    let slope = ctx.b.div(a, us)?;
    let twice = ctx.times(slope, 2.0)?;
    let steep = ctx.b.add(twice, b)?;
    let x = ctx.b.mul(steep, u)?;
    let x = ctx.b.add(x, c)?;
    let k = ctx.b.floor(x)?;
    let central = ctx.compare_number(Direction::Ge, us, 0.07)?;
    let under = ctx.b.compare(Direction::Le, v, v_quick)?;
    let quick = ctx.b.and(central, under)?;
    let outer = ctx.compare_number(Direction::Lt, us, 0.013)?;
    let over = ctx.b.compare(Direction::Gt, v, us)?;
    let outside = ctx.b.and(outer, over)?;
    let negative = ctx.compare_number(Direction::Lt, k, 0.0)?;
    let hopeless = ctx.b.or(outside, negative)?;
    let density = ctx.b.div(slope, us)?;
    let density = ctx.b.add(density, b)?;
    let ratio = ctx.b.div(v, density)?;
    Ok(Proposal { k, quick, hopeless, log: ctx.b.log(ratio)? })
}

/// A number `scale / (x + shift) + offset`, as the constants of transformed rejection are given.
fn hyperbola(ctx: &mut LoweringContext<'_>, x: Value, scale: f64, shift: f64, offset: f64) -> Built {
    let x = ctx.plus(x, shift)?;
    let x = ctx.over(scale, x)?;
    ctx.plus(x, offset)
}

/// Poisson of rates under 10: how many exponential times fit.
fn poisson_by_times(ctx: &mut LoweringContext<'_>, stream: Stream, rate: Value) -> Built {
    let ty = ctx.b.ty(rate).clone();
    let zero = ctx.fill_like(Scalar::Int(0), rate)?;
    let out = repeat(ctx, stream, &[zero, zero], |ctx, mut stream, old| {
        let time = stream.exponential(ctx, &ty)?;
        let time = ctx.b.add(old[1], time)?;
        let fits = ctx.b.compare(Direction::Lt, time, rate)?;
        let more = ctx.plus(old[0], 1.0)?;
        let count = ctx.b.select(fits, more, old[0])?;
        Ok(Turn { done: ctx.b.not(fits)?, values: vec![count, time] })
    })?;
    Ok(out[0])
}

/// Poisson of rates from 10 on by transformed rejection (PTRS).
fn poisson_by_rejection(ctx: &mut LoweringContext<'_>, stream: Stream, rate: Value) -> Built {
    let root = ctx.b.sqrt(rate)?;
    let b = ctx.times(root, 2.53)?;
    let b = ctx.plus(b, 0.931)?;
    let a = ctx.times(b, 0.02483)?;
    let a = ctx.plus(a, -0.059)?;
    let inverse_alpha = hyperbola(ctx, b, 1.1328, -3.4, 1.1239)?;
    let v_quick = hyperbola(ctx, b, -3.6224, -2.0, 0.9277)?;
    let c = ctx.plus(rate, 0.43)?;
    let (log_rate, log_scale) = (ctx.b.log(rate)?, ctx.b.log(inverse_alpha)?);
    let out = repeat(ctx, stream, &[rate], |ctx, mut stream, _| {
        let Proposal { k, quick, hopeless, log } = propose(ctx, &mut stream, [a, b, c, v_quick])?;
        let lhs = ctx.b.add(log, log_scale)?;
        let rhs = ctx.b.mul(k, log_rate)?;
        let rhs = ctx.b.sub(rhs, rate)?;
        let factorial = log_factorial(ctx, k)?;
        let rhs = ctx.b.sub(rhs, factorial)?;
        accept(ctx, k, quick, hopeless, lhs, rhs)
    })?;
    Ok(out[0])
}

fn accept(
    ctx: &mut LoweringContext<'_>,
    k: Value,
    quick: Value,
    hopeless: Value,
    lhs: Value,
    rhs: Value,
) -> Result<Turn, RuleError> {
    let passes = ctx.b.compare(Direction::Le, lhs, rhs)?;
    let worth = ctx.b.not(hopeless)?;
    let passes = ctx.b.and(passes, worth)?;
    Ok(Turn { done: ctx.b.or(quick, passes)?, values: vec![k] })
}

// aten::poisson(Tensor self, Generator? generator=None) -> Tensor
fn lower_poisson(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let rate = ctx.tensor(node, "self")?;
    let rate = ctx.convert(rate, ElementType::F64)?;
    let small = ctx.compare_number(Direction::Lt, rate, 10.0)?;
    let low = ctx.select_or(small, rate, 0.0)?;
    let high = ctx.fill_like(Scalar::Float(10.0), rate)?;
    let high = ctx.b.select(small, high, rate)?;
    let stream = Stream::of(ctx, node)?;
    let by_times = poisson_by_times(ctx, stream, low)?;
    let by_rejection = poisson_by_rejection(ctx, stream.apart(), high)?;
    let count = ctx.b.select(small, by_times, by_rejection)?;
    ctx.rounded(node, count)
}

/// Binomial of few expected successes: how many waiting times fit into `n` trials.
fn binomial_by_times(ctx: &mut LoweringContext<'_>, stream: Stream, n: Value, p: Value) -> Built {
    let ty = ctx.b.ty(n).clone();
    let zero = ctx.fill_like(Scalar::Int(0), n)?;
    let log = ctx.b.neg(p)?;
    let log = ctx.b.unary(Unary::Log1p, log)?;
    let scale = ctx.over(-1.0, log)?;
    let out = repeat(ctx, stream, &[zero, zero], |ctx, mut stream, old| {
        let wait = stream.exponential(ctx, &ty)?;
        let wait = ctx.b.mul(wait, scale)?;
        let wait = ctx.b.unary(Unary::Ceil, wait)?;
        let trial = ctx.b.add(old[1], wait)?;
        let fits = ctx.b.compare(Direction::Le, trial, n)?;
        let more = ctx.plus(old[0], 1.0)?;
        let count = ctx.b.select(fits, more, old[0])?;
        Ok(Turn { done: ctx.b.not(fits)?, values: vec![count, trial] })
    })?;
    Ok(out[0])
}

/// Binomial of at least 10 expected successes, p at most 1/2, by transformed rejection (BTRS).
fn binomial_by_rejection(ctx: &mut LoweringContext<'_>, stream: Stream, n: Value, p: Value) -> Built {
    let q = ctx.minus_from(1.0, p)?;
    let mean = ctx.b.mul(n, p)?;
    let variance = ctx.b.mul(mean, q)?;
    let deviation = ctx.b.sqrt(variance)?;
    let b = ctx.times(deviation, 2.53)?;
    let b = ctx.plus(b, 1.15)?;
    let (from_b, from_p) = (ctx.times(b, 0.0248)?, ctx.times(p, 0.01)?);
    let a = ctx.b.add(from_b, from_p)?;
    let a = ctx.plus(a, -0.0873)?;
    let c = ctx.plus(mean, 0.5)?;
    let v_quick = hyperbola(ctx, b, -4.2, 0.0, 0.92)?;
    let alpha = hyperbola(ctx, b, 5.1, 0.0, 2.83)?;
    let alpha = ctx.b.mul(alpha, deviation)?;
    let log_scale = ctx.b.log(alpha)?;
    let odds = ctx.b.div(p, q)?;
    let log_odds = ctx.b.log(odds)?;
    let mode = ctx.b.add(mean, p)?;
    let mode = ctx.b.floor(mode)?;
    let at_mode = log_ways(ctx, n, mode)?;
    let out = repeat(ctx, stream, &[mean], |ctx, mut stream, _| {
        let Proposal { k, quick, hopeless, log } = propose(ctx, &mut stream, [a, b, c, v_quick])?;
        let too_many = ctx.b.compare(Direction::Gt, k, n)?;
        let hopeless = ctx.b.or(hopeless, too_many)?;
        let lhs = ctx.b.add(log, log_scale)?;
        let ways = log_ways(ctx, n, k)?;
        let more = ctx.b.sub(k, mode)?;
        let rhs = ctx.b.mul(more, log_odds)?;
        let rhs = ctx.b.add(rhs, ways)?;
        let rhs = ctx.b.sub(rhs, at_mode)?;
        accept(ctx, k, quick, hopeless, lhs, rhs)
    })?;
    Ok(out[0])
}

/// `-log(k! (n - k)!)`
fn log_ways(ctx: &mut LoweringContext<'_>, n: Value, k: Value) -> Built {
    let rest = ctx.b.sub(n, k)?;
    let (hits, misses) = (log_factorial(ctx, k)?, log_factorial(ctx, rest)?);
    let sum = ctx.b.add(hits, misses)?;
    Ok(ctx.b.neg(sum)?)
}

// aten::binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor
fn lower_binomial(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?.with_element(ElementType::F64);
    let (n, p) = (ctx.operand(node, "count", &ty)?, ctx.operand(node, "prob", &ty)?);
    let n = ctx.b.floor(n)?;
    let flips = ctx.compare_number(Direction::Gt, p, 0.5)?;
    let q = ctx.minus_from(1.0, p)?;
    let rare = ctx.b.select(flips, q, p)?;
    let mean = ctx.b.mul(n, rare)?;
    let small = ctx.compare_number(Direction::Lt, mean, 10.0)?;
    let stream = Stream::of(ctx, node)?;
    let low = ctx.select_or(small, n, 0.0)?;
    let by_times = binomial_by_times(ctx, stream, low, rare)?;
    let pick = |ctx: &mut LoweringContext<'_>, number: f64, x: Value| -> Built {
        let number = ctx.fill_like(Scalar::Float(number), x)?;
        Ok(ctx.b.select(small, number, x)?)
    };
    let (many, even) = (pick(ctx, 40.0, n)?, pick(ctx, 0.5, rare)?);
    let by_rejection = binomial_by_rejection(ctx, stream.apart(), many, even)?;
    let count = ctx.b.select(small, by_times, by_rejection)?;
    let others = ctx.b.sub(n, count)?;
    let count = ctx.b.select(flips, others, count)?;
    ctx.rounded(node, count)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._standard_gamma.default", lower_standard_gamma),
    Rule::new("aten._sample_dirichlet.default", lower_sample_dirichlet),
    Rule::new("aten.poisson.default", lower_poisson),
    Rule::new("aten.binomial.default", lower_binomial),
];
