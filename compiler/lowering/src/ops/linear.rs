//! Matrix products: `mm`, `bmm`, `addmm`, …
//!
//! Narrow floats are accumulated in f32 and rounded once, as torch's kernels do; integers accumulate in their own type.

use tpud_graph::Node;
use tpud_stablehlo::{DotDims, ElementType, Scalar, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::products;
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// A contraction whose result is left in the accumulation type.
pub(crate) fn dot(
    ctx: &mut LoweringContext<'_>,
    lhs: Value,
    rhs: Value,
    dims: &DotDims,
) -> Result<Value, RuleError> {
    let element = ctx.b.element(lhs);
    if element == ElementType::Bool {
        return Err(RuleError::unsupported("a matrix product of bool tensors is not defined"));
    }
    Ok(products::dot(&mut ctx.b, ctx.options, lhs, rhs, dims)?)
}

/// The product of the last two dimensions; all before them are batch dimensions.
pub(crate) fn matrix_product(
    ctx: &mut LoweringContext<'_>,
    lhs: Value,
    rhs: Value,
) -> Result<Value, RuleError> {
    let rank = ctx.b.rank(lhs) as i64;
    let batch: Vec<i64> = (0..rank - 2).collect();
    let dims = DotDims {
        lhs_batch: batch.clone(),
        rhs_batch: batch,
        lhs_contract: vec![rank - 1],
        rhs_contract: vec![rank - 2],
    };
    dot(ctx, lhs, rhs, &dims)
}

// aten::mm(Tensor self, Tensor mat2) -> Tensor
// aten::bmm(Tensor self, Tensor mat2) -> Tensor
fn lower_mm(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (lhs, rhs) = (ctx.tensor(node, "self")?, ctx.tensor(node, "mat2")?);
    let product = matrix_product(ctx, lhs, rhs)?;
    let element = ctx.output_type(node, 0)?.element;
    Ok(ctx.convert(product, element)?.into())
}

// aten::mv(Tensor self, Tensor vec) -> Tensor
fn lower_mv(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    vector_product(ctx, node, "vec", 1)
}

// aten::dot(Tensor self, Tensor tensor) -> Tensor
fn lower_dot(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    vector_product(ctx, node, "tensor", 0)
}

fn vector_product(ctx: &mut LoweringContext<'_>, node: &Node, other: &str, contract: i64) -> Lowering {
    let (lhs, rhs) = (ctx.tensor(node, "self")?, ctx.tensor(node, other)?);
    let dims = DotDims { lhs_contract: vec![contract], rhs_contract: vec![0], ..DotDims::default() };
    let product = dot(ctx, lhs, rhs, &dims)?;
    let element = ctx.output_type(node, 0)?.element;
    Ok(ctx.convert(product, element)?.into())
}

// aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
fn lower_addmm(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (lhs, rhs) = (ctx.tensor(node, "mat1")?, ctx.tensor(node, "mat2")?);
    let product = matrix_product(ctx, lhs, rhs)?;
    add_scaled(ctx, node, product)
}

// aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
fn lower_baddbmm(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (lhs, rhs) = (ctx.tensor(node, "batch1")?, ctx.tensor(node, "batch2")?);
    let product = matrix_product(ctx, lhs, rhs)?;
    add_scaled(ctx, node, product)
}

// aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
fn lower_addbmm(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (lhs, rhs) = (ctx.tensor(node, "batch1")?, ctx.tensor(node, "batch2")?);
    let out = ctx.output_type(node, 0)?;
    if accumulation_type(out.element) != out.element && (2..=SUMMANDS).contains(&ctx.b.dims(lhs)[0]) {
        return rounded_sum(ctx, node, (lhs, rhs));
    }
    let dims = DotDims { lhs_contract: vec![0, 2], rhs_contract: vec![0, 1], ..DotDims::default() };
    let product = dot(ctx, lhs, rhs, &dims)?;
    add_scaled(ctx, node, product)
}

/// How many products [`rounded_sum`] adds one by one; beyond, one contraction rounds less often than torch does.
const SUMMANDS: i64 = 64;

/// torch adds the products of a batch one after the other, and rounds narrow floats each time.
fn rounded_sum(ctx: &mut LoweringContext<'_>, node: &Node, (lhs, rhs): (Value, Value)) -> Lowering {
    let out = ctx.output_type(node, 0)?;
    let products = matrix_product(ctx, lhs, rhs)?;
    let mut sum: Option<Value> = None;
    for i in 0..ctx.b.dims(products)[0] {
        let product = ctx.b.slice_dim(products, 0, i, i + 1, 1)?;
        let product = ctx.b.reshape(product, &out.dims)?;
        let next = match sum {
            None => scaled_sum(ctx, node, product)?,
            Some(before) => {
                let product = scale(ctx, product, ctx.number(node, "alpha")?)?;
                ctx.b.add(before, product)?
            }
        };
        sum = Some(ctx.rounded_as(next, out.element)?);
    }
    let sum = sum.ok_or_else(|| RuleError::Internal("an empty sum".into()))?;
    ctx.rounded(node, sum)
}

// aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor
fn lower_addmv(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (lhs, rhs) = (ctx.tensor(node, "mat")?, ctx.tensor(node, "vec")?);
    let dims = DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..DotDims::default() };
    let product = dot(ctx, lhs, rhs, &dims)?;
    add_scaled(ctx, node, product)
}

/// `beta · self + alpha · product`. With `beta = 0`, `self` is not read: its NaN do not matter.
fn add_scaled(ctx: &mut LoweringContext<'_>, node: &Node, product: Value) -> Lowering {
    let sum = scaled_sum(ctx, node, product)?;
    ctx.rounded(node, sum)
}

fn scaled_sum(ctx: &mut LoweringContext<'_>, node: &Node, product: Value) -> Result<Value, RuleError> {
    let out = ctx.output_type(node, 0)?;
    let wide = out.with_element(ctx.b.element(product));
    let mut sum = scale(ctx, product, ctx.number(node, "alpha")?)?;
    let beta = ctx.number(node, "beta")?;
    if !is(beta, 0.0) {
        let bias = ctx.operand(node, "self", &wide)?;
        let bias = scale(ctx, bias, beta)?;
        sum = ctx.b.add(bias, sum)?;
    }
    Ok(sum)
}

/// Whether a factor is this real number.
fn is(factor: Scalar, number: f64) -> bool {
    factor.as_f64() == number && !matches!(factor, Scalar::Complex(_, im) if im != 0.0)
}

fn scale(ctx: &mut LoweringContext<'_>, x: Value, factor: Scalar) -> Result<Value, RuleError> {
    if is(factor, 1.0) {
        return Ok(x);
    }
    let factor = ctx.fill_like(factor, x)?;
    Ok(ctx.b.mul(x, factor)?)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.addbmm.default", lower_addbmm),
    Rule::new("aten.addmm.default", lower_addmm),
    Rule::new("aten.addmv.default", lower_addmv),
    Rule::new("aten.baddbmm.default", lower_baddbmm),
    Rule::new("aten.bmm.default", lower_mm),
    Rule::new("aten.dot.default", lower_dot),
    Rule::new("aten.mm.default", lower_mm),
    Rule::new("aten.mv.default", lower_mv),
];
