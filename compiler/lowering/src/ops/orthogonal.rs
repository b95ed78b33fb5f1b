//! Orthogonal polynomials: Chebyshev's of four kinds and shifted, Hermite's, Laguerre's, Legendre's.
//!
//! The degree is a number for each element, so one loop runs the three-term recurrence as long as any element needs it.
//! Like torch, Chebyshev polynomials of a higher degree are computed from angles inside of (-1, 1).

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Scalar, Unary, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::{Built, Lowering, pointwise};
use crate::registry::Rule;

/// Chebyshev's kinds by the usual letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    T,
    U,
    V,
    W,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Chebyshev(Kind),
    /// Hermite's of the physicists, or of the probabilists.
    Hermite {
        physicists: bool,
    },
    Laguerre,
    Legendre,
}

impl Family {
    /// The polynomial of degree 1.
    fn first(self, ctx: &mut LoweringContext<'_>, x: Value) -> Built {
        match self {
            Self::Chebyshev(Kind::T) | Self::Hermite { physicists: false } | Self::Legendre => Ok(x),
            Self::Chebyshev(Kind::U) | Self::Hermite { physicists: true } => Ok(ctx.b.add(x, x)?),
            Self::Chebyshev(Kind::V) => {
                let double = ctx.b.add(x, x)?;
                ctx.plus(double, -1.0)
            }
            Self::Chebyshev(Kind::W) => {
                let double = ctx.b.add(x, x)?;
                ctx.plus(double, 1.0)
            }
            Self::Laguerre => ctx.minus_from(1.0, x),
        }
    }

    /// The polynomial of degree `k + 1` from those of degree `k` and `k - 1`.
    fn next(self, ctx: &mut LoweringContext<'_>, x: Value, k: Value, [now, before]: [Value; 2]) -> Built {
        let double = ctx.b.add(x, x)?;
        match self {
            Self::Chebyshev(_) => {
                let product = ctx.b.mul(double, now)?;
                Ok(ctx.b.sub(product, before)?)
            }
            Self::Hermite { physicists } => {
                let (x, k) = if physicists { (double, ctx.b.add(k, k)?) } else { (x, k) };
                let (product, rest) = (ctx.b.mul(x, now)?, ctx.b.mul(k, before)?);
                Ok(ctx.b.sub(product, rest)?)
            }
            Self::Laguerre | Self::Legendre => {
                let twice = ctx.b.add(k, k)?;
                let factor = if self == Self::Laguerre {
                    let distance = ctx.minus_from(1.0, x)?;
                    ctx.b.add(twice, distance)?
                } else {
                    let odd = ctx.plus(twice, 1.0)?;
                    ctx.b.mul(odd, x)?
                };
                let (product, rest) = (ctx.b.mul(factor, now)?, ctx.b.mul(k, before)?);
                let sum = ctx.b.sub(product, rest)?;
                let next = ctx.plus(k, 1.0)?;
                Ok(ctx.b.div(sum, next)?)
            }
        }
    }
}

/// An element's degree, with what is known about it.
struct Degree {
    /// i64; what is no number, or out of its range, is -1.
    whole: Value,
    /// The same in the type of the polynomial.
    float: Value,
    even: Value,
}

fn degree(ctx: &mut LoweringContext<'_>, n: Value) -> Result<Degree, RuleError> {
    let size = ctx.b.abs(n)?;
    let fits = ctx.compare_number(Direction::Lt, size, 9e18)?;
    let n = ctx.select_or(fits, n, -1.0)?;
    let whole = ctx.convert(n, ElementType::I64)?;
    let float = ctx.convert(whole, ctx.b.element(n))?;
    let one = ctx.fill_like(Scalar::Int(1), whole)?;
    let parity = ctx.b.and(whole, one)?;
    let even = ctx.compare_number(Direction::Eq, parity, 0.0)?;
    Ok(Degree { whole, float, even })
}

/// Runs the recurrence for the elements in `open`, each up to its degree or until it is not a number. What is not open
/// stays at degree 1.
fn recurrence(ctx: &mut LoweringContext<'_>, x: Value, n: &Degree, family: Family, open: Value) -> Built {
    let one = ctx.fill_like(Scalar::Int(1), x)?;
    let first = family.first(ctx, x)?;
    let start = ctx.scalar(Scalar::Int(1), ElementType::I64)?;
    let ones = ctx.fill_like(Scalar::Int(1), n.whole)?;
    let limit = ctx.b.select(open, n.whole, ones)?;
    let busy = |ctx: &mut LoweringContext<'_>, state: &[Value]| {
        let dims = ctx.b.dims(state[3]).to_vec();
        let k = ctx.b.broadcast_to(state[0], &dims)?;
        let wanted = ctx.b.compare(Direction::Lt, k, state[3])?;
        let number = ctx.b.compare(Direction::Eq, state[1], state[1])?;
        Ok(ctx.b.and(wanted, number)?)
    };
    let out = ctx.repeat_while(&[start, first, one, limit, x], busy, |ctx, state| {
        let (now, before, x) = (state[1], state[2], state[4]);
        let ty = ctx.b.ty(x).clone();
        let k = ctx.fit(state[0], &ty)?;
        let next = family.next(ctx, x, k, [now, before])?;
        let here = busy(ctx, state)?;
        let count = ctx.plus(state[0], 1.0)?;
        Ok(vec![count, ctx.b.select(here, next, now)?, ctx.b.select(here, now, before)?, state[3], x])
    })?;
    Ok(out[1])
}

/// What follows from the degree alone: 0 below degree 0, 1 at degree 0, NaN where torch gives up.
fn by_degree(ctx: &mut LoweringContext<'_>, n: &Degree, value: Value, limit: Option<f64>) -> Built {
    let mut value = value;
    if let Some(limit) = limit {
        let computed = ctx.compare_number(Direction::Le, n.float, limit)?;
        value = ctx.select_or(computed, value, f64::NAN)?;
    }
    let not_zero = ctx.compare_number(Direction::Ne, n.whole, 0.0)?;
    let value = ctx.select_or(not_zero, value, 1.0)?;
    let legal = ctx.compare_number(Direction::Ge, n.whole, 0.0)?;
    ctx.select_or(legal, value, 0.0)
}

/// Polynomials that always need the recurrence, but at the given places, where they are 1 (or -1 for an odd degree).
fn by_recurrence(ctx: &mut LoweringContext<'_>, node: &Node, family: Family) -> Lowering {
    pointwise(ctx, node, ["x", "n"], |ctx, [x, n]| {
        let n = degree(ctx, n)?;
        let size = ctx.b.abs(x)?;
        let (anchor, limit) = match family {
            Family::Laguerre => (Some(0.0), None),
            Family::Hermite { .. } => {
                (None, Some(if ctx.b.element(x) == ElementType::F64 { 512.0 } else { 128.0 }))
            }
            _ => (Some(1.0), None),
        };
        let mut open = match anchor {
            Some(at) => ctx.compare_number(Direction::Ne, size, at)?,
            None => ctx.compare_number(Direction::Le, n.float, limit.unwrap_or(f64::INFINITY))?,
        };
        let value = recurrence(ctx, x, &n, family, open)?;
        let mut known = ctx.fill_like(Scalar::Int(1), x)?;
        if family == Family::Legendre {
            let negative = ctx.compare_number(Direction::Lt, x, 0.0)?;
            let odd = ctx.b.not(n.even)?;
            let flips = ctx.b.and(negative, odd)?;
            let keeps = ctx.b.not(flips)?;
            known = ctx.select_or(keeps, known, -1.0)?;
        }
        if anchor.is_none() {
            open = ctx.b.compare(Direction::Eq, n.whole, n.whole)?;
        }
        let value = ctx.b.select(open, value, known)?;
        by_degree(ctx, &n, value, limit)
    })
}

/// Chebyshev polynomials; the shifted ones are those of `2x - 1`.
fn chebyshev(ctx: &mut LoweringContext<'_>, node: &Node, kind: Kind, shifted: bool) -> Lowering {
    // The last degree that torch takes by recurrence inside of (-1, 1).
    let last = match (kind, shifted) {
        (Kind::T, _) => 6.0,
        (Kind::W, true) => 4.0,
        (_, true) => 6.0,
        (_, false) => 8.0,
    };
    pointwise(ctx, node, ["x", "n"], |ctx, [x, n]| {
        let n = degree(ctx, n)?;
        let y = if shifted {
            let double = ctx.b.add(x, x)?;
            ctx.plus(double, -1.0)?
        } else {
            x
        };
        let size = ctx.b.abs(y)?;
        let inside = ctx.compare_number(Direction::Lt, size, 1.0)?;
        let high = ctx.compare_number(Direction::Gt, n.float, last)?;
        let angular = ctx.b.and(inside, high)?;
        let at_end = ctx.compare_number(Direction::Eq, size, 1.0)?;
        let known = ctx.b.or(angular, at_end)?;
        let open = ctx.b.not(known)?;
        let value = recurrence(ctx, y, &n, Family::Chebyshev(kind), open)?;
        let ends = Ends::of(ctx, &n)?;
        let by_angle = by_angle(ctx, y, &n, kind, &ends, shifted)?;
        let at_ends = ends.value(ctx, y, kind)?;
        let value = ctx.b.select(angular, by_angle, value)?;
        let value = ctx.b.select(at_end, at_ends, value)?;
        by_degree(ctx, &n, value, None)
    })
}

/// What the polynomials are at -1 and 1, up to a sign.
struct Ends {
    /// 1, and -1 for an odd degree.
    alternating: Value,
    /// n + 1 and 2n + 1
    next: Value,
    twice: Value,
}

impl Ends {
    fn of(ctx: &mut LoweringContext<'_>, n: &Degree) -> Result<Self, RuleError> {
        let one = ctx.fill_like(Scalar::Int(1), n.float)?;
        let alternating = ctx.select_or(n.even, one, -1.0)?;
        let next = ctx.plus(n.float, 1.0)?;
        let double = ctx.b.add(n.float, n.float)?;
        let twice = ctx.plus(double, 1.0)?;
        Ok(Self { alternating, next, twice })
    }

    fn value(&self, ctx: &mut LoweringContext<'_>, y: Value, kind: Kind) -> Built {
        let one = ctx.fill_like(Scalar::Int(1), y)?;
        let (right, left) = match kind {
            Kind::T => (one, one),
            Kind::U => (self.next, self.next),
            Kind::V => (one, self.twice),
            Kind::W => (self.twice, one),
        };
        let left = ctx.b.mul(left, self.alternating)?;
        let positive = ctx.compare_number(Direction::Gt, y, 0.0)?;
        Ok(ctx.b.select(positive, right, left)?)
    }
}

/// By `y = cos(angle)`. Where an angle rounds to a zero of the divisor, what torch says there.
fn by_angle(
    ctx: &mut LoweringContext<'_>,
    y: Value,
    n: &Degree,
    kind: Kind,
    ends: &Ends,
    shifted: bool,
) -> Built {
    let angle = ctx.b.unary(Unary::Acos, y)?;
    let half = ctx.times(angle, 0.5)?;
    let order = match kind {
        Kind::T => n.float,
        Kind::U => ends.next,
        Kind::V | Kind::W => ctx.plus(n.float, 0.5)?,
    };
    let turns = ctx.b.mul(order, angle)?;
    let (over, under) = match kind {
        Kind::T => return Ok(ctx.b.unary(Unary::Cosine, turns)?),
        Kind::U => (Unary::Sine, ctx.b.unary(Unary::Sine, angle)?),
        Kind::V => (Unary::Cosine, ctx.b.unary(Unary::Cosine, half)?),
        Kind::W => (Unary::Sine, ctx.b.unary(Unary::Sine, half)?),
    };
    let over = ctx.b.unary(over, turns)?;
    let ratio = ctx.b.div(over, under)?;
    let (other, fallback) = match kind {
        Kind::V => (Unary::Sine, ctx.b.mul(ends.twice, ends.alternating)?),
        Kind::W if shifted => (Unary::Cosine, ends.alternating),
        Kind::W => (Unary::Cosine, ends.value(ctx, y, kind)?),
        Kind::T | Kind::U => return Ok(ratio),
    };
    let other = ctx.b.unary(other, half)?;
    let regular = ctx.compare_number(Direction::Ne, other, 1.0)?;
    Ok(ctx.b.select(regular, ratio, fallback)?)
}

// aten::special_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor
// aten::special_chebyshev_polynomial_t.x_scalar(Scalar x, Tensor n) -> Tensor
// aten::special_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n) -> Tensor
fn lower_chebyshev_t(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    chebyshev(ctx, node, Kind::T, false)
}

// aten::special_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor
// aten::special_chebyshev_polynomial_u.x_scalar(Scalar x, Tensor n) -> Tensor
// aten::special_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n) -> Tensor
fn lower_chebyshev_u(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    chebyshev(ctx, node, Kind::U, false)
}

// aten::special_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor
// aten::special_chebyshev_polynomial_v.x_scalar(Scalar x, Tensor n) -> Tensor
// aten::special_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n) -> Tensor
fn lower_chebyshev_v(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    chebyshev(ctx, node, Kind::V, false)
}

// aten::special_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor
// aten::special_chebyshev_polynomial_w.x_scalar(Scalar x, Tensor n) -> Tensor
// aten::special_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n) -> Tensor
fn lower_chebyshev_w(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    chebyshev(ctx, node, Kind::W, false)
}

// aten::special_shifted_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor
// aten::special_shifted_chebyshev_polynomial_t.x_scalar(Scalar x, Tensor n) -> Tensor
// aten::special_shifted_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n) -> Tensor
fn lower_shifted_chebyshev_t(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    chebyshev(ctx, node, Kind::T, true)
}

// aten::special_shifted_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor
// aten::special_shifted_chebyshev_polynomial_u.x_scalar(Scalar x, Tensor n) -> Tensor
// aten::special_shifted_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n) -> Tensor
fn lower_shifted_chebyshev_u(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    chebyshev(ctx, node, Kind::U, true)
}

// aten::special_shifted_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor
// aten::special_shifted_chebyshev_polynomial_v.x_scalar(Scalar x, Tensor n) -> Tensor
// aten::special_shifted_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n) -> Tensor
fn lower_shifted_chebyshev_v(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    chebyshev(ctx, node, Kind::V, true)
}

// aten::special_shifted_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor
// aten::special_shifted_chebyshev_polynomial_w.x_scalar(Scalar x, Tensor n) -> Tensor
// aten::special_shifted_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n) -> Tensor
fn lower_shifted_chebyshev_w(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    chebyshev(ctx, node, Kind::W, true)
}

// aten::special_hermite_polynomial_h(Tensor x, Tensor n) -> Tensor
// aten::special_hermite_polynomial_h.x_scalar(Scalar x, Tensor n) -> Tensor
// aten::special_hermite_polynomial_h.n_scalar(Tensor x, Scalar n) -> Tensor
fn lower_hermite_h(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    by_recurrence(ctx, node, Family::Hermite { physicists: true })
}

// aten::special_hermite_polynomial_he(Tensor x, Tensor n) -> Tensor
// aten::special_hermite_polynomial_he.x_scalar(Scalar x, Tensor n) -> Tensor
// aten::special_hermite_polynomial_he.n_scalar(Tensor x, Scalar n) -> Tensor
fn lower_hermite_he(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    by_recurrence(ctx, node, Family::Hermite { physicists: false })
}

// aten::special_laguerre_polynomial_l(Tensor x, Tensor n) -> Tensor
// aten::special_laguerre_polynomial_l.x_scalar(Scalar x, Tensor n) -> Tensor
// aten::special_laguerre_polynomial_l.n_scalar(Tensor x, Scalar n) -> Tensor
fn lower_laguerre(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    by_recurrence(ctx, node, Family::Laguerre)
}

// aten::special_legendre_polynomial_p(Tensor x, Tensor n) -> Tensor
// aten::special_legendre_polynomial_p.x_scalar(Scalar x, Tensor n) -> Tensor
// aten::special_legendre_polynomial_p.n_scalar(Tensor x, Scalar n) -> Tensor
fn lower_legendre(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    by_recurrence(ctx, node, Family::Legendre)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.special_chebyshev_polynomial_t.default", lower_chebyshev_t),
    Rule::new("aten.special_chebyshev_polynomial_t.n_scalar", lower_chebyshev_t),
    Rule::new("aten.special_chebyshev_polynomial_t.x_scalar", lower_chebyshev_t),
    Rule::new("aten.special_chebyshev_polynomial_u.default", lower_chebyshev_u),
    Rule::new("aten.special_chebyshev_polynomial_u.n_scalar", lower_chebyshev_u),
    Rule::new("aten.special_chebyshev_polynomial_u.x_scalar", lower_chebyshev_u),
    Rule::new("aten.special_chebyshev_polynomial_v.default", lower_chebyshev_v),
    Rule::new("aten.special_chebyshev_polynomial_v.n_scalar", lower_chebyshev_v),
    Rule::new("aten.special_chebyshev_polynomial_v.x_scalar", lower_chebyshev_v),
    Rule::new("aten.special_chebyshev_polynomial_w.default", lower_chebyshev_w),
    Rule::new("aten.special_chebyshev_polynomial_w.n_scalar", lower_chebyshev_w),
    Rule::new("aten.special_chebyshev_polynomial_w.x_scalar", lower_chebyshev_w),
    Rule::new("aten.special_hermite_polynomial_h.default", lower_hermite_h),
    Rule::new("aten.special_hermite_polynomial_h.n_scalar", lower_hermite_h),
    Rule::new("aten.special_hermite_polynomial_h.x_scalar", lower_hermite_h),
    Rule::new("aten.special_hermite_polynomial_he.default", lower_hermite_he),
    Rule::new("aten.special_hermite_polynomial_he.n_scalar", lower_hermite_he),
    Rule::new("aten.special_hermite_polynomial_he.x_scalar", lower_hermite_he),
    Rule::new("aten.special_laguerre_polynomial_l.default", lower_laguerre),
    Rule::new("aten.special_laguerre_polynomial_l.n_scalar", lower_laguerre),
    Rule::new("aten.special_laguerre_polynomial_l.x_scalar", lower_laguerre),
    Rule::new("aten.special_legendre_polynomial_p.default", lower_legendre),
    Rule::new("aten.special_legendre_polynomial_p.n_scalar", lower_legendre),
    Rule::new("aten.special_legendre_polynomial_p.x_scalar", lower_legendre),
    Rule::new("aten.special_shifted_chebyshev_polynomial_t.default", lower_shifted_chebyshev_t),
    Rule::new("aten.special_shifted_chebyshev_polynomial_t.n_scalar", lower_shifted_chebyshev_t),
    Rule::new("aten.special_shifted_chebyshev_polynomial_t.x_scalar", lower_shifted_chebyshev_t),
    Rule::new("aten.special_shifted_chebyshev_polynomial_u.default", lower_shifted_chebyshev_u),
    Rule::new("aten.special_shifted_chebyshev_polynomial_u.n_scalar", lower_shifted_chebyshev_u),
    Rule::new("aten.special_shifted_chebyshev_polynomial_u.x_scalar", lower_shifted_chebyshev_u),
    Rule::new("aten.special_shifted_chebyshev_polynomial_v.default", lower_shifted_chebyshev_v),
    Rule::new("aten.special_shifted_chebyshev_polynomial_v.n_scalar", lower_shifted_chebyshev_v),
    Rule::new("aten.special_shifted_chebyshev_polynomial_v.x_scalar", lower_shifted_chebyshev_v),
    Rule::new("aten.special_shifted_chebyshev_polynomial_w.default", lower_shifted_chebyshev_w),
    Rule::new("aten.special_shifted_chebyshev_polynomial_w.n_scalar", lower_shifted_chebyshev_w),
    Rule::new("aten.special_shifted_chebyshev_polynomial_w.x_scalar", lower_shifted_chebyshev_w),
];
