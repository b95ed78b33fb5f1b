//! Reductions: `sum`, `mean`, `prod`, `amax`, `all`, `any`, variances and norms.
//!
//! Narrow floats accumulate in f32 and are rounded once, as torch's CPU kernels do.

use tpud_graph::Node;
use tpud_stablehlo::{Binary, Direction, ElementType, Monoid, Scalar, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// Number of elements that one result stands for.
fn count(ctx: &LoweringContext<'_>, x: Value, dims: &[i64]) -> i64 {
    dims.iter().map(|d| ctx.b.dims(x)[*d as usize]).product()
}

/// Gives a reduced value the node's dtype and sizes (`keepdim` only adds ones).
fn finish(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
    output: usize,
    value: Value,
) -> Result<Value, RuleError> {
    let ty = ctx.output_type(node, output)?;
    let value = ctx.convert(value, ty.element)?;
    Ok(ctx.b.reshape(value, &ty.dims)?)
}

/// The dimensions a node reduces: argument `dim`, or all when it has none.
fn reduced_dims(ctx: &LoweringContext<'_>, node: &Node, x: Value) -> Result<Vec<i64>, RuleError> {
    let rank = ctx.b.rank(x);
    match node.arg("dim") {
        Some(_) => ctx.dims(node, "dim", rank),
        None => Ok((0..rank as i64).collect()),
    }
}

/// A value broadcast back over the reduced dimensions of `like`.
pub(crate) fn spread(
    ctx: &mut LoweringContext<'_>,
    reduced: Value,
    like: &[i64],
    dims: &[i64],
) -> Result<Value, RuleError> {
    let map: Vec<i64> = (0..like.len() as i64).filter(|d| !dims.contains(d)).collect();
    Ok(ctx.b.broadcast_in_dim(reduced, like, &map)?)
}

/// Sum in the accumulation type of the node's result.
fn sum(ctx: &mut LoweringContext<'_>, node: &Node, x: Value, dims: &[i64]) -> Result<Value, RuleError> {
    let element = accumulation_type(ctx.output_type(node, 0)?.element);
    let x = ctx.convert(x, element)?;
    Ok(ctx.b.reduce_monoid(x, Monoid::Sum, dims)?)
}

// aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
fn lower_sum(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dims = reduced_dims(ctx, node, x)?;
    let out = sum(ctx, node, x, &dims)?;
    Ok(finish(ctx, node, 0, out)?.into())
}

// aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
fn lower_mean(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dims = reduced_dims(ctx, node, x)?;
    let total = sum(ctx, node, x, &dims)?;
    let n = ctx.fill_like(Scalar::Float(count(ctx, x, &dims) as f64), total)?;
    let out = ctx.b.div(total, n)?;
    Ok(finish(ctx, node, 0, out)?.into())
}

// aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
fn lower_nansum(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dims = reduced_dims(ctx, node, x)?;
    let number = ctx.b.compare(Direction::Eq, x, x)?;
    let zero = ctx.fill_like(Scalar::Int(0), x)?;
    let x = ctx.b.select(number, x, zero)?;
    let out = sum(ctx, node, x, &dims)?;
    Ok(finish(ctx, node, 0, out)?.into())
}

// aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor
// aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
fn lower_prod(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dims = reduced_dims(ctx, node, x)?;
    let element = accumulation_type(ctx.output_type(node, 0)?.element);
    let x = ctx.convert(x, element)?;
    let out = ctx.b.reduce_monoid(x, Monoid::Product, &dims)?;
    Ok(finish(ctx, node, 0, out)?.into())
}

/// `max` or `min` over `dims`; a NaN wins. Bool orders false before true.
fn extreme(ctx: &mut LoweringContext<'_>, x: Value, max: bool, dims: &[i64]) -> Result<Value, RuleError> {
    let monoid = match (ctx.b.element(x) == ElementType::Bool, max) {
        (true, true) => Monoid::Or,
        (true, false) => Monoid::And,
        (false, true) => Monoid::Max,
        (false, false) => Monoid::Min,
    };
    Ok(ctx.b.reduce_monoid(x, monoid, dims)?)
}

fn lower_extreme(ctx: &mut LoweringContext<'_>, node: &Node, max: bool) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dims = reduced_dims(ctx, node, x)?;
    ctx.with_elements(x, &dims)?;
    let out = extreme(ctx, x, max, &dims)?;
    Ok(finish(ctx, node, 0, out)?.into())
}

// aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
// aten::max(Tensor self) -> Tensor
fn lower_amax(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    lower_extreme(ctx, node, true)
}

// aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
// aten::min(Tensor self) -> Tensor
fn lower_amin(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    lower_extreme(ctx, node, false)
}

// aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)
fn lower_aminmax(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dims = reduced_dims(ctx, node, x)?;
    ctx.with_elements(x, &dims)?;
    let low = extreme(ctx, x, false, &dims)?;
    let high = extreme(ctx, x, true, &dims)?;
    Ok([finish(ctx, node, 0, low)?, finish(ctx, node, 1, high)?].into())
}

fn lower_logical(ctx: &mut LoweringContext<'_>, node: &Node, monoid: Monoid) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    // Unlike sum, all.dims and any.dims take an empty list at its word.
    let none = node.op.ends_with(".dims") && ctx.opt_ints(node, "dim")?.is_some_and(|d| d.is_empty());
    let dims = if none { Vec::new() } else { reduced_dims(ctx, node, x)? };
    let truth = ctx.convert(x, ElementType::Bool)?;
    let out = ctx.b.reduce_monoid(truth, monoid, &dims)?;
    // all and any of uint8 are uint8.
    Ok(finish(ctx, node, 0, out)?.into())
}

// aten::all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor
fn lower_all(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    lower_logical(ctx, node, Monoid::And)
}

// aten::any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor
fn lower_any(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    lower_logical(ctx, node, Monoid::Or)
}

// aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor
fn lower_count_nonzero(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dims = reduced_dims(ctx, node, x)?;
    let truth = ctx.convert(x, ElementType::Bool)?;
    let out = sum(ctx, node, truth, &dims)?;
    Ok(finish(ctx, node, 0, out)?.into())
}

/// (mean, sum of squared distances to it, count), computed in two passes.
pub(crate) fn moments(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    dims: &[i64],
) -> Result<(Value, Value, i64), RuleError> {
    let n = count(ctx, x, dims);
    let shape = ctx.b.dims(x).to_vec();
    let total = ctx.b.reduce_monoid(x, Monoid::Sum, dims)?;
    let divisor = ctx.fill_like(Scalar::Float(n as f64), total)?;
    let mean = ctx.b.div(total, divisor)?;
    let spread_mean = spread(ctx, mean, &shape, dims)?;
    let distance = ctx.b.sub(x, spread_mean)?;
    let square = squared_size(ctx, distance)?;
    let squares = ctx.b.reduce_monoid(square, Monoid::Sum, dims)?;
    Ok((mean, squares, n))
}

/// |x|², real also for complex numbers.
fn squared_size(ctx: &mut LoweringContext<'_>, x: Value) -> Result<Value, RuleError> {
    if !ctx.b.element(x).is_complex() {
        return Ok(ctx.b.mul(x, x)?);
    }
    let (re, im) = (ctx.b.real(x)?, ctx.b.imag(x)?);
    let (re, im) = (ctx.b.mul(re, re)?, ctx.b.mul(im, im)?);
    Ok(ctx.b.add(re, im)?)
}

/// (variance, mean) in the accumulation type. Fewer elements than the correction give NaN or infinity, as in torch.
fn variance(ctx: &mut LoweringContext<'_>, node: &Node) -> Result<(Value, Value), RuleError> {
    let x = ctx.tensor(node, "self")?;
    let dims = reduced_dims(ctx, node, x)?;
    let x = ctx.convert(x, accumulation_type(ctx.b.element(x)))?;
    let (mean, squares, n) = moments(ctx, x, &dims)?;
    let correction = ctx.opt_float(node, "correction")?.unwrap_or(1.0);
    let divisor = ctx.fill_like(Scalar::Float((n as f64 - correction).max(0.0)), squares)?;
    Ok((ctx.b.div(squares, divisor)?, mean))
}

// aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor
fn lower_var(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (var, _) = variance(ctx, node)?;
    Ok(finish(ctx, node, 0, var)?.into())
}

// aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor
fn lower_std(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (var, _) = variance(ctx, node)?;
    let std = ctx.b.sqrt(var)?;
    Ok(finish(ctx, node, 0, std)?.into())
}

// aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)
//   -> (Tensor, Tensor)
fn lower_var_mean(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (var, mean) = variance(ctx, node)?;
    Ok([finish(ctx, node, 0, var)?, finish(ctx, node, 1, mean)?].into())
}

// aten::std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)
//   -> (Tensor, Tensor)
fn lower_std_mean(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (var, mean) = variance(ctx, node)?;
    let std = ctx.b.sqrt(var)?;
    Ok([finish(ctx, node, 0, std)?, finish(ctx, node, 1, mean)?].into())
}

// aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor
fn lower_logsumexp(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dims = reduced_dims(ctx, node, x)?;
    let x = ctx.convert(x, accumulation_type(ctx.output_type(node, 0)?.element))?;
    let shape = ctx.b.dims(x).to_vec();
    let max = ctx.b.reduce_monoid(x, Monoid::Max, &dims)?;
    // An infinite maximum would make inf - inf: shift by 0 there.
    let finite = ctx.b.is_finite(max)?;
    let zero = ctx.fill_like(Scalar::Int(0), max)?;
    let shift = ctx.b.select(finite, max, zero)?;
    let spread_shift = spread(ctx, shift, &shape, &dims)?;
    let shifted = ctx.b.sub(x, spread_shift)?;
    let exp = ctx.b.exp(shifted)?;
    let total = ctx.b.reduce_monoid(exp, Monoid::Sum, &dims)?;
    let log = ctx.b.log(total)?;
    let out = ctx.b.add(log, shift)?;
    Ok(finish(ctx, node, 0, out)?.into())
}

// aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)
//   -> Tensor
fn lower_vector_norm(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dims = reduced_dims(ctx, node, x)?;
    let x = match ctx.opt_dtype(node, "dtype")? {
        Some(element) => ctx.convert(x, element)?,
        None => x,
    };
    let x = ctx.convert(x, accumulation_type(ctx.b.element(x)))?;
    let magnitude = ctx.b.abs(x)?;
    let ord = ctx.number(node, "ord")?.as_f64();
    let out = if ord == f64::INFINITY {
        ctx.b.reduce_monoid(magnitude, Monoid::Max, &dims)?
    } else if ord == f64::NEG_INFINITY {
        ctx.b.reduce_monoid(magnitude, Monoid::Min, &dims)?
    } else {
        finite_norm(ctx, magnitude, ord, &dims)?
    };
    // The largest magnitude of nothing is 0.
    let empty = count(ctx, x, &dims) == 0 && ord == f64::INFINITY;
    let out = if empty { ctx.fill_like(Scalar::Int(0), out)? } else { out };
    Ok(finish(ctx, node, 0, out)?.into())
}

fn finite_norm(
    ctx: &mut LoweringContext<'_>,
    magnitude: Value,
    ord: f64,
    dims: &[i64],
) -> Result<Value, RuleError> {
    if ord == 0.0 {
        let truth = ctx.convert(magnitude, ElementType::Bool)?;
        let ones = ctx.convert(truth, ctx.b.element(magnitude))?;
        return Ok(ctx.b.reduce_monoid(ones, Monoid::Sum, dims)?);
    }
    if ord == 2.0 {
        let square = ctx.b.mul(magnitude, magnitude)?;
        let total = ctx.b.reduce_monoid(square, Monoid::Sum, dims)?;
        return Ok(ctx.b.sqrt(total)?);
    }
    if ord == 1.0 {
        return Ok(ctx.b.reduce_monoid(magnitude, Monoid::Sum, dims)?);
    }
    let exponent = ctx.fill_like(Scalar::Float(ord), magnitude)?;
    let powers = ctx.b.binary(Binary::Pow, magnitude, exponent)?;
    let total = ctx.b.reduce_monoid(powers, Monoid::Sum, dims)?;
    let root = ctx.fill_like(Scalar::Float(1.0 / ord), total)?;
    Ok(ctx.b.binary(Binary::Pow, total, root)?)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._is_all_true.default", lower_all),
    Rule::new("aten._is_any_true.default", lower_any),
    Rule::new("aten.all.default", lower_all),
    Rule::new("aten.all.dim", lower_all),
    Rule::new("aten.all.dims", lower_all),
    Rule::new("aten.amax.default", lower_amax),
    Rule::new("aten.amin.default", lower_amin),
    Rule::new("aten.aminmax.default", lower_aminmax),
    Rule::new("aten.any.default", lower_any),
    Rule::new("aten.any.dim", lower_any),
    Rule::new("aten.any.dims", lower_any),
    Rule::new("aten.count_nonzero.default", lower_count_nonzero),
    Rule::new("aten.count_nonzero.dim_IntList", lower_count_nonzero),
    Rule::new("aten.linalg_vector_norm.default", lower_vector_norm),
    Rule::new("aten.logsumexp.default", lower_logsumexp),
    Rule::new("aten.max.default", lower_amax),
    Rule::new("aten.mean.default", lower_mean),
    Rule::new("aten.mean.dim", lower_mean),
    Rule::new("aten.min.default", lower_amin),
    Rule::new("aten.nansum.default", lower_nansum),
    Rule::new("aten.prod.default", lower_prod),
    Rule::new("aten.prod.dim_int", lower_prod),
    Rule::new("aten.std.correction", lower_std),
    Rule::new("aten.std_mean.correction", lower_std_mean),
    Rule::new("aten.sum.default", lower_sum),
    Rule::new("aten.sum.dim_IntList", lower_sum),
    Rule::new("aten.var.correction", lower_var),
    Rule::new("aten.var_mean.correction", lower_var_mean),
];
