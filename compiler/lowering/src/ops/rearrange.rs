//! Blocks of an image as channels, columns or groups, and back.

use tpud_graph::Node;
use tpud_stablehlo::{Scalar, Value};

use super::pool::Pool;
use super::pool_backward::{offsets, placed};
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// Reshapes `x` to `split`, exchanges dimensions, and gives it the node's sizes; `order` counts from the first
/// dimension behind `lead`.
fn regrouped(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
    x: Value,
    (lead, split): (&[i64], &[i64]),
    order: &[i64],
) -> Lowering {
    let split = ctx.b.reshape(x, &[lead, split].concat())?;
    let kept = lead.len() as i64;
    let order: Vec<i64> = (0..kept).chain(order.iter().map(|d| d + kept)).collect();
    let moved = ctx.b.transpose(split, &order)?;
    let out = ctx.output_type(node, 0)?;
    Ok(ctx.b.reshape(moved, &out.dims)?.into())
}

// aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor
fn lower_pixel_shuffle(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dims = ctx.b.dims(x).to_vec();
    let (lead, image) = dims.split_at(dims.len().saturating_sub(3));
    let r = ctx.int(node, "upscale_factor")?;
    let split = [image[0] / (r * r), r, r, image[1], image[2]];
    regrouped(ctx, node, x, (lead, &split), &[0, 3, 1, 4, 2])
}

// aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor
fn lower_pixel_unshuffle(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dims = ctx.b.dims(x).to_vec();
    let (lead, image) = dims.split_at(dims.len().saturating_sub(3));
    let r = ctx.int(node, "downscale_factor")?;
    let split = [image[0], image[1] / r, r, image[2] / r, r];
    regrouped(ctx, node, x, (lead, &split), &[0, 2, 4, 1, 3])
}

// aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor
fn lower_channel_shuffle(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dims = ctx.b.dims(x).to_vec();
    let groups = ctx.int(node, "groups")?;
    let inner: i64 = dims[2..].iter().product();
    regrouped(ctx, node, x, (&dims[..1], &[groups, dims[1] / groups, inner]), &[1, 0, 2])
}

/// The windows over an image of the given sizes, which need not divide it.
fn sliding(ctx: &LoweringContext<'_>, node: &Node, image: &[i64]) -> Result<Pool, RuleError> {
    let mut pool = Pool::read(ctx, node, 2, image, image)?;
    for s in 0..2 {
        let reach = (pool.kernel[s] - 1) * pool.dilation[s] + 1;
        let room = pool.input[s] + 2 * pool.padding[s] - reach;
        pool.output[s] = room / pool.stride[s] + 1;
    }
    Ok(pool)
}

// aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor
fn lower_im2col(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (x, out) = (ctx.tensor(node, "self")?, ctx.output_type(node, 0)?);
    if out.elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &out)?.into());
    }
    let ty = ctx.b.ty(x).clone();
    let pool = sliding(ctx, node, &ty.dims)?;
    let lead = ty.rank() - 2;
    let padding = [&vec![0; lead][..], &pool.padding].concat();
    let zero = ctx.scalar(Scalar::Int(0), ty.element)?;
    let padded = ctx.b.pad(x, zero, &padding, &padding, &vec![0; ty.rank()])?;
    let shape = ctx.b.dims(padded).to_vec();
    let mut parts = Vec::new();
    for offset in offsets(&pool.kernel) {
        let (mut starts, mut limits, mut strides) = (vec![0; ty.rank()], shape.clone(), vec![1; ty.rank()]);
        for s in 0..2 {
            starts[lead + s] = offset[s] * pool.dilation[s];
            limits[lead + s] = starts[lead + s] + (pool.output[s] - 1) * pool.stride[s] + 1;
            strides[lead + s] = pool.stride[s];
        }
        let part = ctx.b.slice(padded, &starts, &limits, &strides)?;
        let mut dims = ctx.b.dims(part).to_vec();
        dims.insert(lead, 1);
        parts.push(ctx.b.reshape(part, &dims)?);
    }
    let columns = ctx.b.concatenate(&parts, lead)?;
    Ok(ctx.b.reshape(columns, &out.dims)?.into())
}

// aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding,
//   int[2] stride) -> Tensor
fn lower_col2im(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (x, out) = (ctx.tensor(node, "self")?, ctx.output_type(node, 0)?);
    if out.elements() == 0 || ctx.b.ty(x).elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &out)?.into());
    }
    let x = ctx.convert(x, accumulation_type(out.element))?;
    let pool = sliding(ctx, node, &out.dims)?;
    let lead = out.rank() - 2;
    let offsets = offsets(&pool.kernel);
    let split = [&out.dims[..lead], &[offsets.len() as i64], &pool.output].concat();
    let columns = ctx.b.reshape(x, &split)?;
    let mut sum: Option<Value> = None;
    for (i, offset) in offsets.iter().enumerate() {
        let part = ctx.b.slice_dim(columns, lead, i as i64, i as i64 + 1, 1)?;
        let part = ctx.b.reshape(part, &[&out.dims[..lead], &pool.output].concat())?;
        let part = placed(ctx, part, &pool, offset)?;
        sum = Some(match sum {
            Some(sum) => ctx.b.add(sum, part)?,
            None => part,
        });
    }
    let sum = sum.ok_or_else(|| RuleError::Internal("an empty window".into()))?;
    Ok(ctx.convert(sum, out.element)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.channel_shuffle.default", lower_channel_shuffle),
    Rule::new("aten.col2im.default", lower_col2im),
    Rule::new("aten.im2col.default", lower_im2col),
    Rule::new("aten.pixel_shuffle.default", lower_pixel_shuffle),
    Rule::new("aten.pixel_unshuffle.default", lower_pixel_unshuffle),
];
