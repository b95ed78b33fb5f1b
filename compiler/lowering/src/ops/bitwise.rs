//! Bits of integers and bools.

use tpud_graph::Node;
use tpud_stablehlo::{Binary, Unary};

use crate::context::LoweringContext;
use crate::error::RuleError;
use crate::pointwise::{Lowering, pointwise, unary};
use crate::registry::Rule;

// aten::bitwise_not(Tensor self) -> Tensor
fn lower_bitwise_not(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    unary(ctx, node, Unary::Not)
}

fn binary(ctx: &mut LoweringContext<'_>, node: &Node, op: Binary) -> Lowering {
    pointwise(ctx, node, ["self", "other"], |ctx, [x, y]| Ok(ctx.b.binary(op, x, y)?))
}

// aten::bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor
// aten::bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor
// aten::bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
fn lower_bitwise_and(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    binary(ctx, node, Binary::And)
}

// aten::bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor
// aten::bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor
// aten::bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
fn lower_bitwise_or(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    binary(ctx, node, Binary::Or)
}

// aten::bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor
// aten::bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor
// aten::bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
fn lower_bitwise_xor(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    binary(ctx, node, Binary::Xor)
}

/// Shift counts below zero or beyond the width shift everything out, here as in torch.
fn shift(ctx: &mut LoweringContext<'_>, node: &Node, op: Binary) -> Lowering {
    if !ctx.output_type(node, 0)?.element.is_integer() {
        return Err(RuleError::unsupported(
            "only integers can be shifted: multiply floats by a power of two",
        ));
    }
    binary(ctx, node, op)
}

// aten::bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor
// aten::bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor
// aten::bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
// aten::__lshift__.Scalar(Tensor self, Scalar other) -> Tensor
// aten::__lshift__.Tensor(Tensor self, Tensor other) -> Tensor
fn lower_left_shift(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    shift(ctx, node, Binary::ShiftLeft)
}

// aten::bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor
// aten::bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor
// aten::bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
// aten::__rshift__.Scalar(Tensor self, Scalar other) -> Tensor
// aten::__rshift__.Tensor(Tensor self, Tensor other) -> Tensor
fn lower_right_shift(ctx: &mut LoweringContext<'_>, node: &Node) -> Lowering {
    if ctx.output_type(node, 0)?.element.is_unsigned_integer() {
        return shift(ctx, node, Binary::ShiftRightLogical);
    }
    shift(ctx, node, Binary::ShiftRightArithmetic)
}

/// The rules of this family.
pub(crate) const RULES: &[Rule] = &[
    Rule::new("aten.bitwise_not.default", lower_bitwise_not),
    Rule::new("aten.bitwise_and.Tensor", lower_bitwise_and),
    Rule::new("aten.bitwise_and.Scalar", lower_bitwise_and),
    Rule::new("aten.bitwise_and.Scalar_Tensor", lower_bitwise_and),
    Rule::new("aten.bitwise_or.Tensor", lower_bitwise_or),
    Rule::new("aten.bitwise_or.Scalar", lower_bitwise_or),
    Rule::new("aten.bitwise_or.Scalar_Tensor", lower_bitwise_or),
    Rule::new("aten.bitwise_xor.Tensor", lower_bitwise_xor),
    Rule::new("aten.bitwise_xor.Scalar", lower_bitwise_xor),
    Rule::new("aten.bitwise_xor.Scalar_Tensor", lower_bitwise_xor),
    Rule::new("aten.bitwise_left_shift.Tensor", lower_left_shift),
    Rule::new("aten.bitwise_left_shift.Tensor_Scalar", lower_left_shift),
    Rule::new("aten.bitwise_left_shift.Scalar_Tensor", lower_left_shift),
    Rule::new("aten.__lshift__.Scalar", lower_left_shift),
    Rule::new("aten.__lshift__.Tensor", lower_left_shift),
    Rule::new("aten.bitwise_right_shift.Tensor", lower_right_shift),
    Rule::new("aten.bitwise_right_shift.Tensor_Scalar", lower_right_shift),
    Rule::new("aten.bitwise_right_shift.Scalar_Tensor", lower_right_shift),
    Rule::new("aten.__rshift__.Scalar", lower_right_shift),
    Rule::new("aten.__rshift__.Tensor", lower_right_shift),
];
