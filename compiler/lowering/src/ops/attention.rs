//! Attention, whole: the kernel that torch takes on the CPU, and its gradient.
//!
//! As that kernel: scores and softmax in the accumulation type, probabilities rounded to the type of the values before
//! they weigh them, a row that is masked whole gives zeros. The gradient computes the probabilities again from the
//! saved logarithm of the rows' sums, so that no [length, length] tensor outlives the forward pass.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, DotDims, ElementType, Monoid, Scalar, Value};

use super::linear::dot;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::index_element;
use crate::pointwise::{Built, Lowering};
use crate::registry::Rule;
use crate::types::accumulation_type;

/// Queries of `groups` heads share a head of keys and values.
struct Heads {
    batch: i64,
    /// Heads of the keys.
    shared: i64,
    groups: i64,
    queries: i64,
    keys: i64,
}

impl Heads {
    /// The sizes, checked: every tensor is [batch, heads, length, size].
    fn read(ctx: &LoweringContext<'_>, node: &Node) -> Result<Self, RuleError> {
        let dims = |name: &str| -> Result<[i64; 4], RuleError> {
            let x = ctx.tensor(node, name)?;
            <[i64; 4]>::try_from(ctx.b.dims(x)).map_err(|_| {
                RuleError::unsupported(format!("`{name}` of attention must be [batch, heads, length, size]"))
            })
        };
        if ctx.float(node, "dropout_p")? != 0.0 {
            return Err(RuleError::unsupported(
                "torch's attention kernel has no dropout; call scaled_dot_product_attention instead",
            ));
        }
        let (query, key, value) = (dims("query")?, dims("key")?, dims("value")?);
        let shared = key[1];
        if shared == 0 || query[1] % shared != 0 || value[1] != shared {
            return Err(RuleError::unsupported(
                "attention needs as many heads of values as of keys, and a multiple of them in the query",
            ));
        }
        Ok(Self { batch: query[0], shared, groups: query[1] / shared, queries: query[2], keys: key[2] })
    }

    /// [batch, heads, queries, n] to [batch, shared heads, groups · queries, n].
    fn fold(&self, ctx: &mut LoweringContext<'_>, x: Value, n: i64) -> Built {
        Ok(ctx.b.reshape(x, &[self.batch, self.shared, self.groups * self.queries, n])?)
    }

    /// The inverse of [`fold`](Self::fold).
    fn unfold(&self, ctx: &mut LoweringContext<'_>, x: Value) -> Built {
        let n = ctx.b.dims(x)[3];
        Ok(ctx.b.reshape(x, &[self.batch, self.shared * self.groups, self.queries, n])?)
    }
}

/// A product of matrices for each head; `lhs` and `rhs` are the dimensions that are summed over.
fn product(ctx: &mut LoweringContext<'_>, (x, lhs): (Value, i64), (y, rhs): (Value, i64)) -> Built {
    let dims = DotDims {
        lhs_batch: vec![0, 1],
        rhs_batch: vec![0, 1],
        lhs_contract: vec![lhs],
        rhs_contract: vec![rhs],
    };
    dot(ctx, x, y, &dims)
}

/// `scale`, or what torch takes without one.
fn scale(ctx: &LoweringContext<'_>, node: &Node) -> Result<f64, RuleError> {
    let size = ctx.b.dims(ctx.tensor(node, "query")?).last().copied().unwrap_or(1);
    Ok(ctx.opt_float(node, "scale")?.unwrap_or_else(|| 1.0 / (size as f64).sqrt()))
}

/// The scaled and masked scores, [batch, heads, queries, keys], in the accumulation type.
fn scores(ctx: &mut LoweringContext<'_>, node: &Node, heads: &Heads) -> Built {
    let (query, key) = (ctx.tensor(node, "query")?, ctx.tensor(node, "key")?);
    let size = ctx.b.dims(query)[3];
    let folded = heads.fold(ctx, query, size)?;
    let raw = product(ctx, (folded, 3), (key, 3))?;
    let raw = heads.unfold(ctx, raw)?;
    let mut scores = ctx.times(raw, scale(ctx, node)?)?;
    let ty = ctx.b.ty(scores).clone();
    if ctx.boolean(node, "is_causal")? {
        let grid = ty.with_element(index_element(heads.queries.max(heads.keys)));
        let (row, column) = (ctx.b.iota(&grid, 2)?, ctx.b.iota(&grid, 3)?);
        let allowed = ctx.b.compare(Direction::Le, column, row)?;
        scores = ctx.select_or(allowed, scores, f64::NEG_INFINITY)?;
    }
    let Some(mask) = ctx.opt_tensor(node, "attn_mask")? else { return Ok(scores) };
    if ctx.b.element(mask) == ElementType::Bool {
        let allowed = ctx.b.broadcast_to(mask, &ty.dims)?;
        return ctx.select_or(allowed, scores, f64::NEG_INFINITY);
    }
    let mask = ctx.fit(mask, &ty)?;
    Ok(ctx.b.add(scores, mask)?)
}

/// A number for each row, over the whole of it.
fn along_rows(ctx: &mut LoweringContext<'_>, row: Value, like: Value) -> Built {
    let dims = ctx.b.dims(like).to_vec();
    Ok(ctx.b.broadcast_in_dim(row, &dims, &[0, 1, 2])?)
}

/// `number` where `x` is `when`.
fn replaced(ctx: &mut LoweringContext<'_>, x: Value, when: f64, number: f64) -> Built {
    let found = ctx.compare_number(Direction::Eq, x, when)?;
    let number = ctx.fill_like(Scalar::Float(number), x)?;
    Ok(ctx.b.select(found, number, x)?)
}

// aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0,
//   bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)
fn lower_attention(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let heads = Heads::read(ctx, node)?;
    let value = ctx.tensor(node, "value")?;
    let scores = scores(ctx, node, &heads)?;
    let max = ctx.b.reduce_monoid(scores, Monoid::Max, &[3])?;
    // A row that is masked whole: its distances to 0 are -inf, its sum counts as 1.
    let max = replaced(ctx, max, f64::NEG_INFINITY, 0.0)?;
    let wide_max = along_rows(ctx, max, scores)?;
    let distance = ctx.b.sub(scores, wide_max)?;
    let weights = ctx.b.exp(distance)?;
    let sum = ctx.b.reduce_monoid(weights, Monoid::Sum, &[3])?;
    let sum = replaced(ctx, sum, 0.0, 1.0)?;
    let weights = ctx.convert(weights, ctx.b.element(value))?;
    let weights = heads.fold(ctx, weights, heads.keys)?;
    let weighted = product(ctx, (weights, 3), (value, 2))?;
    let weighted = heads.unfold(ctx, weighted)?;
    let wide_sum = along_rows(ctx, sum, weighted)?;
    let out = ctx.b.div(weighted, wide_sum)?;
    let log = ctx.b.log(sum)?;
    let log_sum = ctx.b.add(max, log)?;
    let (out_type, log_type) = (ctx.output_type(node, 0)?, ctx.output_type(node, 1)?);
    Ok([ctx.convert(out, out_type.element)?, ctx.convert(log_sum, log_type.element)?].into())
}

// aten::_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value,
//   Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None)
//   -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)
fn lower_attention_backward(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let heads = Heads::read(ctx, node)?;
    let [query, key, value] = ["query", "key", "value"].map(|name| ctx.tensor(node, name));
    let (query, key, value) = (query?, key?, value?);
    let narrow = ctx.b.element(query);
    let wide = accumulation_type(narrow);
    let grad = ctx.tensor(node, "grad_out")?;
    let folded_grad = heads.fold(ctx, grad, ctx.b.dims(value)[3])?;
    let folded_query = heads.fold(ctx, query, ctx.b.dims(query)[3])?;

    let scores = scores(ctx, node, &heads)?;
    let log_sum = ctx.tensor(node, "logsumexp")?;
    let log_sum = ctx.convert(log_sum, wide)?;
    let log_sum = along_rows(ctx, log_sum, scores)?;
    let distance = ctx.b.sub(scores, log_sum)?;
    let weights = ctx.b.exp(distance)?;

    let narrow_weights = ctx.convert(weights, narrow)?;
    let narrow_weights = heads.fold(ctx, narrow_weights, heads.keys)?;
    let grad_value = product(ctx, (narrow_weights, 2), (folded_grad, 2))?;

    let slope = product(ctx, (folded_grad, 3), (value, 3))?;
    let slope = heads.unfold(ctx, slope)?;
    let (wide_grad, out) = (ctx.convert(grad, wide)?, ctx.tensor(node, "out")?);
    let out = ctx.convert(out, wide)?;
    let shares = ctx.b.mul(wide_grad, out)?;
    let share = ctx.b.reduce_monoid(shares, Monoid::Sum, &[3])?;
    let share = along_rows(ctx, share, slope)?;
    let centred = ctx.b.sub(slope, share)?;
    let grad_scores = ctx.b.mul(weights, centred)?;
    let grad_scores = ctx.convert(grad_scores, narrow)?;
    let grad_scores = heads.fold(ctx, grad_scores, heads.keys)?;

    let factor = scale(ctx, node)?;
    let grad_query = product(ctx, (grad_scores, 3), (key, 2))?;
    let grad_query = heads.unfold(ctx, grad_query)?;
    let grad_query = ctx.times(grad_query, factor)?;
    let grad_key = product(ctx, (grad_scores, 2), (folded_query, 2))?;
    let grad_key = ctx.times(grad_key, factor)?;
    let gradients = [grad_query, grad_key, grad_value].map(|x| ctx.convert(x, narrow));
    let [grad_query, grad_key, grad_value] = gradients;
    Ok([grad_query?, grad_key?, grad_value?].into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._scaled_dot_product_flash_attention_for_cpu.default", lower_attention),
    Rule::new("aten._scaled_dot_product_flash_attention_for_cpu_backward.default", lower_attention_backward),
];
