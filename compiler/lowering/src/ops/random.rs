//! Continuous distributions: uniform, normal and what is a function of these; `rrelu`.
//!
//! Distributions, ranges and dtypes are torch's, the values are not: see `random.rs` of the crate. Narrow floats are
//! computed as f32 and rounded once, but uniform ones have as many random bits as their type has digits, as in torch,
//! so that they never round up to 1.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Scalar, TensorType, Unary, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::{Built, Lowering};
use crate::random::Stream;
use crate::registry::Rule;
use crate::types::accumulation_type;

/// The digits of torch's uniform floats.
fn digits(element: ElementType) -> i64 {
    match element {
        ElementType::F64 => 53,
        ElementType::F16 => 11,
        ElementType::BF16 => 8,
        _ => 24,
    }
}

/// Draws the real numbers of the first output, which may be complex, and converts them to its dtype.
fn drawn(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
    draw: impl FnOnce(&mut LoweringContext<'_>, &mut Stream, &TensorType) -> Built,
) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let mut stream = Stream::of(ctx, node)?;
    if !ty.element.is_complex() {
        let wide = accumulation_type(ty.element);
        let wide = if wide.is_float() { wide } else { ElementType::F64 };
        let x = draw(ctx, &mut stream, &ty.with_element(wide))?;
        return ctx.rounded(node, x);
    }
    let mut dims = vec![2];
    dims.extend(&ty.dims);
    let parts = draw(ctx, &mut stream, &TensorType::new(ty.element.real(), dims))?;
    let mut part = |i: i64| -> Built {
        let part = ctx.b.slice_dim(parts, 0, i, i + 1, 1)?;
        Ok(ctx.b.reshape(part, &ty.dims)?)
    };
    let (re, im) = (part(0)?, part(1)?);
    Ok(ctx.b.complex(re, im)?.into())
}

// aten::rand(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor
// aten::rand.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, ...) -> Tensor
// aten::rand_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor
// aten::rand_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, ...) -> Tensor
fn lower_rand(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let digits = digits(ctx.output_type(node, 0)?.element.real());
    drawn(ctx, node, |ctx, stream, ty| stream.uniform(ctx, ty, digits))
}

// aten::uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor
fn lower_uniform(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (from, to) = (ctx.float(node, "from")?, ctx.float(node, "to")?);
    if from.is_nan() || to.is_nan() || from > to {
        return Err(RuleError::unsupported(format!("uniform_ expects from <= to, but got [{from}, {to})")));
    }
    let element = ctx.output_type(node, 0)?.element;
    drawn(ctx, node, |ctx, stream, ty| {
        let u = stream.uniform(ctx, ty, digits(element))?;
        // torch rounds the bounds first.
        let mut bound = |number: f64| -> Built {
            let bound = ctx.b.splat(Scalar::Float(number), &ty.with_element(element))?;
            ctx.convert(bound, ty.element)
        };
        let (from, to) = (bound(from)?, bound(to)?);
        let length = ctx.b.sub(to, from)?;
        let above = ctx.b.mul(u, length)?;
        Ok(ctx.b.add(above, from)?)
    })
}

// aten::randn(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor
// aten::randn.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, ...) -> Tensor
// aten::randn_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor
// aten::randn_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, ...) -> Tensor
// The variance of a complex number is 1, too: half for each part.
fn lower_randn(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let is_complex = ctx.output_type(node, 0)?.element.is_complex();
    drawn(ctx, node, |ctx, stream, ty| {
        let x = stream.normal(ctx, ty)?;
        if is_complex { ctx.times(x, std::f64::consts::FRAC_1_SQRT_2) } else { Ok(x) }
    })
}

/// `mean + std · normal`, where both are numbers or tensors.
fn scaled_normal(ctx: &mut LoweringContext<'_>, node: &Node, stream: &mut Stream, ty: &TensorType) -> Built {
    if let Some(std) = ctx.opt_float(node, "std")?
        && (std < 0.0 || std.is_nan())
    {
        return Err(RuleError::unsupported(format!("normal expects std >= 0.0, but found std {std}")));
    }
    let (mean, std) = (ctx.operand(node, "mean", ty)?, ctx.operand(node, "std", ty)?);
    let x = stream.normal(ctx, ty)?;
    let x = ctx.b.mul(x, std)?;
    Ok(ctx.b.add(x, mean)?)
}

// aten::normal.Tensor_float(Tensor mean, float std=1., *, Generator? generator=None) -> Tensor
// aten::normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor
// aten::normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor
// aten::normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, ...) -> Tensor
// aten::normal_functional(Tensor self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor
fn lower_normal(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    if ctx.output_type(node, 0)?.element.is_complex() {
        return Err(RuleError::unsupported(
            "normal of complex numbers with a mean: scale the result of torch.randn",
        ));
    }
    drawn(ctx, node, |ctx, stream, ty| scaled_normal(ctx, node, stream, ty))
}

// aten::log_normal(Tensor self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor
fn lower_log_normal(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    drawn(ctx, node, |ctx, stream, ty| {
        let x = scaled_normal(ctx, node, stream, ty)?;
        Ok(ctx.b.exp(x)?)
    })
}

// aten::exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor
fn lower_exponential(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let rate = ctx.float(node, "lambd")?;
    if rate.is_nan() || rate <= 0.0 {
        return Err(RuleError::unsupported(format!(
            "exponential_ expects lambda > 0.0, but found lambda={rate}"
        )));
    }
    drawn(ctx, node, |ctx, stream, ty| {
        let x = stream.exponential(ctx, ty)?;
        ctx.times(x, 1.0 / rate)
    })
}

// aten::geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor
// The number of trials up to the first success: an exponential number, rounded up.
fn lower_geometric(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let p = ctx.float(node, "p")?;
    if !(p > 0.0 && p < 1.0) {
        return Err(RuleError::unsupported(format!("geometric_ expects p to be in (0, 1), but got p={p}")));
    }
    drawn(ctx, node, |ctx, stream, ty| {
        let x = stream.exponential(ctx, ty)?;
        let x = ctx.times(x, -1.0 / (-p).ln_1p())?;
        let trials = ctx.b.unary(Unary::Ceil, x)?;
        let one = ctx.fill_like(Scalar::Int(1), trials)?;
        Ok(ctx.b.max(trials, one)?)
    })
}

// aten::cauchy(Tensor self, float median=0., float sigma=1., *, Generator? generator=None) -> Tensor
// A random sign times the cotangent of an angle that is fine near 0, where the tail is.
fn lower_cauchy(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (median, sigma) = (ctx.float(node, "median")?, ctx.float(node, "sigma")?);
    if sigma.is_nan() || sigma <= 0.0 {
        return Err(RuleError::unsupported(format!("cauchy_ expects sigma > 0.0, but found sigma={sigma}")));
    }
    drawn(ctx, node, |ctx, stream, ty| {
        let angle = stream.positive(ctx, ty)?;
        let angle = ctx.times(angle, std::f64::consts::FRAC_PI_2)?;
        let tangent = ctx.b.unary(Unary::Tan, angle)?;
        let size = ctx.over(sigma, tangent)?;
        let negative = stream.chance(ctx, &ty.dims, 0.5)?;
        let opposite = ctx.b.neg(size)?;
        let x = ctx.b.select(negative, opposite, size)?;
        ctx.plus(x, median)
    })
}

// aten::rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar upper=0.3333333333333333,
//   bool training=False, Generator? generator=None) -> (Tensor, Tensor noise_out)
fn lower_rrelu(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (lower, upper) = (ctx.number(node, "lower")?.as_f64(), ctx.number(node, "upper")?.as_f64());
    let ty = ctx.compute_type(node)?;
    let x = ctx.wide_operand(node, "self")?;
    let positive = ctx.compare_number(Direction::Gt, x, 0.0)?;
    if !ctx.boolean(node, "training")? {
        let below = ctx.times(x, (lower + upper) / 2.0)?;
        let out = ctx.b.select(positive, x, below)?;
        let noise = ctx.tensor(node, "noise")?;
        return outputs(ctx, node, out, noise);
    }
    let mut stream = Stream::of(ctx, node)?;
    let u = stream.uniform(ctx, &ty, digits(ctx.output_type(node, 0)?.element))?;
    let slope = ctx.times(u, upper - lower)?;
    let slope = ctx.plus(slope, lower)?;
    let at_most_zero = ctx.compare_number(Direction::Le, x, 0.0)?;
    let noise = ctx.select_or(at_most_zero, slope, 1.0)?;
    // The slope is rounded to the dtype of the tensor before it is used, here and in the backward pass.
    let noise = ctx.convert(noise, ctx.output_type(node, 1)?.element)?;
    let rounded = ctx.convert(noise, ty.element)?;
    let below = ctx.b.mul(x, rounded)?;
    let out = ctx.b.select(at_most_zero, below, x)?;
    outputs(ctx, node, out, noise)
}

fn outputs(ctx: &mut LoweringContext<'_>, node: &Node, out: Value, noise: Value) -> Lowering {
    let out = ctx.convert(out, ctx.output_type(node, 0)?.element)?;
    Ok([out, noise].into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.rand.default", lower_rand),
    Rule::new("aten.rand.generator", lower_rand),
    Rule::new("aten.rand_like.default", lower_rand),
    Rule::new("aten.rand_like.generator", lower_rand),
    Rule::new("aten.uniform.default", lower_uniform),
    Rule::new("aten.randn.default", lower_randn),
    Rule::new("aten.randn.generator", lower_randn),
    Rule::new("aten.randn_like.default", lower_randn),
    Rule::new("aten.randn_like.generator", lower_randn),
    Rule::new("aten.normal.Tensor_float", lower_normal),
    Rule::new("aten.normal.float_Tensor", lower_normal),
    Rule::new("aten.normal.Tensor_Tensor", lower_normal),
    Rule::new("aten.normal.float_float", lower_normal),
    Rule::new("aten.normal_functional.default", lower_normal),
    Rule::new("aten.log_normal.default", lower_log_normal),
    Rule::new("aten.exponential.default", lower_exponential),
    Rule::new("aten.geometric.default", lower_geometric),
    Rule::new("aten.cauchy.default", lower_cauchy),
    Rule::new("aten.rrelu_with_noise_functional.default", lower_rrelu),
];
