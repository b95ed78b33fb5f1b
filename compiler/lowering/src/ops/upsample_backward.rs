//! Gradients of resampling: the adjoint is a resampling too, from the taps read the other way round.

use tpud_graph::Node;
use tpud_stablehlo::{ElementType, Scalar};

use super::upsample::{factors, resampled};
use super::upsample_taps::{Method, Scale, Taps};
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

fn adjoint(ctx: &mut LoweringContext<'_>, node: &Node, method: Method) -> Lowering {
    let (grad, out) = (ctx.tensor(node, "grad_output")?, ctx.output_type(node, 0)?);
    if out.elements() == 0 || ctx.b.ty(grad).elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &out)?.into());
    }
    let spatial = out.rank() - 2;
    let align_corners = node.arg("align_corners").is_some() && ctx.boolean(node, "align_corners")?;
    let double = out.element == ElementType::F64;
    let factors = factors(ctx, node, spatial)?;
    let mut grad = ctx.convert(grad, accumulation_type(out.element))?;
    for (s, factor) in factors.iter().enumerate() {
        let (input, output) = (out.dims[s + 2], ctx.b.dims(grad)[s + 2]);
        let scale = Scale { input, output, factor: *factor, align_corners, double };
        let taps = Taps::new(method, &scale).adjoint(input);
        grad = resampled(ctx, grad, s + 2, &taps)?;
    }
    Ok(ctx.convert(grad, out.element)?.into())
}

// aten::upsample_nearest2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size,
//   float? scales_h=None, float? scales_w=None) -> Tensor
fn lower_nearest_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    adjoint(ctx, node, Method::Nearest)
}

// aten::_upsample_nearest_exact2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size,
//   float? scales_h=None, float? scales_w=None) -> Tensor
fn lower_nearest_exact_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    adjoint(ctx, node, Method::NearestExact)
}

// aten::upsample_bilinear2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size,
//   bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor
fn lower_linear_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    adjoint(ctx, node, Method::Linear)
}

// aten::upsample_bicubic2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size,
//   bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor
fn lower_cubic_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    adjoint(ctx, node, Method::Cubic)
}

// aten::_upsample_bilinear2d_aa_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size,
//   bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor
fn lower_linear_aa_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    adjoint(ctx, node, Method::LinearAntialiased)
}

// aten::_upsample_bicubic2d_aa_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size,
//   bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor
fn lower_cubic_aa_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    adjoint(ctx, node, Method::CubicAntialiased)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._upsample_bicubic2d_aa_backward.default", lower_cubic_aa_backward),
    Rule::new("aten._upsample_bilinear2d_aa_backward.default", lower_linear_aa_backward),
    Rule::new("aten._upsample_nearest_exact1d_backward.default", lower_nearest_exact_backward),
    Rule::new("aten._upsample_nearest_exact2d_backward.default", lower_nearest_exact_backward),
    Rule::new("aten._upsample_nearest_exact3d_backward.default", lower_nearest_exact_backward),
    Rule::new("aten.upsample_bicubic2d_backward.default", lower_cubic_backward),
    Rule::new("aten.upsample_bilinear2d_backward.default", lower_linear_backward),
    Rule::new("aten.upsample_linear1d_backward.default", lower_linear_backward),
    Rule::new("aten.upsample_nearest1d_backward.default", lower_nearest_backward),
    Rule::new("aten.upsample_nearest2d_backward.default", lower_nearest_backward),
    Rule::new("aten.upsample_nearest3d_backward.default", lower_nearest_backward),
    Rule::new("aten.upsample_trilinear3d_backward.default", lower_linear_backward),
];
