//! `grid_sampler_2d`: the values of images at positions that a grid gives in `[-1, 1]`.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, GatherDims, Scalar, Unary, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::index_element;
use crate::pointwise::Built;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// What lies outside of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// One axis of the images.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    pub(super) size: i64,
    align_corners: bool,
    outside: Outside,
}

impl Axis {
    /// A grid value as a position in pixels: -1 and 1 are the centres (`align_corners`) or edges of the outer pixels.
    fn position(&self, ctx: &mut LoweringContext<'_>, grid: Value) -> Built {
        let from_zero = ctx.plus(grid, 1.0)?;
        if self.align_corners {
            return ctx.times(from_zero, (self.size - 1) as f64 / 2.0);
        }
        let scaled = ctx.times(from_zero, self.size as f64)?;
        let shifted = ctx.plus(scaled, -1.0)?;
        ctx.times(shifted, 0.5)
    }

    /// Brings a position into the image, unless zeros lie outside. NaN becomes 0.
    pub(super) fn inside(&self, ctx: &mut LoweringContext<'_>, position: Value) -> Built {
        let position = match self.outside {
            Outside::Zeros => return Ok(position),
            Outside::Border => position,
            Outside::Reflection => self.reflected(ctx, position)?,
        };
        let number = ctx.b.compare(Direction::Eq, position, position)?;
        let position = ctx.select_or(number, position, 0.0)?;
        let element = ctx.b.element(position);
        let low = ctx.scalar(Scalar::Float(0.0), element)?;
        let high = ctx.scalar(Scalar::Float((self.size - 1) as f64), element)?;
        Ok(ctx.b.clamp(low, position, high)?)
    }

    /// Reflects at the centres or the edges of the outer pixels, as often as needed.
    fn reflected(&self, ctx: &mut LoweringContext<'_>, position: Value) -> Built {
        let (low, span) =
            if self.align_corners { (0.0, (self.size - 1) as f64) } else { (-0.5, self.size as f64) };
        if span == 0.0 {
            return ctx.times(position, 0.0);
        }
        let distance = ctx.plus(position, -low)?;
        let distance = ctx.b.abs(distance)?;
        let length = ctx.fill_like(Scalar::Float(span), distance)?;
        let rest = ctx.b.rem(distance, length)?;
        let even = self.flips_evenly(ctx, position, low, span)?;
        let forwards = ctx.plus(rest, low)?;
        let backwards = ctx.minus_from(span + low, rest)?;
        Ok(ctx.b.select(even, forwards, backwards)?)
    }

    /// The slope of a position in the image as a function of the grid value: 0 where it is clipped.
    pub(super) fn slope(&self, ctx: &mut LoweringContext<'_>, position: Value) -> Built {
        let size = if self.align_corners { self.size - 1 } else { self.size };
        let mut slope = ctx.fill_like(Scalar::Float(size as f64 / 2.0), position)?;
        let mut place = position;
        if self.outside == Outside::Reflection {
            let (low, span) =
                if self.align_corners { (0.0, (self.size - 1) as f64) } else { (-0.5, self.size as f64) };
            if span == 0.0 {
                return ctx.times(position, 0.0);
            }
            let flips = self.flips_evenly(ctx, position, low, span)?;
            let before = ctx.compare_number(Direction::Lt, position, low)?;
            // Mirrored an odd number of times, counting the mirror at the lower edge.
            let mirrored = ctx.b.compare(Direction::Eq, flips, before)?;
            let backwards = ctx.b.neg(slope)?;
            slope = ctx.b.select(mirrored, backwards, slope)?;
            place = self.reflected(ctx, position)?;
        }
        if self.outside == Outside::Zeros {
            return Ok(slope);
        }
        let above = ctx.compare_number(Direction::Gt, place, 0.0)?;
        let below = ctx.compare_number(Direction::Lt, place, (self.size - 1) as f64)?;
        let free = ctx.b.and(above, below)?;
        ctx.select_or(free, slope, 0.0)
    }

    /// Where a position is mirrored an even number of times, after the mirror at `low`.
    fn flips_evenly(&self, ctx: &mut LoweringContext<'_>, position: Value, low: f64, span: f64) -> Built {
        let distance = ctx.plus(position, -low)?;
        let distance = ctx.b.abs(distance)?;
        let length = ctx.fill_like(Scalar::Float(span), distance)?;
        let flips = ctx.b.div(distance, length)?;
        let flips = ctx.b.floor(flips)?;
        let half = ctx.times(flips, 0.5)?;
        let whole = ctx.b.floor(half)?;
        Ok(ctx.b.compare(Direction::Eq, half, whole)?)
    }

    /// Where a whole position is in the image.
    fn holds(&self, ctx: &mut LoweringContext<'_>, position: Value) -> Built {
        let above = ctx.compare_number(Direction::Ge, position, 0.0)?;
        let below = ctx.compare_number(Direction::Lt, position, self.size as f64)?;
        Ok(ctx.b.and(above, below)?)
    }
}

/// The images and the axes of the grid.
pub(super) struct Sampler {
    /// `[N, C, H · W]`
    pub(super) pixels: Value,
    pub(super) y: Axis,
    pub(super) x: Axis,
}

impl Sampler {
    /// The images and the (y, x) positions `[N, positions]` of a node, not yet brought into the images.
    pub(super) fn read(
        ctx: &mut LoweringContext<'_>,
        node: &Node,
        wide: ElementType,
    ) -> Result<(Self, Value, Value), RuleError> {
        let (input, grid) = (ctx.tensor(node, "input")?, ctx.tensor(node, "grid")?);
        let (shape, points) = (ctx.b.dims(input).to_vec(), ctx.b.dims(grid).to_vec());
        let input = ctx.convert(input, wide)?;
        let pixels = ctx.b.reshape(input, &[shape[0], shape[1], shape[2] * shape[3]])?;
        let outside = match ctx.int(node, "padding_mode")? {
            0 => Outside::Zeros,
            1 => Outside::Border,
            2 => Outside::Reflection,
            other => return Err(RuleError::unsupported(format!("padding mode {other}"))),
        };
        let align_corners = ctx.boolean(node, "align_corners")?;
        let axis = |size| Axis { size, align_corners, outside };
        let sampler = Self { pixels, y: axis(shape[2]), x: axis(shape[3]) };
        let count = points[1] * points[2];
        let grid = ctx.convert(grid, wide)?;
        let grid = ctx.b.reshape(grid, &[shape[0], count, 2])?;
        let along = |ctx: &mut LoweringContext<'_>, i: i64, axis: &Axis| {
            let line = ctx.b.slice_dim(grid, 2, i, i + 1, 1)?;
            let line = ctx.b.reshape(line, &[shape[0], count])?;
            axis.position(ctx, line)
        };
        let (x, y) = (along(ctx, 0, &sampler.x)?, along(ctx, 1, &sampler.y)?);
        Ok((sampler, y, x))
    }

    /// The flat index of whole positions, 0 where they are outside, and where they are inside.
    pub(super) fn index(
        &self,
        ctx: &mut LoweringContext<'_>,
        y: Value,
        x: Value,
    ) -> Result<(Value, Value), RuleError> {
        let (in_y, in_x) = (self.y.holds(ctx, y)?, self.x.holds(ctx, x)?);
        let inside = ctx.b.and(in_y, in_x)?;
        let element = index_element(self.y.size * self.x.size);
        let (zero_y, zero_x) = (ctx.select_or(inside, y, 0.0)?, ctx.select_or(inside, x, 0.0)?);
        let (row, column) = (ctx.b.convert(zero_y, element)?, ctx.b.convert(zero_x, element)?);
        let row = ctx.times(row, self.x.size as f64)?;
        Ok((ctx.b.add(row, column)?, inside))
    }

    /// `[N, C, positions]`: the pixels at whole positions `[N, positions]`, 0 outside of the image.
    pub(super) fn at(&self, ctx: &mut LoweringContext<'_>, y: Value, x: Value) -> Built {
        let (index, inside) = self.index(ctx, y, x)?;
        let dims = GatherDims {
            offset_dims: vec![1],
            collapsed_slice_dims: vec![2],
            operand_batching_dims: vec![0],
            start_indices_batching_dims: vec![0],
            start_index_map: vec![2],
            index_vector_dim: 2,
        };
        let channels = ctx.b.dims(self.pixels)[1];
        let values = ctx.b.gather(self.pixels, index, &dims, &[1, channels, 1])?;
        let shape = ctx.b.dims(values).to_vec();
        let inside = ctx.b.broadcast_in_dim(inside, &shape, &[0, 2])?;
        ctx.select_or(inside, values, 0.0)
    }

    /// Pixels times weights `[N, positions]`.
    fn weighted(&self, ctx: &mut LoweringContext<'_>, y: Value, x: Value, weight: Value) -> Built {
        let values = self.at(ctx, y, x)?;
        let shape = ctx.b.dims(values).to_vec();
        let weight = ctx.b.broadcast_in_dim(weight, &shape, &[0, 2])?;
        Ok(ctx.b.mul(values, weight)?)
    }

    /// The sum over all combinations of taps (position, weight) of both axes.
    fn sum(&self, ctx: &mut LoweringContext<'_>, y: &[(Value, Value)], x: &[(Value, Value)]) -> Built {
        let mut sum: Option<Value> = None;
        for &(row, row_weight) in y {
            for &(column, column_weight) in x {
                let weight = ctx.b.mul(row_weight, column_weight)?;
                let part = self.weighted(ctx, row, column, weight)?;
                sum = Some(match sum {
                    Some(sum) => ctx.b.add(sum, part)?,
                    None => part,
                });
            }
        }
        sum.ok_or_else(|| RuleError::Internal("no taps".into()))
    }
}

/// The two whole positions around `position`, with linear weights.
pub(super) fn linear(
    ctx: &mut LoweringContext<'_>,
    position: Value,
) -> Result<Vec<(Value, Value)>, RuleError> {
    let before = ctx.b.floor(position)?;
    let after = ctx.plus(before, 1.0)?;
    let fraction = ctx.b.sub(position, before)?;
    let rest = ctx.minus_from(1.0, fraction)?;
    Ok(vec![(before, rest), (after, fraction)])
}

/// The four whole positions around `position`, brought into the image one by one, with cubic weights.
fn cubic(
    ctx: &mut LoweringContext<'_>,
    position: Value,
    axis: &Axis,
) -> Result<Vec<(Value, Value)>, RuleError> {
    let a = -0.75;
    let before = ctx.b.floor(position)?;
    let fraction = ctx.b.sub(position, before)?;
    let mut taps = Vec::with_capacity(4);
    for offset in -1..=2 {
        let distance = ctx.plus(fraction, -f64::from(offset))?;
        let distance = ctx.b.abs(distance)?;
        // Horner's scheme of the inner or the outer cubic polynomial.
        let coefficients = if (0..=1).contains(&offset) {
            [a + 2.0, -(a + 3.0), 0.0, 1.0]
        } else {
            [a, -5.0 * a, 8.0 * a, -4.0 * a]
        };
        let mut weight = ctx.times(distance, coefficients[0])?;
        for (i, coefficient) in coefficients[1..].iter().enumerate() {
            weight = ctx.plus(weight, *coefficient)?;
            if i < 2 {
                weight = ctx.b.mul(weight, distance)?;
            }
        }
        let whole = ctx.plus(before, f64::from(offset))?;
        let whole = axis.inside(ctx, whole)?;
        // A reflection at an edge may be off by a rounding error.
        taps.push((ctx.b.unary(Unary::RoundEven, whole)?, weight));
    }
    Ok(taps)
}

// aten::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)
//   -> Tensor
fn lower_grid_sampler_2d(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let out = ctx.output_type(node, 0)?;
    let input = ctx.tensor(node, "input")?;
    if out.elements() == 0 || ctx.b.ty(input).elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &out)?.into());
    }
    let (sampler, y, x) = Sampler::read(ctx, node, accumulation_type(out.element))?;
    let sum = match ctx.int(node, "interpolation_mode")? {
        0 => {
            let (y, x) = (sampler.y.inside(ctx, y)?, sampler.x.inside(ctx, x)?);
            let (y, x) = (linear(ctx, y)?, linear(ctx, x)?);
            sampler.sum(ctx, &y, &x)?
        }
        1 => {
            let (y, x) = (sampler.y.inside(ctx, y)?, sampler.x.inside(ctx, x)?);
            let (y, x) = (ctx.b.unary(Unary::RoundEven, y)?, ctx.b.unary(Unary::RoundEven, x)?);
            sampler.at(ctx, y, x)?
        }
        2 => {
            let (y, x) = (cubic(ctx, y, &sampler.y)?, cubic(ctx, x, &sampler.x)?);
            sampler.sum(ctx, &y, &x)?
        }
        other => return Err(RuleError::unsupported(format!("interpolation mode {other}"))),
    };
    let sum = ctx.b.reshape(sum, &out.dims)?;
    Ok(ctx.convert(sum, out.element)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[Rule::new("aten.grid_sampler_2d.default", lower_grid_sampler_2d)];
