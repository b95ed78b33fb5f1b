//! Activations of neural networks, forward.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, Scalar, Unary, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::{Built, Lowering, pointwise, unary};
use crate::registry::{Outputs, Rule};

/// `√(2/π)`, and the factor of the cubic term, of the tanh form of gelu.
pub(super) const GELU_TANH: (f64, f64) =
    (std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2, 0.044_715);

// aten::relu(Tensor self) -> Tensor
fn lower_relu(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let zero = ctx.fill_like(Scalar::Int(0), x)?;
        Ok(ctx.b.max(x, zero)?)
    })
}

// aten::relu6(Tensor self) -> Tensor
fn lower_relu6(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| between(ctx, x, 0.0, 6.0))
}

fn between(ctx: &mut LoweringContext<'_>, x: Value, low: f64, high: f64) -> Built {
    let (low, high) = (ctx.fill_like(Scalar::Float(low), x)?, ctx.fill_like(Scalar::Float(high), x)?);
    let x = ctx.b.max(x, low)?;
    Ok(ctx.b.min(x, high)?)
}

// aten::sigmoid(Tensor self) -> Tensor
fn lower_sigmoid(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Logistic)
}

// aten::silu(Tensor self) -> Tensor
fn lower_silu(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let gate = ctx.b.logistic(x)?;
        Ok(ctx.b.mul(x, gate)?)
    })
}

// aten::gelu(Tensor self, *, str approximate='none') -> Tensor
fn lower_gelu(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let tanh = gelu_is_tanh(ctx, node)?;
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let gate = if tanh {
            let inner = gelu_tanh_argument(ctx, x)?;
            ctx.b.tanh(inner)?
        } else {
            let scaled = ctx.times(x, std::f64::consts::FRAC_1_SQRT_2)?;
            let erf = ctx.b.erf(scaled)?;
            // XLA's CPU erf may stop one rounding short of -1, which a large x would magnify.
            let limit = ctx.fill_like(Scalar::Float(-6.0), scaled)?;
            let beyond = ctx.b.compare(Direction::Lt, scaled, limit)?;
            let minus_one = ctx.fill_like(Scalar::Int(-1), erf)?;
            ctx.b.select(beyond, minus_one, erf)?
        };
        let gate = ctx.plus(gate, 1.0)?;
        let half = ctx.times(x, 0.5)?;
        Ok(ctx.b.mul(half, gate)?)
    })
}

/// Whether gelu is asked for in its tanh form.
pub(super) fn gelu_is_tanh(ctx: &LoweringContext<'_>, node: &Node) -> Result<bool, RuleError> {
    match ctx.opt_text(node, "approximate")? {
        None | Some("none") => Ok(false),
        Some("tanh") => Ok(true),
        Some(other) => Err(RuleError::unsupported(format!(
            "gelu approximation {other:?} is unknown: it should be \"none\" or \"tanh\""
        ))),
    }
}

/// `√(2/π) · (x + 0.044715 x³)`
pub(super) fn gelu_tanh_argument(ctx: &mut LoweringContext<'_>, x: Value) -> Built {
    let square = ctx.b.mul(x, x)?;
    let cube = ctx.b.mul(square, x)?;
    let cubic = ctx.times(cube, GELU_TANH.1)?;
    let sum = ctx.b.add(x, cubic)?;
    ctx.times(sum, GELU_TANH.0)
}

/// `min(max(x + 3, 0), 6)`
fn hard_gate(ctx: &mut LoweringContext<'_>, x: Value) -> Built {
    let shifted = ctx.plus(x, 3.0)?;
    between(ctx, shifted, 0.0, 6.0)
}

// aten::hardsigmoid(Tensor self) -> Tensor
fn lower_hardsigmoid(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let gate = hard_gate(ctx, x)?;
        ctx.times(gate, 1.0 / 6.0)
    })
}

// aten::hardswish(Tensor self) -> Tensor
fn lower_hardswish(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let gate = hard_gate(ctx, x)?;
        let product = ctx.b.mul(x, gate)?;
        ctx.times(product, 1.0 / 6.0)
    })
}

// aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor
fn lower_elu(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let number = |name| ctx.number(node, name).map(Scalar::as_f64);
    let (alpha, scale, input_scale) = (number("alpha")?, number("scale")?, number("input_scale")?);
    pointwise(ctx, node, ["self"], |ctx, [x]| elu(ctx, x, alpha * scale, scale, input_scale))
}

// aten::selu(Tensor self) -> Tensor
fn lower_selu(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (alpha, scale) = (1.673_263_242_354_377_2, 1.050_700_987_355_480_5);
    pointwise(ctx, node, ["self"], |ctx, [x]| elu(ctx, x, alpha * scale, scale, 1.0))
}

// aten::celu(Tensor self, Scalar alpha=1.0) -> Tensor
fn lower_celu(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let alpha = ctx.number(node, "alpha")?.as_f64();
    pointwise(ctx, node, ["self"], |ctx, [x]| elu(ctx, x, alpha, 1.0, 1.0 / alpha))
}

/// `x > 0 ? positive · x : negative · (exp(inner · x) - 1)`
fn elu(ctx: &mut LoweringContext<'_>, x: Value, negative: f64, positive: f64, inner: f64) -> Built {
    let above = ctx.times(x, positive)?;
    let exponent = ctx.times(x, inner)?;
    let power = ctx.b.unary(Unary::Expm1, exponent)?;
    let below = ctx.times(power, negative)?;
    let is_below = ctx.compare_number(Direction::Le, x, 0.0)?;
    Ok(ctx.b.select(is_below, below, above)?)
}

// aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor
fn lower_leaky_relu(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let slope = ctx.number(node, "negative_slope")?.as_f64();
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let below = ctx.times(x, slope)?;
        let positive = ctx.compare_number(Direction::Gt, x, 0.0)?;
        Ok(ctx.b.select(positive, x, below)?)
    })
}

// aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor
fn lower_prelu(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "weight"], |ctx, [x, weight]| {
        let below = ctx.b.mul(x, weight)?;
        let positive = ctx.compare_number(Direction::Gt, x, 0.0)?;
        Ok(ctx.b.select(positive, x, below)?)
    })
}

// aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor
fn lower_softplus(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (beta, threshold) = (ctx.number(node, "beta")?.as_f64(), ctx.number(node, "threshold")?.as_f64());
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let scaled = ctx.times(x, beta)?;
        let power = ctx.b.exp(scaled)?;
        let log = ctx.b.unary(Unary::Log1p, power)?;
        let beta = ctx.fill_like(Scalar::Float(beta), x)?;
        let curve = ctx.b.div(log, beta)?;
        let linear = ctx.compare_number(Direction::Gt, scaled, threshold)?;
        Ok(ctx.b.select(linear, x, curve)?)
    })
}

// aten::mish(Tensor self) -> Tensor
fn lower_mish(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self"], |ctx, [x]| {
        let power = ctx.b.exp(x)?;
        let softplus = ctx.b.unary(Unary::Log1p, power)?;
        let gate = ctx.b.tanh(softplus)?;
        Ok(ctx.b.mul(x, gate)?)
    })
}

// aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)
// The buffer, exp(-|x|), has no elements where the graph was traced for a device that keeps none.
fn lower_log_sigmoid(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.wide_operand(node, "self")?;
    let power = exp_minus_abs(ctx, x)?;
    let log = ctx.b.unary(Unary::Log1p, power)?;
    let zero = ctx.fill_like(Scalar::Int(0), x)?;
    let smaller = ctx.b.min(x, zero)?;
    let result = ctx.b.sub(smaller, log)?;
    let buffer_ty = ctx.output_type(node, 1)?;
    let buffer = if buffer_ty.dims == ctx.b.dims(power) {
        ctx.convert(power, buffer_ty.element)?
    } else {
        ctx.b.splat(Scalar::Int(0), &buffer_ty)?
    };
    let result = ctx.convert(result, buffer_ty.element)?;
    Ok(Outputs::from([result, buffer]))
}

/// `exp(-|x|)`
pub(super) fn exp_minus_abs(ctx: &mut LoweringContext<'_>, x: Value) -> Built {
    let size = ctx.b.abs(x)?;
    let negated = ctx.b.neg(size)?;
    Ok(ctx.b.exp(negated)?)
}

// aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor
fn lower_threshold(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "threshold", "value"], |ctx, [x, threshold, value]| {
        let below = ctx.b.compare(Direction::Le, x, threshold)?;
        Ok(ctx.b.select(below, value, x)?)
    })
}

// aten::glu(Tensor self, int dim=-1) -> Tensor
fn lower_glu(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (x, ty) = (ctx.tensor(node, "self")?, ctx.compute_type(node)?);
    let dim = ctx.dim(node, "dim", ty.rank())?;
    let half = ty.dims[dim];
    let x = ctx.convert(x, ty.element)?;
    let (value, gate) = (ctx.b.slice_dim(x, dim, 0, half, 1)?, ctx.b.slice_dim(x, dim, half, 2 * half, 1)?);
    let gate = ctx.b.logistic(gate)?;
    let result = ctx.b.mul(value, gate)?;
    ctx.rounded(node, result)
}

// aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor
fn lower_hardshrink(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "lambd"], |ctx, [x, lambda]| {
        let size = ctx.b.abs(x)?;
        let inside = ctx.b.compare(Direction::Le, size, lambda)?;
        let zero = ctx.fill_like(Scalar::Int(0), x)?;
        Ok(ctx.b.select(inside, zero, x)?)
    })
}

// aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor
fn lower_softshrink(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["self", "lambd"], |ctx, [x, lambda]| {
        let minus_lambda = ctx.b.neg(lambda)?;
        let (less, more) = (ctx.b.sub(x, lambda)?, ctx.b.add(x, lambda)?);
        let (above, below) =
            (ctx.b.compare(Direction::Gt, x, lambda)?, ctx.b.compare(Direction::Lt, x, minus_lambda)?);
        // Inside it is 0, but NaN stays NaN.
        let inside = ctx.times(x, 0.0)?;
        let rest = ctx.b.select(below, more, inside)?;
        Ok(ctx.b.select(above, less, rest)?)
    })
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.relu.default", lower_relu),
    Rule::new("aten.relu6.default", lower_relu6),
    Rule::new("aten.sigmoid.default", lower_sigmoid),
    Rule::new("aten.silu.default", lower_silu),
    Rule::new("aten.gelu.default", lower_gelu),
    Rule::new("aten.hardsigmoid.default", lower_hardsigmoid),
    Rule::new("aten.hardswish.default", lower_hardswish),
    Rule::new("aten.elu.default", lower_elu),
    Rule::new("aten.selu.default", lower_selu),
    Rule::new("aten.celu.default", lower_celu),
    Rule::new("aten.leaky_relu.default", lower_leaky_relu),
    Rule::new("aten._prelu_kernel.default", lower_prelu),
    Rule::new("aten.softplus.default", lower_softplus),
    Rule::new("aten.mish.default", lower_mish),
    Rule::new("aten.log_sigmoid_forward.default", lower_log_sigmoid),
    Rule::new("aten.threshold.default", lower_threshold),
    Rule::new("aten.glu.default", lower_glu),
    Rule::new("aten.hardshrink.default", lower_hardshrink),
    Rule::new("aten.softshrink.default", lower_softshrink),
];
