//! One result per element.

use crate::dsl::*;

#[test]
fn add_broadcasts() {
    snapshot!("aten.add.Tensor", args![self: x(F32, [2, 3]), other: x(F32, [2, 1]), alpha: 1], [F32 [2, 3]]);
}

#[test]
fn add_promotes() {
    snapshot!("aten.add.Tensor", args![self: x(I64, [3]), other: x(BF16, [3]), alpha: 2], [BF16[3]]);
}

#[test]
fn mul_of_bf16_rounds_once() {
    snapshot!("aten.mul.Tensor", args![self: x(BF16, [4]), other: x(BF16, [4])], [BF16[4]]);
}

#[test]
fn div_of_integers_is_a_float() {
    snapshot!("aten.div.Tensor", args![self: x(I64, [4]), other: x(I64, [])], [F32[4]]);
}

#[test]
fn floor_divide_of_integers() {
    snapshot!(
        "aten.div.Tensor_mode",
        args![self: x(I32, [4]), other: x(I32, [4]), rounding_mode: "floor"],
        [I32[4]]
    );
}

#[test]
fn pow_with_small_exponent() {
    snapshot!("aten.pow.Tensor_Scalar", args![self: x(F32, [4]), exponent: 3], [F32[4]]);
}

#[test]
fn gelu_exact() {
    snapshot!("aten.gelu.default", args![self: x(F32, [4]), approximate: "none"], [F32[4]]);
}

#[test]
fn silu_of_bf16() {
    snapshot!("aten.silu.default", args![self: x(BF16, [4])], [BF16[4]]);
}

#[test]
fn threshold_backward() {
    let args = args![grad_output: x(F32, [4]), self: x(F32, [4]), threshold: 0];
    snapshot!("aten.threshold_backward.default", args, [F32[4]]);
}

#[test]
fn clamp_from_below_only() {
    snapshot!("aten.clamp.default", args![self: x(F32, [4]), min: 0.5, max: NONE], [F32[4]]);
}

#[test]
fn where_broadcasts_all_three() {
    let args = args![condition: x(BOOL, [2, 1]), self: x(F32, [3]), other: x(F32, [])];
    snapshot!("aten.where.self", args, [F32 [2, 3]]);
}

#[test]
fn gt_with_number() {
    snapshot!("aten.gt.Scalar", args![self: x(I64, [4]), other: 2.5], [BOOL[4]]);
}

#[test]
fn logical_and_of_numbers() {
    snapshot!("aten.logical_and.default", args![self: x(F32, [4]), other: x(U8, [4])], [BOOL[4]]);
}

#[test]
fn complex_abs() {
    snapshot!("aten.abs.default", args![self: x(C64, [4])], [F32[4]]);
}

#[test]
fn to_u8_wraps() {
    snapshot!("aten._to_copy.default", args![self: x(F32, [4]), dtype: U8], [U8[4]]);
}

#[test]
fn log2_divides() {
    snapshot!("aten.log2.default", args![self: x(F64, [4])], [F64[4]]);
}
