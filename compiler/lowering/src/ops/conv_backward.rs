//! Gradients of convolutions: each is again a convolution.

use tpud_graph::Node;
use tpud_stablehlo::{ConvolutionDims, Monoid, Scalar, Value};

use super::conv::{Geometry, convolve, swap_features};
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// A convolution's operands seen from its larger spatial side: `large` is slid over, `small` has an element for each
/// position. Forward, the input is large; transposed, the output is.
struct Sides {
    large: Value,
    small: Value,
}

/// `weight[a, b, k] = Σ small[n, a, y] · large[n, b, y · stride + k · dilation - padding]`
///
/// Batch and features change roles, and strides become dilations.
fn weight_gradient(
    ctx: &mut LoweringContext<'_>,
    sides: &Sides,
    window: &[i64],
    g: &Geometry,
) -> Result<Value, RuleError> {
    let spatial = window.len();
    let (large, small) = (ctx.b.dims(sides.large).to_vec(), ctx.b.dims(sides.small).to_vec());
    let swapped: Vec<i64> = [1, 0].into_iter().chain(2..spatial as i64 + 2).collect();
    let input = ctx.b.transpose(sides.large, &swapped)?;
    let kernel = ctx.b.transpose(sides.small, &swapped)?;
    let padding = (0..spatial)
        .map(|s| {
            let reach = (window[s] - 1) * g.dilation[s] + (small[s + 2] - 1) * g.stride[s] + 1;
            (g.padding[s], reach - large[s + 2] - g.padding[s])
        })
        .collect();
    let dims = ConvolutionDims {
        strides: g.dilation.clone(),
        padding,
        lhs_dilation: vec![1; spatial],
        rhs_dilation: g.stride.clone(),
        reverse_kernel: false,
        feature_groups: 1,
        batch_groups: g.groups,
    };
    let gradient = convolve(ctx, input, kernel, &dims)?;
    Ok(ctx.b.transpose(gradient, &swapped)?)
}

/// The gradient of a forward convolution's input: the transposed convolution.
fn large_gradient(
    ctx: &mut LoweringContext<'_>,
    small: Value,
    kernel: Value,
    large: &[i64],
    g: &Geometry,
) -> Result<Value, RuleError> {
    let spatial = g.stride.len();
    let (window, out) = (ctx.b.dims(kernel)[2..].to_vec(), ctx.b.dims(small)[2..].to_vec());
    let padding = (0..spatial)
        .map(|s| {
            let low = g.dilation[s] * (window[s] - 1) - g.padding[s];
            (low, large[s + 2] - 1 + g.padding[s] - (out[s] - 1) * g.stride[s])
        })
        .collect();
    let kernel = swap_features(ctx, kernel, g.groups)?;
    let dims = ConvolutionDims {
        strides: vec![1; spatial],
        padding,
        lhs_dilation: g.stride.clone(),
        rhs_dilation: g.dilation.clone(),
        reverse_kernel: true,
        feature_groups: g.groups,
        batch_groups: 1,
    };
    convolve(ctx, small, kernel, &dims)
}

/// The gradient of a transposed convolution's input: the forward convolution.
fn small_gradient(
    ctx: &mut LoweringContext<'_>,
    large: Value,
    kernel: Value,
    small: &[i64],
    g: &Geometry,
) -> Result<Value, RuleError> {
    let spatial = g.stride.len();
    let (window, size) = (ctx.b.dims(kernel)[2..].to_vec(), ctx.b.dims(large)[2..].to_vec());
    let padding = (0..spatial)
        .map(|s| {
            let reach = (small[s + 2] - 1) * g.stride[s] + (window[s] - 1) * g.dilation[s] + 1;
            (g.padding[s], reach - size[s] - g.padding[s])
        })
        .collect();
    let dims = ConvolutionDims {
        strides: g.stride.clone(),
        padding,
        lhs_dilation: vec![1; spatial],
        rhs_dilation: g.dilation.clone(),
        reverse_kernel: false,
        feature_groups: g.groups,
        batch_groups: 1,
    };
    convolve(ctx, large, kernel, &dims)
}

// aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride,
//   SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask)
//   -> (Tensor, Tensor, Tensor)
fn lower_convolution_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (grad, x) = (ctx.tensor(node, "grad_output")?, ctx.tensor(node, "input")?);
    let weight = ctx.tensor(node, "weight")?;
    let element = ctx.b.element(weight);
    if !element.is_float() {
        return Err(RuleError::unsupported(format!("the gradient of a convolution of {element}")));
    }
    let (grad, x) = (ctx.convert(grad, element)?, ctx.convert(x, element)?);
    let Some(spatial) = ctx.b.rank(x).checked_sub(2) else {
        return Err(RuleError::unsupported("a convolution needs a batch and a feature dimension"));
    };
    let g = Geometry::read(ctx, node, spatial)?;
    let transposed = ctx.boolean(node, "transposed")?;
    let mask = ctx.booleans(node, "output_mask")?;
    let empty = [grad, x, weight].iter().any(|v| ctx.b.ty(*v).elements() == 0);
    let mut outputs = vec![None; 3];
    for (i, output) in outputs.iter_mut().enumerate() {
        if !mask.get(i).copied().unwrap_or(false) {
            continue;
        }
        let gradient = if empty {
            let ty = ctx.output_type(node, i)?;
            ctx.b.splat(Scalar::Int(0), &ty)?
        } else if i == 0 {
            let shape = ctx.b.dims(x).to_vec();
            let gradient = if transposed { small_gradient } else { large_gradient };
            gradient(ctx, grad, weight, &shape, &g)?
        } else if i == 1 {
            let window = ctx.b.dims(weight)[2..].to_vec();
            let sides =
                if transposed { Sides { large: grad, small: x } } else { Sides { large: x, small: grad } };
            weight_gradient(ctx, &sides, &window, &g)?
        } else {
            let wide = ctx.convert(grad, accumulation_type(element))?;
            let dims: Vec<i64> = (0..spatial as i64 + 2).filter(|d| *d != 1).collect();
            ctx.b.reduce_monoid(wide, Monoid::Sum, &dims)?
        };
        *output = Some(ctx.convert(gradient, element)?);
    }
    Ok(Outputs(outputs))
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] =
    &[Rule::new("aten.convolution_backward.default", lower_convolution_backward)];
