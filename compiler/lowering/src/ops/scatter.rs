//! One index per element: `gather`, `scatter`, `scatter_add`, `scatter_reduce`. See `indices.rs` for indices out of
//! range.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, GatherDims, Monoid, Scalar, Value};

use crate::checks::CheckKind;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::indices::{Combine, Target};
use crate::registry::{Outputs, Rule};
use crate::types::accumulation_type;

type Lowering = Result<Outputs, RuleError>;

/// What is done with all values that meet at one position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    Sum,
    Product,
    Mean,
    Max,
    Min,
}

impl Reduction {
    /// The argument `reduce`, in the names of any of the ops.
    pub(crate) fn named(ctx: &LoweringContext<'_>, node: &Node) -> Result<Self, RuleError> {
        match ctx.opt_text(node, "reduce")? {
            Some("sum" | "add") => Ok(Self::Sum),
            Some("prod" | "multiply") => Ok(Self::Product),
            Some("mean") => Ok(Self::Mean),
            Some("amax") => Ok(Self::Max),
            Some("amin") => Ok(Self::Min),
            other => Err(RuleError::Internal(format!("reduction {other:?}"))),
        }
    }

    fn combine(self) -> Combine {
        match self {
            Self::Sum | Self::Mean => Combine::Sum,
            Self::Product => Combine::Product,
            Self::Max => Combine::Max,
            Self::Min => Combine::Min,
        }
    }

    fn neutral(self, element: ElementType) -> Scalar {
        match self {
            Self::Sum | Self::Mean => Monoid::Sum,
            Self::Product => Monoid::Product,
            Self::Max => Monoid::Max,
            Self::Min => Monoid::Min,
        }
        .neutral(element)
    }
}

/// Reduces `updates` into `x`. Without `include_self` the old element counts only where no update comes. A mean of
/// integers is rounded down.
pub(crate) fn reduce_into(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    target: &Target,
    updates: Value,
    reduction: Reduction,
    include_self: bool,
) -> Result<Value, RuleError> {
    let element = ctx.b.element(x);
    let wide = match reduction {
        Reduction::Sum | Reduction::Product | Reduction::Mean => accumulation_type(element),
        Reduction::Max | Reduction::Min => element,
    };
    if ctx.b.ty(updates).elements() == 0 {
        return Ok(x);
    }
    let (mut base, updates) = (ctx.convert(x, wide)?, ctx.convert(updates, wide)?);
    if !include_self {
        let no = ctx.b.splat(Scalar::Bool(false), &ctx.b.ty(base).with_element(ElementType::Bool))?;
        let yes = ctx.b.splat(Scalar::Bool(true), &ctx.b.ty(updates).with_element(ElementType::Bool))?;
        let touched = ctx.scatter(no, target, yes, Combine::Replace)?;
        let neutral = ctx.fill_like(reduction.neutral(wide), base)?;
        base = ctx.b.select(touched, neutral, base)?;
    }
    let mut out = ctx.scatter(base, target, updates, reduction.combine())?;
    if reduction == Reduction::Mean {
        let start = ctx.fill_like(Scalar::Int(i64::from(include_self)), base)?;
        let ones = ctx.fill_like(Scalar::Int(1), updates)?;
        let count = ctx.scatter(start, target, ones, Combine::Sum)?;
        let one = ctx.fill_like(Scalar::Int(1), count)?;
        let count = ctx.b.max(count, one)?;
        out = divide_down(ctx, out, count)?;
    }
    ctx.convert(out, element)
}

/// Division by a positive count; integers are rounded down.
fn divide_down(ctx: &mut LoweringContext<'_>, x: Value, count: Value) -> Result<Value, RuleError> {
    let quotient = ctx.b.div(x, count)?;
    if !ctx.b.element(x).is_signed_integer() {
        return Ok(quotient);
    }
    let rest = ctx.b.rem(x, count)?;
    let (zero, one) = (ctx.fill_like(Scalar::Int(0), x)?, ctx.fill_like(Scalar::Int(1), x)?);
    let below = ctx.b.compare(Direction::Lt, rest, zero)?;
    let lower = ctx.b.sub(quotient, one)?;
    Ok(ctx.b.select(below, lower, quotient)?)
}

/// A 0-d tensor as a tensor of one element.
fn at_least_1d(ctx: &mut LoweringContext<'_>, x: Value) -> Result<Value, RuleError> {
    if ctx.b.rank(x) == 0 { Ok(ctx.b.reshape(x, &[1])?) } else { Ok(x) }
}

/// `x` cut to the sizes of `index` in every dimension but `dim`.
fn crop(
    ctx: &mut LoweringContext<'_>,
    x: Value,
    sizes: &[i64],
    dim: Option<usize>,
) -> Result<Value, RuleError> {
    let dims = ctx.b.dims(x).to_vec();
    let limits: Vec<i64> = (0..dims.len()).map(|d| if Some(d) == dim { dims[d] } else { sizes[d] }).collect();
    Ok(ctx.b.slice(x, &vec![0; dims.len()], &limits, &vec![1; dims.len()])?)
}

// aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor
fn lower_gather(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    if ty.elements() == 0 {
        return Ok(ctx.b.splat(Scalar::Int(0), &ty)?.into());
    }
    let (x, index) = (ctx.tensor(node, "self")?, ctx.tensor(node, "index")?);
    let (x, index) = (at_least_1d(ctx, x)?, at_least_1d(ctx, index)?);
    let rank = ctx.b.rank(x);
    let dim = ctx.dim(node, "dim", rank)?;
    let size = ctx.b.dims(x)[dim];
    if size == 0 {
        return Err(RuleError::unsupported("every index into a dimension without elements is out of range"));
    }
    ctx.check_index(index, (dim, size), false, CheckKind::Runtime)?;
    let sizes = ctx.b.dims(index).to_vec();
    let x = crop(ctx, x, &sizes, Some(dim))?;
    let index = ctx.index(index, size)?;
    let others: Vec<i64> = (0..rank).filter(|d| *d != dim).map(|d| d as i64).collect();
    let dims = GatherDims {
        collapsed_slice_dims: vec![dim as i64],
        operand_batching_dims: others.clone(),
        start_indices_batching_dims: others,
        start_index_map: vec![dim as i64],
        index_vector_dim: rank as i64,
        ..GatherDims::default()
    };
    let out = ctx.b.gather(x, index, &dims, &vec![1; rank])?;
    Ok(ctx.b.reshape(out, &ty.dims)?.into())
}

/// The operand of a scatter op, where it writes, and the updates: `None` when there is nothing to write.
/// Where `index` is smaller than `self`, it is filled up with a position out of range.
fn prepare(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
) -> Result<(Value, Option<(Target, Value)>), RuleError> {
    let (x, index) = (ctx.tensor(node, "self")?, ctx.tensor(node, "index")?);
    let (x, index) = (at_least_1d(ctx, x)?, at_least_1d(ctx, index)?);
    let ty = ctx.b.ty(x).clone();
    let dim = ctx.dim(node, "dim", ty.rank())?;
    ctx.check_index(index, (dim, ty.dims[dim]), false, CheckKind::Runtime)?;
    if ty.elements() == 0 || ctx.b.ty(index).elements() == 0 {
        return Ok((x, None));
    }
    let sizes = ctx.b.dims(index).to_vec();
    let updates = if node.arg("src").is_some() {
        let src = ctx.tensor(node, "src")?;
        let src = ctx.convert(src, ty.element)?;
        let src = at_least_1d(ctx, src)?;
        crop(ctx, src, &sizes, None)?
    } else {
        ctx.operand(node, "value", &ty.with_dims(sizes.clone()))?
    };
    let index = ctx.index(index, ty.dims[dim])?;
    let outside = ctx.scalar(Scalar::Int(ty.dims[dim]), ctx.b.element(index))?;
    let zero = ctx.scalar(Scalar::Int(0), ty.element)?;
    let none = vec![0; ty.rank()];
    let high: Vec<i64> = (0..ty.rank()).map(|d| if d == dim { 0 } else { ty.dims[d] - sizes[d] }).collect();
    let index = ctx.b.pad(index, outside, &none, &high, &none)?;
    let updates = ctx.b.pad(updates, zero, &none, &high, &none)?;
    Ok((x, Some((Target::elementwise(ctx, index, dim), updates))))
}

fn finish(ctx: &mut LoweringContext<'_>, node: &Node, out: Value) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    Ok(ctx.b.reshape(out, &ty.dims)?.into())
}

/// Scatters with one way to combine.
fn combined(ctx: &mut LoweringContext<'_>, node: &Node, combine: Combine) -> Lowering {
    let (x, job) = prepare(ctx, node)?;
    let out = match job {
        Some((target, updates)) => ctx.scatter(x, &target, updates, combine)?,
        None => x,
    };
    finish(ctx, node, out)
}

// aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor
// aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor
/// Of several values for one position one wins, as in torch it is not defined which.
fn lower_scatter(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    combined(ctx, node, Combine::Replace)
}

// aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor
fn lower_scatter_add(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    combined(ctx, node, Combine::Sum)
}

// aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor
// aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor
fn lower_scatter_reduce(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let reduction = Reduction::named(ctx, node)?;
    let include_self = node.arg("include_self").is_none() || ctx.boolean(node, "include_self")?;
    let (x, job) = prepare(ctx, node)?;
    let out = match job {
        Some((target, updates)) => reduce_into(ctx, x, &target, updates, reduction, include_self)?,
        None => x,
    };
    finish(ctx, node, out)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.gather.default", lower_gather),
    Rule::new("aten.scatter.reduce", lower_scatter_reduce),
    Rule::new("aten.scatter.src", lower_scatter),
    Rule::new("aten.scatter.value", lower_scatter),
    Rule::new("aten.scatter.value_reduce", lower_scatter_reduce),
    Rule::new("aten.scatter_add.default", lower_scatter_add),
    Rule::new("aten.scatter_reduce.two", lower_scatter_reduce),
];
