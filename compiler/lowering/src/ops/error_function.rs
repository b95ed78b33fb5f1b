//! The error function and its relatives: `erf`, `erfc`, `erfinv`, `erfcx`, and the quantiles `ndtri`.
//!
//! Narrow floats and integers are computed as f32.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Unary, Value};

use crate::context::LoweringContext;
use crate::pointwise::{Built, Lowering, pointwise, unary};
use crate::registry::Rule;

// aten::erf(Tensor self) -> Tensor
// XLA's approximation stops one step short of 1.
fn lower_erf(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    /// Beyond this, f32's nearest number is 1.
    const ONE_FROM: f64 = 3.92;
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let value = ctx.b.erf(x)?;
        if ctx.b.element(x) != ElementType::F32 {
            return Ok(value);
        }
        let size = ctx.b.abs(x)?;
        let far = ctx.compare_number(Direction::Ge, size, ONE_FROM)?;
        let sign = ctx.b.sign(x)?;
        Ok(ctx.b.select(far, sign, value)?)
    })
}

// aten::erfc(Tensor self) -> Tensor
fn lower_erfc(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Erfc)
}

// aten::erfinv(Tensor self) -> Tensor
fn lower_erfinv(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::ErfInv)
}

/// `exp(x²) · erfc(x)` of what is not negative: `(1 + 2x)` times it is smooth in `(x - 3) / (x + 3)`.
fn scaled_complement(ctx: &mut LoweringContext<'_>, x: Value) -> Built {
    let skip = if ctx.b.element(x) == ElementType::F64 { 0 } else { ERFCX.len() - 16 };
    let (over, under) = (ctx.plus(x, -3.0)?, ctx.plus(x, 3.0)?);
    let place = ctx.b.div(over, under)?;
    let place = ctx.times(place, 2.0)?;
    // Infinity is at 1.
    let finite = ctx.compare_number(Direction::Ne, x, f64::INFINITY)?;
    let place = ctx.select_or(finite, place, 2.0)?;
    let series = ctx.chebyshev(place, &ERFCX[skip..])?;
    let double = ctx.b.add(x, x)?;
    let scale = ctx.plus(double, 1.0)?;
    Ok(ctx.b.div(series, scale)?)
}

// aten::special_erfcx(Tensor self) -> Tensor
fn lower_erfcx(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let size = ctx.b.abs(x)?;
        let right = scaled_complement(ctx, size)?;
        let square = ctx.b.mul(x, x)?;
        let growth = ctx.b.exp(square)?;
        let double = ctx.b.add(growth, growth)?;
        let left = ctx.b.sub(double, right)?;
        let negative = ctx.compare_number(Direction::Lt, x, 0.0)?;
        Ok(ctx.b.select(negative, left, right)?)
    })
}

// aten::special_ndtri(Tensor self) -> Tensor
// The quantile of the normal distribution, by the rational functions of Cephes.
fn lower_ndtri(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [p]| {
        let tail = (-2.0f64).exp();
        let rest = ctx.minus_from(1.0, p)?;
        let upper = ctx.compare_number(Direction::Gt, p, 1.0 - tail)?;
        let small = ctx.b.select(upper, rest, p)?;
        let middle = central_quantile(ctx, small)?;
        let outer = tail_quantile(ctx, small)?;
        let negated = ctx.b.neg(outer)?;
        let outer = ctx.b.select(upper, outer, negated)?;
        let central = ctx.compare_number(Direction::Gt, small, tail)?;
        let value = ctx.b.select(central, middle, outer)?;
        let not_zero = ctx.compare_number(Direction::Ne, p, 0.0)?;
        let value = ctx.select_or(not_zero, value, f64::NEG_INFINITY)?;
        let not_one = ctx.compare_number(Direction::Ne, p, 1.0)?;
        let value = ctx.select_or(not_one, value, f64::INFINITY)?;
        let (low, high) =
            (ctx.compare_number(Direction::Ge, p, 0.0)?, ctx.compare_number(Direction::Le, p, 1.0)?);
        let legal = ctx.b.and(low, high)?;
        ctx.select_or(legal, value, f64::NAN)
    })
}

fn central_quantile(ctx: &mut LoweringContext<'_>, p: Value) -> Built {
    let y = ctx.plus(p, -0.5)?;
    let square = ctx.b.mul(y, y)?;
    let ratio = ctx.rational(square, &CENTRAL_OVER, &CENTRAL_UNDER)?;
    let ratio = ctx.b.mul(square, ratio)?;
    let ratio = ctx.b.mul(y, ratio)?;
    let sum = ctx.b.add(y, ratio)?;
    ctx.times(sum, (2.0 * std::f64::consts::PI).sqrt())
}

/// The size of the quantile of a small probability, for `√(-2 log p)` below and above 8.
fn tail_quantile(ctx: &mut LoweringContext<'_>, p: Value) -> Built {
    let log = ctx.b.log(p)?;
    let double = ctx.times(log, -2.0)?;
    let x = ctx.b.sqrt(double)?;
    let log = ctx.b.log(x)?;
    let ratio = ctx.b.div(log, x)?;
    let first = ctx.b.sub(x, ratio)?;
    let z = ctx.over(1.0, x)?;
    let near = ctx.rational(z, &TAIL_OVER, &TAIL_UNDER)?;
    let far = ctx.rational(z, &FAR_TAIL_OVER, &FAR_TAIL_UNDER)?;
    let is_near = ctx.compare_number(Direction::Lt, x, 8.0)?;
    let ratio = ctx.b.select(is_near, near, far)?;
    let second = ctx.b.mul(z, ratio)?;
    Ok(ctx.b.sub(first, second)?)
}

/// The Chebyshev coefficients of [`scaled_complement`], the highest order first.
const ERFCX: [f64; 30] = [
    6.446123955093611e-20,
    2.443201157726361e-19,
    -5.546884725994422e-19,
    -5.608608218863182e-18,
    -2.057252816953854e-18,
    1.0006111691821667e-16,
    2.3514112258781403e-16,
    -1.5169878690228116e-15,
    -7.287943737592673e-15,
    1.973425574544739e-14,
    1.8134502003176963e-13,
    -2.07922492859799e-13,
    -4.277340064396911e-12,
    1.475715976623473e-12,
    1.0361607445969489e-10,
    -1.460079119939105e-11,
    -2.699519049798364e-09,
    1.885668523838603e-09,
    7.549828343825093e-08,
    -1.807522790414837e-07,
    -2.0072285659059913e-06,
    1.2841532864056671e-05,
    1.7661719523171593e-05,
    -0.0006335531710553147,
    0.004453426061462712,
    -0.018976596707845208,
    0.05436652555744322,
    -0.09377550342284209,
    0.005353904539615676,
    2.35512514839312,
];

const CENTRAL_OVER: [f64; 5] =
    [-59.96335010141079, 98.00107541859997, -56.67628574690703, 13.931260938727968, -1.2391658386738125];

const CENTRAL_UNDER: [f64; 9] = [
    1.0,
    1.9544885833814176,
    4.676279128988815,
    86.36024213908905,
    -225.46268785411937,
    200.26021238006066,
    -82.03722561683334,
    15.90562251262117,
    -1.1833162112133,
];

const TAIL_OVER: [f64; 9] = [
    4.0554489230596245,
    31.525109459989388,
    57.16281922464213,
    44.08050738932008,
    14.684956192885803,
    2.1866330685079025,
    -0.1402560791713545,
    -0.03504246268278482,
    -0.0008574567851546854,
];

const TAIL_UNDER: [f64; 9] = [
    1.0,
    15.779988325646675,
    45.39076351288792,
    41.3172038254672,
    15.04253856929075,
    2.504649462083094,
    -0.14218292285478779,
    -0.03808064076915783,
    -0.0009332594808954574,
];

const FAR_TAIL_OVER: [f64; 9] = [
    3.2377489177694603,
    6.915228890689842,
    3.9388102529247444,
    1.3330346081580755,
    0.20148538954917908,
    0.012371663481782003,
    0.00030158155350823543,
    2.6580697468673755e-06,
    6.239745391849833e-09,
];

const FAR_TAIL_UNDER: [f64; 9] = [
    1.0,
    6.02427039364742,
    3.6798356385616087,
    1.3770209948908132,
    0.21623699359449663,
    0.013420400608854318,
    0.00032801446468212774,
    2.8924786474538068e-06,
    6.790194080099813e-09,
];

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.erf.default", lower_erf),
    Rule::new("aten.erfc.default", lower_erfc),
    Rule::new("aten.erfinv.default", lower_erfinv),
    Rule::new("aten.special_erfcx.default", lower_erfcx),
    Rule::new("aten.special_ndtri.default", lower_ndtri),
];
