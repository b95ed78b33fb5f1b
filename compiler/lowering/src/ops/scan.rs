//! Running results along a dimension: `cumsum`, `cumprod`, `cummax`, `cummin`, `logcumsumexp`.
//!
//! Each is one windowed reduction over everything up to an element; XLA turns it into a tree of partial results.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, Monoid, Scalar, Unary, Value, Window};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::index_element;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// The window that ends at each element of dimension `dim`.
fn up_to_here(dims: &[i64], dim: usize) -> Window {
    let mut window = Window::identity(dims.len());
    window.sizes[dim] = dims[dim];
    window.padding[dim] = (dims[dim] - 1, 0);
    window
}

/// The running result of a monoid. A tensor without dimensions or elements is its own result.
fn scan(ctx: &mut LoweringContext<'_>, x: Value, dim: usize, monoid: Monoid) -> Result<Value, RuleError> {
    let ty = ctx.b.ty(x).clone();
    if ty.rank() == 0 || ty.elements() == 0 {
        return Ok(x);
    }
    Ok(ctx.b.reduce_window_monoid(x, monoid, &up_to_here(&ty.dims, dim))?)
}

/// The running sum, each element included.
pub(crate) fn prefix_sum(ctx: &mut LoweringContext<'_>, x: Value, dim: usize) -> Result<Value, RuleError> {
    scan(ctx, x, dim, Monoid::Sum)
}

/// The running maximum, each element included.
pub(crate) fn prefix_max(ctx: &mut LoweringContext<'_>, x: Value, dim: usize) -> Result<Value, RuleError> {
    scan(ctx, x, dim, Monoid::Max)
}

/// Converts to the result's type first, as torch does; narrow floats are accumulated in f32.
fn accumulate(ctx: &mut LoweringContext<'_>, node: &Node, monoid: Monoid) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let dim = ctx.dim(node, "dim", ctx.b.rank(x))?;
    let element = ctx.output_type(node, 0)?.element;
    let x = ctx.convert(x, element)?;
    let wide = ctx.convert(x, accumulation_type(element))?;
    let out = scan(ctx, wide, dim, monoid)?;
    Ok(ctx.convert(out, element)?.into())
}

// aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
fn lower_cumsum(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    accumulate(ctx, node, Monoid::Sum)
}

// aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
fn lower_cumprod(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    accumulate(ctx, node, Monoid::Product)
}

/// Running extremes and where each was seen last: the last position so far whose element is not worse than the
/// running extreme. After a NaN the result is NaN, at the last NaN so far.
fn extremes(ctx: &mut LoweringContext<'_>, node: &Node, monoid: Monoid) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let ty = ctx.b.ty(x).clone();
    let dim = ctx.dim(node, "dim", ty.rank())?;
    let positions = ctx.output_type(node, 1)?;
    if ty.rank() == 0 || ty.elements() == 0 {
        let first = ctx.b.splat(Scalar::Int(0), &positions)?;
        return Ok([x, first].into());
    }
    let values = scan(ctx, x, dim, monoid)?;
    let mut here = ctx.b.compare(Direction::Eq, x, values)?;
    if ty.element.is_float() {
        let nan = ctx.b.compare(Direction::Ne, x, x)?;
        here = ctx.b.or(here, nan)?;
    }
    let count = ctx.b.iota(&ty.with_element(index_element(ty.dims[dim])), dim)?;
    let zero = ctx.fill_like(Scalar::Int(0), count)?;
    let seen = ctx.b.select(here, count, zero)?;
    let last = scan(ctx, seen, dim, Monoid::Max)?;
    let last = ctx.convert(last, positions.element)?;
    Ok([values, last].into())
}

// aten::cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)
fn lower_cummax(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    extremes(ctx, node, Monoid::Max)
}

// aten::cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)
fn lower_cummin(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    extremes(ctx, node, Monoid::Min)
}

// aten::logcumsumexp(Tensor self, int dim) -> Tensor
/// Pairs are joined as `max + log1p(exp(min - max))`; equal infinities stay what they are.
fn lower_logcumsumexp(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let ty = ctx.b.ty(x).clone();
    let dim = ctx.dim(node, "dim", ty.rank())?;
    if ty.element.is_complex() {
        return Err(RuleError::unsupported("logcumsumexp of complex numbers; use cumsum of exp and log"));
    }
    if ty.rank() == 0 || ty.elements() == 0 {
        return Ok(x.into());
    }
    let wide = ctx.convert(x, accumulation_type(ty.element))?;
    let init = ctx.scalar(Scalar::Float(f64::NEG_INFINITY), ctx.b.element(wide))?;
    let out = ctx.b.reduce_window(&[wide], &[init], &up_to_here(&ty.dims, dim), |b, args| {
        let (high, low) = (b.max(args[0], args[1])?, b.min(args[0], args[1])?);
        let gap = b.sub(low, high)?;
        let part = b.exp(gap)?;
        let part = b.unary(Unary::Log1p, part)?;
        let joined = b.add(high, part)?;
        // inf - inf and -inf - -inf have no gap.
        let same = b.compare(Direction::Eq, high, low)?;
        let finite = b.is_finite(high)?;
        let infinite = b.not(finite)?;
        let keep = b.and(same, infinite)?;
        Ok(vec![b.select(keep, high, joined)?])
    })?;
    Ok(ctx.convert(out[0], ty.element)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.cummax.default", lower_cummax),
    Rule::new("aten.cummin.default", lower_cummin),
    Rule::new("aten.cumprod.default", lower_cumprod),
    Rule::new("aten.cumsum.default", lower_cumsum),
    Rule::new("aten.logcumsumexp.default", lower_logcumsumexp),
];
