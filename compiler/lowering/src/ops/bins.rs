//! Histograms over edges: `histogram`, `histogramdd`.
//!
//! A bin takes its lower edge, the last one its upper edge, too; what lies outside, and NaN, is not counted. Where eager
//! raises because data without a number give the range, the edges are NaN and nothing is counted.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, Monoid, Scalar, TensorType, Value};

use super::create::ramp;
use super::histogram::count_before;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::{Combine, Target, index_element};
use crate::pointwise::{Built, Lowering};
use crate::registry::Rule;

/// `bins + 1` edges at equal distances over a given range, or over that of the data, a 1-d tensor. An empty range is
/// widened to 1.
fn even_edges(ctx: &mut LoweringContext<'_>, x: Value, bins: i64, range: Option<[f64; 2]>) -> Built {
    let ty = ctx.b.ty(x).clone();
    let (low, high) = match range {
        Some([low, high]) => {
            (ctx.scalar(Scalar::Float(low), ty.element)?, ctx.scalar(Scalar::Float(high), ty.element)?)
        }
        None if ty.elements() == 0 => {
            (ctx.scalar(Scalar::Int(0), ty.element)?, ctx.scalar(Scalar::Int(1), ty.element)?)
        }
        None => (ctx.b.reduce_monoid(x, Monoid::Min, &[0])?, ctx.b.reduce_monoid(x, Monoid::Max, &[0])?),
    };
    let same = ctx.b.compare(Direction::Eq, low, high)?;
    let half = ctx.scalar(Scalar::Float(0.5), ty.element)?;
    let zero = ctx.scalar(Scalar::Int(0), ty.element)?;
    let widen = ctx.b.select(same, half, zero)?;
    let (low, high) = (ctx.b.sub(low, widen)?, ctx.b.add(high, widen)?);
    let line = ty.with_dims(vec![bins + 1]);
    let (low, high) = (ctx.b.broadcast_to(low, &line.dims)?, ctx.b.broadcast_to(high, &line.dims)?);
    ramp(ctx, low, high)
}

/// The bin of each element of a 1-d tensor; -1 outside.
fn places(ctx: &mut LoweringContext<'_>, x: Value, edges: Value) -> Built {
    let (dims, bins) = (ctx.b.dims(x).to_vec(), ctx.b.dims(edges)[0] - 1);
    let passed = count_before(ctx, edges, x, true)?;
    let place = ctx.plus(passed, -1.0)?;
    let last = ctx.fill_like(Scalar::Int(bins - 1), place)?;
    let place = ctx.b.min(place, last)?;
    let mut inside = None;
    for (at, direction) in [(0, Direction::Ge), (bins, Direction::Le)] {
        let edge = ctx.b.slice_dim(edges, 0, at, at + 1, 1)?;
        let edge = ctx.b.broadcast_to(edge, &dims)?;
        let here = ctx.b.compare(direction, x, edge)?;
        inside = Some(match inside {
            Some(before) => ctx.b.and(before, here)?,
            None => here,
        });
    }
    let nowhere = ctx.fill_like(Scalar::Int(-1), place)?;
    match inside {
        Some(inside) => Ok(ctx.b.select(inside, place, nowhere)?),
        None => Err(RuleError::Internal("a histogram without edges".into())),
    }
}

/// `[n, dimensions]`: the points, each coordinate with the edges of its dimension. Counts, or sums of the weights, and
/// as a density if that is asked for.
fn tally(ctx: &mut LoweringContext<'_>, node: &Node, points: Value, edges: &[Value]) -> Built {
    let ty = ctx.b.ty(points).clone();
    let n = ty.dims[0];
    let bins: Vec<i64> = edges.iter().map(|e| ctx.b.dims(*e)[0] - 1).collect();
    let total: i64 = bins.iter().product();
    let element = index_element(total);
    let line = TensorType::new(element, vec![n]);
    let mut flat = ctx.b.splat(Scalar::Int(0), &line)?;
    let mut outside = ctx.compare_number(Direction::Ne, flat, 0.0)?;
    for (d, edge) in edges.iter().enumerate() {
        let x = ctx.b.slice_dim(points, 1, d as i64, d as i64 + 1, 1)?;
        let x = ctx.b.reshape(x, &[n])?;
        let place = places(ctx, x, *edge)?;
        let place = ctx.convert(place, element)?;
        let missed = ctx.compare_number(Direction::Lt, place, 0.0)?;
        outside = ctx.b.or(outside, missed)?;
        let size = ctx.fill_like(Scalar::Int(bins[d]), flat)?;
        let scaled = ctx.b.mul(flat, size)?;
        flat = ctx.b.add(scaled, place)?;
    }
    // A scatter drops what is out of range.
    let beyond = ctx.fill_like(Scalar::Int(total), flat)?;
    let flat = ctx.b.select(outside, beyond, flat)?;
    let weight = match ctx.opt_tensor(node, "weight")? {
        Some(weight) => {
            let weight = ctx.convert(weight, ty.element)?;
            ctx.b.reshape(weight, &[n])?
        }
        None => ctx.b.splat(Scalar::Int(1), &ty.with_dims(vec![n]))?,
    };
    let zeros = ctx.b.splat(Scalar::Int(0), &ty.with_dims(vec![total]))?;
    let target = Target::along(ctx, flat, 0, 1);
    let sums = ctx.scatter(zeros, &target, weight, Combine::Sum)?;
    let sums = ctx.b.reshape(sums, &bins)?;
    if ctx.boolean(node, "density")? { density(ctx, sums, edges) } else { Ok(sums) }
}

/// Divided by their total and by the size of each bin.
fn density(ctx: &mut LoweringContext<'_>, sums: Value, edges: &[Value]) -> Built {
    let dims = ctx.b.dims(sums).to_vec();
    let all: Vec<i64> = (0..dims.len() as i64).collect();
    let total = ctx.b.reduce_monoid(sums, Monoid::Sum, &all)?;
    let total = ctx.b.broadcast_to(total, &dims)?;
    let mut out = ctx.b.div(sums, total)?;
    for (d, edge) in edges.iter().enumerate() {
        let upper = ctx.b.slice_dim(*edge, 0, 1, dims[d] + 1, 1)?;
        let lower = ctx.b.slice_dim(*edge, 0, 0, dims[d], 1)?;
        let width = ctx.b.sub(upper, lower)?;
        let width = ctx.b.broadcast_in_dim(width, &dims, &[d as i64])?;
        out = ctx.b.div(out, width)?;
    }
    Ok(out)
}

/// `self` as a list of points with the given number of coordinates.
fn points(ctx: &mut LoweringContext<'_>, node: &Node, coordinates: i64) -> Built {
    let x = ctx.tensor(node, "self")?;
    let count = ctx.b.ty(x).elements() / coordinates.max(1);
    Ok(ctx.b.reshape(x, &[count, coordinates])?)
}

// aten::histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False)
//   -> (Tensor hist, Tensor bin_edges)
fn lower_histogram(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let points = points(ctx, node, 1)?;
    let range = ctx.opt_floats(node, "range")?.and_then(|range| range.try_into().ok());
    let count = ctx.b.dims(points)[0];
    let line = ctx.b.reshape(points, &[count])?;
    let edges = even_edges(ctx, line, ctx.int(node, "bins")?, range)?;
    Ok([tally(ctx, node, points, &[edges])?, edges].into())
}

// aten::histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False)
//   -> (Tensor hist, Tensor bin_edges)
fn lower_histogram_of_edges(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let points = points(ctx, node, 1)?;
    let edges = ctx.tensor(node, "bins")?;
    Ok([tally(ctx, node, points, &[edges])?, edges].into())
}

/// The edges of each dimension from the arguments `bins` and `range`.
fn all_edges(ctx: &mut LoweringContext<'_>, node: &Node) -> Result<(Value, Vec<Value>), RuleError> {
    let bins = ctx.ints(node, "bins")?;
    let points = points(ctx, node, bins.len() as i64)?;
    let range = ctx.opt_floats(node, "range")?;
    let n = ctx.b.dims(points)[0];
    let mut edges = Vec::with_capacity(bins.len());
    for (d, count) in bins.iter().enumerate() {
        let x = ctx.b.slice_dim(points, 1, d as i64, d as i64 + 1, 1)?;
        let x = ctx.b.reshape(x, &[n])?;
        let range = range.as_ref().and_then(|r| Some([*r.get(2 * d)?, *r.get(2 * d + 1)?]));
        edges.push(even_edges(ctx, x, *count, range)?);
    }
    Ok((points, edges))
}

// aten::_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False)
//   -> Tensor[]
fn lower_bin_edges(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    Ok(all_edges(ctx, node)?.1.into())
}

// aten::_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None,
//   bool density=False) -> Tensor
fn lower_histogramdd(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (points, edges) = all_edges(ctx, node)?;
    Ok(tally(ctx, node, points, &edges)?.into())
}

// aten::_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> Tensor
fn lower_histogramdd_of_edges(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let edges = ctx.tensors(node, "bins")?;
    let points = points(ctx, node, edges.len() as i64)?;
    Ok(tally(ctx, node, points, &edges)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._histogramdd_bin_edges.default", lower_bin_edges),
    Rule::new("aten._histogramdd_from_bin_cts.default", lower_histogramdd),
    Rule::new("aten._histogramdd_from_bin_tensors.default", lower_histogramdd_of_edges),
    Rule::new("aten.histogram.bin_ct", lower_histogram),
    Rule::new("aten.histogram.bins_tensor", lower_histogram_of_edges),
];
