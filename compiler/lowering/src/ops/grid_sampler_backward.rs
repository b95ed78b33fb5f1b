//! Gradients of `grid_sampler_2d` and `grid_sampler_3d`.

use tpud_graph::Node;
use tpud_stablehlo::{Monoid, Scalar, ScatterDims, Value};

use super::grid_sampler::{Mode, Sampler, Tap, combinations, weight};
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::{Combine, Target};
use crate::pointwise::Built;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// `sum[N, C, pixels]` plus the gradient `[N, C, positions]` times the weight of a combination of taps, at the pixel
/// it was read from.
fn add_at(ctx: &mut LoweringContext<'_>, sampler: &Sampler, sum: Value, grad: Value, taps: &[Tap]) -> Built {
    let (index, inside) = sampler.index(ctx, taps)?;
    // A scatter drops what is out of range.
    let index = ctx.select_or(inside, index, sampler.size() as f64)?;
    let weight = weight(ctx, taps, None)?;
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

/// For each axis the gradient `[N, positions]` of its positions: `Σ_taps slope of the weight · Σ_channels grad · pixel`.
fn position_gradients(
    ctx: &mut LoweringContext<'_>,
    sampler: &Sampler,
    grad: Value,
    chosen: &[Vec<Tap>],
) -> Result<Vec<Value>, RuleError> {
    let mut sums: Vec<Option<Value>> = vec![None; sampler.axes.len()];
    for taps in chosen {
        let pixels = sampler.at(ctx, taps)?;
        let product = ctx.b.mul(grad, pixels)?;
        let total = ctx.b.reduce_monoid(product, Monoid::Sum, &[1])?;
        for (axis, sum) in sums.iter_mut().enumerate() {
            let slope = weight(ctx, taps, Some(axis))?;
            let part = ctx.b.mul(total, slope)?;
            *sum = Some(sum.map_or(Ok(part), |sum| ctx.b.add(sum, part))?);
        }
    }
    sums.into_iter().map(|sum| sum.ok_or_else(|| RuleError::Internal("no taps".into()))).collect()
}

/// The gradient of the grid: that of the positions times the slope of a position as a function of the grid value. Cubic
/// taps are brought into the image one by one, so there the position itself is never clipped.
fn grid_gradient(
    ctx: &mut LoweringContext<'_>,
    sampler: &Sampler,
    gradients: &[Value],
    positions: &[Value],
    mode: Mode,
    dims: &[i64],
) -> Built {
    let mut line = dims.to_vec();
    line[dims.len() - 1] = 1;
    let mut columns = Vec::with_capacity(gradients.len());
    // A grid names the innermost axis first.
    for ((axis, gradient), position) in sampler.axes.iter().zip(gradients).zip(positions).rev() {
        let slope = axis.slope(ctx, *position, mode != Mode::Cubic)?;
        let column = ctx.b.mul(*gradient, slope)?;
        columns.push(ctx.b.reshape(column, &line)?);
    }
    Ok(ctx.b.concatenate(&columns, dims.len() - 1)?)
}

// aten::grid_sampler_2d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode,
//   int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)
// aten::grid_sampler_3d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode,
//   int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)
fn lower_grid_sampler_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let mode = Mode::of(ctx, node)?;
    let (grad, input) = (ctx.tensor(node, "grad_output")?, ctx.tensor(node, "input")?);
    let image = ctx.b.ty(input).clone();
    let shape = ctx.b.dims(grad).to_vec();
    let input_wanted = ctx.booleans(node, "output_mask")?.first().copied().unwrap_or(true);
    let grid_type = ctx.output_type(node, 1)?;
    if ctx.b.ty(grad).elements() == 0 || image.elements() == 0 {
        let zeros = if input_wanted { Some(ctx.b.splat(Scalar::Int(0), &image)?) } else { None };
        return Ok(Outputs(vec![zeros, Some(ctx.b.splat(Scalar::Int(0), &grid_type)?)]));
    }
    let wide = accumulation_type(image.element);
    let (sampler, positions) = Sampler::read(ctx, node, wide)?;
    let grad = ctx.convert(grad, wide)?;
    let grad = ctx.b.reshape(grad, &[shape[0], shape[1], shape[2..].iter().product()])?;
    let mut axes = Vec::with_capacity(positions.len());
    for (position, axis) in positions.iter().zip(&sampler.axes) {
        axes.push(mode.taps(ctx, *position, axis)?);
    }
    let chosen = combinations(&axes);
    let grad_input = if input_wanted {
        let mut sum = ctx.fill_like(Scalar::Int(0), sampler.pixels)?;
        for taps in &chosen {
            sum = add_at(ctx, &sampler, sum, grad, taps)?;
        }
        let sum = ctx.b.reshape(sum, &image.dims)?;
        Some(ctx.convert(sum, image.element)?)
    } else {
        None
    };
    let grad_grid = if mode == Mode::Nearest {
        ctx.b.splat(Scalar::Int(0), &grid_type)?
    } else {
        let gradients = position_gradients(ctx, &sampler, grad, &chosen)?;
        let all = grid_gradient(ctx, &sampler, &gradients, &positions, mode, &grid_type.dims)?;
        ctx.convert(all, grid_type.element)?
    };
    Ok(Outputs(vec![grad_input, Some(grad_grid)]))
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.grid_sampler_2d_backward.default", lower_grid_sampler_backward),
    Rule::new("aten.grid_sampler_3d_backward.default", lower_grid_sampler_backward),
];
