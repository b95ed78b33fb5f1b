//! `softmax` and `log_softmax`, computed from the distance to the maximum.

use tpud_graph::Node;
use tpud_stablehlo::{Monoid, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// The operand in its accumulation type and the softmax dimension; a 0-d tensor becomes one of size 1.
fn prepare(ctx: &mut LoweringContext<'_>, node: &Node) -> Result<(Value, usize), RuleError> {
    let x = ctx.tensor(node, "self")?;
    let x = ctx.convert(x, accumulation_type(ctx.b.element(x)))?;
    let dim = ctx.dim(node, "dim", ctx.b.rank(x))?;
    let x = if ctx.b.rank(x) == 0 { ctx.b.reshape(x, &[1])? } else { x };
    Ok((x, dim))
}

/// A reduction over `dim`, broadcast back over it.
fn reduce_keep(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    monoid: Monoid,
    dim: usize,
) -> Result<Value, RuleError> {
    let dims = ctx.b.dims(x).to_vec();
    let reduced = ctx.b.reduce_monoid(x, monoid, &[dim as i64])?;
    let map: Vec<i64> = (0..dims.len() as i64).filter(|d| *d != dim as i64).collect();
    Ok(ctx.b.broadcast_in_dim(reduced, &dims, &map)?)
}

fn finish(ctx: &mut LoweringContext<'_>, node: &Node, value: Value) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let value = ctx.convert(value, ty.element)?;
    Ok(ctx.b.reshape(value, &ty.dims)?.into())
}

// aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor
fn lower_softmax(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (x, dim) = prepare(ctx, node)?;
    let max = reduce_keep(ctx, x, Monoid::Max, dim)?;
    let shifted = ctx.b.sub(x, max)?;
    let exp = ctx.b.exp(shifted)?;
    let sum = reduce_keep(ctx, exp, Monoid::Sum, dim)?;
    let out = ctx.b.div(exp, sum)?;
    finish(ctx, node, out)
}

// aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor
fn lower_log_softmax(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (x, dim) = prepare(ctx, node)?;
    let max = reduce_keep(ctx, x, Monoid::Max, dim)?;
    let shifted = ctx.b.sub(x, max)?;
    let exp = ctx.b.exp(shifted)?;
    let sum = reduce_keep(ctx, exp, Monoid::Sum, dim)?;
    let log = ctx.b.log(sum)?;
    let out = ctx.b.sub(shifted, log)?;
    finish(ctx, node, out)
}

/// `grad_output` and `output` in the accumulation type of the result, and the softmax dimension.
fn prepare_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Result<(Value, Value, usize), RuleError> {
    let ty = ctx.output_type(node, 0)?;
    let dim = ctx.dim(node, "dim", ty.rank())?;
    let shape = if ty.rank() == 0 { vec![1] } else { ty.dims };
    let mut read = |name: &str| {
        let x = ctx.tensor(node, name)?;
        let x = ctx.convert(x, accumulation_type(ctx.b.element(x)))?;
        Ok::<Value, RuleError>(ctx.b.reshape(x, &shape)?)
    };
    Ok((read("grad_output")?, read("output")?, dim))
}

// aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor
fn lower_softmax_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (grad, output, dim) = prepare_backward(ctx, node)?;
    let product = ctx.b.mul(grad, output)?;
    let sum = reduce_keep(ctx, product, Monoid::Sum, dim)?;
    let centred = ctx.b.sub(grad, sum)?;
    let out = ctx.b.mul(centred, output)?;
    finish(ctx, node, out)
}

// aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor
fn lower_log_softmax_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (grad, output, dim) = prepare_backward(ctx, node)?;
    let softmax = ctx.b.exp(output)?;
    let sum = reduce_keep(ctx, grad, Monoid::Sum, dim)?;
    let share = ctx.b.mul(softmax, sum)?;
    let out = ctx.b.sub(grad, share)?;
    finish(ctx, node, out)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._log_softmax.default", lower_log_softmax),
    Rule::new("aten._log_softmax_backward_data.default", lower_log_softmax_backward),
    Rule::new("aten._softmax.default", lower_softmax),
    Rule::new("aten._softmax_backward_data.default", lower_softmax_backward),
];
