//! `_embedding_bag`: sums, means and maxima of bags of embeddings.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Monoid, Scalar, TensorType, Value};

use crate::checks::CheckKind;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::{Combine, Target};
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// What is made of a bag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Sum,
    Mean,
    Max,
}

/// The bag of each of `count` indices: how many bags start at it or before, less one.
fn bag_of(ctx: &mut LoweringContext<'_>, starts: Value, count: i64) -> Result<Value, RuleError> {
    let bags = ctx.b.dims(starts)[0];
    let starts = ctx.convert(starts, ElementType::I32)?;
    let grid = TensorType::new(ElementType::I32, vec![count, bags]);
    let position = ctx.b.iota(&grid, 0)?;
    let starts = ctx.b.broadcast_in_dim(starts, &grid.dims, &[1])?;
    let started = ctx.b.compare(Direction::Le, starts, position)?;
    let started = ctx.convert(started, ElementType::I32)?;
    let number = ctx.b.reduce_monoid(started, Monoid::Sum, &[1])?;
    ctx.plus(number, -1.0)
}

/// The largest element of each bag in each column, and which index it came from: of equal ones the first.
fn largest(
    ctx: &mut LoweringContext<'_>,
    rows: Value,
    (indices, counted): (Value, Value),
    bag: Value,
    bags: i64,
) -> Result<(Value, Value), RuleError> {
    let (ty, shape) = (ctx.b.ty(rows).clone(), ctx.b.dims(rows).to_vec());
    let target = Target::along(ctx, bag, 0, 2);
    let out = ty.with_dims([bags, shape[1]]);
    let lowest = Monoid::Max.neutral(ty.element);
    let start = ctx.b.splat(lowest, &out)?;
    let low = ctx.fill_like(lowest, rows)?;
    let counted = ctx.b.broadcast_in_dim(counted, &shape, &[0])?;
    let rows = ctx.b.select(counted, rows, low)?;
    let max = ctx.scatter(start, &target, rows, Combine::Max)?;
    let own_max = ctx.take_along(max, bag, 0)?;
    let equal = ctx.b.compare(Direction::Eq, rows, own_max)?;
    let is_max = ctx.b.and(equal, counted)?;
    let position = ctx.b.iota(&TensorType::new(ElementType::I32, shape.clone()), 0)?;
    let position = ctx.select_or(is_max, position, shape[0] as f64)?;
    let none = ctx.b.splat(Scalar::Int(shape[0]), &out.with_element(ElementType::I32))?;
    let first = ctx.scatter(none, &target, position, Combine::Min)?;
    let found = ctx.compare_number(Direction::Lt, first, shape[0] as f64)?;
    let first = ctx.select_or(found, first, 0.0)?;
    let source = ctx.take_along(indices, first, 0)?;
    Ok((ctx.select_or(found, max, 0.0)?, ctx.select_or(found, source, 0.0)?))
}

/// What eager PyTorch raises on: rows that don't exist, bags that don't start at 0 or end after the last index.
fn check_bags(
    ctx: &mut LoweringContext<'_>,
    (indices, rows): (Value, i64),
    (offsets, count): (Value, i64),
) -> Result<(), RuleError> {
    if !ctx.checking() {
        return Ok(());
    }
    ctx.check_index(indices, (0, rows), false, CheckKind::Runtime)?;
    if ctx.b.ty(offsets).elements() == 0 {
        return Ok(());
    }
    let first = ctx.b.slice_dim(offsets, 0, 0, 1, 1)?;
    ctx.check_range(first, 0..1, CheckKind::Runtime, || "offsets[0] has to be 0".to_owned())?;
    ctx.check_range(offsets, 0..count + 1, CheckKind::Index, || {
        format!("an offset is out of range for {count} indices: valid are 0 to {count}")
    })
}

// aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0,
//   bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1)
//   -> (Tensor, Tensor, Tensor, Tensor)
fn lower_embedding_bag(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let mode = match ctx.int(node, "mode")? {
        0 => Mode::Sum,
        1 => Mode::Mean,
        2 => Mode::Max,
        other => return Err(RuleError::Internal(format!("mode {other}"))),
    };
    let types = (0..4).map(|i| ctx.output_type(node, i)).collect::<Result<Vec<_>, _>>()?;
    let (weight, indices) = (ctx.tensor(node, "weight")?, ctx.tensor(node, "indices")?);
    let (bags, count) = (types[0].dims[0], ctx.b.dims(indices)[0]);
    let offsets = ctx.tensor(node, "offsets")?;
    check_bags(ctx, (indices, ctx.b.dims(weight)[0]), (offsets, count))?;
    if types[0].elements() == 0 || count == 0 {
        let zeros = types.iter().map(|ty| ctx.b.splat(Scalar::Int(0), ty)).collect::<Result<Vec<_>, _>>()?;
        return Ok(zeros.into());
    }
    // With include_last_offset the last entry starts no bag.
    let starts = ctx.b.slice_dim(offsets, 0, 0, bags, 1)?;
    let bag = bag_of(ctx, starts, count)?;
    let padding = ctx.int(node, "padding_idx")?;
    let counted = ctx.compare_number(Direction::Ne, indices, padding as f64)?;
    let position = ctx.index(indices, ctx.b.dims(weight)[0])?;
    let rows = ctx.take_along(weight, position, 0)?;
    let mut rows = ctx.convert(rows, accumulation_type(types[0].element))?;
    let ones = ctx.convert(counted, ElementType::I32)?;
    let line = TensorType::new(ElementType::I32, vec![bags]);
    let zeros = ctx.b.splat(Scalar::Int(0), &line)?;
    let target = Target::along(ctx, bag, 0, 1);
    let sizes = ctx.scatter(zeros, &target, ones, Combine::Sum)?;
    let (result, max_indices) = if mode == Mode::Max {
        largest(ctx, rows, (indices, counted), bag, bags)?
    } else {
        let shape = ctx.b.dims(rows).to_vec();
        if let Some(factor) = ctx.opt_tensor(node, "per_sample_weights")? {
            let factor = ctx.convert(factor, ctx.b.element(rows))?;
            let factor = ctx.b.broadcast_in_dim(factor, &shape, &[0])?;
            rows = ctx.b.mul(rows, factor)?;
        }
        let counted = ctx.b.broadcast_in_dim(counted, &shape, &[0])?;
        let rows = ctx.select_or(counted, rows, 0.0)?;
        let start = ctx.b.splat(Scalar::Int(0), &ctx.b.ty(rows).with_dims([bags, shape[1]]))?;
        let target = Target::along(ctx, bag, 0, 2);
        let mut sum = ctx.scatter(start, &target, rows, Combine::Sum)?;
        if mode == Mode::Mean {
            let one = ctx.fill_like(Scalar::Int(1), sizes)?;
            let divisor = ctx.b.max(sizes, one)?;
            let divisor = ctx.convert(divisor, ctx.b.element(sum))?;
            let divisor = ctx.b.broadcast_in_dim(divisor, &[bags, shape[1]], &[0])?;
            sum = ctx.b.div(sum, divisor)?;
        }
        (sum, sizes)
    };
    // What torch's sum does not need, it does not fill in.
    let unused = mode == Mode::Sum;
    let mut outputs = vec![ctx.convert(result, types[0].element)?];
    for (i, value) in [bag, sizes, max_indices].into_iter().enumerate() {
        let ty = &types[i + 1];
        outputs.push(if ty.dims != ctx.b.dims(value) || (unused && i > 0) {
            ctx.b.splat(Scalar::Int(0), ty)?
        } else {
            ctx.convert(value, ty.element)?
        });
    }
    Ok(outputs.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._embedding_bag.default", lower_embedding_bag),
    Rule::new("aten._embedding_bag_forward_only.default", lower_embedding_bag),
];
