//! Pools and paddings.

use crate::dsl::*;

#[test]
fn max_pool2d() {
    let args = args![
        self: x(F32, [1, 1, 4, 4]), kernel_size: [2, 2], stride: [2, 2], padding: [0, 0], dilation: [1, 1],
        ceil_mode: false,
    ];
    snapshot!("aten.max_pool2d.default", args, [F32 [1, 1, 2, 2]]);
}

#[test]
fn avg_pool2d_counts_no_padding() {
    let args = args![
        self: x(F32, [1, 1, 4, 4]), kernel_size: [3, 3], stride: [2, 2], padding: [1, 1], ceil_mode: false,
        count_include_pad: false, divisor_override: NONE,
    ];
    snapshot!("aten.avg_pool2d.default", args, [F32 [1, 1, 2, 2]]);
}

#[test]
fn constant_pad_crops() {
    let args = args![self: x(F32, [2, 4]), pad: [-1, 2], value: 0.5];
    snapshot!("aten.constant_pad_nd.default", args, [F32 [2, 5]]);
}

#[test]
fn upsample_nearest2d() {
    let args = args![self: x(F32, [1, 1, 2, 3]), output_size: [4, 6], scales_h: 2.0, scales_w: NONE];
    snapshot!("aten.upsample_nearest2d.default", args, [F32 [1, 1, 4, 6]]);
}

#[test]
fn upsample_bilinear2d_with_aligned_corners() {
    let args =
        args![input: x(F32, [1, 1, 2, 3]), output_size: [3, 3], align_corners: true, scale_factors: NONE];
    snapshot!("aten.upsample_bilinear2d.vec", args, [F32 [1, 1, 3, 3]]);
}
