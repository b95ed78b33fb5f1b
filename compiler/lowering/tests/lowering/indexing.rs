//! Gathers and scatters.

use crate::dsl::*;

#[test]
fn embedding() {
    let args = args![
        weight: x(F32, [10, 4]), indices: x(I64, [2, 3]), padding_idx: -1, scale_grad_by_freq: false, sparse: false
    ];
    snapshot!("aten.embedding.default", args, [F32 [2, 3, 4]]);
}

#[test]
fn index_wraps_negative_indices() {
    let args = args![self: x(F32, [5, 6]), indices: list([x(I64, [2]), NONE])];
    snapshot!("aten.index.Tensor", args, [F32 [2, 6]]);
}

#[test]
fn index_broadcasts_two_indices() {
    let args = args![self: x(F32, [5, 6]), indices: list([x(I64, [2, 1]), x(I64, [3])])];
    snapshot!("aten.index.Tensor", args, [F32 [2, 3]]);
}

#[test]
fn index_put_accumulates() {
    let args = args![
        self: x(F32, [5, 6]), indices: list([x(I64, [2])]), values: x(F32, [2, 6]), accumulate: true
    ];
    snapshot!("aten.index_put.default", args, [F32 [5, 6]]);
}

#[test]
fn index_select() {
    snapshot!("aten.index_select.default", args![self: x(F32, [5, 6]), dim: 1, index: x(I64, [2])], [F32 [5, 2]]);
}

#[test]
fn gather() {
    let args = args![self: x(F32, [5, 6]), dim: 1, index: x(I64, [2, 3]), sparse_grad: false];
    snapshot!("aten.gather.default", args, [F32 [2, 3]]);
}

#[test]
fn scatter_add() {
    let args = args![self: x(F32, [5, 6]), dim: 0, index: x(I64, [2, 3]), src: x(F32, [2, 3])];
    snapshot!("aten.scatter_add.default", args, [F32 [5, 6]]);
}
