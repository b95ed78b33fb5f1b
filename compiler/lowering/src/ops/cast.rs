//! Copies and changes of element type.
//!
//! Values are never shared with other values here, so a copy, an alias and a change of memory format are the value.

use tpud_graph::Node;
use tpud_stablehlo::ElementType;

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::Lowering;
use crate::registry::Rule;

// aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
//   bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor
// aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False,
//   MemoryFormat? memory_format=None) -> Tensor(a)
fn lower_to_copy(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    ctx.rounded(node, x)
}

// aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor
// aten::alias(Tensor(a) self) -> Tensor(a)
// aten::detach(Tensor(a) self) -> Tensor(a)
// aten::lift_fresh(Tensor(a) self) -> Tensor(a)
// aten::lift_fresh_copy(Tensor self) -> Tensor
// aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)
fn lower_identity(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    Ok(ctx.tensor(node, "self")?.into())
}

// aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor
fn lower_copy(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let ty = ctx.output_type(node, 0)?;
    Ok(ctx.operand(node, "src", &ty)?.into())
}

// aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)
// The last dimension shrinks or grows with the width of the element type.
fn lower_view_dtype(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    let x = ctx.tensor(node, "self")?;
    let (from, to) = (ctx.b.ty(x).clone(), ctx.output_type(node, 0)?);
    if from == to {
        return Ok(x.into());
    }
    if from.element.is_complex() || to.element.is_complex() {
        return Err(RuleError::unsupported(
            "the bits of complex numbers can't be reinterpreted: use view_as_real or view_as_complex",
        ));
    }
    // A bool is a byte that holds 0 or 1.
    let x = if from.element == ElementType::Bool { ctx.convert(x, ElementType::U8)? } else { x };
    let wanted = if to.element == ElementType::Bool { ElementType::U8 } else { to.element };
    let (old, new) = (from.element.byte_width() as i64, wanted.byte_width() as i64);
    let viewed = if old == new {
        ctx.b.bitcast(x, wanted)?
    } else if old > new {
        let split = ctx.b.bitcast_split(x, wanted)?;
        ctx.b.reshape(split, &to.dims)?
    } else {
        let mut dims = to.dims.clone();
        dims.push(new / old);
        let grouped = ctx.b.reshape(x, &dims)?;
        ctx.b.bitcast_join(grouped, wanted)?
    };
    Ok(ctx.convert(viewed, to.element)?.into())
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten._to_copy.default", lower_to_copy),
    Rule::new("aten.to.dtype", lower_to_copy),
    Rule::new("aten.clone.default", lower_identity),
    Rule::new("aten.alias.default", lower_identity),
    Rule::new("aten.detach.default", lower_identity),
    Rule::new("aten.lift_fresh.default", lower_identity),
    Rule::new("aten.lift_fresh_copy.default", lower_identity),
    Rule::new("aten.contiguous.default", lower_identity),
    Rule::new("aten.copy.default", lower_copy),
    Rule::new("aten.view.dtype", lower_view_dtype),
];
