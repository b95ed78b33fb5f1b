//! Views, slices, joins.

use crate::dsl::*;

#[test]
fn view() {
    snapshot!("aten.view.default", args![self: x(F32, [2, 6]), size: [3, -1]], [F32 [3, 4]]);
}

#[test]
fn permute_with_negative_dims() {
    snapshot!("aten.permute.default", args![self: x(F32, [2, 3, 4]), dims: [-1, 0, 1]], [F32 [4, 2, 3]]);
}

#[test]
fn expand() {
    snapshot!("aten.expand.default", args![self: x(F32, [3, 1]), size: [2, -1, 4]], [F32 [2, 3, 4]]);
}

#[test]
fn slice_with_step() {
    let args = args![self: x(F32, [10, 2]), dim: 0, start: -8, end: i64::MAX, step: 3];
    snapshot!("aten.slice.Tensor", args, [F32 [3, 2]]);
}

#[test]
fn select_from_the_end() {
    snapshot!("aten.select.int", args![self: x(F32, [2, 3]), dim: -1, index: -1], [F32[2]]);
}

#[test]
fn slice_scatter() {
    let args = args![self: x(F32, [6]), src: x(F32, [2]), dim: 0, start: 1, end: 3, step: 1];
    snapshot!("aten.slice_scatter.default", args, [F32[6]]);
}

#[test]
fn split_has_several_outputs() {
    snapshot!("aten.split.Tensor", args![self: x(F32, [5]), split_size: 3, dim: 0], [F32[3], F32[2]]);
}

#[test]
fn cat_promotes() {
    snapshot!("aten.cat.default", args![tensors: list([x(I32, [2]), x(F32, [3])]), dim: 0], [F32[5]]);
}

#[test]
fn flip() {
    snapshot!("aten.flip.default", args![self: x(F32, [2, 3]), dims: [-1]], [F32 [2, 3]]);
}

#[test]
fn as_strided_overlaps() {
    let args = args![self: x(F32, [4, 4]), size: [3, 2], stride: [4, 1], storage_offset: 1];
    snapshot!("aten.as_strided.default", args, [F32 [3, 2]]);
}

#[test]
fn tril() {
    snapshot!("aten.tril.default", args![self: x(F32, [3, 3]), diagonal: -1], [F32 [3, 3]]);
}
