//! Tensors from nothing: constants, ranges, identity and triangle indices.

use tpud_graph::Node;
use tpud_stablehlo::{Direction, ElementType, Literal, Scalar, TensorType, Value};

use super::division::constant_divisor;
use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::{Built, Lowering};
use crate::registry::Rule;

// aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor
// aten::full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor
// aten::new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, ...) -> Tensor
// aten::fill.Scalar(Tensor self, Scalar value) -> Tensor
// aten::fill.Tensor(Tensor self, Tensor value) -> Tensor
fn lower_full(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let name = if node.arg("fill_value").is_some() { "fill_value" } else { "value" };
    Ok(ctx.operand(node, name, &ty)?.into())
}

// aten::scalar_tensor(Scalar s, *, ScalarType? dtype=None, ...) -> Tensor
fn lower_scalar_tensor(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    Ok(ctx.operand(node, "s", &ty)?.into())
}

fn splat(ctx: &mut LoweringContext<'_>, node: &Node, value: Scalar) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    Ok(ctx.b.splat(value, &ty)?.into())
}

// aten::zeros(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor
// aten::zeros_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor
// aten::new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor
// aten::zero(Tensor self) -> Tensor
// Memory that torch leaves uninitialised is zero here:
// aten::empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor
// aten::empty_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor
// aten::empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, ...) -> Tensor
// aten::empty_permuted(SymInt[] size, int[] physical_layout, *, ScalarType? dtype=None, ...) -> Tensor
// aten::new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor
// aten::new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, ...) -> Tensor
fn lower_zeros(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    splat(ctx, node, Scalar::Int(0))
}

// aten::ones(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor
// aten::ones_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor
// aten::new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor
fn lower_ones(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    splat(ctx, node, Scalar::Int(1))
}

// aten::arange(Scalar end, *, ScalarType? dtype=None, ...) -> Tensor
// aten::arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, ...) -> Tensor
// aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, ...) -> Tensor
// Integers are exact; floats are computed as f64 and rounded once, as torch does.
fn lower_arange(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    let start = ctx.opt_number(node, "start")?.unwrap_or(Scalar::Int(0));
    let step = ctx.opt_number(node, "step")?.unwrap_or(Scalar::Int(1));
    if ty.element.is_complex() || ty.element == ElementType::Bool {
        return Err(RuleError::unsupported(format!("a range of {} is not defined", ty.element)));
    }
    // Small whole numbers are exact in i32 whatever the element type: this is the form that is cheapest on devices.
    let exact = ty.element.is_integer() || is_small_integer_range(start, step, &ty);
    let element = match ty.element {
        e if e.is_integer() => e,
        _ if exact => ElementType::I32,
        _ => ElementType::F64,
    };
    let whole = |number: Scalar| if exact { Scalar::Int(number.as_i64()) } else { number };
    let count = ctx.b.iota(&ty.with_element(element), 0)?;
    let mut x = count;
    if whole(step).as_f64() != 1.0 {
        let step = ctx.fill_like(whole(step), x)?;
        x = ctx.b.mul(x, step)?;
    }
    if whole(start).as_f64() != 0.0 {
        let start = ctx.fill_like(whole(start), x)?;
        x = ctx.b.add(x, start)?;
    }
    ctx.rounded(node, x)
}

/// Whether every number of the range is a whole number below 2³¹.
fn is_small_integer_range(start: Scalar, step: Scalar, ty: &TensorType) -> bool {
    let (start, step) = (start.as_f64(), step.as_f64());
    let end = start + step * ty.elements() as f64;
    start.fract() == 0.0
        && step.fract() == 0.0
        && [start, step, end].iter().all(|x| x.abs() < f64::from(i32::MAX))
}

// aten::linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, ...) -> Tensor
// aten::linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, *, ScalarType? dtype=None, ...) -> Tensor
// aten::linspace.Tensor_Scalar(Tensor start, Scalar end, int steps, *, ScalarType? dtype=None, ...) -> Tensor
// aten::linspace.Scalar_Tensor(Scalar start, Tensor end, int steps, *, ScalarType? dtype=None, ...) -> Tensor
fn lower_linspace(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = linspace(ctx, node)?;
    ctx.rounded(node, x)
}

// aten::logspace(Scalar start, Scalar end, int steps, float base=10.0, *, ScalarType? dtype=None, ...) -> Tensor
fn lower_logspace(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let exponent = linspace(ctx, node)?;
    let base = Scalar::Float(ctx.opt_float(node, "base")?.unwrap_or(10.0));
    let base = ctx.fill_like(base, exponent)?;
    let x = ctx.b.pow(base, exponent)?;
    ctx.rounded(node, x)
}

fn linspace(ctx: &mut LoweringContext<'_>, node: &Node) -> Built {
    let ty = ctx.output_type(node, 0)?;
    let element = match ty.element {
        e if e.is_complex() => e,
        e if e.is_integer() || e == ElementType::F64 => ElementType::F64,
        _ => ElementType::F32,
    };
    // torch takes the ends in the result's type, so that 4.3 is 4 among integers.
    let mut end_of = |name| {
        let given = ctx.operand(node, name, &ty)?;
        ctx.convert(given, element)
    };
    let (start, end) = (end_of("start")?, end_of("end")?);
    ramp(ctx, start, end)
}

/// The numbers from `start` to `end`, 1-d tensors of one value each, at equal distances: counted up from the start
/// in the first half and down from the end in the second, so that both ends are exact.
pub(crate) fn ramp(ctx: &mut LoweringContext<'_>, start: Value, end: Value) -> Built {
    let ty = ctx.b.ty(start).clone();
    let steps = ty.elements();
    if steps < 2 {
        return Ok(start);
    }
    let distance = ctx.b.sub(end, start)?;
    let intervals = constant_divisor(ctx, Scalar::Int(steps - 1), &ty)?;
    let step = ctx.b.div(distance, intervals)?;
    let count = ctx.b.iota(&ty.with_element(ty.element.real()), 0)?;
    let index = ctx.convert(count, ty.element)?;
    let up = ctx.b.mul(step, index)?;
    let up = ctx.b.add(start, up)?;
    let rest = ctx.minus_from((steps - 1) as f64, index)?;
    let down = ctx.b.mul(step, rest)?;
    let down = ctx.b.sub(end, down)?;
    let first_half = ctx.compare_number(Direction::Lt, count, (steps / 2) as f64)?;
    Ok(ctx.b.select(first_half, up, down)?)
}

// aten::eye(SymInt n, *, ScalarType? dtype=None, ...) -> Tensor
// aten::eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, ...) -> Tensor
fn lower_eye(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?.with_element(ElementType::I32);
    let (row, column) = (ctx.b.iota(&ty, 0)?, ctx.b.iota(&ty, 1)?);
    let diagonal = ctx.b.compare(Direction::Eq, row, column)?;
    ctx.rounded(node, diagonal)
}

// aten::tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=None, ...) -> Tensor
fn lower_tril_indices(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (columns, offset) = (ctx.int(node, "col")?, ctx.opt_int(node, "offset")?.unwrap_or(0));
    let indices =
        triangle(ctx, node, |row| 0..row.saturating_add(offset).saturating_add(1).clamp(0, columns))?;
    ctx.rounded(node, indices)
}

// aten::triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=None, ...) -> Tensor
fn lower_triu_indices(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let (columns, offset) = (ctx.int(node, "col")?, ctx.opt_int(node, "offset")?.unwrap_or(0));
    let indices = triangle(ctx, node, |row| row.saturating_add(offset).clamp(0, columns)..columns)?;
    ctx.rounded(node, indices)
}

/// A constant is simplest, so the number of indices is limited.
const MAX_TRIANGLE_INDICES: i64 = 1 << 20;

/// Row and column numbers of the given columns of each row, as i64 `[2, n]`.
fn triangle(
    ctx: &mut LoweringContext<'_>,
    node: &Node,
    columns_of: impl Fn(i64) -> std::ops::Range<i64>,
) -> Built {
    let ty = ctx.output_type(node, 0)?.with_element(ElementType::I64);
    let height = ctx.int(node, "row")?;
    if ty.elements() > 2 * MAX_TRIANGLE_INDICES || height > MAX_TRIANGLE_INDICES {
        let message = format!("more than {MAX_TRIANGLE_INDICES} triangle indices: use a tril or triu mask");
        return Err(RuleError::unsupported(message));
    }
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    let positions = (0..height).flat_map(|row| columns_of(row).map(move |column| (row, column)));
    // One more than fits is enough to see that the sizes disagree.
    for (row, column) in positions.take(ty.elements() as usize / 2 + 1) {
        rows.extend_from_slice(&row.to_le_bytes());
        columns.extend_from_slice(&column.to_le_bytes());
    }
    rows.append(&mut columns);
    Ok(ctx.b.constant(Literal::dense(ty, rows)?)?)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.full.default", lower_full),
    Rule::new("aten.full_like.default", lower_full),
    Rule::new("aten.new_full.default", lower_full),
    Rule::new("aten.fill.Scalar", lower_full),
    Rule::new("aten.fill.Tensor", lower_full),
    Rule::new("aten.scalar_tensor.default", lower_scalar_tensor),
    Rule::new("aten.zeros.default", lower_zeros),
    Rule::new("aten.zeros_like.default", lower_zeros),
    Rule::new("aten.new_zeros.default", lower_zeros),
    Rule::new("aten.zero.default", lower_zeros),
    Rule::new("aten.empty.memory_format", lower_zeros),
    Rule::new("aten.empty_like.default", lower_zeros),
    Rule::new("aten.empty_strided.default", lower_zeros),
    Rule::new("aten.empty_permuted.default", lower_zeros),
    Rule::new("aten.new_empty.default", lower_zeros),
    Rule::new("aten.new_empty_strided.default", lower_zeros),
    Rule::new("aten.ones.default", lower_ones),
    Rule::new("aten.ones_like.default", lower_ones),
    Rule::new("aten.new_ones.default", lower_ones),
    Rule::new("aten.arange.default", lower_arange),
    Rule::new("aten.arange.start", lower_arange),
    Rule::new("aten.arange.start_step", lower_arange),
    Rule::new("aten.linspace.default", lower_linspace),
    Rule::new("aten.linspace.Tensor_Tensor", lower_linspace),
    Rule::new("aten.linspace.Tensor_Scalar", lower_linspace),
    Rule::new("aten.linspace.Scalar_Tensor", lower_linspace),
    Rule::new("aten.logspace.default", lower_logspace),
    Rule::new("aten.eye.default", lower_eye),
    Rule::new("aten.eye.m", lower_eye),
    Rule::new("aten.tril_indices.default", lower_tril_indices),
    Rule::new("aten.triu_indices.default", lower_triu_indices),
];
