//! Tensors made from numbers.

use crate::dsl::*;

#[test]
fn arange() {
    snapshot!("aten.arange.start_step", args![start: 2, end: 11, step: 3, dtype: NONE], [I64[3]]);
}

#[test]
fn full() {
    snapshot!("aten.full.default", args![size: [2, 2], fill_value: 1.5, dtype: BF16], [BF16 [2, 2]]);
}

#[test]
fn eye() {
    snapshot!("aten.eye.m", args![n: 2, m: 3, dtype: NONE], [F32 [2, 3]]);
}
