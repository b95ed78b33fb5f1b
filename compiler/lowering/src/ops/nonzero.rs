//! Positions of what is not zero, up to a given number: `nonzero_static`.

use tpud_graph::Node;
use tpud_stablehlo::{ElementType, Scalar, TensorType};

use super::scan::prefix_sum;
use crate::context::LoweringContext;
use crate::indices::{Combine, Target, index_element};
use crate::pointwise::Lowering;
use crate::registry::Rule;

// aten::nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor
/// The n-th true element writes its coordinates into row n; rows beyond the last one are dropped, and those that nobody
/// writes keep the fill value.
fn lower_nonzero_static(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let fill = ctx.number(node, "fill_value")?;
    let rows = ctx.b.splat(fill, &ty)?;
    let x = ctx.tensor(node, "self")?;
    let shape = ctx.b.ty(x).clone();
    let count = shape.elements();
    if ty.elements() == 0 || count == 0 {
        return Ok(rows.into());
    }
    let truth = ctx.convert(x, ElementType::Bool)?;
    let truth = ctx.b.reshape(truth, &[count])?;
    let ones = ctx.convert(truth, index_element(count.max(ty.dims[0])))?;
    let seen = prefix_sum(ctx, ones, 0)?;
    let row = ctx.plus(seen, -1.0)?;
    let dropped = ctx.fill_like(Scalar::Int(ty.dims[0]), row)?;
    let row = ctx.b.select(truth, row, dropped)?;
    let mut coordinates = Vec::with_capacity(shape.rank());
    for d in 0..shape.rank() {
        let place = ctx.b.iota(&TensorType::new(ty.element, shape.dims.clone()), d)?;
        coordinates.push(ctx.b.reshape(place, &[count, 1])?);
    }
    let coordinates = ctx.b.concatenate(&coordinates, 1)?;
    let target = Target::along(ctx, row, 0, 2);
    Ok(ctx.scatter(rows, &target, coordinates, Combine::Replace)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[Rule::new("aten.nonzero_static.default", lower_nonzero_static)];
