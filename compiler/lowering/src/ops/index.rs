//! Advanced indexing: `x[i, :, j]` and assignment to it. See `indices.rs` for indices out of range.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, GatherDims, Monoid, Scalar, ScatterDims, Value};

use crate::checks::CheckKind;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::{Combine, Target, index_element};
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

/// Index tensors brought together: which dimensions they address, and what the indexed tensor looks like.
struct Advanced {
    /// The index tensors broadcast to one shape, one component per addressed dimension.
    components: Value,
    /// The addressed dimensions.
    addressed: Vec<i64>,
    /// The dimensions of the result that run over the other dimensions.
    windows: Vec<i64>,
    /// The dimension of `components` that holds the components.
    vector_dim: i64,
    /// The sizes of the result.
    result: Vec<i64>,
}

fn is_mask(element: ElementType) -> bool {
    matches!(element, ElementType::Bool | ElementType::U8)
}

/// The shape that all shapes broadcast to.
fn broadcast_shape(shapes: &[Vec<i64>]) -> Vec<i64> {
    let rank = shapes.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = vec![1; rank];
    for shape in shapes {
        for (slot, &size) in out[rank - shape.len()..].iter_mut().zip(shape) {
            if size != 1 {
                *slot = size;
            }
        }
    }
    out
}

/// Combines integer index tensors; `None` when there are none. The broadcast shape stands where the addressed
/// dimensions were if those are neighbours, else at the front.
fn advanced(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    indices: &[Option<Value>],
) -> Result<Option<Advanced>, RuleError> {
    let dims = ctx.b.dims(x).to_vec();
    let given: Vec<(usize, Value)> =
        indices.iter().enumerate().filter_map(|(d, index)| index.map(|index| (d, index))).collect();
    let Some(&(first, _)) = given.first() else { return Ok(None) };
    let shapes: Vec<Vec<i64>> = given.iter().map(|(_, index)| ctx.b.dims(*index).to_vec()).collect();
    let batch = broadcast_shape(&shapes);
    let element = index_element(given.iter().map(|(d, _)| dims[*d]).max().unwrap_or(0));
    let mut column = batch.clone();
    column.push(1);
    let mut components = Vec::with_capacity(given.len());
    for &(d, index) in &given {
        let index = ctx.wrapped_index(index, dims[d])?;
        let index = ctx.convert(index, element)?;
        let index = ctx.b.broadcast_to(index, &batch)?;
        components.push(if given.len() == 1 { index } else { ctx.b.reshape(index, &column)? });
    }
    let neighbours = given.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1);
    let at = if neighbours { first } else { 0 };
    let addressed: Vec<i64> = given.iter().map(|(d, _)| *d as i64).collect();
    let mut result: Vec<i64> =
        (0..dims.len()).filter(|d| !addressed.contains(&(*d as i64))).map(|d| dims[d]).collect();
    result.splice(at..at, batch.iter().copied());
    if !result.contains(&0) {
        for &(d, index) in &given {
            ctx.check_index(index, (d, dims[d]), true, CheckKind::Index)?;
        }
    }
    let windows = (0..at).chain(at + batch.len()..result.len()).map(|d| d as i64).collect();
    let vector_dim = batch.len() as i64;
    let components = match components[..] {
        [only] => only,
        _ => ctx.b.concatenate(&components, batch.len())?,
    };
    Ok(Some(Advanced { components, addressed, windows, vector_dim, result }))
}

// aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor
fn lower_index(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let indices = ctx.opt_tensors(node, "indices")?;
    let ty = ctx.output_type(node, 0)?;
    if indices.iter().flatten().any(|index| is_mask(ctx.b.element(*index))) {
        return Err(RuleError::unsupported(
            "indexing with a mask: the size of the result depends on the mask's values; use torch.where or \
             masked_fill to keep the shape",
        ));
    }
    if ty.elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &ty)?.into());
    }
    let Some(index) = advanced(ctx, x, &indices)? else { return Ok(x.into()) };
    let mut window = ctx.b.dims(x).to_vec();
    for &d in &index.addressed {
        if window[d as usize] == 0 {
            return Err(RuleError::unsupported(
                "every index into a dimension without elements is out of range",
            ));
        }
        window[d as usize] = 1;
    }
    let dims = GatherDims {
        offset_dims: index.windows,
        collapsed_slice_dims: index.addressed.clone(),
        start_index_map: index.addressed,
        index_vector_dim: index.vector_dim,
        ..GatherDims::default()
    };
    Ok(ctx.b.gather(x, index.components, &dims, &window)?.into())
}

// aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor
/// Without `accumulate`, one of several values for the same position wins, as in torch it is not defined which.
fn lower_index_put(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let indices = ctx.opt_tensors(node, "indices")?;
    let accumulate = ctx.boolean(node, "accumulate")?;
    if indices.iter().flatten().any(|index| is_mask(ctx.b.element(*index))) {
        return put_masked(ctx, node, x, &indices, accumulate);
    }
    let Some(index) = advanced(ctx, x, &indices)? else {
        let ty = ctx.b.ty(x).clone();
        let values = ctx.operand(node, "values", &ty)?;
        return Ok(if accumulate { ctx.b.add(x, values)? } else { values }.into());
    };
    let ty = ctx.b.ty(x).with_dims(index.result);
    let values = ctx.operand(node, "values", &ty)?;
    let dims = ScatterDims {
        update_window_dims: index.windows,
        inserted_window_dims: index.addressed.clone(),
        scatter_dims_to_operand_dims: index.addressed,
        index_vector_dim: index.vector_dim,
        ..ScatterDims::default()
    };
    let combine = if accumulate { Combine::Sum } else { Combine::Replace };
    Ok(ctx.scatter(x, &Target { indices: index.components, dims }, values, combine)?.into())
}

/// `x[:, mask] = values`: the same values for every true position, or the n-th for the n-th.
fn put_masked(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
    x: Value,
    indices: &[Option<Value>],
    accumulate: bool,
) -> Lowering {
    let given: Vec<(usize, Value)> =
        indices.iter().enumerate().filter_map(|(d, index)| index.map(|index| (d, index))).collect();
    let &[(at, mask)] = &given[..] else {
        return Err(RuleError::unsupported(
            "assigning with a mask and other indices at once; use torch.where",
        ));
    };
    let ty = ctx.b.ty(x).clone();
    let covered = ctx.b.rank(mask);
    let after = ty.rank() - at - covered;
    let mask = ctx.convert(mask, ElementType::Bool)?;
    let values = ctx.tensor(node, "values")?;
    let mut sizes = ctx.b.dims(values).to_vec();
    while sizes.len() < at + 1 + after {
        sizes.insert(0, 1);
    }
    let values = ctx.b.reshape(values, &sizes)?;
    if sizes[at] != 1 {
        let message =
            format!("{} values are assigned to another number of true elements in the mask", sizes[at]);
        check_count(ctx, mask, (Direction::Ne, sizes[at]), message)?;
    }
    let values = if sizes[at] == 1 {
        values
    } else if sizes[at] == 0 {
        return Ok(x.into());
    } else {
        let position = nth_true(ctx, mask, sizes[at])?;
        ctx.take_along(values, position, at)?
    };
    // Now [before…, 1 or the flat mask, after…].
    let mut sizes = ctx.b.dims(values).to_vec();
    let spread = if sizes[at] == 1 { vec![1; covered] } else { ctx.b.dims(mask).to_vec() };
    sizes.splice(at..=at, spread);
    let values = ctx.b.reshape(values, &sizes)?;
    let values = ctx.b.broadcast_to(values, &ty.dims)?;
    let map: Vec<i64> = (at..at + covered).map(|d| d as i64).collect();
    let mask = ctx.b.broadcast_in_dim(mask, &ty.dims, &map)?;
    let new = if accumulate { ctx.b.add(x, values)? } else { values };
    Ok(ctx.b.select(mask, new, x)?.into())
}

/// States that eager PyTorch raises where the number of true elements has this relation to `limit`.
pub(crate) fn check_count(
    ctx: &mut LoweringContext<'_>,
    mask: Value,
    (relation, limit): (Direction, i64),
    message: String,
) -> Result<(), RuleError> {
    if !ctx.checking() {
        return Ok(());
    }
    let ones = ctx.convert(mask, ElementType::I64)?;
    let all: Vec<i64> = (0..ctx.b.rank(mask) as i64).collect();
    let count = ctx.b.reduce_monoid(ones, Monoid::Sum, &all)?;
    let limit = ctx.fill_like(Scalar::Int(limit), count)?;
    let violated = ctx.b.compare(relation, count, limit)?;
    ctx.check(violated, CheckKind::Runtime, message)
}

/// For each element of the flat mask: how many true elements come before it, at most `limit - 1`.
pub(crate) fn nth_true(ctx: &mut LoweringContext<'_>, mask: Value, limit: i64) -> Result<Value, RuleError> {
    let count = ctx.b.ty(mask).elements();
    let flat = ctx.b.reshape(mask, &[count])?;
    let ones = ctx.convert(flat, index_element(count.max(limit)))?;
    let seen = super::scan::prefix_sum(ctx, ones, 0)?;
    let before = ctx.b.sub(seen, ones)?;
    let last = ctx.fill_like(Scalar::Int(limit - 1), before)?;
    Ok(ctx.b.min(before, last)?)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._unsafe_index.Tensor", lower_index),
    Rule::new("aten._unsafe_index_put.default", lower_index_put),
    Rule::new("aten.index.Tensor", lower_index),
    Rule::new("aten.index_put.default", lower_index_put),
];
