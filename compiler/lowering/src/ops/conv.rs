//! Convolutions of one to three spatial dimensions, forward and transposed.
//!
//! Narrow floats are multiplied as they are, accumulated in f32 and rounded once.

use tpud_graph::Node;
use tpud_stablehlo::{ConvolutionDims, ElementType, Scalar, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::products;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// The geometry of a convolution node, one number for each spatial dimension.
pub(super) struct Geometry {
    pub(super) stride: Vec<i64>,
    pub(super) padding: Vec<i64>,
    pub(super) dilation: Vec<i64>,
    pub(super) output_padding: Vec<i64>,
    pub(super) groups: i64,
}

impl Geometry {
    pub(super) fn read(ctx: &LoweringContext<'_>, node: &Node, spatial: usize) -> Result<Self, RuleError> {
        let list = |name: &str| -> Result<Vec<i64>, RuleError> {
            let given = ctx.ints(node, name)?;
            match given.len() {
                1 => Ok(vec![given[0]; spatial]),
                n if n == spatial => Ok(given),
                n => Err(RuleError::Internal(format!(
                    "{name} has {n} entries for {spatial} spatial dimensions"
                ))),
            }
        };
        Ok(Self {
            stride: list("stride")?,
            padding: list("padding")?,
            dilation: list("dilation")?,
            output_padding: list("output_padding")?,
            groups: ctx.int(node, "groups")?,
        })
    }
}

/// `[I, O, k…]` of a transposed convolution to the `[O·groups, I/groups, k…]` of the forward one that equals it.
pub(super) fn swap_features(
    ctx: &mut LoweringContext<'_>,
    kernel: Value,
    groups: i64,
) -> Result<Value, RuleError> {
    let dims = ctx.b.dims(kernel).to_vec();
    let (inputs, outputs, window) = (dims[0] / groups, dims[1], &dims[2..]);
    let grouped = [&[groups, inputs, outputs], window].concat();
    let x = ctx.b.reshape(kernel, &grouped)?;
    let order: Vec<i64> = [0, 2, 1].into_iter().chain(3..grouped.len() as i64).collect();
    let x = ctx.b.transpose(x, &order)?;
    Ok(ctx.b.reshape(x, &[&[groups * outputs, inputs], window].concat())?)
}

/// A convolution whose result is left in the accumulation type.
pub(super) fn convolve(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    kernel: Value,
    dims: &ConvolutionDims,
) -> Result<Value, RuleError> {
    Ok(products::convolution(&mut ctx.b, ctx.options, x, kernel, dims)?)
}

fn forward(ctx: &mut LoweringContext<'_>, x: Value, kernel: Value, g: &Geometry) -> Result<Value, RuleError> {
    let spatial = g.stride.len();
    let dims = ConvolutionDims {
        strides: g.stride.clone(),
        padding: g.padding.iter().map(|p| (*p, *p)).collect(),
        lhs_dilation: vec![1; spatial],
        rhs_dilation: g.dilation.clone(),
        reverse_kernel: false,
        feature_groups: g.groups,
        batch_groups: 1,
    };
    convolve(ctx, x, kernel, &dims)
}

/// A transposed convolution is a forward one over the dilated input with the mirrored kernel.
fn transposed(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    kernel: Value,
    g: &Geometry,
) -> Result<Value, RuleError> {
    let spatial = g.stride.len();
    let window = ctx.b.dims(kernel)[2..].to_vec();
    let padding = (0..spatial)
        .map(|s| {
            let low = g.dilation[s] * (window[s] - 1) - g.padding[s];
            (low, low + g.output_padding[s])
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
    convolve(ctx, x, kernel, &dims)
}

// aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation,
//   bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor
fn lower_convolution(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let out = ctx.output_type(node, 0)?;
    if out.element == ElementType::Bool || out.element.is_complex() {
        return Err(RuleError::unsupported(format!("a convolution of {} is not supported", out.element)));
    }
    let (input, weight) = (ctx.tensor(node, "input")?, ctx.tensor(node, "weight")?);
    let wide = accumulation_type(out.element);
    let (x, kernel) = (ctx.convert(input, out.element)?, ctx.convert(weight, out.element)?);
    let Some(spatial) = ctx.b.rank(x).checked_sub(2) else {
        return Err(RuleError::unsupported("a convolution needs a batch and a feature dimension"));
    };
    let geometry = Geometry::read(ctx, node, spatial)?;
    let mut sum = if out.elements() == 0 || ctx.b.ty(x).elements() == 0 {
        // XLA refuses some empty windows; the sum over nothing is 0.
        let ty = out.with_element(wide);
        ctx.b.splat(Scalar::Int(0), &ty)?
    } else if ctx.boolean(node, "transposed")? {
        transposed(ctx, x, kernel, &geometry)?
    } else {
        forward(ctx, x, kernel, &geometry)?
    };
    if let Some(bias) = ctx.opt_tensor(node, "bias")? {
        let bias = ctx.convert(bias, wide)?;
        let bias = ctx.b.broadcast_in_dim(bias, &out.dims, &[1])?;
        sum = ctx.b.add(sum, bias)?;
    }
    Ok(ctx.convert(sum, out.element)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[Rule::new("aten.convolution.default", lower_convolution)];
