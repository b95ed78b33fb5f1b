//! Reductions, scans, sorts, norms.

use crate::dsl::*;

#[test]
fn sum_of_bool_counts() {
    snapshot!("aten.sum.dim_IntList", args![self: x(BOOL, [2, 3]), dim: [-1], keepdim: true], [I64 [2, 1]]);
}

#[test]
fn mean_of_bf16() {
    snapshot!("aten.mean.dim", args![self: x(BF16, [2, 3]), dim: [0, 1], keepdim: false], [BF16 []]);
}

#[test]
fn var_is_unbiased() {
    snapshot!(
        "aten.var.correction",
        args![self: x(F32, [2, 3]), dim: [1], correction: 1, keepdim: false],
        [F32[2]]
    );
}

#[test]
fn max_dim() {
    snapshot!("aten.max.dim", args![self: x(I32, [2, 3]), dim: 1, keepdim: false], [I32[2], I64[2]]);
}

#[test]
fn softmax() {
    snapshot!("aten._softmax.default", args![self: x(F32, [2, 3]), dim: -1, half_to_float: false], [F32 [2, 3]]);
}

#[test]
fn layer_norm_without_weight() {
    let args = args![
        input: x(F32, [2, 3]), normalized_shape: [3], weight: NONE, bias: NONE, eps: 1e-5
    ];
    snapshot!("aten.native_layer_norm.default", args, [F32 [2, 3], F32 [2, 1], F32 [2, 1]]);
}

#[test]
fn batch_norm_for_inference() {
    let args = args![
        input: x(F32, [2, 3, 4]), weight: x(F32, [3]), bias: NONE, running_mean: x(F32, [3]),
        running_var: x(F32, [3]), momentum: 0.1, eps: 1e-5,
    ];
    let op = "aten._native_batch_norm_legit_no_training.default";
    snapshot!(op, args, [F32 [2, 3, 4], F32 [0], F32 [0]]);
}

#[test]
fn cumsum() {
    snapshot!("aten.cumsum.default", args![self: x(I32, [2, 3]), dim: 1], [I64 [2, 3]]);
}

#[test]
fn sort() {
    snapshot!("aten.sort.default", args![self: x(I64, [2, 3]), dim: -1, descending: false], [I64 [2, 3], I64 [2, 3]]);
}

#[test]
fn topk() {
    let args = args![self: x(F32, [2, 8]), k: 2, dim: -1, largest: true, sorted: true];
    snapshot!("aten.topk.default", args, [F32 [2, 2], I64 [2, 2]]);
}
