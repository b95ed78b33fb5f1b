//! QR factors by Householder reflections.

use tpud_graph::Node;
use tpud_stablehlo::{Builder, Value};

use super::matrix::{flat, flattened, padded, shaped, zeros};
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

// aten::geqrf(Tensor self) -> (Tensor a, Tensor tau)
fn lower_geqrf(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    if ctx.output_type(node, 0)?.elements() == 0 {
        return Ok(zeros(ctx, node)?.into());
    }
    let a = flattened(ctx, node, "self")?;
    let (factors, scales) = ctx.b.qr(a)?;
    Ok(shaped(ctx, node, &[factors, scales])?.into())
}

// aten::linalg_householder_product(Tensor input, Tensor tau) -> Tensor
fn lower_householder_product(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let out = ctx.output_type(node, 0)?;
    if out.elements() == 0 {
        return Ok(zeros(ctx, node)?.into());
    }
    let reflectors = flattened(ctx, node, "input")?;
    let scales = ctx.tensor(node, "tau")?;
    let scales = flat(ctx, scales, 1)?;
    let columns = ctx.b.dims(reflectors)[2];
    let q = orthogonal(&mut ctx.b, reflectors, scales, columns)?;
    Ok(ctx.b.reshape(q, &out.dims)?.into())
}

/// The first `columns` columns of the product of the reflectors that [`Builder::qr`] leaves: `[batch, m, columns]`.
/// Columns without a reflector are not read.
pub(super) fn orthogonal(
    b: &mut Builder,
    reflectors: Value,
    scales: Value,
    columns: i64,
) -> tpud_stablehlo::Result<Value> {
    let (batch, rows, count) = (b.dims(reflectors)[0], b.dims(reflectors)[1], b.dims(scales)[1]);
    let count = count.min(columns);
    let reflectors = b.slice_dim(reflectors, 2, 0, count, 1)?;
    let reflectors = padded(b, reflectors, rows, columns)?;
    let scales = b.slice_dim(scales, 1, 0, count, 1)?;
    let scales = b.reshape(scales, &[batch, 1, count])?;
    let scales = padded(b, scales, 1, columns)?;
    let scales = b.reshape(scales, &[batch, columns])?;
    b.reflectors_product(reflectors, scales)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.geqrf.default", lower_geqrf),
    Rule::new("aten.linalg_householder_product.default", lower_householder_product),
];
