//! Discrete distributions: Bernoulli and dropout, integers, permutations, categories.

use tpud_graph::Node;
use tpud_stablehlo::{Binary, Direction, ElementType, Monoid, Scalar, SortOrder, TensorType, Value};

use super::scan::{prefix_max, prefix_sum};
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::index_element;
use crate::pointwise::{Built, Lowering};
use crate::random::Stream;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

/// True with the probabilities of a float tensor: a uniform number is below them.
fn chances(ctx: &mut LoweringContext<'_>, node: &Node, p: Value) -> Built {
    let ty = ctx.b.ty(p).clone();
    if !ty.element.is_float() {
        return Err(RuleError::unsupported(format!("probabilities are floats, not {}", ty.element)));
    }
    let wide = accumulation_type(ty.element);
    let p = ctx.convert(p, wide)?;
    let u = Stream::of(ctx, node)?.positive(ctx, &ty.with_element(wide))?;
    Ok(ctx.b.compare(Direction::Lt, u, p)?)
}

// aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor
fn lower_bernoulli(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let p = ctx.tensor(node, "self")?;
    let hit = chances(ctx, node, p)?;
    ctx.rounded(node, hit)
}

// aten::bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor
fn lower_bernoulli_tensor(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let p = ctx.tensor(node, "p")?;
    let p = ctx.b.broadcast_to(p, &ctx.output_type(node, 0)?.dims)?;
    let hit = chances(ctx, node, p)?;
    ctx.rounded(node, hit)
}

// aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor
fn lower_bernoulli_p(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let p = ctx.float(node, "p")?;
    if !(0.0..=1.0).contains(&p) {
        return Err(RuleError::unsupported(format!("bernoulli_ expects p to be in [0, 1], but got p={p}")));
    }
    let dims = ctx.output_type(node, 0)?.dims;
    let hit = Stream::of(ctx, node)?.chance(ctx, &dims, p)?;
    ctx.rounded(node, hit)
}

// aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)
// A product, as in torch: what is dropped of an infinity or a NaN is NaN.
fn lower_native_dropout(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (p, mask_type) = (ctx.float(node, "p")?, ctx.output_type(node, 1)?);
    if !(0.0..=1.0).contains(&p) {
        let message = format!("dropout probability has to be between 0 and 1, but got {p}");
        return Err(RuleError::unsupported(message));
    }
    let trains = !matches!(node.arg("train"), Some(tpud_graph::Arg::Bool(false)));
    if !trains {
        let input = ctx.tensor(node, "input")?;
        let ones = ctx.b.splat(Scalar::Int(1), &mask_type)?;
        return Ok([input, ones].into());
    }
    let x = ctx.wide_operand(node, "input")?;
    let mask = Stream::of(ctx, node)?.chance(ctx, &mask_type.dims, 1.0 - p)?;
    let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
    let scale = ctx.fill_like(Scalar::Float(scale), x)?;
    let factor = ctx.select_or(mask, scale, 0.0)?;
    let out = ctx.b.mul(x, factor)?;
    let out = ctx.convert(out, ctx.output_type(node, 0)?.element)?;
    let mask = ctx.convert(mask, mask_type.element)?;
    Ok([out, mask].into())
}

/// Whole numbers from `low` on, `range` of them, converted to the output's dtype.
fn whole_numbers(ctx: &mut LoweringContext<'_>, node: &Node, low: i64, range: u64) -> Lowering {
    let ty = ctx.output_type(node, 0)?.with_element(ElementType::U64);
    let bits = Stream::of(ctx, node)?.bits(ctx, &ty)?;
    let number = match range {
        0 => return Err(RuleError::unsupported("the range of random integers is empty")),
        range if range.is_power_of_two() => {
            let mask = ctx.fill_like(Scalar::Int((range - 1) as i64), bits)?;
            ctx.b.and(bits, mask)?
        }
        // Of 2⁶⁴ words, each number of a small range gets as many as the others, but for less than one in 2³².
        range if range <= u64::from(u32::MAX) => {
            let range = ctx.fill_like(Scalar::Int(range as i64), bits)?;
            ctx.b.rem(bits, range)?
        }
        range => high_product(ctx, bits, range)?,
    };
    from_low(ctx, node, low, number)
}

/// The high word of `bits · range`: the words in equal parts, as far as that is possible.
fn high_product(ctx: &mut LoweringContext<'_>, bits: Value, range: u64) -> Built {
    let word = |ctx: &mut LoweringContext<'_>, word: u64| ctx.fill_like(Scalar::Int(word as i64), bits);
    let (half, mask) = (word(ctx, 32)?, word(ctx, u32::MAX.into())?);
    let (range_high, range_low) = (word(ctx, range >> 32)?, word(ctx, range & u64::from(u32::MAX))?);
    let high = ctx.b.binary(Binary::ShiftRightLogical, bits, half)?;
    let low = ctx.b.and(bits, mask)?;
    let lowest = ctx.b.mul(low, range_low)?;
    let carry = ctx.b.binary(Binary::ShiftRightLogical, lowest, half)?;
    let middle = ctx.b.mul(high, range_low)?;
    let middle = ctx.b.add(middle, carry)?;
    let other = ctx.b.mul(low, range_high)?;
    let middle_low = ctx.b.and(middle, mask)?;
    let other = ctx.b.add(other, middle_low)?;
    let other = ctx.b.binary(Binary::ShiftRightLogical, other, half)?;
    let middle = ctx.b.binary(Binary::ShiftRightLogical, middle, half)?;
    let top = ctx.b.mul(high, range_high)?;
    let top = ctx.b.add(top, middle)?;
    Ok(ctx.b.add(top, other)?)
}

fn from_low(ctx: &mut LoweringContext<'_>, node: &Node, low: i64, number: Value) -> Lowering {
    let number = ctx.b.convert(number, ElementType::I64)?;
    let low = ctx.fill_like(Scalar::Int(low), number)?;
    let number = ctx.b.add(number, low)?;
    ctx.rounded(node, number)
}

// aten::randint(SymInt high, SymInt[] size, *, ScalarType? dtype=4, ...) -> Tensor
// aten::randint.generator(SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=4, ...) -> Tensor
// aten::randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=4, ...) -> Tensor
// aten::randint.low_generator(SymInt low, SymInt high, SymInt[] size, *, Generator? generator, ...) -> Tensor
// aten::randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, ...) -> Tensor
// aten::randint_like.generator(Tensor self, SymInt high, *, Generator? generator, ...) -> Tensor
// aten::randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, ...) -> Tensor
// aten::randint_like.low_generator_dtype(Tensor self, SymInt low, SymInt high, *, Generator? generator, ...) -> Tensor
fn lower_randint(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let low = if node.arg("low").is_some() { ctx.int(node, "low")? } else { 0 };
    let high = ctx.int(node, "high")?;
    let range = (i128::from(high) - i128::from(low)).clamp(0, i128::from(u64::MAX));
    whole_numbers(ctx, node, low, range as u64)
}

// aten::randint_like.Tensor(Tensor self, Tensor high, *, ScalarType? dtype=None, ...) -> Tensor
fn lower_randint_like_tensor(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?.with_element(ElementType::U64);
    let high = ctx.tensor(node, "high")?;
    let high = ctx.convert(high, ElementType::I64)?;
    let high = ctx.b.reshape(high, &[])?;
    let high = ctx.fit(high, &ty)?;
    let bits = Stream::of(ctx, node)?.bits(ctx, &ty)?;
    let number = ctx.b.rem(bits, high)?;
    from_low(ctx, node, 0, number)
}

/// The largest whole number of `random_()`: up to 2 to the number of digits for floats.
fn largest(element: ElementType) -> Result<i64, RuleError> {
    Ok(match element {
        ElementType::Bool => 1,
        ElementType::U8 => u8::MAX.into(),
        ElementType::I8 => i8::MAX.into(),
        ElementType::I16 => i16::MAX.into(),
        ElementType::U16 => u16::MAX.into(),
        ElementType::I32 => i32::MAX.into(),
        ElementType::U32 => u32::MAX.into(),
        ElementType::I64 => i64::MAX,
        ElementType::BF16 => 1 << 8,
        ElementType::F16 => 1 << 11,
        ElementType::F32 => 1 << 24,
        ElementType::F64 => 1 << 53,
        other => return Err(RuleError::unsupported(format!("random integers as {other} are not defined"))),
    })
}

// aten::random(Tensor self, *, Generator? generator=None) -> Tensor
// aten::random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor
fn lower_random(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let end = if node.arg("to").is_some() { ctx.opt_int(node, "to")?.map(i128::from) } else { None };
    let end = match end {
        Some(end) => end,
        None => i128::from(largest(ctx.output_type(node, 0)?.element)?) + 1,
    };
    whole_numbers(ctx, node, 0, u64::try_from(end).unwrap_or(0))
}

// aten::randperm(SymInt n, *, ScalarType? dtype=4, ...) -> Tensor
// aten::randperm.generator(SymInt n, *, Generator? generator, ScalarType? dtype=4, ...) -> Tensor
// The order of random 64-bit words, of which two are hardly ever equal.
fn lower_randperm(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let keys = Stream::of(ctx, node)?.bits(ctx, &ty.with_element(ElementType::U64))?;
    let positions = ctx.b.iota(&ty.with_element(index_element(ty.elements())), 0)?;
    let order = if ty.elements() < 2 {
        positions
    } else {
        ctx.b.sort_by_key(&[keys, positions], 0, SortOrder::Ascending)?[1]
    };
    ctx.rounded(node, order)
}

// aten::multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor
fn lower_multinomial(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (out, count) = (ctx.output_type(node, 0)?, ctx.int(node, "num_samples")?);
    let weights = ctx.tensor(node, "self")?;
    let weights = ctx.convert(weights, accumulation_type(ctx.b.element(weights)))?;
    let categories = ctx.b.dims(weights).last().copied().unwrap_or(0);
    let replaces = ctx.boolean(node, "replacement")?;
    if categories == 0 || (!replaces && count > categories) {
        return Err(RuleError::unsupported("multinomial can't take more samples than there are categories"));
    }
    let rows = ctx.b.ty(weights).elements() / categories;
    let weights = ctx.b.reshape(weights, &[rows, categories])?;
    if out.elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &out)?.into());
    }
    let stream = Stream::of(ctx, node)?;
    let index = if replaces && count > 1 {
        with_replacement(ctx, stream, weights, count)?
    } else {
        without_replacement(ctx, stream, weights, count)?
    };
    let index = ctx.b.reshape(index, &out.dims)?;
    ctx.rounded(node, index)
}

/// The categories that come first when each waits an exponential time with its weight as the rate.
fn without_replacement(
    ctx: &mut LoweringContext<'_>,
    mut stream: Stream,
    weights: Value,
    count: i64,
) -> Built {
    let ty = ctx.b.ty(weights).clone();
    // Relative to the largest weight, so that no quotient under- or overflows.
    let largest = ctx.b.reduce_monoid(weights, Monoid::Max, &[1])?;
    let largest = ctx.b.broadcast_in_dim(largest, &ty.dims, &[0])?;
    let relative = ctx.b.div(weights, largest)?;
    let time = stream.exponential(ctx, &ty)?;
    let speed = ctx.b.div(relative, time)?;
    let places = ctx.b.iota(&ty.with_element(index_element(ty.dims[1])), 1)?;
    if count == 1 {
        let best = ctx.b.reduce_monoid(speed, Monoid::Max, &[1])?;
        let best = ctx.b.broadcast_in_dim(best, &ty.dims, &[0])?;
        let found = ctx.b.compare(Direction::Eq, speed, best)?;
        return first(ctx, found, places, ty.dims[1] - 1);
    }
    let order = ctx.b.sort_by_key(&[speed, places], 1, SortOrder::Descending)?;
    Ok(ctx.b.slice_dim(order[1], 1, 0, count, 1)?)
}

/// The first place along the last dimension where `found` is true, at most `last`.
fn first(ctx: &mut LoweringContext<'_>, found: Value, places: Value, last: i64) -> Built {
    let beyond = ctx.fill_like(Scalar::Int(last), places)?;
    let places = ctx.b.select(found, places, beyond)?;
    let dim = ctx.b.rank(places) as i64 - 1;
    Ok(ctx.b.reduce_monoid(places, Monoid::Min, &[dim])?)
}

/// For each sample the first category of a positive weight whose running sum is over a uniform part of the total.
fn with_replacement(ctx: &mut LoweringContext<'_>, mut stream: Stream, weights: Value, count: i64) -> Built {
    let ty = ctx.b.ty(weights).clone();
    let (rows, categories) = (ty.dims[0], ty.dims[1]);
    let all = [rows, count, categories];
    // Partial sums are rounded each in its own way; the maximum makes them ascend.
    let sums = prefix_sum(ctx, weights, 1)?;
    let sums = prefix_max(ctx, sums, 1)?;
    let total = ctx.b.slice_dim(sums, 1, categories - 1, categories, 1)?;
    let total = ctx.b.broadcast_in_dim(total, &[rows, count], &[0, 1])?;
    let u = stream.positive(ctx, &ty.with_dims([rows, count]))?;
    let mark = ctx.b.mul(u, total)?;
    let mark = ctx.b.broadcast_in_dim(mark, &all, &[0, 1])?;
    let wide_sums = ctx.b.broadcast_in_dim(sums, &all, &[0, 2])?;
    let wide_weights = ctx.b.broadcast_in_dim(weights, &all, &[0, 2])?;
    let over = ctx.b.compare(Direction::Gt, wide_sums, mark)?;
    let possible = ctx.compare_number(Direction::Gt, wide_weights, 0.0)?;
    let found = ctx.b.and(over, possible)?;
    let index = index_element(categories);
    let places = ctx.b.iota(&TensorType::new(index, all), 2)?;
    let chosen = first(ctx, found, places, categories)?;
    // The product may round up to the total itself: that is the last category with a weight.
    let zero = ctx.fill_like(Scalar::Int(0), places)?;
    let candidates = ctx.b.select(possible, places, zero)?;
    let last = ctx.b.reduce_monoid(candidates, Monoid::Max, &[2])?;
    Ok(ctx.b.min(chosen, last)?)
}

// tpud::save_rng_state(Tensor seed, int stream) -> Tensor
// The bytes from which `load_rng_state` makes a seed that draws the same numbers again, in the size of torch's state.
fn lower_save_rng_state(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let seed = Stream::of(ctx, node)?.seed(ctx)?;
    let bytes = ctx.b.bitcast_split(seed, ElementType::U8)?;
    let bytes = ctx.b.reshape(bytes, &[STATE_BYTES])?;
    let padding = ty.elements() - STATE_BYTES;
    if padding < 0 {
        return Err(RuleError::Internal(format!("a random state does not fit {ty}")));
    }
    let zero = ctx.scalar(Scalar::Int(0), ElementType::U8)?;
    let state: Outputs = ctx.b.pad(bytes, zero, &[0], &[padding], &[0])?.into();
    Ok(state)
}

const STATE_BYTES: i64 = 16;

// tpud::load_rng_state(Tensor state) -> Tensor
fn lower_load_rng_state(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let state = ctx.tensor(node, "state")?;
    let bytes = ctx.b.slice_dim(state, 0, 0, STATE_BYTES, 1)?;
    let bytes = ctx.b.reshape(bytes, &[2, STATE_BYTES / 2])?;
    Ok(ctx.b.bitcast_join(bytes, ElementType::U64)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.bernoulli.default", lower_bernoulli),
    Rule::new("aten.bernoulli.Tensor", lower_bernoulli_tensor),
    Rule::new("aten.bernoulli.p", lower_bernoulli_p),
    Rule::new("aten.native_dropout.default", lower_native_dropout),
    Rule::new("aten.randint.default", lower_randint),
    Rule::new("aten.randint.generator", lower_randint),
    Rule::new("aten.randint.low", lower_randint),
    Rule::new("aten.randint.low_generator", lower_randint),
    Rule::new("aten.randint_like.default", lower_randint),
    Rule::new("aten.randint_like.generator", lower_randint),
    Rule::new("aten.randint_like.low_dtype", lower_randint),
    Rule::new("aten.randint_like.low_generator_dtype", lower_randint),
    Rule::new("aten.randint_like.Tensor", lower_randint_like_tensor),
    Rule::new("aten.random.default", lower_random),
    Rule::new("aten.random.to", lower_random),
    Rule::new("aten.randperm.default", lower_randperm),
    Rule::new("aten.randperm.generator", lower_randperm),
    Rule::new("aten.multinomial.default", lower_multinomial),
    Rule::new("tpud.load_rng_state.default", lower_load_rng_state),
    Rule::new("tpud.save_rng_state.default", lower_save_rng_state),
];
