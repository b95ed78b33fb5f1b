//! Ops whose result has a size that depends on data, by its bound: the data at the largest size it can have, and how much
//! of it counts. What lies behind is zero.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Monoid, Scalar, SortOrder, TensorType, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::index_element;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

// tpud::nonzero(Tensor self) -> (Tensor data, Tensor count)
/// Positions, those of nonzero elements first: a stable sort keeps them in torch's order.
fn lower_nonzero(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let (dims, out) = (ctx.b.dims(x).to_vec(), ctx.output_type(node, 0)?);
    let count = ctx.b.ty(x).elements();
    let element = index_element(count);
    let mask = ctx.convert(x, ElementType::Bool)?;
    let mask = ctx.b.reshape(mask, &[count])?;
    let ones = ctx.convert(mask, element)?;
    let found = ctx.b.reduce_monoid(ones, Monoid::Sum, &[0])?;
    let data = if out.elements() == 0 {
        ctx.b.splat(Scalar::Int(0), &out)?
    } else {
        let flat = TensorType::new(element, [count]);
        let positions = ctx.b.iota(&flat, 0)?;
        let order = ctx.b.sort_by_key(&[ones, positions], 0, SortOrder::Descending)?[1];
        let counts = ctx.b.broadcast_to(found, &[count])?;
        let valid = ctx.b.compare(Direction::Lt, positions, counts)?;
        let zero = ctx.fill_like(Scalar::Int(0), order)?;
        let order = ctx.b.select(valid, order, zero)?;
        coordinates(ctx, order, &dims)?
    };
    let data = ctx.convert(data, out.element)?;
    let found = ctx.convert(found, ElementType::I64)?;
    Ok([data, found].into())
}

/// `[n, rank]`: the coordinates of row-major positions `[n]` in a tensor of these sizes, none of which is zero.
fn coordinates(ctx: &mut LoweringContext<'_>, positions: Value, dims: &[i64]) -> Result<Value, RuleError> {
    let count = ctx.b.dims(positions)[0];
    let mut rest = positions;
    let mut columns = Vec::with_capacity(dims.len());
    for size in dims.iter().rev() {
        let size = ctx.fill_like(Scalar::Int(*size), rest)?;
        let column = ctx.b.rem(rest, size)?;
        rest = ctx.b.div(rest, size)?;
        columns.push(ctx.b.reshape(column, &[count, 1])?);
    }
    columns.reverse();
    Ok(ctx.b.concatenate(&columns, 1)?)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[Rule::new("tpud.nonzero.default", lower_nonzero)];
