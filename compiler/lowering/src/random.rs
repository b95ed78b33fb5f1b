//! Random bits of one node, and floats made of them.
//!
//! Bits are Philox 4x32: the key is the first word of the seed; the counter's high word is the second word of the
//! seed plus the node's stream, its low word is the number of the draw (the top 16 bits) and the position. What an
//! element gets depends on its row-major position only, not on how many elements there are: a tensor that is padded
//! to a bucket can give its logical elements the values that it would have without padding.

use tpud_graph::{Node, SEED, STREAM};
use tpud_stablehlo::{Binary, Direction, ElementType, Scalar, TensorType, Unary, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::Built;

/// Where the number of a draw begins in the counter's low word; a tensor has at most 2⁴⁸ elements.
const DRAW_SHIFT: i64 = 48;

/// The source of a node's numbers. Every draw from it is independent of the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream {
    /// u64[1]: Philox' key.
    key: Value,
    /// u64[1]: the high word of the counter.
    high: Value,
    /// The number of the next draw.
    draw: i64,
    /// Inside of a loop: u64[1], added to the low word of the counter, so that each turn draws anew.
    turn: Option<Value>,
}

/// How many draws one turn of a loop may take: loops have less than 2¹³ turns.
pub(crate) const DRAWS_OF_A_TURN: i64 = 4;

impl Stream {
    /// The stream that a node names.
    pub(crate) fn of(ctx: &mut LoweringContext<'_>, node: &Node) -> Result<Self, RuleError> {
        let seed = ctx.tensor(node, SEED)?;
        let (key, second) = (ctx.b.slice_dim(seed, 0, 0, 1, 1)?, ctx.b.slice_dim(seed, 0, 1, 2, 1)?);
        let stream = ctx.fill_like(Scalar::Int(ctx.int(node, STREAM)?), second)?;
        Ok(Self { key, high: ctx.b.add(second, stream)?, draw: 0, turn: None })
    }

    /// The seed whose stream 0 is this stream.
    pub(crate) fn seed(self, ctx: &mut LoweringContext<'_>) -> Built {
        Ok(ctx.b.concatenate(&[self.key, self.high], 0)?)
    }

    /// The same stream for a second loop: its draws are none of the first loop's.
    pub(crate) fn apart(mut self) -> Self {
        self.draw += 1 << 15;
        self
    }

    /// The stream inside of a loop, where `turn` (a 0-d i64) counts the turns.
    pub(crate) fn in_turn(mut self, ctx: &mut LoweringContext<'_>, turn: Value) -> Result<Self, RuleError> {
        let turn = ctx.b.convert(turn, ElementType::U64)?;
        let turn = ctx.b.reshape(turn, &[1])?;
        let stride = ctx.fill_like(Scalar::Int(DRAWS_OF_A_TURN << DRAW_SHIFT), turn)?;
        self.turn = Some(ctx.b.mul(turn, stride)?);
        Ok(self)
    }

    /// Independent random bits, u32 or u64.
    pub(crate) fn bits(&mut self, ctx: &mut LoweringContext<'_>, ty: &TensorType) -> Built {
        let mut low = ctx.fill_like(Scalar::Int(self.draw << DRAW_SHIFT), self.key)?;
        self.draw += 1;
        if let Some(turn) = self.turn {
            low = ctx.b.add(low, turn)?;
        }
        if ty.elements() == 0 {
            return Ok(ctx.b.splat(Scalar::Int(0), ty)?);
        }
        let state = ctx.b.concatenate(&[self.key, low, self.high], 0)?;
        Ok(ctx.b.rng_bits(state, ty)?.1)
    }

    /// Uniform in [0, 1) with as many bits as `digits` says, as torch's kernels make it: never 1. `ty` is f32 or f64.
    pub(crate) fn uniform(&mut self, ctx: &mut LoweringContext<'_>, ty: &TensorType, digits: i64) -> Built {
        let word = word_of(ty.element);
        let bits = self.bits(ctx, &ty.with_element(word))?;
        let bits = shift_right(ctx, bits, width(word) - digits)?;
        let whole = ctx.b.convert(bits, ty.element)?;
        ctx.times(whole, (-digits as f64).exp2())
    }

    /// Uniform in (0, 1), fine near 0: f32 takes all of its 32 bits there. `ty` is f32 or f64.
    pub(crate) fn positive(&mut self, ctx: &mut LoweringContext<'_>, ty: &TensorType) -> Built {
        let bits = self.bits(ctx, &ty.with_element(word_of(ty.element)))?;
        fraction(ctx, bits, ty.element)
    }

    /// -log of a uniform number, fine at both ends and never 0. `ty` is f32 or f64.
    pub(crate) fn exponential(&mut self, ctx: &mut LoweringContext<'_>, ty: &TensorType) -> Built {
        let word = word_of(ty.element);
        let bits = self.bits(ctx, &ty.with_element(word))?;
        // The top bit chooses the half, the others the place in it, counted from its end at 0 or at 1.
        let far = shift_right(ctx, bits, width(word) - 1)?;
        let far = ctx.convert(far, ElementType::Bool)?;
        let one = ctx.fill_like(Scalar::Int(1), bits)?;
        let bits = ctx.b.binary(Binary::ShiftLeft, bits, one)?;
        let place = fraction(ctx, bits, ty.element)?;
        let place = ctx.times(place, 0.5)?;
        let above = ctx.b.log(place)?;
        let below = ctx.b.neg(place)?;
        let below = ctx.b.unary(Unary::Log1p, below)?;
        let log = ctx.b.select(far, above, below)?;
        Ok(ctx.b.neg(log)?)
    }

    /// Standard normal by Box and Muller, one pair of words for an element, so up to 6.7 (f32) or 8.5 (f64) standard
    /// deviations. `ty` is f32 or f64.
    pub(crate) fn normal(&mut self, ctx: &mut LoweringContext<'_>, ty: &TensorType) -> Built {
        let word = word_of(ty.element);
        let count = ty.elements();
        let pairs = self.bits(ctx, &TensorType::new(word, [count, 2]))?;
        let mut column = |i: i64| -> Built {
            let words = ctx.b.slice_dim(pairs, 1, i, i + 1, 1)?;
            Ok(ctx.b.reshape(words, &ty.dims)?)
        };
        let (radius, angle) = (column(0)?, column(1)?);
        let u = fraction(ctx, radius, ty.element)?;
        let log = ctx.b.log(u)?;
        let square = ctx.times(log, -2.0)?;
        let radius = ctx.b.sqrt(square)?;
        let digits = if ty.element == ElementType::F64 { 53 } else { 24 };
        let angle = shift_right(ctx, angle, width(word) - digits)?;
        let angle = ctx.b.convert(angle, ty.element)?;
        let angle = ctx.times(angle, std::f64::consts::TAU * (-digits as f64).exp2())?;
        let cosine = ctx.b.unary(Unary::Cosine, angle)?;
        Ok(ctx.b.mul(radius, cosine)?)
    }

    /// True with a probability that is a number: never for 0, always for 1.
    pub(crate) fn chance(&mut self, ctx: &mut LoweringContext<'_>, dims: &[i64], p: f64) -> Built {
        let ty = TensorType::new(ElementType::Bool, dims);
        if p <= 0.0 || p >= 1.0 {
            return Ok(ctx.b.splat(Scalar::Bool(p >= 1.0), &ty)?);
        }
        // 32 bits are enough unless one of the outcomes is rare.
        let rare = p.min(1.0 - p) < (-16f64).exp2();
        let (word, bound) = if rare {
            (ElementType::U64, ((p * 64f64.exp2()) as u64).max(1) as i64)
        } else {
            (ElementType::U32, (p * 32f64.exp2()).round() as i64)
        };
        let bits = self.bits(ctx, &ty.with_element(word))?;
        let bound = ctx.fill_like(Scalar::Int(bound), bits)?;
        Ok(ctx.b.compare(Direction::Lt, bits, bound)?)
    }
}

/// The word that makes one float.
fn word_of(element: ElementType) -> ElementType {
    if element == ElementType::F64 { ElementType::U64 } else { ElementType::U32 }
}

fn width(word: ElementType) -> i64 {
    8 * word.byte_width() as i64
}

fn shift_right(ctx: &mut LoweringContext<'_>, bits: Value, by: i64) -> Built {
    let by = ctx.fill_like(Scalar::Int(by), bits)?;
    Ok(ctx.b.binary(Binary::ShiftRightLogical, bits, by)?)
}

/// A word as a number in (0, 1). All of its bits count while they fit the float; then the lowest are cut off, so that
/// it never rounds up to 1.
fn fraction(ctx: &mut LoweringContext<'_>, bits: Value, element: ElementType) -> Built {
    if element == ElementType::F64 {
        let top = shift_right(ctx, bits, 11)?;
        let whole = ctx.b.convert(top, element)?;
        let u = ctx.times(whole, (-53f64).exp2())?;
        let least = ctx.fill_like(Scalar::Float((-54f64).exp2()), u)?;
        return Ok(ctx.b.max(u, least)?);
    }
    let limit = ctx.fill_like(Scalar::Int(1 << 24), bits)?;
    let small = ctx.b.compare(Direction::Lt, bits, limit)?;
    let mask = ctx.fill_like(Scalar::Int(0xffff_ff00), bits)?;
    let cut = ctx.b.and(bits, mask)?;
    let bits = ctx.b.select(small, bits, cut)?;
    let whole = ctx.b.convert(bits, element)?;
    let u = ctx.times(whole, (-32f64).exp2())?;
    let least = ctx.fill_like(Scalar::Float((-33f64).exp2()), u)?;
    Ok(ctx.b.max(u, least)?)
}
