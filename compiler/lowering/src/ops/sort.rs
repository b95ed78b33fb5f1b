//! Order along a dimension: `sort`, `topk`, `kthvalue`, `median`, `mode`.
//!
//! Every sort is stable, with torch's order: NaN is the largest value. torch does not define which of several equal
//! elements `topk`, `kthvalue` and `median` point at; here it is the first.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, Monoid, Scalar, SortOrder, Value};

use super::scan::prefix_max;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::index_element;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

/// A tensor sorted along a dimension.
struct Sorted {
    values: Value,
    positions: Value,
    dim: usize,
}

/// Sorts `x` together with the positions along `dim`; a 0-d tensor as a tensor of one element.
fn sorted(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    dim: usize,
    order: SortOrder,
) -> Result<Sorted, RuleError> {
    let x = if ctx.b.rank(x) == 0 { ctx.b.reshape(x, &[1])? } else { x };
    let ty = ctx.b.ty(x).clone();
    let positions = ctx.b.iota(&ty.with_element(index_element(ty.dims[dim])), dim)?;
    if ty.dims[dim] <= 1 || ty.elements() == 0 {
        return Ok(Sorted { values: x, positions, dim });
    }
    let out = ctx.b.sort_by_key(&[x, positions], dim, order)?;
    Ok(Sorted { values: out[0], positions: out[1], dim })
}

impl Sorted {
    /// `count` of the sorted elements from `start` on, in the shapes and dtypes of the node's outputs.
    fn part(self, ctx: &mut LoweringContext<'_>, node: &Node, start: i64, count: i64) -> Lowering {
        let mut outputs = Vec::with_capacity(2);
        for (i, x) in [self.values, self.positions].into_iter().enumerate() {
            let ty = ctx.output_type(node, i)?;
            let x = ctx.b.slice_dim(x, self.dim, start, start + count, 1)?;
            let x = ctx.convert(x, ty.element)?;
            outputs.push(ctx.b.reshape(x, &ty.dims)?);
        }
        Ok(outputs.into())
    }

    /// The element at a computed place of each line: `place` has the line's shape with 1 in place of its length.
    fn pick(self, ctx: &mut LoweringContext<'_>, node: &Node, place: Value) -> Lowering {
        let dims = ctx.b.dims(self.values).to_vec();
        let count = ctx.b.iota(&ctx.b.ty(self.positions).clone(), self.dim)?;
        let place = ctx.b.broadcast_to(place, &dims)?;
        let here = ctx.b.compare(Direction::Eq, count, place)?;
        let mut outputs = Vec::with_capacity(2);
        for (i, x) in [self.values, self.positions].into_iter().enumerate() {
            let ty = ctx.output_type(node, i)?;
            let picked = only(ctx, x, here, self.dim)?;
            let picked = ctx.convert(picked, ty.element)?;
            outputs.push(ctx.b.reshape(picked, &ty.dims)?);
        }
        Ok(outputs.into())
    }
}

/// The one element of each line where `here` is true; NaN and infinities pass.
fn only(ctx: &mut LoweringContext<'_>, x: Value, here: Value, dim: usize) -> Result<Value, RuleError> {
    let element = ctx.b.element(x);
    let monoid = if element == tpud_stablehlo::ElementType::Bool { Monoid::Or } else { Monoid::Max };
    let nothing = ctx.fill_like(monoid.neutral(element), x)?;
    let x = ctx.b.select(here, x, nothing)?;
    Ok(ctx.b.reduce_monoid(x, monoid, &[dim as i64])?)
}

fn order(ctx: &LoweringContext<'_>, node: &Node, name: &str) -> Result<SortOrder, RuleError> {
    Ok(if ctx.boolean(node, name)? { SortOrder::Descending } else { SortOrder::Ascending })
}

// aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
// aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
fn lower_sort(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dim = ctx.dim(node, "dim", ctx.b.rank(x))?;
    let order = order(ctx, node, "descending")?;
    let sorted = sorted(ctx, x, dim, order)?;
    let count = ctx.b.dims(sorted.values)[dim];
    sorted.part(ctx, node, 0, count)
}

/// What to sort descending for the smallest, or largest, elements first, NaN counting as the largest. Its own inverse,
/// but for the sign of NaN.
fn top_key(ctx: &mut LoweringContext<'_>, x: Value, largest: bool) -> Result<Value, RuleError> {
    let element = ctx.b.element(x);
    if !element.is_float() {
        return Ok(if largest { x } else { ctx.b.not(x)? });
    }
    let key = if largest { x } else { ctx.b.neg(x)? };
    let nan = ctx.fill_like(Scalar::Float(if largest { f64::NAN } else { -f64::NAN }), x)?;
    let is_nan = ctx.b.compare(Direction::Ne, x, x)?;
    Ok(ctx.b.select(is_nan, nan, key)?)
}

// aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)
/// The result is sorted even if that is not asked for. XLA knows a head of a descending sort in total order as a
/// top-k and need not sort everything.
fn lower_topk(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dim = ctx.dim(node, "dim", ctx.b.rank(x))?;
    let (k, largest) = (ctx.int(node, "k")?, ctx.boolean(node, "largest")?);
    let ty = ctx.b.ty(x).clone();
    if ty.rank() == 0 || ty.elements() == 0 || k == 0 {
        return sorted(ctx, x, dim, SortOrder::Descending)?.part(ctx, node, 0, k);
    }
    let last = ty.rank() - 1;
    let mut swap: Vec<i64> = (0..ty.rank() as i64).collect();
    swap.swap(dim, last);
    let x = ctx.b.transpose(x, &swap)?;
    let key = top_key(ctx, x, largest)?;
    let size = ty.dims[dim];
    let shape = ctx.b.ty(x).with_element(index_element(size));
    let positions = ctx.b.iota(&shape, last)?;
    let sorted = ctx.b.sort(&[key, positions], last, true, |b, args| {
        b.compare_total_order(Direction::Gt, args[0], args[1])
    })?;
    let mut outputs = Vec::with_capacity(2);
    for (i, x) in sorted.into_iter().enumerate() {
        let x = ctx.b.slice_dim(x, last, 0, k, 1)?;
        let x = if i == 0 { top_key(ctx, x, largest)? } else { x };
        let x = ctx.b.transpose(x, &swap)?;
        outputs.push(ctx.convert(x, ctx.output_type(node, i)?.element)?);
    }
    Ok(outputs.into())
}

// aten::kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)
fn lower_kthvalue(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dim = ctx.dim(node, "dim", ctx.b.rank(x))?;
    let k = ctx.int(node, "k")?;
    sorted(ctx, x, dim, SortOrder::Ascending)?.part(ctx, node, k - 1, 1)
}

/// The place of the lower middle in each sorted line, with size 1 along `dim`. NaN comes last: `ignore_nan` leaves it
/// out (a line of NaN alone has the median NaN), else the first NaN is the median.
fn middle(
    ctx: &mut LoweringContext<'_>,
    values: Value,
    dim: usize,
    ignore_nan: bool,
) -> Result<Value, RuleError> {
    let ty = ctx.b.ty(values).clone();
    let n = ty.dims[dim];
    let mut line = ty.with_element(index_element(n));
    line.dims[dim] = 1;
    let half = ctx.b.splat(Scalar::Int((n - 1) / 2), &line)?;
    if !ty.element.is_float() {
        return Ok(half);
    }
    let number = ctx.b.compare(Direction::Eq, values, values)?;
    let number = ctx.convert(number, line.element)?;
    let numbers = ctx.b.reduce_monoid(number, Monoid::Sum, &[dim as i64])?;
    let numbers = ctx.b.reshape(numbers, &line.dims)?;
    if ignore_nan {
        let (one, two) = (ctx.fill_like(Scalar::Int(1), numbers)?, ctx.fill_like(Scalar::Int(2), numbers)?);
        let at_least_one = ctx.b.max(numbers, one)?;
        let last = ctx.b.sub(at_least_one, one)?;
        return Ok(ctx.b.div(last, two)?);
    }
    let all = ctx.fill_like(Scalar::Int(n), numbers)?;
    let clean = ctx.b.compare(Direction::Eq, numbers, all)?;
    Ok(ctx.b.select(clean, half, numbers)?)
}

fn median_along(ctx: &mut LoweringContext<'_>, node: &Node, ignore_nan: bool) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dim = ctx.dim(node, "dim", ctx.b.rank(x))?;
    ctx.with_elements(x, &[dim as i64])?;
    let sorted = sorted(ctx, x, dim, SortOrder::Ascending)?;
    let place = middle(ctx, sorted.values, dim, ignore_nan)?;
    sorted.pick(ctx, node, place)
}

/// The median of all elements; of no floats it is NaN.
fn median_of_all(ctx: &mut LoweringContext<'_>, node: &Node, ignore_nan: bool) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let ty = ctx.b.ty(x).clone();
    if ty.elements() == 0 {
        if !ty.element.is_float() {
            return Err(RuleError::unsupported("the median of no integers is not defined"));
        }
        return Ok(ctx.scalar(Scalar::Float(f64::NAN), ty.element)?.into());
    }
    let flat = ctx.b.reshape(x, &[ty.elements()])?;
    let values = sorted(ctx, flat, 0, SortOrder::Ascending)?.values;
    let place = middle(ctx, values, 0, ignore_nan)?;
    let place = ctx.b.reshape(place, &[])?;
    let out = ctx.b.dynamic_slice(values, &[place], &[1])?;
    Ok(ctx.b.reshape(out, &[])?.into())
}

// aten::median(Tensor self) -> Tensor
fn lower_median(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    median_of_all(ctx, node, false)
}

// aten::nanmedian(Tensor self) -> Tensor
fn lower_nanmedian(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    median_of_all(ctx, node, true)
}

// aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
fn lower_median_dim(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    median_along(ctx, node, false)
}

// aten::nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
fn lower_nanmedian_dim(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    median_along(ctx, node, true)
}

// aten::mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)
/// The smallest of the most frequent values, at its last position: the end of the first longest run of a sorted line.
fn lower_mode(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dim = ctx.dim(node, "dim", ctx.b.rank(x))?;
    ctx.with_elements(x, &[dim as i64])?;
    let sorted = sorted(ctx, x, dim, SortOrder::Ascending)?;
    let dims = ctx.b.dims(sorted.values).to_vec();
    let n = dims[dim];
    if n <= 1 || dims.contains(&0) {
        return sorted.part(ctx, node, 0, 1);
    }
    let count = ctx.b.iota(&ctx.b.ty(sorted.positions).clone(), dim)?;
    let before = ctx.b.slice_dim(sorted.values, dim, 0, n - 1, 1)?;
    let after = ctx.b.slice_dim(sorted.values, dim, 1, n, 1)?;
    let new = ctx.b.compare(Direction::Ne, before, after)?;
    let places = ctx.b.slice_dim(count, dim, 1, n, 1)?;
    let zeros = ctx.fill_like(Scalar::Int(0), places)?;
    let starts = ctx.b.select(new, places, zeros)?;
    let zero = ctx.scalar(Scalar::Int(0), ctx.b.element(count))?;
    let (none, mut low) = (vec![0; dims.len()], vec![0; dims.len()]);
    low[dim] = 1;
    let starts = ctx.b.pad(starts, zero, &low, &none, &none)?;
    let start = prefix_max(ctx, starts, dim)?;
    let length = ctx.b.sub(count, start)?;
    let longest = ctx.b.reduce_monoid(length, Monoid::Max, &[dim as i64])?;
    let line: Vec<i64> = (0..dims.len()).map(|d| if d == dim { 1 } else { dims[d] }).collect();
    let longest = ctx.b.reshape(longest, &line)?;
    let longest = ctx.b.broadcast_to(longest, &dims)?;
    let best = ctx.b.compare(Direction::Eq, length, longest)?;
    let beyond = ctx.fill_like(Scalar::Int(n), count)?;
    let place = ctx.b.select(best, count, beyond)?;
    let place = ctx.b.reduce_monoid(place, Monoid::Min, &[dim as i64])?;
    let place = ctx.b.reshape(place, &line)?;
    sorted.pick(ctx, node, place)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.kthvalue.default", lower_kthvalue),
    Rule::new("aten.median.default", lower_median),
    Rule::new("aten.median.dim", lower_median_dim),
    Rule::new("aten.mode.default", lower_mode),
    Rule::new("aten.nanmedian.default", lower_nanmedian),
    Rule::new("aten.nanmedian.dim", lower_nanmedian_dim),
    Rule::new("aten.sort.default", lower_sort),
    Rule::new("aten.sort.stable", lower_sort),
    Rule::new("aten.topk.default", lower_topk),
];
