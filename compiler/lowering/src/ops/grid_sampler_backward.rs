//! Gradients of `grid_sampler_2d`.

use tpud_graph::Node;
use tpud_stablehlo::{Monoid, Scalar, ScatterDims, Unary, Value};

use super::grid_sampler::{Sampler, linear};
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::{Combine, Target};
use crate::pointwise::Built;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// A whole position and its weight.
type Tap = (Value, Value);

/// `sum[N, C, H · W]` plus the gradient `[N, C, positions]` times the weight of each tap, at the pixel it was read from.
fn add_at(
    ctx: &mut LoweringContext<'_>,
    sampler: &Sampler,
    sum: Value,
    grad: Value,
    ((y, y_weight), (x, x_weight)): (Tap, Tap),
) -> Built {
    let (index, inside) = sampler.index(ctx, y, x)?;
    // A scatter drops what is out of range.
    let index = ctx.select_or(inside, index, (sampler.y.size * sampler.x.size) as f64)?;
    let weight = ctx.b.mul(y_weight, x_weight)?;
    let shape = ctx.b.dims(grad).to_vec();
    let weight = ctx.b.broadcast_in_dim(weight, &shape, &[0, 2])?;
    let updates = ctx.b.mul(grad, weight)?;
    let dims = ScatterDims {
        update_window_dims: vec![1],
        inserted_window_dims: vec![2],
        input_batching_dims: vec![0],
        scatter_indices_batching_dims: vec![0],
        scatter_dims_to_operand_dims: vec![2],
        index_vector_dim: 2,
    };
    ctx.scatter(sum, &Target { indices: index, dims }, updates, Combine::Sum)
}

/// The gradient of the positions of one axis: `Σ_channels grad · Σ_taps pixel · slope of the weight`. Along the axis the
/// weights `1 - f` and `f` have the slopes -1 and 1.
fn position_gradient(
    ctx: &mut LoweringContext<'_>,
    sampler: &Sampler,
    grad: Value,
    (y, x): (&[Tap], &[Tap]),
    along_x: bool,
) -> Built {
    let (along, across) = if along_x { (x, y) } else { (y, x) };
    let mut sum: Option<Value> = None;
    for &(other, weight) in across {
        let (first, second) = (along[0].0, along[1].0);
        let at = |place| if along_x { (other, place) } else { (place, other) };
        let before = sampler.at(ctx, at(first).0, at(first).1)?;
        let after = sampler.at(ctx, at(second).0, at(second).1)?;
        let difference = ctx.b.sub(after, before)?;
        let product = ctx.b.mul(grad, difference)?;
        let total = ctx.b.reduce_monoid(product, Monoid::Sum, &[1])?;
        let part = ctx.b.mul(total, weight)?;
        sum = Some(match sum {
            Some(sum) => ctx.b.add(sum, part)?,
            None => part,
        });
    }
    sum.ok_or_else(|| RuleError::Internal("no taps".into()))
}

// aten::grid_sampler_2d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode,
//   int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)
fn lower_grid_sampler_2d_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let mode = ctx.int(node, "interpolation_mode")?;
    if !(0..=1).contains(&mode) {
        return Err(RuleError::unsupported("the gradient of bicubic sampling; use bilinear"));
    }
    let (grad, input) = (ctx.tensor(node, "grad_output")?, ctx.tensor(node, "input")?);
    let element = ctx.b.element(input);
    let shape = ctx.b.dims(grad).to_vec();
    let input_wanted = ctx.booleans(node, "output_mask")?.first().copied().unwrap_or(true);
    let grid_type = ctx.output_type(node, 1)?;
    if ctx.b.ty(grad).elements() == 0 || ctx.b.ty(input).elements() == 0 {
        let ty = ctx.b.ty(input).clone();
        let zeros = if input_wanted { Some(ctx.b.splat(Scalar::Int(0), &ty)?) } else { None };
        return Ok(Outputs(vec![zeros, Some(ctx.b.splat(Scalar::Int(0), &grid_type)?)]));
    }
    let wide = accumulation_type(element);
    let (sampler, y, x) = Sampler::read(ctx, node, wide)?;
    let grad = ctx.convert(grad, wide)?;
    let grad = ctx.b.reshape(grad, &[shape[0], shape[1], shape[2] * shape[3]])?;
    let (inside_y, inside_x) = (sampler.y.inside(ctx, y)?, sampler.x.inside(ctx, x)?);
    let taps = |ctx: &mut LoweringContext<'_>, position: Value| {
        if mode == 0 {
            return linear(ctx, position);
        }
        let whole = ctx.b.unary(Unary::RoundEven, position)?;
        Ok(vec![(whole, ctx.fill_like(Scalar::Float(1.0), whole)?)])
    };
    let (rows, columns) = (taps(ctx, inside_y)?, taps(ctx, inside_x)?);
    let grad_input = if input_wanted {
        let mut sum = ctx.fill_like(Scalar::Int(0), sampler.pixels)?;
        for &row in &rows {
            for &column in &columns {
                sum = add_at(ctx, &sampler, sum, grad, (row, column))?;
            }
        }
        let dims = ctx.b.dims(input).to_vec();
        let sum = ctx.b.reshape(sum, &dims)?;
        Some(ctx.convert(sum, element)?)
    } else {
        None
    };
    let grad_grid = if mode == 0 {
        let along_x = position_gradient(ctx, &sampler, grad, (&rows, &columns), true)?;
        let along_y = position_gradient(ctx, &sampler, grad, (&rows, &columns), false)?;
        let (slope_x, slope_y) = (sampler.x.slope(ctx, x)?, sampler.y.slope(ctx, y)?);
        let (along_x, along_y) = (ctx.b.mul(along_x, slope_x)?, ctx.b.mul(along_y, slope_y)?);
        let pair = [shape[0], shape[2], shape[3], 1];
        let (along_x, along_y) = (ctx.b.reshape(along_x, &pair)?, ctx.b.reshape(along_y, &pair)?);
        let both = ctx.b.concatenate(&[along_x, along_y], 3)?;
        ctx.convert(both, grid_type.element)?
    } else {
        ctx.b.splat(Scalar::Int(0), &grid_type)?
    };
    Ok(Outputs(vec![grad_input, Some(grad_grid)]))
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] =
    &[Rule::new("aten.grid_sampler_2d_backward.default", lower_grid_sampler_2d_backward)];
