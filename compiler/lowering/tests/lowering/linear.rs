//! Matrix products and convolutions.

use crate::dsl::*;

#[test]
fn mm_of_bf16() {
    snapshot!("aten.mm.default", args![self: x(BF16, [2, 3]), mat2: x(BF16, [3, 4])], [BF16 [2, 4]]);
}

#[test]
fn bmm() {
    snapshot!("aten.bmm.default", args![self: x(F32, [5, 2, 3]), mat2: x(F32, [5, 3, 4])], [F32 [5, 2, 4]]);
}

#[test]
fn addmm() {
    let args = args![self: x(F32, [4]), mat1: x(F32, [2, 3]), mat2: x(F32, [3, 4]), beta: 1, alpha: 1];
    snapshot!("aten.addmm.default", args, [F32 [2, 4]]);
}

#[test]
fn addmm_scaled_without_bias() {
    let args = args![self: x(F32, [4]), mat1: x(F32, [2, 3]), mat2: x(F32, [3, 4]), beta: 0, alpha: 2];
    snapshot!("aten.addmm.default", args, [F32 [2, 4]]);
}

fn convolution(bias: TestArg, transposed: bool, groups: i64) -> TestArgs {
    args![
        input: x(F32, [1, 4, 8, 8]), weight: x(F32, [4, 2, 3, 3]), bias: bias, stride: [2, 2], padding: [1, 1],
        dilation: [1, 1], transposed: transposed, output_padding: [0, 0], groups: groups,
    ]
}

#[test]
fn convolution_with_bias_and_groups() {
    snapshot!("aten.convolution.default", convolution(x(F32, [4]), false, 2), [F32 [1, 4, 4, 4]]);
}

#[test]
fn convolution_transposed() {
    snapshot!("aten.convolution.default", convolution(NONE, true, 1), [F32 [1, 2, 15, 15]]);
}

#[test]
fn solve_triangular() {
    let args = args![self: x(F32, [3, 3]), B: x(F32, [3, 2]), upper: false, left: true, unitriangular: false];
    snapshot!("aten.linalg_solve_triangular.default", args, [F32 [3, 2]]);
}

#[test]
fn fourier_transform_of_reals() {
    let args = args![self: x(F32, [2, 8]), dim: [1], normalization: 0, onesided: true];
    snapshot!("aten._fft_r2c.default", args, [C64 [2, 5]]);
}
