//! Resampling of the spatial dimensions: nearest, linear, cubic, and their antialiased forms.
//!
//! A resampled dimension is a sum of taps: lines at positions known when lowering, times weights. Each tap is taken by
//! `LoweringContext::lines`, so that no weight of 0 meets an infinity that torch would not read.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Literal, Scalar, TensorType, Value};

use super::upsample_taps::{Method, Scale, Taps};
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// The factors that the user gave, one for each spatial dimension.
pub(super) fn factors(
    ctx: &LoweringContext<'_>,
    node: &Node,
    spatial: usize,
) -> Result<Vec<Option<f64>>, RuleError> {
    if node.arg("scale_factors").is_some() {
        let listed = ctx.opt_floats(node, "scale_factors")?;
        return match listed {
            None => Ok(vec![None; spatial]),
            Some(list) if list.len() == spatial => Ok(list.into_iter().map(Some).collect()),
            Some(list) => Err(RuleError::Internal(format!("{list:?} for {spatial} dimensions"))),
        };
    }
    let names: &[&str] = if spatial == 1 { &["scales"] } else { &["scales_d", "scales_h", "scales_w"] };
    let names = &names[names.len() - spatial..];
    names
        .iter()
        .map(|name| if node.arg(name).is_some() { ctx.opt_float(node, name) } else { Ok(None) })
        .collect()
}

/// One dimension resampled: `Σ taps · weights` in the element type of `x`.
pub(super) fn resampled(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    dim: usize,
    taps: &Taps,
) -> Result<Value, RuleError> {
    if let Some(index) = taps.single() {
        return ctx.lines(x, dim, &index);
    }
    let element = ctx.b.element(x);
    let mut sum: Option<Value> = None;
    for (index, weights) in taps.each() {
        let lines = ctx.lines(x, dim, &index)?;
        let bytes = weights.iter().flat_map(|w| Scalar::Float(*w).to_bytes(element)).collect();
        let line = Literal::dense(TensorType::new(element, vec![weights.len() as i64]), bytes)?;
        let line = ctx.b.constant(line)?;
        let dims = ctx.b.dims(lines).to_vec();
        let weights = ctx.b.broadcast_in_dim(line, &dims, &[dim as i64])?;
        let part = ctx.b.mul(lines, weights)?;
        // A tap that an element does not have must not reach it, not even as 0 · inf.
        let part = if taps.each_is_read() { part } else { where_weighted(ctx, part, weights)? };
        sum = Some(match sum {
            Some(sum) => ctx.b.add(sum, part)?,
            None => part,
        });
    }
    sum.ok_or_else(|| RuleError::Internal("no taps".into()))
}

fn where_weighted(ctx: &mut LoweringContext<'_>, part: Value, weights: Value) -> Result<Value, RuleError> {
    let present = ctx.compare_number(Direction::Ne, weights, 0.0)?;
    ctx.select_or(present, part, 0.0)
}

fn upsample(ctx: &mut LoweringContext<'_>, node: &Node, method: Method) -> Lowering {
    let out = ctx.output_type(node, 0)?;
    // The overload .vec names its operand differently.
    let name = if node.arg("self").is_some() { "self" } else { "input" };
    let x = ctx.tensor(node, name)?;
    if out.elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &out)?.into());
    }
    let moves_only = matches!(method, Method::Nearest | Method::NearestExact);
    if !moves_only && !out.element.is_float() {
        return Err(RuleError::unsupported(format!(
            "resampling of {} with rounding; convert to float32 first",
            out.element
        )));
    }
    let mut x = if moves_only { x } else { ctx.convert(x, accumulation_type(out.element))? };
    let spatial = out.rank() - 2;
    let align_corners = !moves_only && ctx.boolean(node, "align_corners")?;
    let double = out.element == ElementType::F64;
    let factors = factors(ctx, node, spatial)?;
    // The last dimension first, as torch does.
    for s in (0..spatial).rev() {
        let (input, output) = (ctx.b.dims(x)[s + 2], out.dims[s + 2]);
        let scale = Scale { input, output, factor: factors[s], align_corners, double };
        x = resampled(ctx, x, s + 2, &Taps::new(method, &scale))?;
    }
    Ok(ctx.convert(x, out.element)?.into())
}

// aten::upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor
// aten::upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor
fn lower_upsample_nearest(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    upsample(ctx, node, Method::Nearest)
}

// aten::_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None)
//   -> Tensor
fn lower_upsample_nearest_exact(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    upsample(ctx, node, Method::NearestExact)
}

// aten::upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
//   float? scales_w=None) -> Tensor
// aten::upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors)
//   -> Tensor
fn lower_upsample_linear(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    upsample(ctx, node, Method::Linear)
}

// aten::upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
//   float? scales_w=None) -> Tensor
fn lower_upsample_cubic(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    upsample(ctx, node, Method::Cubic)
}

// aten::_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
//   float? scales_w=None) -> Tensor
fn lower_upsample_linear_aa(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    upsample(ctx, node, Method::LinearAntialiased)
}

// aten::_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
//   float? scales_w=None) -> Tensor
fn lower_upsample_cubic_aa(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    upsample(ctx, node, Method::CubicAntialiased)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._upsample_bicubic2d_aa.default", lower_upsample_cubic_aa),
    Rule::new("aten._upsample_bicubic2d_aa.vec", lower_upsample_cubic_aa),
    Rule::new("aten._upsample_bilinear2d_aa.default", lower_upsample_linear_aa),
    Rule::new("aten._upsample_bilinear2d_aa.vec", lower_upsample_linear_aa),
    Rule::new("aten._upsample_nearest_exact1d.default", lower_upsample_nearest_exact),
    Rule::new("aten._upsample_nearest_exact1d.vec", lower_upsample_nearest_exact),
    Rule::new("aten._upsample_nearest_exact2d.default", lower_upsample_nearest_exact),
    Rule::new("aten._upsample_nearest_exact2d.vec", lower_upsample_nearest_exact),
    Rule::new("aten._upsample_nearest_exact3d.default", lower_upsample_nearest_exact),
    Rule::new("aten._upsample_nearest_exact3d.vec", lower_upsample_nearest_exact),
    Rule::new("aten.upsample_bicubic2d.default", lower_upsample_cubic),
    Rule::new("aten.upsample_bicubic2d.vec", lower_upsample_cubic),
    Rule::new("aten.upsample_bilinear2d.default", lower_upsample_linear),
    Rule::new("aten.upsample_bilinear2d.vec", lower_upsample_linear),
    Rule::new("aten.upsample_linear1d.default", lower_upsample_linear),
    Rule::new("aten.upsample_linear1d.vec", lower_upsample_linear),
    Rule::new("aten.upsample_nearest1d.default", lower_upsample_nearest),
    Rule::new("aten.upsample_nearest1d.vec", lower_upsample_nearest),
    Rule::new("aten.upsample_nearest2d.default", lower_upsample_nearest),
    Rule::new("aten.upsample_nearest2d.vec", lower_upsample_nearest),
    Rule::new("aten.upsample_nearest3d.default", lower_upsample_nearest),
    Rule::new("aten.upsample_nearest3d.vec", lower_upsample_nearest),
    Rule::new("aten.upsample_trilinear3d.default", lower_upsample_linear),
    Rule::new("aten.upsample_trilinear3d.vec", lower_upsample_linear),
];
