//! Distances between rows.

use tpud_graph::Node;
use tpud_stablehlo::{Binary, ElementType, Monoid, Scalar, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

// aten::_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor
/// Always from the differences: torch's other way for p = 2, through a matrix product, loses digits.
fn lower_cdist(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let out = ctx.output_type(node, 0)?;
    let (x, y) = (ctx.tensor(node, "x1")?, ctx.tensor(node, "x2")?);
    let size = ctx.b.dims(x).last().copied().unwrap_or(0);
    if out.elements() == 0 || size == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &out)?.into());
    }
    let full = out.with_dims([&out.dims[..], &[size]].concat());
    let rank = out.rank();
    let placed = |ctx: &mut LoweringContext<'_>, v: Value, new: usize| {
        let mut dims = ctx.b.dims(v).to_vec();
        dims.insert(dims.len() - new, 1);
        let v = ctx.b.reshape(v, &dims)?;
        ctx.fit(v, &full)
    };
    let (x, y) = (placed(ctx, x, 1)?, placed(ctx, y, 2)?);
    let difference = ctx.b.sub(x, y)?;
    let distance = ctx.b.abs(difference)?;
    let last = [rank as i64];
    let p = ctx.float(node, "p")?;
    let result = if p == 0.0 {
        let differs = ctx.convert(distance, ElementType::Bool)?;
        let ones = ctx.convert(differs, out.element)?;
        ctx.b.reduce_monoid(ones, Monoid::Sum, &last)?
    } else if p == f64::INFINITY {
        ctx.b.reduce_monoid(distance, Monoid::Max, &last)?
    } else if p == 1.0 {
        ctx.b.reduce_monoid(distance, Monoid::Sum, &last)?
    } else if p == 2.0 {
        let square = ctx.b.mul(distance, distance)?;
        let sum = ctx.b.reduce_monoid(square, Monoid::Sum, &last)?;
        ctx.b.sqrt(sum)?
    } else {
        let exponent = ctx.fill_like(Scalar::Float(p), distance)?;
        let power = ctx.b.binary(Binary::Pow, distance, exponent)?;
        let sum = ctx.b.reduce_monoid(power, Monoid::Sum, &last)?;
        let root = ctx.fill_like(Scalar::Float(1.0 / p), sum)?;
        ctx.b.binary(Binary::Pow, sum, root)?
    };
    Ok(result.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[Rule::new("aten._cdist_forward.default", lower_cdist)];
