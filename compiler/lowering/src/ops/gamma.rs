//! The logarithm of the gamma function and its derivatives: `lgamma`, `digamma`, `polygamma`; Hurwitz's zeta function.
//!
//! Narrow floats and integers are computed as f32.

use std::f64::consts::PI;

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Scalar, Unary, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::{Built, Lowering, pointwise};
use crate::registry::Rule;

/// Euler's constant.
const GAMMA: f64 = 0.577_215_664_901_532_9;

/// ζ(k) - 1 from k = 2 on.
const ZETA_MINUS_ONE: [f64; 26] = [
    0.644_934_066_848_226_4,
    0.202_056_903_159_594_3,
    0.082_323_233_711_138_19,
    0.036_927_755_143_369_93,
    0.017_343_061_984_449_14,
    0.008_349_277_381_922_827,
    0.004_077_356_197_944_34,
    0.002_008_392_826_082_214_3,
    0.000_994_575_127_818_085_3,
    0.000_494_188_604_119_464_5,
    0.000_246_086_553_308_048_3,
    0.000_122_713_347_578_489_15,
    6.124_813_505_870_483e-5,
    3.058_823_630_702_049e-5,
    1.528_225_940_865_187e-5,
    7.637_197_637_899_763e-6,
    3.817_293_264_999_84e-6,
    1.908_212_716_553_939e-6,
    9.539_620_338_727_962e-7,
    4.769_329_867_878_064e-7,
    2.384_505_027_277_33e-7,
    1.192_199_259_653_110_6e-7,
    5.960_818_905_125_948e-8,
    2.980_350_351_465_228e-8,
    1.490_155_482_836_504_3e-8,
    7.450_711_789_835_43e-9,
];

/// `lgamma(2 + t)` for |t| ≤ 1/2: its Taylor series, which is exact where it vanishes.
fn around_two(ctx: &mut LoweringContext<'_>, t: Value) -> Built {
    let count = if ctx.b.element(t) == ElementType::F64 { 26 } else { 13 };
    let terms = ZETA_MINUS_ONE.iter().take(count).enumerate().map(|(i, z)| {
        let k = (i + 2) as f64;
        if i % 2 == 0 { z / k } else { -z / k }
    });
    let mut coefficients: Vec<f64> = [1.0 - GAMMA].into_iter().chain(terms).collect();
    coefficients.reverse();
    let series = ctx.polynomial(t, &coefficients)?;
    Ok(ctx.b.mul(t, series)?)
}

/// Stirling's series, for 10 and more.
fn stirling(ctx: &mut LoweringContext<'_>, x: Value) -> Built {
    /// B(2k) / 2k(2k - 1), the last first.
    const SERIES: [f64; 8] = [
        -3617.0 / 122_400.0,
        1.0 / 156.0,
        -691.0 / 360_360.0,
        1.0 / 1188.0,
        -1.0 / 1680.0,
        1.0 / 1260.0,
        -1.0 / 360.0,
        1.0 / 12.0,
    ];
    let inverse = ctx.over(1.0, x)?;
    let square = ctx.b.mul(inverse, inverse)?;
    let series = ctx.polynomial(square, &SERIES)?;
    let rest = ctx.b.mul(series, inverse)?;
    let rest = ctx.plus(rest, 0.5 * (2.0 * PI).ln() - 0.5)?;
    let (shifted, log) = (ctx.plus(x, -0.5)?, ctx.b.log(x)?);
    let log = ctx.plus(log, -1.0)?;
    let main = ctx.b.mul(shifted, log)?;
    Ok(ctx.b.add(main, rest)?)
}

/// `lgamma` of what is not negative: exactly 0 at 1 and 2, and precise around them.
pub(crate) fn lgamma_positive(ctx: &mut LoweringContext<'_>, x: Value) -> Built {
    // Γ(x) = (x - 1)(x - 2)…v · Γ(v) with v in [1.5, 2.5).
    let (mut v, mut product) = (x, ctx.fill_like(Scalar::Int(1), x)?);
    for _ in 0..8 {
        let high = ctx.compare_number(Direction::Ge, v, 2.5)?;
        let less = ctx.plus(v, -1.0)?;
        let more = ctx.b.mul(product, less)?;
        (product, v) = (ctx.b.select(high, more, product)?, ctx.b.select(high, less, v)?);
    }
    let log = ctx.b.log(product)?;
    // Below, Γ(x) = Γ(x + 1) / x, and once more.
    let below_one = ctx.plus(x, -1.0)?;
    let log_x = ctx.b.unary(Unary::Log1p, below_one)?;
    let minus_log = ctx.b.neg(log_x)?;
    let (small_log, next_log) = (ctx.b.log(x)?, ctx.b.unary(Unary::Log1p, x)?);
    let both = ctx.b.add(small_log, next_log)?;
    let minus_both = ctx.b.neg(both)?;
    let near_two = ctx.plus(v, -2.0)?;
    let is_one = ctx.compare_number(Direction::Lt, x, 1.5)?;
    let is_zero = ctx.compare_number(Direction::Lt, x, 0.5)?;
    let t = ctx.b.select(is_one, below_one, near_two)?;
    let t = ctx.b.select(is_zero, x, t)?;
    let correction = ctx.b.select(is_one, minus_log, log)?;
    let correction = ctx.b.select(is_zero, minus_both, correction)?;
    let series = around_two(ctx, t)?;
    let small = ctx.b.add(series, correction)?;
    let large = stirling(ctx, x)?;
    let is_large = ctx.compare_number(Direction::Ge, x, 10.0)?;
    Ok(ctx.b.select(is_large, large, small)?)
}

// aten::lgamma(Tensor self) -> Tensor
fn lower_lgamma(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let size = ctx.b.abs(x)?;
        let right = lgamma_positive(ctx, size)?;
        // Γ(-y) · Γ(y) = -π / (y · sin(πy))
        let whole = ctx.b.floor(size)?;
        let part = ctx.b.sub(size, whole)?;
        let angle = ctx.times(part, PI)?;
        let sine = ctx.b.unary(Unary::Sine, angle)?;
        let sine = ctx.b.abs(sine)?;
        let broken = ctx.compare_number(Direction::Ne, part, 0.0)?;
        let (log_sine, log_size) = (ctx.b.log(sine)?, ctx.b.log(size)?);
        let sum = ctx.b.add(log_sine, log_size)?;
        let sum = ctx.b.add(sum, right)?;
        let left = ctx.minus_from(PI.ln(), sum)?;
        let negative = ctx.compare_number(Direction::Lt, x, 0.0)?;
        let value = ctx.b.select(negative, left, right)?;
        // The poles, and -inf.
        let right_side = ctx.b.not(negative)?;
        let number = ctx.b.or(right_side, broken)?;
        let nan = ctx.is_nan(x)?;
        let number = ctx.b.or(number, nan)?;
        let finite = ctx.compare_number(Direction::Ne, size, f64::INFINITY)?;
        let number = ctx.b.and(number, finite)?;
        ctx.select_or(number, value, f64::INFINITY)
    })
}

/// `digamma`: torch's own steps, for its rounding near the root.
fn digamma(ctx: &mut LoweringContext<'_>, x: Value) -> Built {
    const SERIES: [f64; 7] =
        [1.0 / 12.0, -691.0 / 32_760.0, 1.0 / 132.0, -1.0 / 240.0, 1.0 / 252.0, -1.0 / 120.0, 1.0 / 12.0];
    let negative = ctx.compare_number(Direction::Lt, x, 0.0)?;
    let mirrored = ctx.minus_from(1.0, x)?;
    let mut v = ctx.b.select(negative, mirrored, x)?;
    let mut sum = ctx.fill_like(Scalar::Int(0), x)?;
    for _ in 0..10 {
        let low = ctx.compare_number(Direction::Lt, v, 10.0)?;
        let inverse = ctx.over(1.0, v)?;
        let (less, next) = (ctx.b.sub(sum, inverse)?, ctx.plus(v, 1.0)?);
        (sum, v) = (ctx.b.select(low, less, sum)?, ctx.b.select(low, next, v)?);
    }
    let inverse = ctx.over(1.0, v)?;
    let square = ctx.b.mul(inverse, inverse)?;
    let series = ctx.polynomial(square, &SERIES)?;
    let series = ctx.b.mul(square, series)?;
    let (log, half) = (ctx.b.log(v)?, ctx.over(0.5, v)?);
    let value = ctx.b.add(sum, log)?;
    let value = ctx.b.sub(value, half)?;
    let value = ctx.b.sub(value, series)?;
    // Left of 0: minus π / tan(πx), from the distance to the nearest integer, where it is a pole.
    let nearest = ctx.b.unary(Unary::RoundEven, x)?;
    let distance = ctx.b.sub(x, nearest)?;
    let angle = ctx.times(distance, PI)?;
    let tangent = ctx.b.unary(Unary::Tan, angle)?;
    let turn = ctx.over(PI, tangent)?;
    let left = ctx.b.sub(value, turn)?;
    let between = ctx.compare_number(Direction::Ne, distance, 0.0)?;
    let left = ctx.select_or(between, left, f64::NAN)?;
    let value = ctx.b.select(negative, left, value)?;
    let pole = ctx.over(-1.0, x)?;
    let zero = ctx.compare_number(Direction::Eq, x, 0.0)?;
    Ok(ctx.b.select(zero, pole, value)?)
}

// aten::digamma(Tensor self) -> Tensor
fn lower_digamma(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| digamma(ctx, x))
}

/// `polygamma(1, x)`, in torch's own steps: left of 1/2 from the other side.
fn trigamma(ctx: &mut LoweringContext<'_>, x: Value) -> Built {
    let left = ctx.compare_number(Direction::Lt, x, 0.5)?;
    let angle = ctx.times(x, PI)?;
    let sine = ctx.b.unary(Unary::Sine, angle)?;
    let square = ctx.b.mul(sine, sine)?;
    let pole = ctx.over(-PI * PI, square)?;
    let zero = ctx.fill_like(Scalar::Int(0), x)?;
    let mut sum = ctx.b.select(left, pole, zero)?;
    let mirrored = ctx.minus_from(1.0, x)?;
    let mut v = ctx.b.select(left, mirrored, x)?;
    for _ in 0..6 {
        let square = ctx.b.mul(v, v)?;
        let term = ctx.over(1.0, square)?;
        (sum, v) = (ctx.b.add(sum, term)?, ctx.plus(v, 1.0)?);
    }
    let square = ctx.b.mul(v, v)?;
    let inverse_square = ctx.over(1.0, square)?;
    let tail = ctx.polynomial(inverse_square, &[1.0 / 42.0, -1.0 / 30.0, 1.0 / 6.0, 0.0])?;
    let double = ctx.b.add(v, v)?;
    let half = ctx.over(1.0, double)?;
    let tail = ctx.b.add(tail, half)?;
    let tail = ctx.plus(tail, 1.0)?;
    let tail = ctx.b.div(tail, v)?;
    let sum = ctx.b.add(sum, tail)?;
    let negated = ctx.b.neg(sum)?;
    Ok(ctx.b.select(left, negated, sum)?)
}

// aten::polygamma(int n, Tensor self) -> Tensor
// From degree 2 on: (-1)^(n+1) · n! · ζ(n + 1, x).
fn lower_polygamma(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let n = ctx.int(node, "n")?;
    pointwise(ctx, node, ["self"], |ctx, [x]| match n {
        0 => digamma(ctx, x),
        1 => trigamma(ctx, x),
        n if n < 0 => Err(RuleError::unsupported("polygamma of a negative order: torch has none")),
        _ => {
            // 171! is beyond f64.
            let factorial: f64 = (2..=n.min(171)).map(|k| k as f64).product();
            let order = ctx.fill_like(Scalar::Float((n + 1) as f64), x)?;
            let sum = zeta(ctx, order, x)?;
            ctx.times(sum, if n % 2 == 0 { -factorial } else { factorial })
        }
    })
}

/// Where a term no longer changes a sum: `|term| ≤ eps / 2 · |sum|`.
fn negligible(ctx: &mut LoweringContext<'_>, term: Value, sum: Value) -> Built {
    let eps = if ctx.b.element(sum) == ElementType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let (term, sum) = (ctx.b.abs(term)?, ctx.b.abs(sum)?);
    let limit = ctx.times(sum, 0.5 * eps)?;
    Ok(ctx.b.compare(Direction::Le, term, limit)?)
}

/// The first terms of the sum, until they vanish or their base is above 9: (base, sum, last term, not vanished).
fn zeta_head(
    ctx: &mut LoweringContext<'_>,
    exponent: Value,
    q: Value,
    legal: Value,
) -> Result<[Value; 4], RuleError> {
    let first = ctx.b.pow(q, exponent)?;
    let count = ctx.scalar(Scalar::Int(0), ElementType::I32)?;
    let zero = ctx.fill_like(Scalar::Int(0), q)?;
    let busy = |ctx: &mut LoweringContext<'_>, state: &[Value]| {
        let early = ctx.compare_number(Direction::Lt, state[0], 9.0)?;
        let dims = ctx.b.dims(state[1]).to_vec();
        let early = ctx.b.broadcast_to(early, &dims)?;
        let low = ctx.compare_number(Direction::Le, state[1], 9.0)?;
        let wanted = ctx.b.or(early, low)?;
        Ok(ctx.b.and(wanted, state[4])?)
    };
    let out = ctx.repeat_while(&[count, q, first, zero, legal, exponent], busy, |ctx, state| {
        let here = busy(ctx, state)?;
        let next = ctx.plus(state[1], 1.0)?;
        let term = ctx.b.pow(next, state[5])?;
        let sum = ctx.b.add(state[2], term)?;
        let done = negligible(ctx, term, sum)?;
        let finished = ctx.b.and(done, here)?;
        let going = ctx.b.not(finished)?;
        Ok(vec![
            ctx.plus(state[0], 1.0)?,
            ctx.b.select(here, next, state[1])?,
            ctx.b.select(here, sum, state[2])?,
            ctx.b.select(here, term, state[3])?,
            ctx.b.and(state[4], going)?,
            state[5],
        ])
    })?;
    Ok([out[1], out[2], out[3], out[4]])
}

/// Hurwitz's `ζ(x, q)`: some terms, and the rest by Euler and Maclaurin's formula.
fn zeta(ctx: &mut LoweringContext<'_>, x: Value, q: Value) -> Built {
    /// (2k)! / B(2k)
    const SERIES: [f64; 12] = [
        12.0,
        -720.0,
        30_240.0,
        -1_209_600.0,
        47_900_160.0,
        -1.307_674_368e12 / 691.0,
        7.472_424_96e10,
        -1.067_062_284_288e16 / 3617.0,
        5.109_094_217_170_944e18 / 43_867.0,
        -8.028_576_626_982_912e20 / 174_611.0,
        1.551_121_004_333_098_6e23 / 854_513.0,
        -1.693_824_136_731_743_7e27 / 236_364_091.0,
    ];
    let domain = Domain::of(ctx, x, q)?;
    let exponent = ctx.b.neg(x)?;
    let [base, mut sum, last, mut open] = zeta_head(ctx, exponent, q, domain.open)?;
    let less = ctx.plus(x, -1.0)?;
    let tail = ctx.b.mul(last, base)?;
    let tail = ctx.b.div(tail, less)?;
    let half = ctx.times(last, 0.5)?;
    let tail = ctx.b.sub(tail, half)?;
    let with_tail = ctx.b.add(sum, tail)?;
    sum = ctx.b.select(open, with_tail, sum)?;
    let (mut factor, mut power) = (ctx.fill_like(Scalar::Int(1), x)?, last);
    for (i, divisor) in SERIES.into_iter().enumerate() {
        let k = 2.0 * i as f64;
        let step = ctx.plus(x, k)?;
        factor = ctx.b.mul(factor, step)?;
        power = ctx.b.div(power, base)?;
        let term = ctx.b.mul(factor, power)?;
        let term = ctx.times(term, 1.0 / divisor)?;
        let next = ctx.b.add(sum, term)?;
        sum = ctx.b.select(open, next, sum)?;
        let done = negligible(ctx, term, sum)?;
        let going = ctx.b.not(done)?;
        open = ctx.b.and(open, going)?;
        let step = ctx.plus(x, k + 1.0)?;
        factor = ctx.b.mul(factor, step)?;
        power = ctx.b.div(power, base)?;
    }
    domain.applied(ctx, x, sum)
}

/// Where the zeta function has a value.
struct Domain {
    /// Where the sum is needed.
    open: Value,
    /// Not at a pole of the sum, and not without a value.
    regular: Value,
    legal: Value,
}

impl Domain {
    fn of(ctx: &mut LoweringContext<'_>, x: Value, q: Value) -> Result<Self, RuleError> {
        let (x_floor, q_floor) = (ctx.b.floor(x)?, ctx.b.floor(q)?);
        let x_whole = ctx.b.compare(Direction::Eq, x, x_floor)?;
        let q_broken = ctx.b.compare(Direction::Ne, q, q_floor)?;
        let high = ctx.compare_number(Direction::Gt, q, 0.0)?;
        let regular = ctx.b.or(high, q_broken)?;
        let legal = ctx.b.or(high, x_whole)?;
        Ok(Self { open: ctx.b.and(regular, legal)?, regular, legal })
    }

    fn applied(&self, ctx: &mut LoweringContext<'_>, x: Value, value: Value) -> Built {
        let value = ctx.select_or(self.legal, value, f64::NAN)?;
        let value = ctx.select_or(self.regular, value, f64::INFINITY)?;
        let below = ctx.compare_number(Direction::Lt, x, 1.0)?;
        let above = ctx.b.not(below)?;
        let value = ctx.select_or(above, value, f64::NAN)?;
        let not_one = ctx.compare_number(Direction::Ne, x, 1.0)?;
        ctx.select_or(not_one, value, f64::INFINITY)
    }
}

// aten::special_zeta(Tensor self, Tensor other) -> Tensor
// aten::special_zeta.self_scalar(Scalar self, Tensor other) -> Tensor
// aten::special_zeta.other_scalar(Tensor self, Scalar other) -> Tensor
fn lower_zeta(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [x, q]| zeta(ctx, x, q))
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.digamma.default", lower_digamma),
    Rule::new("aten.lgamma.default", lower_lgamma),
    Rule::new("aten.polygamma.default", lower_polygamma),
    Rule::new("aten.special_zeta.default", lower_zeta),
    Rule::new("aten.special_zeta.other_scalar", lower_zeta),
    Rule::new("aten.special_zeta.self_scalar", lower_zeta),
];
