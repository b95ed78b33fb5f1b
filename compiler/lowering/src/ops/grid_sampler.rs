//! `grid_sampler_2d`, `grid_sampler_3d`: the values of images or volumes at positions that a grid gives in `[-1, 1]`.

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

/// One spatial axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    size: i64,
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

    /// The slope of a position as a function of the grid value; if positions are brought into the image, 0 where that
    /// clips.
    pub(super) fn slope(
        &self,
        ctx: &mut LoweringContext<'_>,
        position: Value,
        brought_inside: bool,
    ) -> Built {
        let size = if self.align_corners { self.size - 1 } else { self.size };
        let mut slope = ctx.fill_like(Scalar::Float(size as f64 / 2.0), position)?;
        if !brought_inside {
            return Ok(slope);
        }
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

/// A whole position on one axis, its weight, and the slope of the weight as a function of the position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tap {
    place: Value,
    weight: Value,
    slope: Value,
}

/// Between which pixels, and how, values are interpolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Linear,
    Nearest,
    Cubic,
}

impl Mode {
    /// The `interpolation_mode` of a node.
    pub(super) fn of(ctx: &LoweringContext<'_>, node: &Node) -> Result<Self, RuleError> {
        match ctx.int(node, "interpolation_mode")? {
            0 => Ok(Self::Linear),
            1 => Ok(Self::Nearest),
            2 => Ok(Self::Cubic),
            other => Err(RuleError::unsupported(format!("interpolation mode {other}"))),
        }
    }

    /// The taps around a position that is not yet brought into the image.
    pub(super) fn taps(
        self,
        ctx: &mut LoweringContext<'_>,
        position: Value,
        axis: &Axis,
    ) -> Result<Vec<Tap>, RuleError> {
        if self == Self::Cubic {
            return cubic(ctx, position, axis);
        }
        let position = axis.inside(ctx, position)?;
        if self == Self::Linear {
            return linear(ctx, position);
        }
        let place = ctx.b.unary(Unary::RoundEven, position)?;
        let (weight, slope) = (ctx.fill_like(Scalar::Int(1), place)?, ctx.fill_like(Scalar::Int(0), place)?);
        Ok(vec![Tap { place, weight, slope }])
    }
}

/// The images and their axes.
pub(super) struct Sampler {
    /// `[N, C, pixels]`
    pub(super) pixels: Value,
    /// Outermost first.
    pub(super) axes: Vec<Axis>,
}

impl Sampler {
    /// The images of a node, and for each axis the positions `[N, positions]`, not yet brought into the images.
    pub(super) fn read(
        ctx: &mut LoweringContext<'_>,
        node: &Node,
        wide: ElementType,
    ) -> Result<(Self, Vec<Value>), RuleError> {
        let (input, grid) = (ctx.tensor(node, "input")?, ctx.tensor(node, "grid")?);
        let (shape, points) = (ctx.b.dims(input).to_vec(), ctx.b.dims(grid).to_vec());
        let input = ctx.convert(input, wide)?;
        let pixels = ctx.b.reshape(input, &[shape[0], shape[1], shape[2..].iter().product()])?;
        let outside = match ctx.int(node, "padding_mode")? {
            0 => Outside::Zeros,
            1 => Outside::Border,
            2 => Outside::Reflection,
            other => return Err(RuleError::unsupported(format!("padding mode {other}"))),
        };
        let align_corners = ctx.boolean(node, "align_corners")?;
        let axes: Vec<Axis> = shape[2..].iter().map(|&size| Axis { size, align_corners, outside }).collect();
        let rank = axes.len();
        let count = points[1..=rank].iter().product();
        let grid = ctx.convert(grid, wide)?;
        let grid = ctx.b.reshape(grid, &[shape[0], count, rank as i64])?;
        let mut positions = Vec::with_capacity(rank);
        for (i, axis) in axes.iter().enumerate() {
            // A grid names the innermost axis first.
            let column = (rank - 1 - i) as i64;
            let line = ctx.b.slice_dim(grid, 2, column, column + 1, 1)?;
            let line = ctx.b.reshape(line, &[shape[0], count])?;
            positions.push(axis.position(ctx, line)?);
        }
        Ok((Self { pixels, axes }, positions))
    }

    /// How many pixels an image has.
    pub(super) fn size(&self) -> i64 {
        self.axes.iter().map(|axis| axis.size).product()
    }

    /// The flat index of a combination of taps, 0 where it is outside, and where it is inside.
    pub(super) fn index(
        &self,
        ctx: &mut LoweringContext<'_>,
        taps: &[Tap],
    ) -> Result<(Value, Value), RuleError> {
        let mut inside: Option<Value> = None;
        for (axis, tap) in self.axes.iter().zip(taps) {
            let holds = axis.holds(ctx, tap.place)?;
            inside = Some(inside.map_or(Ok(holds), |inside| ctx.b.and(inside, holds))?);
        }
        let inside = inside.ok_or_else(no_axes)?;
        let element = index_element(self.size());
        let mut index: Option<Value> = None;
        for (axis, tap) in self.axes.iter().zip(taps) {
            let place = ctx.select_or(inside, tap.place, 0.0)?;
            let place = ctx.b.convert(place, element)?;
            index = Some(match index {
                Some(index) => {
                    let outer = ctx.times(index, axis.size as f64)?;
                    ctx.b.add(outer, place)?
                }
                None => place,
            });
        }
        Ok((index.ok_or_else(no_axes)?, inside))
    }

    /// `[N, C, positions]`: the pixels at a combination of taps, 0 outside of the image.
    pub(super) fn at(&self, ctx: &mut LoweringContext<'_>, taps: &[Tap]) -> Built {
        let (index, inside) = self.index(ctx, taps)?;
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
}

fn no_axes() -> RuleError {
    RuleError::Internal("an image without axes".into())
}

/// Every combination of one tap from each axis, the innermost axis varying fastest.
pub(super) fn combinations(axes: &[Vec<Tap>]) -> Vec<Vec<Tap>> {
    axes.iter().fold(vec![Vec::new()], |before, taps| {
        before
            .iter()
            .flat_map(|chosen| taps.iter().map(|tap| [chosen.as_slice(), &[*tap]].concat()))
            .collect()
    })
}

/// The weight of a combination; with `along`, its slope as a function of the position on that axis.
pub(super) fn weight(ctx: &mut LoweringContext<'_>, taps: &[Tap], along: Option<usize>) -> Built {
    let mut product: Option<Value> = None;
    for (i, tap) in taps.iter().enumerate() {
        let factor = if along == Some(i) { tap.slope } else { tap.weight };
        product = Some(product.map_or(Ok(factor), |product| ctx.b.mul(product, factor))?);
    }
    product.ok_or_else(no_axes)
}

/// The two whole positions around `position`, with linear weights.
fn linear(ctx: &mut LoweringContext<'_>, position: Value) -> Result<Vec<Tap>, RuleError> {
    let before = ctx.b.floor(position)?;
    let after = ctx.plus(before, 1.0)?;
    let fraction = ctx.b.sub(position, before)?;
    let rest = ctx.minus_from(1.0, fraction)?;
    let (down, up) = (ctx.fill_like(Scalar::Int(-1), before)?, ctx.fill_like(Scalar::Int(1), before)?);
    Ok(vec![
        Tap { place: before, weight: rest, slope: down },
        Tap { place: after, weight: fraction, slope: up },
    ])
}

/// The four whole positions around `position`, brought into the image one by one, with cubic weights.
fn cubic(ctx: &mut LoweringContext<'_>, position: Value, axis: &Axis) -> Result<Vec<Tap>, RuleError> {
    let a = -0.75;
    let before = ctx.b.floor(position)?;
    let fraction = ctx.b.sub(position, before)?;
    let mut taps = Vec::with_capacity(4);
    for offset in -1..=2 {
        let distance = ctx.plus(fraction, -f64::from(offset))?;
        let distance = ctx.b.abs(distance)?;
        // The inner or the outer cubic polynomial, highest power first.
        let coefficients = if (0..=1).contains(&offset) {
            [a + 2.0, -(a + 3.0), 0.0, 1.0]
        } else {
            [a, -5.0 * a, 8.0 * a, -4.0 * a]
        };
        // The distance falls where the tap lies after the position.
        let sign = if offset <= 0 { 1.0 } else { -1.0 };
        let slopes = [3.0 * sign * coefficients[0], 2.0 * sign * coefficients[1], sign * coefficients[2]];
        let weight = horner(ctx, distance, &coefficients)?;
        let slope = horner(ctx, distance, &slopes)?;
        let whole = ctx.plus(before, f64::from(offset))?;
        let whole = axis.inside(ctx, whole)?;
        // A reflection at an edge may be off by a rounding error.
        taps.push(Tap { place: ctx.b.unary(Unary::RoundEven, whole)?, weight, slope });
    }
    Ok(taps)
}

/// A polynomial whose coefficients are given highest power first.
fn horner(ctx: &mut LoweringContext<'_>, x: Value, coefficients: &[f64]) -> Built {
    let mut sum = ctx.times(x, coefficients[0])?;
    for (i, coefficient) in coefficients[1..].iter().enumerate() {
        sum = ctx.plus(sum, *coefficient)?;
        if i + 2 < coefficients.len() {
            sum = ctx.b.mul(sum, x)?;
        }
    }
    Ok(sum)
}

// aten::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)
//   -> Tensor
// aten::grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)
//   -> Tensor
// Narrow floats are computed in f32; torch's CPU kernel rounds the positions to the narrow type.
fn lower_grid_sampler(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let out = ctx.output_type(node, 0)?;
    let input = ctx.tensor(node, "input")?;
    if out.elements() == 0 || ctx.b.ty(input).elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &out)?.into());
    }
    let mode = Mode::of(ctx, node)?;
    let (sampler, positions) = Sampler::read(ctx, node, accumulation_type(out.element))?;
    let mut axes = Vec::with_capacity(positions.len());
    for (position, axis) in positions.iter().zip(&sampler.axes) {
        axes.push(mode.taps(ctx, *position, axis)?);
    }
    let mut sum: Option<Value> = None;
    for taps in combinations(&axes) {
        let mut part = sampler.at(ctx, &taps)?;
        if mode != Mode::Nearest {
            let shape = ctx.b.dims(part).to_vec();
            let weight = weight(ctx, &taps, None)?;
            let weight = ctx.b.broadcast_in_dim(weight, &shape, &[0, 2])?;
            part = ctx.b.mul(part, weight)?;
        }
        sum = Some(sum.map_or(Ok(part), |sum| ctx.b.add(sum, part))?);
    }
    let sum = ctx.b.reshape(sum.ok_or_else(no_axes)?, &out.dims)?;
    Ok(ctx.convert(sum, out.element)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.grid_sampler_2d.default", lower_grid_sampler),
    Rule::new("aten.grid_sampler_3d.default", lower_grid_sampler),
];
