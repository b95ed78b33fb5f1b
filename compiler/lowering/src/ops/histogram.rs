//! Counting and searching: `histc`, `searchsorted`, `bucketize`, `repeat_interleave`.
//!
//! All count by comparing everything with everything: n·m comparisons, which XLA fuses into one reduction without
//! storing them.

use tpud_graph::Node;
use tpud_stablehlo::{Binary, Direction, ElementType, Monoid, Scalar, TensorType, Value};

use super::scan::prefix_sum;
use crate::checks::CheckKind;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::index_element;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

/// How many of the last dimension of `bounds` `[…, m]` lie before each of `values` `[…, n]`; the dimensions before are
/// the same, or `bounds` is 1-d and `values` has any. `right` puts equal bounds before, and nothing orders NaN: all
/// bounds lie before it.
pub(crate) fn count_before(
    ctx: &mut LoweringContext<'_>,
    bounds: Value,
    values: Value,
    right: bool,
) -> Result<Value, RuleError> {
    let dims = ctx.b.dims(values).to_vec();
    let m = *ctx.b.dims(bounds).last().unwrap_or(&1);
    let shared = ctx.b.rank(bounds).saturating_sub(1);
    let mut wide = dims.clone();
    wide.push(m);
    let map: Vec<i64> = (0..dims.len() as i64).collect();
    let values = ctx.b.broadcast_in_dim(values, &wide, &map)?;
    let map: Vec<i64> = (0..shared).chain([dims.len()]).map(|d| d as i64).collect();
    let bounds = ctx.b.broadcast_in_dim(bounds, &wide, &map)?;
    // Not "bound < value": with NaN both comparisons are false.
    let behind = if right { Direction::Gt } else { Direction::Ge };
    let behind = ctx.b.compare(behind, bounds, values)?;
    let before = ctx.b.not(behind)?;
    let before = ctx.convert(before, index_element(m))?;
    Ok(ctx.b.reduce_monoid(before, Monoid::Sum, &[dims.len() as i64])?)
}

/// The search of `name` in `bounds`, both in their common type.
fn search(ctx: &mut LoweringContext<'_>, node: &Node, bounds: (&str, Value), name: &str) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let right = ctx.boolean(node, "right")? || ctx.opt_text(node, "side")? == Some("right");
    let element = ctx.common_element(node, &[name, bounds.0])?;
    let values = ctx.operand(node, name, &ty.with_element(element))?;
    let bounds = ctx.convert(bounds.1, element)?;
    let out = count_before(ctx, bounds, values, right)?;
    Ok(ctx.convert(out, ty.element)?.into())
}

// aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor
// aten::bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor
fn lower_bucketize(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let boundaries = ctx.tensor(node, "boundaries")?;
    search(ctx, node, ("boundaries", boundaries), "self")
}

// aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor
// aten::searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor
/// A `sorter` does not matter: how many elements lie before a value does not depend on their order.
fn lower_searchsorted(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let sequence = ctx.tensor(node, "sorted_sequence")?;
    if let Some(sorter) = ctx.opt_tensor(node, "sorter")? {
        let last = ctx.b.rank(sequence).saturating_sub(1);
        let size = ctx.b.dims(sequence).last().copied().unwrap_or(1);
        ctx.check_index(sorter, (last, size), false, CheckKind::Runtime)?;
    }
    search(ctx, node, ("sorted_sequence", sequence), "self")
}

// aten::repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor
/// Position `i` of the result belongs to the element whose running count is the first above `i`.
fn lower_repeat_interleave(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    if ctx.opt_int(node, "output_size")?.is_none() {
        return Err(RuleError::unsupported(
            "the size of the result depends on the counts; pass output_size to repeat_interleave",
        ));
    }
    let repeats = ctx.tensor(node, "repeats")?;
    check_repeats(ctx, repeats, ty.elements())?;
    let element = index_element(ty.elements());
    let repeats = ctx.convert(repeats, element)?;
    let ends = prefix_sum(ctx, repeats, 0)?;
    let places = ctx.b.iota(&ty.with_element(element), 0)?;
    let out = count_before(ctx, ends, places, true)?;
    Ok(ctx.convert(out, ty.element)?.into())
}

/// Eager PyTorch raises on negative counts and on counts that don't sum up to the size that was promised.
fn check_repeats(ctx: &mut LoweringContext<'_>, repeats: Value, size: i64) -> Result<(), RuleError> {
    if !ctx.checking() {
        return Ok(());
    }
    ctx.check_range(repeats, 0..i64::MAX, CheckKind::Runtime, || "repeats can not be negative".to_owned())?;
    let wide = ctx.convert(repeats, ElementType::I64)?;
    let sum = ctx.b.reduce_monoid(wide, Monoid::Sum, &[0])?;
    ctx.check_range(sum, size..size + 1, CheckKind::Runtime, || {
        format!("the repeats do not sum up to output_size, which is {size}")
    })
}

/// The range of a histogram: as given, or from the data when both limits are equal; never empty.
fn limits(ctx: &mut LoweringContext<'_>, node: &Node, x: Value) -> Result<(Value, Value), RuleError> {
    let element = ctx.b.element(x);
    let (low, high) = (ctx.number(node, "min")?, ctx.number(node, "max")?);
    let (mut low_value, mut high_value) = (ctx.scalar(low, element)?, ctx.scalar(high, element)?);
    if low.as_f64() == high.as_f64() && ctx.b.ty(x).elements() > 0 {
        low_value = ctx.b.reduce_monoid(x, Monoid::Min, &[0])?;
        high_value = ctx.b.reduce_monoid(x, Monoid::Max, &[0])?;
    }
    if ctx.checking() && element.is_float() {
        let (low_finite, high_finite) = (ctx.b.is_finite(low_value)?, ctx.b.is_finite(high_value)?);
        let finite = ctx.b.and(low_finite, high_finite)?;
        let violated = ctx.b.not(finite)?;
        ctx.check(violated, CheckKind::Runtime, "the range of the data is not finite")?;
    }
    let (zero, one) = (ctx.scalar(Scalar::Int(0), element)?, ctx.scalar(Scalar::Int(1), element)?);
    let same = ctx.b.compare(Direction::Eq, low_value, high_value)?;
    let widen = ctx.b.select(same, one, zero)?;
    Ok((ctx.b.sub(low_value, widen)?, ctx.b.add(high_value, widen)?))
}

// aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor
/// Elements outside of the limits, and NaN, are not counted; the last bin includes its upper edge. Where eager raises
/// because the data are not finite and give the limits, nothing is counted (see `checks.rs`).
fn lower_histc(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let bins = ctx.int(node, "bins")?;
    let x = ctx.tensor(node, "self")?;
    let n = ctx.b.ty(x).elements();
    let x = ctx.b.reshape(x, &[n])?;
    // torch computes the places of narrow floats in their own type: every step is rounded.
    let narrow = ty.element;
    let x = ctx.convert(x, crate::types::accumulation_type(narrow))?;
    let (low, high) = limits(ctx, node, x)?;
    let (low, high) = (ctx.rounded_as(low, narrow)?, ctx.rounded_as(high, narrow)?);
    let line = ctx.b.ty(x).clone();
    let bins_value = ctx.scalar(Scalar::Int(bins), line.element)?;
    let bins_value = ctx.rounded_as(bins_value, narrow)?;
    let range = ctx.b.sub(high, low)?;
    let range = ctx.rounded_as(range, narrow)?;
    let (low, high) = (ctx.b.broadcast_to(low, &line.dims)?, ctx.b.broadcast_to(high, &line.dims)?);
    let above = ctx.b.compare(Direction::Ge, x, low)?;
    let below = ctx.b.compare(Direction::Le, x, high)?;
    let inside = ctx.b.and(above, below)?;
    let distance = ctx.b.sub(x, low)?;
    let distance = ctx.rounded_as(distance, narrow)?;
    let wide_bins = ctx.b.broadcast_to(bins_value, &line.dims)?;
    let range = ctx.b.broadcast_to(range, &line.dims)?;
    let scaled = ctx.b.mul(distance, wide_bins)?;
    let scaled = ctx.rounded_as(scaled, narrow)?;
    let place = ctx.b.binary(Binary::Div, scaled, range)?;
    let place = ctx.rounded_as(place, narrow)?;
    let element = index_element(bins + 1);
    let place = ctx.convert(place, element)?;
    let last = ctx.fill_like(Scalar::Int(bins - 1), place)?;
    let place = ctx.b.min(place, last)?;
    let nowhere = ctx.fill_like(Scalar::Int(-1), place)?;
    let place = ctx.b.select(inside, place, nowhere)?;
    count_equal(ctx, place, bins, ty.element)
}

/// How often each of `0..bins` occurs in a 1-d integer tensor.
fn count_equal(ctx: &mut LoweringContext<'_>, places: Value, bins: i64, result: ElementType) -> Lowering {
    let n = ctx.b.dims(places)[0];
    let grid = TensorType::new(ctx.b.element(places), vec![bins, n]);
    let bin = ctx.b.iota(&grid, 0)?;
    let places = ctx.b.broadcast_in_dim(places, &grid.dims, &[1])?;
    let hit = ctx.b.compare(Direction::Eq, bin, places)?;
    let hit = ctx.convert(hit, index_element(n))?;
    let counts = ctx.b.reduce_monoid(hit, Monoid::Sum, &[1])?;
    Ok(ctx.convert(counts, result)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.bucketize.Scalar", lower_bucketize),
    Rule::new("aten.bucketize.Tensor", lower_bucketize),
    Rule::new("aten.histc.default", lower_histc),
    Rule::new("aten.repeat_interleave.Tensor", lower_repeat_interleave),
    Rule::new("aten.searchsorted.Scalar", lower_searchsorted),
    Rule::new("aten.searchsorted.Tensor", lower_searchsorted),
];
