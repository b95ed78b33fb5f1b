//! Bessel functions of the first and second kind, and Airy's function.
//!
//! The approximations are those of Cephes, which torch uses, too: rational functions near the origin, and a modulus with
//! a phase beyond. Narrow floats and integers are computed as f32.

use std::f64::consts::{FRAC_1_PI, FRAC_PI_4, PI};

use tpud_graph::Node;
use tpud_stablehlo::{Direction, Unary, Value};

use crate::context::LoweringContext;
use crate::pointwise::{Built, Lowering, pointwise};
use crate::registry::Rule;

/// `(P(25/x²) · cos φ - 5/x · Q(25/x²) · sin φ) · √(2/πx)` with `φ = x - phase` is the function of the first kind; with
/// sine and cosine exchanged, and a plus, the second kind.
struct Far {
    p: [&'static [f64]; 2],
    q: [&'static [f64]; 2],
    phase: f64,
}

const FAR_0: Far = Far { p: [&P0_OVER, &P0_UNDER], q: [&Q0_OVER, &Q0_UNDER], phase: FRAC_PI_4 };
const FAR_1: Far = Far { p: [&P1_OVER, &P1_UNDER], q: [&Q1_OVER, &Q1_UNDER], phase: 3.0 * FRAC_PI_4 };

fn far(ctx: &mut LoweringContext<'_>, x: Value, far: &Far, second: bool) -> Built {
    let inverse = ctx.over(5.0, x)?;
    let square = ctx.b.mul(inverse, inverse)?;
    let p = ctx.rational(square, far.p[0], far.p[1])?;
    let q = ctx.rational(square, far.q[0], far.q[1])?;
    let q = ctx.b.mul(inverse, q)?;
    let angle = ctx.plus(x, -far.phase)?;
    let (sine, cosine) = (ctx.b.unary(Unary::Sine, angle)?, ctx.b.unary(Unary::Cosine, angle)?);
    let sum = if second {
        let (a, b) = (ctx.b.mul(p, sine)?, ctx.b.mul(q, cosine)?);
        ctx.b.add(a, b)?
    } else {
        let (a, b) = (ctx.b.mul(p, cosine)?, ctx.b.mul(q, sine)?);
        ctx.b.sub(a, b)?
    };
    let scaled = ctx.times(sum, (2.0 * FRAC_1_PI).sqrt())?;
    let root = ctx.b.sqrt(x)?;
    Ok(ctx.b.div(scaled, root)?)
}

/// `(x² - a)(x² - b)`: the first two zeros, where the approximation must be exact.
fn zeros(ctx: &mut LoweringContext<'_>, square: Value, roots: [f64; 2]) -> Built {
    let (a, b) = (ctx.plus(square, -roots[0])?, ctx.plus(square, -roots[1])?);
    Ok(ctx.b.mul(a, b)?)
}

/// J₀ of what is not negative.
fn j0(ctx: &mut LoweringContext<'_>, x: Value) -> Built {
    let square = ctx.b.mul(x, x)?;
    let near = zeros(ctx, square, [5.783_185_962_946_784, 30.471_262_343_662_087])?;
    let over = ctx.polynomial(square, &J0_OVER)?;
    let near = ctx.b.mul(near, over)?;
    let under = ctx.polynomial(square, &J0_UNDER)?;
    let near = ctx.b.div(near, under)?;
    let quarter = ctx.times(square, 0.25)?;
    let origin = ctx.minus_from(1.0, quarter)?;
    let at_origin = ctx.compare_number(Direction::Lt, x, 1e-5)?;
    let near = ctx.b.select(at_origin, origin, near)?;
    let beyond = far(ctx, x, &FAR_0, false)?;
    let is_near = ctx.compare_number(Direction::Le, x, 5.0)?;
    Ok(ctx.b.select(is_near, near, beyond)?)
}

/// J₁ of what is not negative.
fn j1(ctx: &mut LoweringContext<'_>, x: Value) -> Built {
    let square = ctx.b.mul(x, x)?;
    let ratio = ctx.rational(square, &J1_OVER, &J1_UNDER)?;
    let near = ctx.b.mul(ratio, x)?;
    let factors = zeros(ctx, square, [14.681_970_642_123_893, 49.218_456_321_694_6])?;
    let near = ctx.b.mul(near, factors)?;
    let beyond = far(ctx, x, &FAR_1, false)?;
    let is_near = ctx.compare_number(Direction::Le, x, 5.0)?;
    Ok(ctx.b.select(is_near, near, beyond)?)
}

// aten::special_bessel_j0(Tensor self) -> Tensor
fn lower_j0(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let size = ctx.b.abs(x)?;
        j0(ctx, size)
    })
}

// aten::special_bessel_j1(Tensor self) -> Tensor
fn lower_j1(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let size = ctx.b.abs(x)?;
        let value = j1(ctx, size)?;
        let negated = ctx.b.neg(value)?;
        let negative = ctx.compare_number(Direction::Lt, x, 0.0)?;
        Ok(ctx.b.select(negative, negated, value)?)
    })
}

/// A function of the second kind from its values near the origin: -inf at 0, NaN below.
fn second_kind(ctx: &mut LoweringContext<'_>, x: Value, near: Value, order: &Far) -> Built {
    let beyond = far(ctx, x, order, true)?;
    let is_near = ctx.compare_number(Direction::Le, x, 5.0)?;
    let value = ctx.b.select(is_near, near, beyond)?;
    let not_zero = ctx.compare_number(Direction::Ne, x, 0.0)?;
    let value = ctx.select_or(not_zero, value, f64::NEG_INFINITY)?;
    let legal = ctx.compare_number(Direction::Ge, x, 0.0)?;
    ctx.select_or(legal, value, f64::NAN)
}

// aten::special_bessel_y0(Tensor self) -> Tensor
fn lower_y0(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let square = ctx.b.mul(x, x)?;
        let ratio = ctx.rational(square, &Y0_OVER, &Y0_UNDER)?;
        let log = ctx.b.log(x)?;
        let log = ctx.times(log, 2.0 * FRAC_1_PI)?;
        let first = j0(ctx, x)?;
        let product = ctx.b.mul(log, first)?;
        let near = ctx.b.add(ratio, product)?;
        second_kind(ctx, x, near, &FAR_0)
    })
}

// aten::special_bessel_y1(Tensor self) -> Tensor
fn lower_y1(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let square = ctx.b.mul(x, x)?;
        let ratio = ctx.rational(square, &Y1_OVER, &Y1_UNDER)?;
        let regular = ctx.b.mul(x, ratio)?;
        let (first, log) = (j1(ctx, x)?, ctx.b.log(x)?);
        let product = ctx.b.mul(first, log)?;
        let inverse = ctx.over(1.0, x)?;
        let singular = ctx.b.sub(product, inverse)?;
        let singular = ctx.times(singular, 2.0 * FRAC_1_PI)?;
        let near = ctx.b.add(regular, singular)?;
        second_kind(ctx, x, near, &FAR_1)
    })
}

// aten::special_spherical_bessel_j0(Tensor x) -> Tensor
// sin(x) / x, near 0 its power series.
fn lower_spherical_j0(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    const SERIES: [f64; 7] = [
        1.0 / 6_227_020_800.0,
        -1.0 / 39_916_800.0,
        1.0 / 362_880.0,
        -1.0 / 5_040.0,
        1.0 / 120.0,
        -1.0 / 6.0,
        1.0,
    ];
    pointwise(ctx, node, ["x"], |ctx, [x]| {
        let square = ctx.b.mul(x, x)?;
        let near = ctx.polynomial(square, &SERIES)?;
        let sine = ctx.b.unary(Unary::Sine, x)?;
        let ratio = ctx.b.div(sine, x)?;
        let size = ctx.b.abs(x)?;
        let is_near = ctx.compare_number(Direction::Lt, size, 0.5)?;
        let value = ctx.b.select(is_near, near, ratio)?;
        let finite = ctx.compare_number(Direction::Ne, size, f64::INFINITY)?;
        ctx.select_or(finite, value, 0.0)
    })
}

/// Below this the Airy function oscillates, above its negative it decays; between both the power series is summed.
const AIRY_BORDER: f64 = 2.09;

// aten::special_airy_ai(Tensor x) -> Tensor
fn lower_airy_ai(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["x"], |ctx, [x]| {
        let size = ctx.b.abs(x)?;
        let root = ctx.b.sqrt(size)?;
        let product = ctx.b.mul(size, root)?;
        let zeta = ctx.times(product, 2.0 / 3.0)?;
        let fourth_root = ctx.b.sqrt(root)?;
        let amplitude = ctx.over(FRAC_1_PI.sqrt(), fourth_root)?;
        let waves = airy_waves(ctx, zeta, amplitude)?;
        let decay = airy_decay(ctx, zeta, amplitude)?;
        let middle = airy_middle(ctx, x)?;
        let low = ctx.compare_number(Direction::Lt, x, -AIRY_BORDER)?;
        let high = ctx.compare_number(Direction::Ge, x, AIRY_BORDER)?;
        let value = ctx.b.select(high, decay, middle)?;
        let value = ctx.b.select(low, waves, value)?;
        let visible = ctx.compare_number(Direction::Le, x, 103.892)?;
        let number = ctx.b.compare(Direction::Eq, x, x)?;
        let beyond = ctx.b.not(visible)?;
        let vanishes = ctx.b.and(beyond, number)?;
        let stays = ctx.b.not(vanishes)?;
        let value = ctx.select_or(stays, value, 0.0)?;
        let finite = ctx.compare_number(Direction::Ne, size, f64::INFINITY)?;
        ctx.select_or(finite, value, f64::NAN)
    })
}

fn airy_waves(ctx: &mut LoweringContext<'_>, zeta: Value, amplitude: Value) -> Built {
    let inverse = ctx.over(1.0, zeta)?;
    let square = ctx.b.mul(inverse, inverse)?;
    let even = ctx.rational(square, &AIRY_F_OVER, &AIRY_F_UNDER)?;
    let even = ctx.b.mul(square, even)?;
    let even = ctx.plus(even, 1.0)?;
    let odd = ctx.rational(square, &AIRY_G_OVER, &AIRY_G_UNDER)?;
    let odd = ctx.b.mul(inverse, odd)?;
    let angle = ctx.plus(zeta, PI / 4.0)?;
    let (sine, cosine) = (ctx.b.unary(Unary::Sine, angle)?, ctx.b.unary(Unary::Cosine, angle)?);
    let (a, b) = (ctx.b.mul(sine, even)?, ctx.b.mul(cosine, odd)?);
    let sum = ctx.b.sub(a, b)?;
    Ok(ctx.b.mul(amplitude, sum)?)
}

fn airy_decay(ctx: &mut LoweringContext<'_>, zeta: Value, amplitude: Value) -> Built {
    let inverse = ctx.over(1.0, zeta)?;
    let ratio = ctx.rational(inverse, &AIRY_OVER, &AIRY_UNDER)?;
    let scaled = ctx.b.mul(amplitude, ratio)?;
    let growth = ctx.b.exp(zeta)?;
    let growth = ctx.times(growth, 2.0)?;
    Ok(ctx.b.div(scaled, growth)?)
}

/// The two power series of the equation, with their values and slopes at 0. As many terms as f64 needs at the border.
fn airy_middle(ctx: &mut LoweringContext<'_>, x: Value) -> Built {
    const TERMS: u32 = 14;
    let square = ctx.b.mul(x, x)?;
    let cube = ctx.b.mul(square, x)?;
    let (mut even, mut odd) = (vec![1.0], vec![1.0]);
    for n in 1..=TERMS {
        let k = f64::from(3 * n);
        even.push(even[n as usize - 1] / (k * (k - 1.0)));
        odd.push(odd[n as usize - 1] / (k * (k + 1.0)));
    }
    even.reverse();
    odd.reverse();
    let f = ctx.polynomial(cube, &even)?;
    let g = ctx.polynomial(cube, &odd)?;
    let g = ctx.b.mul(g, x)?;
    let (f, g) = (ctx.times(f, 0.355_028_053_887_817_2)?, ctx.times(g, 0.258_819_403_792_806_8)?);
    Ok(ctx.b.sub(f, g)?)
}

const P0_OVER: [f64; 7] = [
    0.0007969367292973471,
    0.08283523921074408,
    1.239533716464143,
    5.447250030587687,
    8.74716500199817,
    5.303240382353949,
    1.0,
];

const P0_UNDER: [f64; 7] = [
    0.0009244088105588637,
    0.08562884743544745,
    1.2535274390105895,
    5.470977403304171,
    8.761908832370695,
    5.306052882353947,
    1.0,
];

const Q0_OVER: [f64; 8] = [
    -0.011366383889846916,
    -1.2825271867050931,
    -19.553954425773597,
    -93.20601521237683,
    -177.68116798048806,
    -147.07750515495118,
    -51.41053267665993,
    -6.050143506007285,
];

const Q0_UNDER: [f64; 7] = [
    64.3178256118178,
    856.4300259769806,
    3882.4018360540163,
    7240.467741956525,
    5930.727011873169,
    2062.0933166032783,
    242.0057402402914,
];

const J0_OVER: [f64; 4] = [-4794432209.782018, 1956174919465.5657, -249248344360967.72, 9708622510473064.0];

const J0_UNDER: [f64; 8] = [
    499.563147152651,
    173785.4016763747,
    48440965.83399621,
    11185553704.535683,
    2112775201154.892,
    310518229857422.56,
    3.1812195594320496e+16,
    1.7108629408104315e+18,
];

const P1_OVER: [f64; 7] = [
    0.0007621256162081731,
    0.07313970569409176,
    1.1271960812968493,
    5.112079511468076,
    8.424045901417724,
    5.214515986823615,
    1.0,
];

const P1_UNDER: [f64; 7] = [
    0.0005713231280725487,
    0.06884559087544954,
    1.105142326340617,
    5.073863861286015,
    8.399855543276042,
    5.209828486823619,
    1.0,
];

const Q1_OVER: [f64; 8] = [
    0.05108625947501766,
    4.982138729512334,
    75.82382841325453,
    366.7796093601508,
    710.8563049989261,
    597.4896124006136,
    211.68875710057213,
    25.207020585802372,
];

const Q1_UNDER: [f64; 7] = [
    74.23732770356752,
    1056.4488603826283,
    4986.410583376536,
    9562.318924047562,
    7997.041604473507,
    2826.1927851763908,
    336.0936078106983,
];

const J1_OVER: [f64; 4] = [-899971225.7055594, 452228297998.19403, -72749424522181.83, 3682957328638529.0];

const J1_UNDER: [f64; 8] = [
    620.8364781180543,
    256987.25675774884,
    83514679.14319493,
    22151159547.97925,
    4749141220799.914,
    784369607876235.9,
    8.952223361846274e+16,
    5.322786203326801e+18,
];

const Y0_OVER: [f64; 8] = [
    15592.436785523574,
    -14663929.59039716,
    5435264770.518765,
    -982136065717.9115,
    87590639439536.7,
    -3466283033847297.0,
    4.4273326857256984e+16,
    -1.8495080043698668e+16,
];

const Y0_UNDER: [f64; 7] = [
    1041.2835366425984,
    626107.330137135,
    268919633.39381415,
    86400248710.3935,
    20297961275010.555,
    3171577528429750.5,
    2.5059625617265306e+17,
];

const Y1_OVER: [f64; 6] = [
    1263204747.9017804,
    -647355876379.1603,
    114509511541823.73,
    -8127702555013251.0,
    2.024394757135949e+17,
    -7.788771962659501e+17,
];

const Y1_UNDER: [f64; 8] = [
    594.3015923461282,
    235564.09294306856,
    73481194.44597217,
    18760131610.870617,
    3882312774962.3857,
    620557727146953.8,
    6.871410873553005e+16,
    3.9727060811656064e+18,
];

const AIRY_OVER: [f64; 8] = [
    0.346538101525629,
    12.007595273964581,
    76.27960536152345,
    168.08922493463058,
    159.75639135016442,
    70.53609068404442,
    14.026469116338967,
    1.0,
];

const AIRY_UNDER: [f64; 8] = [
    0.5675945326387702,
    14.75625625848472,
    84.51389701414746,
    177.31808814540045,
    164.2346928715297,
    71.47784008255756,
    14.095913560783403,
    1.0,
];

const AIRY_F_OVER: [f64; 9] = [
    -0.1316963234183318,
    -0.6264565444319123,
    -0.6931580360369335,
    -0.2797799815451191,
    -0.04919001326095003,
    -0.004062659235948854,
    -0.0001592764962392621,
    -2.776491081552329e-06,
    -1.6778769848911465e-08,
];

const AIRY_F_UNDER: [f64; 9] = [
    13.356042070655324,
    32.682503279522464,
    26.736704094149957,
    9.187074029072596,
    1.4752914677166642,
    0.11568717379518804,
    0.004402916416152112,
    7.547203482874142e-05,
    4.5185009297058035e-07,
];

const AIRY_G_OVER: [f64; 11] = [
    0.01973399320916857,
    0.39110302961568827,
    1.0657989759959559,
    0.9391692298166502,
    0.35146565610554764,
    0.06338889196289255,
    0.005858041130483885,
    0.000282851600836737,
    6.98793669997261e-06,
    8.117892395543892e-08,
    3.415517847659236e-10,
];

const AIRY_G_UNDER: [f64; 10] = [
    9.30892908077442,
    19.835292871831214,
    15.564662893286462,
    5.476860694229755,
    0.9542936116189619,
    0.08645808263523921,
    0.004126565238242226,
    0.00010125908511650914,
    1.1716673321441352e-06,
    4.9183457006293e-09,
];

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.special_airy_ai.default", lower_airy_ai),
    Rule::new("aten.special_bessel_j0.default", lower_j0),
    Rule::new("aten.special_bessel_j1.default", lower_j1),
    Rule::new("aten.special_bessel_y0.default", lower_y0),
    Rule::new("aten.special_bessel_y1.default", lower_y1),
    Rule::new("aten.special_spherical_bessel_j0.default", lower_spherical_j0),
];
