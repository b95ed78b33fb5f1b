//! Gradients of activations.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, Scalar, Unary, Value};

use super::activation::{GELU_TANH, exp_minus_abs, gelu_is_tanh, gelu_tanh_argument};
use crate::context::LoweringContext;
use crate::pointwise::{Built, Lowering, pointwise};
use crate::registry::{Outputs, Rule};

/// `pred ? 0 : x`
fn zero_where(ctx: &mut LoweringContext<'_>, pred: Value, x: Value) -> Built {
    let zero = ctx.fill_like(Scalar::Int(0), x)?;
    Ok(ctx.b.select(pred, zero, x)?)
}

// aten::threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor
fn lower_threshold_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["grad_output", "self", "threshold"], |ctx, [grad, x, threshold]| {
        let below = ctx.b.compare(Direction::Le, x, threshold)?;
        zero_where(ctx, below, grad)
    })
}

// aten::sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor
fn lower_sigmoid_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["grad_output", "output"], |ctx, [grad, y]| {
        let rest = ctx.minus_from(1.0, y)?;
        let slope = ctx.b.mul(rest, y)?;
        Ok(ctx.b.mul(grad, slope)?)
    })
}

// aten::tanh_backward(Tensor grad_output, Tensor output) -> Tensor
fn lower_tanh_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["grad_output", "output"], |ctx, [grad, y]| {
        let square = ctx.b.mul(y, y)?;
        let slope = ctx.minus_from(1.0, square)?;
        Ok(ctx.b.mul(grad, slope)?)
    })
}

// aten::silu_backward(Tensor grad_output, Tensor self) -> Tensor
fn lower_silu_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["grad_output", "self"], |ctx, [grad, x]| {
        let gate = ctx.b.logistic(x)?;
        let rest = ctx.minus_from(1.0, gate)?;
        let inner = ctx.b.mul(x, rest)?;
        let inner = ctx.plus(inner, 1.0)?;
        let slope = ctx.b.mul(gate, inner)?;
        Ok(ctx.b.mul(grad, slope)?)
    })
}

// aten::gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor
fn lower_gelu_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let tanh = gelu_is_tanh(ctx, node)?;
    pointwise(ctx, node, ["grad_output", "self"], |ctx, [grad, x]| {
        let slope = if tanh { gelu_tanh_slope(ctx, x)? } else { gelu_slope(ctx, x)? };
        Ok(ctx.b.mul(grad, slope)?)
    })
}

/// `Φ(x) + x φ(x)`
fn gelu_slope(ctx: &mut LoweringContext<'_>, x: Value) -> Built {
    let scaled = ctx.times(x, std::f64::consts::FRAC_1_SQRT_2)?;
    let erf = ctx.b.erf(scaled)?;
    let cdf = ctx.plus(erf, 1.0)?;
    let cdf = ctx.times(cdf, 0.5)?;
    let square = ctx.b.mul(x, x)?;
    let exponent = ctx.times(square, -0.5)?;
    let power = ctx.b.exp(exponent)?;
    let pdf = ctx.times(power, 0.5 * std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2)?;
    let product = ctx.b.mul(x, pdf)?;
    Ok(ctx.b.add(cdf, product)?)
}

/// `½ (1 + t) + ½ x (1 - t²) u'` with `t = tanh(u)` and `u = √(2/π) (x + 0.044715 x³)`
fn gelu_tanh_slope(ctx: &mut LoweringContext<'_>, x: Value) -> Built {
    let inner = gelu_tanh_argument(ctx, x)?;
    let t = ctx.b.tanh(inner)?;
    let left = ctx.plus(t, 1.0)?;
    let left = ctx.times(left, 0.5)?;
    let t_square = ctx.b.mul(t, t)?;
    let t_slope = ctx.minus_from(1.0, t_square)?;
    let square = ctx.b.mul(x, x)?;
    let inner_slope = ctx.times(square, 3.0 * GELU_TANH.1)?;
    let inner_slope = ctx.plus(inner_slope, 1.0)?;
    let inner_slope = ctx.times(inner_slope, GELU_TANH.0)?;
    let half = ctx.times(x, 0.5)?;
    let right = ctx.b.mul(half, t_slope)?;
    let right = ctx.b.mul(right, inner_slope)?;
    Ok(ctx.b.add(left, right)?)
}

// aten::hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor
fn lower_hardsigmoid_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["grad_output", "self"], |ctx, [grad, x]| {
        let slope = ctx.times(grad, 1.0 / 6.0)?;
        let size = ctx.b.abs(x)?;
        let inside = ctx.compare_number(Direction::Lt, size, 3.0)?;
        ctx.select_or(inside, slope, 0.0)
    })
}

// aten::hardswish_backward(Tensor grad_output, Tensor self) -> Tensor
fn lower_hardswish_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["grad_output", "self"], |ctx, [grad, x]| {
        let slope = ctx.times(x, 1.0 / 3.0)?;
        let slope = ctx.plus(slope, 0.5)?;
        let middle = ctx.b.mul(grad, slope)?;
        let below_top = ctx.compare_number(Direction::Lt, x, 3.0)?;
        let upper = ctx.b.select(below_top, middle, grad)?;
        let bottom = ctx.compare_number(Direction::Le, x, -3.0)?;
        zero_where(ctx, bottom, upper)
    })
}

// aten::hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor
fn lower_hardtanh_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let names = ["grad_output", "self", "min_val", "max_val"];
    pointwise(ctx, node, names, |ctx, [grad, x, low, high]| {
        let below = ctx.b.compare(Direction::Le, x, low)?;
        let above = ctx.b.compare(Direction::Ge, x, high)?;
        let outside = ctx.b.or(below, above)?;
        zero_where(ctx, outside, grad)
    })
}

// aten::elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result,
//   Tensor self_or_result) -> Tensor
fn lower_elu_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let number = |name| ctx.number(node, name).map(Scalar::as_f64);
    let (alpha, scale, input_scale) = (number("alpha")?, number("scale")?, number("input_scale")?);
    let is_result = ctx.boolean(node, "is_result")?;
    pointwise(ctx, node, ["grad_output", "self_or_result"], |ctx, [grad, x]| {
        let slope = if is_result {
            let shifted = ctx.plus(x, alpha * scale)?;
            ctx.times(shifted, input_scale)?
        } else {
            let exponent = ctx.times(x, input_scale)?;
            let power = ctx.b.exp(exponent)?;
            ctx.times(power, alpha * scale * input_scale)?
        };
        let below = ctx.b.mul(grad, slope)?;
        let above = ctx.times(grad, scale)?;
        let is_below = ctx.compare_number(Direction::Le, x, 0.0)?;
        Ok(ctx.b.select(is_below, below, above)?)
    })
}

// aten::leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor
fn lower_leaky_relu_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let slope = ctx.number(node, "negative_slope")?.as_f64();
    pointwise(ctx, node, ["grad_output", "self"], |ctx, [grad, x]| {
        let below = ctx.times(grad, slope)?;
        let positive = ctx.compare_number(Direction::Gt, x, 0.0)?;
        Ok(ctx.b.select(positive, grad, below)?)
    })
}

// aten::_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)
fn lower_prelu_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let [grad, x, weight] = [
        ctx.wide_operand(node, "grad_output")?,
        ctx.wide_operand(node, "self")?,
        ctx.wide_operand(node, "weight")?,
    ];
    let positive = ctx.compare_number(Direction::Gt, x, 0.0)?;
    let below = ctx.b.mul(weight, grad)?;
    let of_self = ctx.b.select(positive, grad, below)?;
    let product = ctx.b.mul(x, grad)?;
    let of_weight = zero_where(ctx, positive, product)?;
    let (first, second) = (ctx.output_type(node, 0)?.element, ctx.output_type(node, 1)?.element);
    Ok(Outputs::from([ctx.convert(of_self, first)?, ctx.convert(of_weight, second)?]))
}

// aten::softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor
fn lower_softplus_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (beta, threshold) = (ctx.number(node, "beta")?.as_f64(), ctx.number(node, "threshold")?.as_f64());
    pointwise(ctx, node, ["grad_output", "self"], |ctx, [grad, x]| {
        let scaled = ctx.times(x, beta)?;
        let slope = ctx.b.logistic(scaled)?;
        let curve = ctx.b.mul(grad, slope)?;
        let linear = ctx.compare_number(Direction::Gt, scaled, threshold)?;
        Ok(ctx.b.select(linear, grad, curve)?)
    })
}

// aten::mish_backward(Tensor grad_output, Tensor self) -> Tensor
fn lower_mish_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["grad_output", "self"], |ctx, [grad, x]| {
        let power = ctx.b.exp(x)?;
        let softplus = ctx.b.unary(Unary::Log1p, power)?;
        let t = ctx.b.tanh(softplus)?;
        let sigmoid = ctx.b.logistic(x)?;
        let t_square = ctx.b.mul(t, t)?;
        let t_slope = ctx.minus_from(1.0, t_square)?;
        let outer = ctx.b.mul(x, sigmoid)?;
        let outer = ctx.b.mul(outer, t_slope)?;
        let slope = ctx.b.add(t, outer)?;
        Ok(ctx.b.mul(grad, slope)?)
    })
}

// aten::log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor
// The buffer is computed again: it is empty in graphs that were traced for some devices.
fn lower_log_sigmoid_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["grad_output", "self"], |ctx, [grad, x]| {
        let power = exp_minus_abs(ctx, x)?;
        let sum = ctx.plus(power, 1.0)?;
        let share = ctx.b.div(power, sum)?;
        let rest = ctx.minus_from(1.0, share)?;
        let negative = ctx.compare_number(Direction::Lt, x, 0.0)?;
        let slope = ctx.b.select(negative, rest, share)?;
        Ok(ctx.b.mul(grad, slope)?)
    })
}

// aten::glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor
fn lower_glu_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (x, grad) = (ctx.wide_operand(node, "self")?, ctx.tensor(node, "grad_output")?);
    let grad = ctx.convert(grad, ctx.b.element(x))?;
    let dim = ctx.dim(node, "dim", ctx.b.rank(x))?;
    let half = ctx.b.dims(grad)[dim];
    let (value, gate) = (ctx.b.slice_dim(x, dim, 0, half, 1)?, ctx.b.slice_dim(x, dim, half, 2 * half, 1)?);
    let gate = ctx.b.logistic(gate)?;
    let of_value = ctx.b.mul(grad, gate)?;
    let rest = ctx.minus_from(1.0, gate)?;
    let slope = ctx.b.mul(of_value, rest)?;
    let of_gate = ctx.b.mul(slope, value)?;
    let result = ctx.b.concatenate(&[of_value, of_gate], dim)?;
    ctx.rounded(node, result)
}

// aten::hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor
fn lower_hardshrink_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["grad_out", "self", "lambd"], shrunk)
}

// aten::softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor
fn lower_softshrink_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    pointwise(ctx, node, ["grad_output", "self", "lambd"], shrunk)
}

fn shrunk(ctx: &mut LoweringContext<'_>, [grad, x, lambda]: [Value; 3]) -> Built {
    let size = ctx.b.abs(x)?;
    let inside = ctx.b.compare(Direction::Le, size, lambda)?;
    zero_where(ctx, inside, grad)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.threshold_backward.default", lower_threshold_backward),
    Rule::new("aten.sigmoid_backward.default", lower_sigmoid_backward),
    Rule::new("aten.tanh_backward.default", lower_tanh_backward),
    Rule::new("aten.silu_backward.default", lower_silu_backward),
    Rule::new("aten.gelu_backward.default", lower_gelu_backward),
    Rule::new("aten.hardsigmoid_backward.default", lower_hardsigmoid_backward),
    Rule::new("aten.hardswish_backward.default", lower_hardswish_backward),
    Rule::new("aten.hardtanh_backward.default", lower_hardtanh_backward),
    Rule::new("aten.elu_backward.default", lower_elu_backward),
    Rule::new("aten.leaky_relu_backward.default", lower_leaky_relu_backward),
    Rule::new("aten._prelu_kernel_backward.default", lower_prelu_backward),
    Rule::new("aten.softplus_backward.default", lower_softplus_backward),
    Rule::new("aten.mish_backward.default", lower_mish_backward),
    Rule::new("aten.log_sigmoid_backward.default", lower_log_sigmoid_backward),
    Rule::new("aten.glu_backward.default", lower_glu_backward),
    Rule::new("aten.hardshrink_backward.default", lower_hardshrink_backward),
    Rule::new("aten.softshrink_backward.default", lower_softshrink_backward),
];
