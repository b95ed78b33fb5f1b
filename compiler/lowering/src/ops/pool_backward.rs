//! Gradients of pooling over sliding windows.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, Monoid, Scalar, TensorType, Value, Window};

use super::pool::{Pool, divisors, spatial_of};
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::{Combine, Target, index_element};
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// Windows of up to this many elements are taken apart into shifted copies, which fuse; larger ones are scattered.
const MOST_SHIFTS: i64 = 25;

/// Every offset inside a window, the last dimension fastest.
pub(super) fn offsets(kernel: &[i64]) -> Vec<Vec<i64>> {
    kernel.iter().fold(vec![Vec::new()], |all, &size| {
        all.iter().flat_map(|prefix| (0..size).map(move |k| [&prefix[..], &[k]].concat())).collect()
    })
}

/// `grad` put where the element at `offset` of each window is, over sizes `dims`.
pub(super) fn placed(
    ctx: &mut LoweringContext<'_>,
    grad: Value,
    pool: &Pool,
    offset: &[i64],
) -> Result<Value, RuleError> {
    let ty = ctx.b.ty(grad).clone();
    let (mut low, mut high, mut interior) = (vec![0; ty.rank()], vec![0; ty.rank()], vec![0; ty.rank()]);
    for (s, at) in offset.iter().enumerate() {
        let d = ty.rank() - pool.spatial() + s;
        interior[d] = pool.stride[s] - 1;
        low[d] = at * pool.dilation[s] - pool.padding[s];
        high[d] = pool.input[s] - low[d] - ((ty.dims[d] - 1) * pool.stride[s] + 1);
    }
    let zero = ctx.scalar(Scalar::Int(0), ty.element)?;
    Ok(ctx.b.pad(grad, zero, &low, &high, &interior)?)
}

/// For each window, the position in the plane of its element at `offset`, in the shape of the output's plane.
fn position_at(ctx: &mut LoweringContext<'_>, pool: &Pool, offset: &[i64]) -> Result<Value, RuleError> {
    let ty = TensorType::new(index_element(pool.input.iter().product()), pool.output.clone());
    let mut position = ctx.b.splat(Scalar::Int(0), &ty)?;
    for (s, at) in offset.iter().enumerate() {
        let pitch: i64 = pool.input[s + 1..].iter().product();
        let line = ctx.b.iota(&ty, s)?;
        let line = ctx.times(line, (pool.stride[s] * pitch) as f64)?;
        let line = ctx.plus(line, ((at * pool.dilation[s] - pool.padding[s]) * pitch) as f64)?;
        position = ctx.b.add(position, line)?;
    }
    Ok(position)
}

// aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride,
//   int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor
// aten::max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride,
//   int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor
/// For each offset in the window, the gradients of the windows whose maximum is there move to it.
fn lower_max_pool_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (out, grad) = (ctx.output_type(node, 0)?, ctx.tensor(node, "grad_output")?);
    if out.elements() == 0 || ctx.b.ty(grad).elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &out)?.into());
    }
    let grad = ctx.convert(grad, accumulation_type(out.element))?;
    let small = ctx.b.dims(grad).to_vec();
    let pool = Pool::read(ctx, node, spatial_of(node)?, &out.dims, &small)?;
    let indices = ctx.tensor(node, "indices")?;
    let indices = ctx.index(indices, pool.input.iter().product())?;
    // Distinct offsets may share a flat position only where one of them is in the padding: `placed` crops that one.
    let wraps = (0..pool.spatial()).any(|s| (pool.kernel[s] - 1) * pool.dilation[s] >= pool.input[s]);
    if pool.kernel.iter().product::<i64>() > MOST_SHIFTS || wraps {
        return scattered(ctx, node, grad, indices, &pool);
    }
    let zeros = ctx.fill_like(Scalar::Int(0), grad)?;
    let mut sum: Option<Value> = None;
    for offset in offsets(&pool.kernel) {
        let position = position_at(ctx, &pool, &offset)?;
        let position = ctx.b.broadcast_to(position, &small)?;
        let here = ctx.b.compare(Direction::Eq, indices, position)?;
        let part = ctx.b.select(here, grad, zeros)?;
        let part = placed(ctx, part, &pool, &offset)?;
        sum = Some(match sum {
            Some(sum) => ctx.b.add(sum, part)?,
            None => part,
        });
    }
    let sum = sum.ok_or_else(|| RuleError::Internal("an empty window".into()))?;
    Ok(ctx.convert(sum, out.element)?.into())
}

fn scattered(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
    grad: Value,
    indices: Value,
    pool: &Pool,
) -> Lowering {
    let out = ctx.output_type(node, 0)?;
    let planes: i64 = out.dims[..out.rank() - pool.spatial()].iter().product();
    let (large, small): (i64, i64) = (pool.input.iter().product(), pool.output.iter().product());
    let grad = ctx.b.reshape(grad, &[planes, small])?;
    let indices = ctx.b.reshape(indices, &[planes, small])?;
    let zeros = ctx.b.splat(Scalar::Int(0), &ctx.b.ty(grad).with_dims([planes, large]))?;
    let target = Target::elementwise(ctx, indices, 1);
    let sum = ctx.scatter(zeros, &target, grad, Combine::Sum)?;
    let sum = ctx.b.reshape(sum, &out.dims)?;
    Ok(ctx.convert(sum, out.element)?.into())
}

// aten::avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding,
//   bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor
// aten::avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding,
//   bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor
/// The sum over the windows that hold an element is a sum over a window of the dilated gradient.
fn lower_avg_pool_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (out, grad) = (ctx.output_type(node, 0)?, ctx.tensor(node, "grad_output")?);
    if out.elements() == 0 || ctx.b.ty(grad).elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &out)?.into());
    }
    let grad = ctx.convert(grad, accumulation_type(out.element))?;
    let small = ctx.b.dims(grad).to_vec();
    let pool = Pool::read(ctx, node, spatial_of(node)?, &out.dims, &small)?;
    let divisor = divisors(ctx, node, &pool, ctx.b.element(grad))?;
    let divisor = ctx.b.broadcast_to(divisor, &small)?;
    let share = ctx.b.div(grad, divisor)?;
    let mut window = Window::identity(out.rank());
    for s in 0..pool.spatial() {
        let d = out.rank() - pool.spatial() + s;
        let low = pool.kernel[s] - 1 - pool.padding[s];
        let high = pool.input[s] + pool.padding[s] - 1 - (pool.output[s] - 1) * pool.stride[s];
        window.sizes[d] = pool.kernel[s];
        window.base_dilations[d] = pool.stride[s];
        window.padding[d] = (low, high);
    }
    let sum = ctx.b.reduce_window_monoid(share, Monoid::Sum, &window)?;
    Ok(ctx.convert(sum, out.element)?.into())
}

// aten::adaptive_max_pool2d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor
// aten::adaptive_max_pool3d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor
fn lower_adaptive_max_pool_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (out, grad) = (ctx.output_type(node, 0)?, ctx.tensor(node, "grad_output")?);
    if out.elements() == 0 || ctx.b.ty(grad).elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &out)?.into());
    }
    let spatial = spatial_of(node)?;
    let grad = ctx.convert(grad, accumulation_type(out.element))?;
    let small = ctx.b.dims(grad).to_vec();
    let indices = ctx.tensor(node, "indices")?;
    let pool = Pool::planes(&out.dims[out.rank() - spatial..], &small[out.rank() - spatial..]);
    let indices = ctx.index(indices, pool.input.iter().product())?;
    scattered(ctx, node, grad, indices, &pool)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.adaptive_max_pool2d_backward.default", lower_adaptive_max_pool_backward),
    Rule::new("aten.adaptive_max_pool3d_backward.default", lower_adaptive_max_pool_backward),
    Rule::new("aten.avg_pool2d_backward.default", lower_avg_pool_backward),
    Rule::new("aten.avg_pool3d_backward.default", lower_avg_pool_backward),
    Rule::new("aten.max_pool2d_with_indices_backward.default", lower_max_pool_backward),
    Rule::new("aten.max_pool3d_with_indices_backward.default", lower_max_pool_backward),
];
