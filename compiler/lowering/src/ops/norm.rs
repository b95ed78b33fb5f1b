//! Normalisations: layer, group, batch and RMS norm. Statistics are computed in the accumulation type.

use tpud_graph::Node;
use tpud_stablehlo::{Scalar, TensorType, Value};

use super::reduce::{moments, spread};
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// `(x - mean) · rstd` over `dims`, with mean and rstd: all in the accumulation type.
fn normalise(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    dims: &[i64],
    eps: f64,
) -> Result<(Value, Value, Value), RuleError> {
    let shape = ctx.b.dims(x).to_vec();
    let (mean, squares, n) = moments(ctx, x, dims)?;
    let rstd = inverse_deviation(ctx, squares, n, eps)?;
    let (wide_mean, wide_rstd) = (spread(ctx, mean, &shape, dims)?, spread(ctx, rstd, &shape, dims)?);
    let centred = ctx.b.sub(x, wide_mean)?;
    Ok((ctx.b.mul(centred, wide_rstd)?, mean, rstd))
}

/// `1 / sqrt(sum / n + eps)`
fn inverse_deviation(
    ctx: &mut LoweringContext<'_>,
    sum: Value,
    n: i64,
    eps: f64,
) -> Result<Value, RuleError> {
    let divisor = ctx.fill_like(Scalar::Float(n as f64), sum)?;
    let variance = ctx.b.div(sum, divisor)?;
    let eps = ctx.fill_like(Scalar::Float(eps), variance)?;
    let shifted = ctx.b.add(variance, eps)?;
    Ok(ctx.b.rsqrt(shifted)?)
}

/// `x · weight + bias`, either of which may be absent; `map` places their dimensions in those of `x`.
fn affine(ctx: &mut LoweringContext<'_>, node: &Node, mut x: Value, map: &[i64]) -> Result<Value, RuleError> {
    let ty = ctx.b.ty(x).clone();
    if let Some(weight) = per_channel(ctx, node, "weight", &ty, map)? {
        x = ctx.b.mul(x, weight)?;
    }
    if let Some(bias) = per_channel(ctx, node, "bias", &ty, map)? {
        x = ctx.b.add(x, bias)?;
    }
    Ok(x)
}

fn per_channel(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
    name: &str,
    ty: &TensorType,
    map: &[i64],
) -> Result<Option<Value>, RuleError> {
    if node.arg(name).is_none() {
        return Ok(None);
    }
    let Some(value) = ctx.opt_tensor(node, name)? else { return Ok(None) };
    let value = ctx.convert(value, ty.element)?;
    Ok(Some(ctx.b.broadcast_in_dim(value, &ty.dims, map)?))
}

/// Gives output `i` its dtype and sizes.
fn shaped(ctx: &mut LoweringContext<'_>, node: &Node, i: usize, value: Value) -> Result<Value, RuleError> {
    let ty = ctx.output_type(node, i)?;
    let value = ctx.convert(value, ty.element)?;
    Ok(ctx.b.reshape(value, &ty.dims)?)
}

// aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps)
//   -> (Tensor, Tensor, Tensor)
fn lower_layer_norm(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let input = ctx.tensor(node, "input")?;
    let x = ctx.convert(input, accumulation_type(ctx.b.element(input)))?;
    let rank = ctx.b.rank(x);
    let inner = ctx.ints(node, "normalized_shape")?.len();
    let dims: Vec<i64> = (rank - inner.min(rank)..rank).map(|d| d as i64).collect();
    let (normal, mean, rstd) = normalise(ctx, x, &dims, ctx.float(node, "eps")?)?;
    let out = affine(ctx, node, normal, &dims)?;
    Ok([shaped(ctx, node, 0, out)?, shaped(ctx, node, 1, mean)?, shaped(ctx, node, 2, rstd)?].into())
}

// aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group,
//   float eps) -> (Tensor, Tensor, Tensor)
fn lower_group_norm(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let input = ctx.tensor(node, "input")?;
    let shape = ctx.b.dims(input).to_vec();
    let x = ctx.convert(input, accumulation_type(ctx.b.element(input)))?;
    let (n, c, group) = (ctx.int(node, "N")?, ctx.int(node, "C")?, ctx.int(node, "group")?);
    let inner = c * ctx.int(node, "HxW")? / group.max(1);
    let grouped = ctx.b.reshape(x, &[n, group, inner])?;
    let (normal, mean, rstd) = normalise(ctx, grouped, &[2], ctx.float(node, "eps")?)?;
    let normal = ctx.b.reshape(normal, &shape)?;
    let out = affine(ctx, node, normal, &[1])?;
    Ok([shaped(ctx, node, 0, out)?, shaped(ctx, node, 1, mean)?, shaped(ctx, node, 2, rstd)?].into())
}

// aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)
fn lower_rms_norm(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let input = ctx.tensor(node, "input")?;
    let element = accumulation_type(ctx.b.element(input));
    let x = ctx.convert(input, element)?;
    let rank = ctx.b.rank(x);
    let inner = ctx.ints(node, "normalized_shape")?.len();
    let dims: Vec<i64> = (rank - inner.min(rank)..rank).map(|d| d as i64).collect();
    let eps = ctx.opt_float(node, "eps")?.unwrap_or_else(|| epsilon(ctx.b.element(input)));
    let shape = ctx.b.dims(x).to_vec();
    let square = ctx.b.mul(x, x)?;
    let total = ctx.b.reduce_monoid(square, tpud_stablehlo::Monoid::Sum, &dims)?;
    let n = dims.iter().map(|d| shape[*d as usize]).product();
    let rstd = inverse_deviation(ctx, total, n, eps)?;
    let wide = spread(ctx, rstd, &shape, &dims)?;
    let normal = ctx.b.mul(x, wide)?;
    let out = affine(ctx, node, normal, &dims)?;
    Ok([shaped(ctx, node, 0, out)?, shaped(ctx, node, 1, rstd)?].into())
}

/// `torch.finfo(dtype).eps`
fn epsilon(element: tpud_stablehlo::ElementType) -> f64 {
    match element {
        tpud_stablehlo::ElementType::BF16 => 2f64.powi(-7),
        tpud_stablehlo::ElementType::F16 => 2f64.powi(-10),
        tpud_stablehlo::ElementType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    }
}

// aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,
//   Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)
fn lower_batch_norm_inference(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let input = ctx.tensor(node, "input")?;
    let x = ctx.convert(input, accumulation_type(ctx.b.element(input)))?;
    let normal = with_running_statistics(ctx, node, x)?;
    let out = affine(ctx, node, normal, &[1])?;
    // No statistics are saved: two empty tensors.
    let mut outputs = vec![shaped(ctx, node, 0, out)?];
    for i in 1..node.outputs.len() {
        let ty = ctx.output_type(node, i)?;
        outputs.push(ctx.b.splat(Scalar::Int(0), &ty)?);
    }
    Ok(outputs.into())
}

fn with_running_statistics(ctx: &mut LoweringContext<'_>, node: &Node, x: Value) -> Result<Value, RuleError> {
    let ty = ctx.b.ty(x).clone();
    let variance = ctx.tensor(node, "running_var")?;
    let variance = ctx.convert(variance, ty.element)?;
    let rstd = inverse_deviation(ctx, variance, 1, ctx.float(node, "eps")?)?;
    let rstd = ctx.b.broadcast_in_dim(rstd, &ty.dims, &[1])?;
    let mean = ctx.tensor(node, "running_mean")?;
    let mean = ctx.convert(mean, ty.element)?;
    let mean = ctx.b.broadcast_in_dim(mean, &ty.dims, &[1])?;
    let centred = ctx.b.sub(x, mean)?;
    Ok(ctx.b.mul(centred, rstd)?)
}

/// Batch norm with the statistics of this batch: (result, mean, rstd, variance without correction, elements).
fn with_batch_statistics(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
) -> Result<(Value, Value, Value, Value, i64), RuleError> {
    let input = ctx.tensor(node, "input")?;
    let x = ctx.convert(input, accumulation_type(ctx.b.element(input)))?;
    let shape = ctx.b.dims(x).to_vec();
    let dims: Vec<i64> = (0..shape.len() as i64).filter(|d| *d != 1).collect();
    let (mean, squares, n) = moments(ctx, x, &dims)?;
    let rstd = inverse_deviation(ctx, squares, n, ctx.float(node, "eps")?)?;
    let (wide_mean, wide_rstd) = (spread(ctx, mean, &shape, &dims)?, spread(ctx, rstd, &shape, &dims)?);
    let centred = ctx.b.sub(x, wide_mean)?;
    let normal = ctx.b.mul(centred, wide_rstd)?;
    Ok((affine(ctx, node, normal, &[1])?, mean, rstd, squares, n))
}

// aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum,
//   float eps) -> (Tensor, Tensor, Tensor)
fn lower_batch_norm_no_stats(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (out, mean, rstd, _, _) = with_batch_statistics(ctx, node)?;
    Ok([shaped(ctx, node, 0, out)?, shaped(ctx, node, 1, mean)?, shaped(ctx, node, 2, rstd)?].into())
}

/// `(1 - momentum) · running + momentum · new`, as output `i`.
fn moved(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
    (name, i): (&str, usize),
    new: Value,
) -> Result<Value, RuleError> {
    let momentum = ctx.float(node, "momentum")?;
    let running = ctx.operand(node, name, &ctx.b.ty(new).clone())?;
    let old = ctx.times(running, 1.0 - momentum)?;
    let new = ctx.times(new, momentum)?;
    let sum = ctx.b.add(old, new)?;
    shaped(ctx, node, i, sum)
}

// aten::_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,
//   Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor)
fn lower_batch_norm_functional(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    if !ctx.boolean(node, "training")? {
        let Outputs(mut outputs) = lower_batch_norm_inference(ctx, node)?;
        outputs.truncate(3);
        for (name, i) in [("running_mean", 3), ("running_var", 4)] {
            let running = ctx.tensor(node, name)?;
            outputs.push(Some(shaped(ctx, node, i, running)?));
        }
        return Ok(Outputs(outputs));
    }
    let (out, mean, rstd, squares, n) = with_batch_statistics(ctx, node)?;
    // The running variance is the unbiased one: of one element it is 0 / 0.
    let divisor = ctx.fill_like(Scalar::Int(n - 1), squares)?;
    let unbiased = ctx.b.div(squares, divisor)?;
    Ok([
        shaped(ctx, node, 0, out)?,
        shaped(ctx, node, 1, mean)?,
        shaped(ctx, node, 2, rstd)?,
        moved(ctx, node, ("running_mean", 3), mean)?,
        moved(ctx, node, ("running_var", 4), unbiased)?,
    ]
    .into())
}

// aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
//   bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)
// aten::_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean,
//   Tensor(b!) running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)
fn lower_batch_norm(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    if !ctx.boolean(node, "training")? {
        return lower_batch_norm_inference(ctx, node);
    }
    if ctx.opt_tensor(node, "running_mean")?.is_some() || ctx.opt_tensor(node, "running_var")?.is_some() {
        return Err(RuleError::unsupported(
            "it changes its running statistics in place; functionalize the graph, which makes it \
             _native_batch_norm_legit_functional",
        ));
    }
    lower_batch_norm_no_stats(ctx, node)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._fused_rms_norm.default", lower_rms_norm),
    Rule::new("aten._native_batch_norm_legit.default", lower_batch_norm),
    Rule::new("aten._native_batch_norm_legit.no_stats", lower_batch_norm_no_stats),
    Rule::new("aten._native_batch_norm_legit_functional.default", lower_batch_norm_functional),
    Rule::new("aten._native_batch_norm_legit_no_training.default", lower_batch_norm_inference),
    Rule::new("aten.native_batch_norm.default", lower_batch_norm),
    Rule::new("aten.native_group_norm.default", lower_group_norm),
    Rule::new("aten.native_layer_norm.default", lower_layer_norm),
];
