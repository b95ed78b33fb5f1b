//! Padding at the edges: constant, reflected, replicated.

use tpud_graph::Node;
use tpud_stablehlo::{Scalar, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};

type Lowering = Result<Outputs, RuleError>;

/// torch's list of (low, high) pairs, last dimension first, as (dimension, low, high).
fn pairs(
    ctx: &LoweringContext<'_>,
    node: &Node,
    name: &str,
    rank: usize,
) -> Result<Vec<(usize, i64, i64)>, RuleError> {
    let flat = ctx.ints(node, name)?;
    if flat.len() % 2 != 0 || flat.len() / 2 > rank {
        return Err(RuleError::Internal(format!("{flat:?} does not pad {rank} dimensions")));
    }
    Ok(flat.chunks_exact(2).enumerate().map(|(i, pair)| (rank - 1 - i, pair[0], pair[1])).collect())
}

// aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor
/// A negative amount crops.
fn lower_constant_pad_nd(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let ty = ctx.b.ty(x).clone();
    let value = ctx.opt_number(node, "value")?.unwrap_or(Scalar::Int(0));
    let value = ctx.scalar(value, ty.element)?;
    let none = vec![0; ty.rank()];
    let (mut low, mut high) = (none.clone(), none.clone());
    for (dim, before, after) in pairs(ctx, node, "pad", ty.rank())? {
        (low[dim], high[dim]) = (before, after);
    }
    Ok(ctx.b.pad(x, value, &low, &high, &none)?.into())
}

/// What an edge is continued with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    Reflect,
    Replicate,
}

/// `count` elements that go before (`low`) or after `x` along `dim`.
fn margin(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    (dim, count): (usize, i64),
    low: bool,
    edge: Edge,
) -> Result<Value, RuleError> {
    let size = ctx.b.dims(x)[dim];
    if edge == Edge::Reflect {
        let start = if low { 1 } else { size - 1 - count };
        let part = ctx.b.slice_dim(x, dim, start, start + count, 1)?;
        return Ok(ctx.b.reverse(part, &[dim as i64])?);
    }
    let start = if low { 0 } else { size - 1 };
    let line = ctx.b.slice_dim(x, dim, start, start + 1, 1)?;
    let mut dims = ctx.b.dims(x).to_vec();
    dims[dim] = count;
    Ok(ctx.b.broadcast_to(line, &dims)?)
}

/// Grows each dimension in turn, then crops where an amount is negative.
fn continued(ctx: &mut LoweringContext<'_>, node: &Node, edge: Edge) -> Lowering {
    let mut x = ctx.tensor(node, "self")?;
    let rank = ctx.b.rank(x);
    let amounts = pairs(ctx, node, "padding", rank)?;
    if ctx.b.ty(x).elements() == 0 {
        let ty = ctx.output_type(node, 0)?;
        return Ok(ctx.b.splat(Scalar::Int(0), &ty)?.into());
    }
    for &(dim, low, high) in &amounts {
        let mut parts = Vec::with_capacity(3);
        if low > 0 {
            parts.push(margin(ctx, x, (dim, low), true, edge)?);
        }
        parts.push(x);
        if high > 0 {
            parts.push(margin(ctx, x, (dim, high), false, edge)?);
        }
        let grown = ctx.b.concatenate(&parts, dim)?;
        let size = ctx.b.dims(grown)[dim];
        x = ctx.b.slice_dim(grown, dim, (-low).max(0), size - (-high).max(0), 1)?;
    }
    Ok(x.into())
}

// aten::reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor
// aten::reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor
// aten::reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor
fn lower_reflection_pad(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    continued(ctx, node, Edge::Reflect)
}

// aten::replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor
// aten::replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor
// aten::replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor
fn lower_replication_pad(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    continued(ctx, node, Edge::Replicate)
}

/// The adjoint: the margins of the gradient are added to the elements they were made from.
fn continued_backward(ctx: &mut LoweringContext<'_>, node: &Node, edge: Edge) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let mut grad = ctx.tensor(node, "grad_output")?;
    if ctx.b.ty(grad).elements() == 0 || ty.elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &ty)?.into());
    }
    let mut amounts = pairs(ctx, node, "padding", ty.rank())?;
    amounts.reverse();
    for (dim, low, high) in amounts {
        if low < 0 || high < 0 {
            return Err(RuleError::unsupported(
                "the gradient of padding by a negative amount; crop with a slice instead",
            ));
        }
        let size = ty.dims[dim];
        let mut sum = ctx.b.slice_dim(grad, dim, low, low + size, 1)?;
        for (start, count, at_low) in [(0, low, true), (low + size, high, false)] {
            if count > 0 {
                let part = ctx.b.slice_dim(grad, dim, start, start + count, 1)?;
                let part = folded(ctx, part, (dim, size), at_low, edge)?;
                sum = ctx.b.add(sum, part)?;
            }
        }
        grad = sum;
    }
    Ok(grad.into())
}

/// A margin's gradient where its elements came from, in a dimension of `size`.
fn folded(
    ctx: &mut LoweringContext<'_>,
    part: Value,
    (dim, size): (usize, i64),
    low: bool,
    edge: Edge,
) -> Result<Value, RuleError> {
    let ty = ctx.b.ty(part).clone();
    let (part, start) = if edge == Edge::Reflect {
        let count = ty.dims[dim];
        (ctx.b.reverse(part, &[dim as i64])?, if low { 1 } else { size - 1 - count })
    } else {
        let sum = ctx.b.reduce_monoid(part, tpud_stablehlo::Monoid::Sum, &[dim as i64])?;
        let mut line = ty.dims.clone();
        line[dim] = 1;
        (ctx.b.reshape(sum, &line)?, if low { 0 } else { size - 1 })
    };
    let none = vec![0; ty.rank()];
    let (mut before, mut after) = (none.clone(), none.clone());
    (before[dim], after[dim]) = (start, size - start - ctx.b.dims(part)[dim]);
    let zero = ctx.scalar(Scalar::Int(0), ty.element)?;
    Ok(ctx.b.pad(part, zero, &before, &after, &none)?)
}

// aten::reflection_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor
fn lower_reflection_pad_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    continued_backward(ctx, node, Edge::Reflect)
}

// aten::replication_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor
fn lower_replication_pad_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    continued_backward(ctx, node, Edge::Replicate)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.constant_pad_nd.default", lower_constant_pad_nd),
    Rule::new("aten.reflection_pad1d.default", lower_reflection_pad),
    Rule::new("aten.reflection_pad1d_backward.default", lower_reflection_pad_backward),
    Rule::new("aten.reflection_pad2d.default", lower_reflection_pad),
    Rule::new("aten.reflection_pad2d_backward.default", lower_reflection_pad_backward),
    Rule::new("aten.reflection_pad3d.default", lower_reflection_pad),
    Rule::new("aten.reflection_pad3d_backward.default", lower_reflection_pad_backward),
    Rule::new("aten.replication_pad1d.default", lower_replication_pad),
    Rule::new("aten.replication_pad1d_backward.default", lower_replication_pad_backward),
    Rule::new("aten.replication_pad2d.default", lower_replication_pad),
    Rule::new("aten.replication_pad2d_backward.default", lower_replication_pad_backward),
    Rule::new("aten.replication_pad3d.default", lower_replication_pad),
    Rule::new("aten.replication_pad3d_backward.default", lower_replication_pad_backward),
];
