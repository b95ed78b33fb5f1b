//! What the builder shares, drops, infers and refuses.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use tpud_stablehlo::{
    Binary, BuildError, Builder, ConvolutionDims, Direction, DotDims, ElementType, GatherDims, Literal,
    Monoid, Result, Scalar, ScatterDims, TensorType, Unary, Value, Window,
};

const F32: ElementType = ElementType::F32;
const I32: ElementType = ElementType::I32;
const I64: ElementType = ElementType::I64;
const BOOL: ElementType = ElementType::Bool;
const C64: ElementType = ElementType::C64;

fn input(b: &mut Builder, element: ElementType, dims: &[i64]) -> Value {
    b.input(TensorType::new(element, dims))
}

/// The error must name the op and hold the given words.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>, op: &str, words: &str) {
    let BuildError { op: found, message } = result.expect_err("was accepted");
    assert_eq!(found, op);
    assert!(message.contains(words), "{message:?} does not say {words:?}");
}

#[test]
fn equal_ops_are_built_once() {
    let mut b = Builder::new();
    let x = input(&mut b, F32, &[4]);
    assert_eq!(b.exp(x), b.exp(x));
    let (one, other) = (b.scalar(Scalar::Int(1), F32).unwrap(), b.scalar(Scalar::Int(1), I32).unwrap());
    assert_ne!(one, other);
    assert_eq!(b.scalar(Scalar::Float(1.0), F32), Ok(one));
}

#[test]
fn regions_do_not_share_ops_with_the_body() {
    let mut b = Builder::new();
    let pred = input(&mut b, BOOL, &[]);
    let x = input(&mut b, F32, &[4]);
    let outside = b.exp(x).unwrap();
    let mut inside = None;
    let branch = |b: &mut Builder| {
        inside = Some(b.exp(x)?);
        Ok(vec![inside.unwrap()])
    };
    b.if_else(pred, branch, |_| Ok(vec![x])).unwrap();
    assert_ne!(inside, Some(outside));
}

#[test]
fn unused_ops_are_dropped() {
    let mut b = Builder::new();
    let x = input(&mut b, F32, &[4]);
    let unused = b.exp(x).unwrap();
    b.neg(unused).unwrap();
    let module = b.finish(&[x]).unwrap();
    assert_eq!(module.op_count(), 1);
    assert_eq!(module.body.ops[0].name, "func.return");
}

#[test]
fn ops_that_do_nothing_are_not_built() {
    let mut b = Builder::new();
    let x = input(&mut b, F32, &[2, 3]);
    let zero = b.scalar(Scalar::Int(0), F32).unwrap();
    assert_eq!(b.reshape(x, &[2, 3]), Ok(x));
    assert_eq!(b.transpose(x, &[0, 1]), Ok(x));
    assert_eq!(b.broadcast_to(x, &[2, 3]), Ok(x));
    assert_eq!(b.slice(x, &[0, 0], &[2, 3], &[1, 1]), Ok(x));
    assert_eq!(b.pad(x, zero, &[0, 0], &[0, 0], &[0, 0]), Ok(x));
    assert_eq!(b.convert(x, F32), Ok(x));
    assert_eq!(b.concatenate(&[x], 0), Ok(x));
    assert_eq!(b.reduce_monoid(x, Monoid::Sum, &[]), Ok(x));
}

#[test]
fn slices_round_up() {
    let mut b = Builder::new();
    let x = input(&mut b, F32, &[10]);
    for (start, limit, stride, size) in [(0, 10, 3, 4), (1, 10, 3, 3), (9, 10, 5, 1), (4, 4, 1, 0)] {
        let y = b.slice_dim(x, 0, start, limit, stride).unwrap();
        assert_eq!(b.dims(y), [size], "{start}..{limit} by {stride}");
    }
    let far = b.slice_dim(x, 0, 2, 10, i64::MAX).unwrap();
    assert_eq!(b.dims(far), [1]);
    for (start, limit, stride) in [(-1, 3, 1), (0, 11, 1), (5, 4, 1), (0, 10, 0)] {
        refused(b.slice_dim(x, 0, start, limit, stride), "stablehlo.slice", "tensor<10xf32>");
    }
}

#[test]
fn pads_crop_and_widen() {
    let mut b = Builder::new();
    let x = input(&mut b, F32, &[5]);
    let zero = b.scalar(Scalar::Int(0), F32).unwrap();
    for (low, high, interior, size) in [(1, 2, 0, 8), (-2, -1, 0, 2), (0, 0, 2, 13), (-2, -3, 0, 0)] {
        let y = b.pad(x, zero, &[low], &[high], &[interior]).unwrap();
        assert_eq!(b.dims(y), [size]);
    }
    refused(b.pad(x, zero, &[-6], &[0], &[0]), "stablehlo.pad", "negative");
    refused(b.pad(x, zero, &[i64::MAX], &[i64::MAX], &[0]), "stablehlo.pad", "too large");
    refused(b.pad(x, zero, &[0], &[0], &[-1]), "stablehlo.pad", "interior");
}

fn geometry(stride: i64, dilation: i64) -> ConvolutionDims {
    ConvolutionDims {
        strides: vec![stride],
        padding: vec![(0, 0)],
        lhs_dilation: vec![1],
        rhs_dilation: vec![dilation],
        reverse_kernel: false,
        feature_groups: 1,
        batch_groups: 1,
    }
}

#[test]
fn convolutions_check_their_geometry() {
    let mut b = Builder::new();
    let (x, kernel) = (input(&mut b, F32, &[1, 4, 9]), input(&mut b, F32, &[2, 4, 3]));
    let y = b.convolution(x, kernel, &geometry(2, 2), F32, "HIGHEST").unwrap();
    assert_eq!(b.dims(y), [1, 2, 3]);
    let too_wide = b.convolution(x, kernel, &geometry(1, 5), F32, "HIGHEST").unwrap();
    assert_eq!(b.dims(too_wide), [1, 2, 0]);
    let op = "stablehlo.convolution";
    for (stride, dilation) in [(0, 1), (-1, 1), (1, 0)] {
        refused(b.convolution(x, kernel, &geometry(stride, dilation), F32, "HIGHEST"), op, "no legal window");
    }
    let grouped = ConvolutionDims { feature_groups: 3, ..geometry(1, 1) };
    refused(b.convolution(x, kernel, &grouped, F32, "HIGHEST"), op, "do not fit");
    refused(b.convolution(x, kernel, &geometry(1, 1), F32, "BEST"), op, "HIGHEST");
}

#[test]
fn windows_check_their_geometry() {
    let mut b = Builder::new();
    let x = input(&mut b, F32, &[9]);
    let mut window = Window::identity(1);
    (window.sizes[0], window.strides[0], window.padding[0]) = (3, 2, (1, 1));
    let y = b.reduce_window_monoid(x, Monoid::Max, &window).unwrap();
    assert_eq!(b.dims(y), [5]);
    window.strides[0] = 0;
    refused(b.reduce_window_monoid(x, Monoid::Max, &window), "stablehlo.reduce_window", "does not fit");
    let flat = Window::identity(2);
    refused(b.reduce_window_monoid(x, Monoid::Max, &flat), "stablehlo.reduce_window", "does not fit");
}

#[test]
fn contractions_check_their_dimensions() {
    let mut b = Builder::new();
    let (x, y) = (input(&mut b, F32, &[2, 3]), input(&mut b, F32, &[4, 3]));
    let op = "stablehlo.dot_general";
    let dims = |l: &[i64], r: &[i64]| DotDims {
        lhs_contract: l.to_vec(),
        rhs_contract: r.to_vec(),
        ..DotDims::default()
    };
    let z = b.dot_general(x, y, &dims(&[1], &[1]), F32, "DEFAULT").unwrap();
    assert_eq!(b.dims(z), [2, 4]);
    refused(b.dot_general(x, y, &dims(&[0], &[0]), F32, "DEFAULT"), op, "cannot be contracted");
    refused(b.dot_general(x, y, &dims(&[2], &[2]), F32, "DEFAULT"), op, "cannot be contracted");
    refused(b.dot_general(x, x, &dims(&[1, 1], &[1, 1]), F32, "DEFAULT"), op, "twice");
}

#[test]
fn gathers_and_scatters_check_their_dimensions() {
    let mut b = Builder::new();
    let (x, ids) = (input(&mut b, F32, &[10, 4]), input(&mut b, I64, &[3, 1]));
    let dims = GatherDims {
        offset_dims: vec![1],
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        ..GatherDims::default()
    };
    let rows = b.gather(x, ids, &dims, &[1, 4]).unwrap();
    assert_eq!(b.dims(rows), [3, 4]);
    let op = "stablehlo.gather";
    refused(b.gather(x, ids, &dims, &[2, 4]), op, "larger than 1");
    refused(b.gather(x, ids, &dims, &[1, 5]), op, "window");
    refused(b.gather(x, x, &dims, &[1, 4]), op, "window");
    let two = GatherDims { start_index_map: vec![0, 1], ..dims.clone() };
    refused(b.gather(x, ids, &two, &[1, 4]), op, "components");
    let missing = GatherDims { offset_dims: vec![], ..dims };
    refused(b.gather(x, ids, &missing, &[1, 4]), op, "do not cover");

    let to = ScatterDims {
        update_window_dims: vec![1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDims::default()
    };
    assert!(b.scatter(x, ids, rows, &to, false, |b, old, new| b.add(old, new)).is_ok());
    let compare = |b: &mut Builder, old, new| b.compare(Direction::Lt, old, new);
    refused(b.scatter(x, ids, rows, &to, false, compare), "stablehlo.scatter", "body returns");
}

#[test]
fn element_types_are_checked() {
    let mut b = Builder::new();
    let float = input(&mut b, F32, &[2]);
    let int = input(&mut b, I64, &[2]);
    let flag = input(&mut b, BOOL, &[2]);
    let complex = input(&mut b, C64, &[2]);
    refused(b.add(float, int), "stablehlo.add", "tensor<2xi64>");
    refused(b.sub(flag, flag), "stablehlo.subtract", "i1");
    refused(b.binary(Binary::ShiftLeft, float, float), "stablehlo.shift_left", "f32");
    refused(b.rem(complex, complex), "stablehlo.remainder", "complex<f32>");
    refused(b.exp(int), "stablehlo.exponential", "i64");
    refused(b.unary(Unary::Erf, complex), "chlo.erf", "complex<f32>");
    refused(b.compare(Direction::Lt, complex, complex), "stablehlo.compare", "no order");
    refused(b.bitcast(flag, ElementType::U8), "stablehlo.bitcast_convert", "i1");
    refused(b.select(float, int, int), "stablehlo.select", "predicate");
    refused(b.clamp(int, float, float), "stablehlo.clamp", "limit");
    refused(b.fft(float, "FFT", &[2]), "stablehlo.fft", "FFT");
    refused(b.cholesky(float, true), "stablehlo.cholesky", "square");
    refused(b.iota(&TensorType::new(BOOL, [3]), 0), "stablehlo.iota", "i1");
    refused(b.dynamic_slice(float, &[int], &[1]), "stablehlo.dynamic_slice", "start indices");
    refused(b.top_k(float, 3), "chlo.top_k", "3 elements");
}

#[test]
fn dimensions_are_checked() {
    let mut b = Builder::new();
    let x = input(&mut b, F32, &[2, 3]);
    refused(b.transpose(x, &[0, 0]), "stablehlo.transpose", "permutation");
    refused(b.reverse(x, &[2]), "stablehlo.reverse", "dimension 2");
    refused(b.reverse(x, &[1, 1]), "stablehlo.reverse", "twice");
    refused(b.reduce_monoid(x, Monoid::Sum, &[1, 1]), "stablehlo.reduce", "twice");
    refused(b.reduce_monoid(x, Monoid::Sum, &[-1]), "stablehlo.reduce", "dimension -1");
    refused(b.broadcast_in_dim(x, &[2, 3, 3], &[0, 0]), "stablehlo.broadcast_in_dim", "twice");
    refused(b.broadcast_to(x, &[2, 4]), "stablehlo.broadcast_in_dim", "does not broadcast");
    refused(b.reshape(x, &[5]), "stablehlo.reshape", "cannot become");
    refused(b.concatenate(&[], 0), "stablehlo.concatenate", "no operands");
}

#[test]
fn bodies_are_checked() {
    let mut b = Builder::new();
    let x = input(&mut b, F32, &[2, 3]);
    let pred = input(&mut b, BOOL, &[]);
    let index = input(&mut b, I32, &[]);
    let init = b.scalar(Scalar::Int(0), F32).unwrap();
    refused(b.reduce(&[x], &[x], &[0], |_, a| Ok(vec![a[0]])), "stablehlo.reduce", "initial values");
    refused(b.reduce(&[x], &[init], &[0], |_, _| Ok(vec![])), "stablehlo.reduce", "body returns");
    refused(b.sort(&[x], 0, true, |_, a| Ok(a[0])), "stablehlo.sort", "comparison returns");
    refused(b.while_loop(&[x], |_, _| Ok(pred), |_, _| Ok(vec![])), "stablehlo.while", "body returns");
    refused(b.if_else(pred, |_| Ok(vec![x]), |_| Ok(vec![])), "stablehlo.if", "branches return");
    let mut branches = vec![|_: &mut Builder| Ok(vec![])];
    branches.clear();
    refused(b.case(index, branches), "stablehlo.case", "0 branches");
    refused(b.case(pred, vec![|_: &mut Builder| Ok(vec![])]), "stablehlo.case", "index");
}

#[test]
fn an_error_inside_a_region_leaves_the_builder_usable() {
    let mut b = Builder::new();
    let pred = input(&mut b, BOOL, &[]);
    let x = input(&mut b, F32, &[2]);
    refused(b.if_else(pred, |b| Ok(vec![b.not(x)?]), |_| Ok(vec![x])), "stablehlo.not", "f32");
    let y = b.exp(x).unwrap();
    assert!(b.finish(&[y]).is_ok());
}

#[test]
fn aliases_are_checked() {
    let module = |input_dims: &[i64], aliases: &[(usize, usize)]| {
        let mut b = Builder::new();
        let x = input(&mut b, F32, input_dims);
        let y = input(&mut b, F32, &[2]);
        aliases.iter().for_each(|(i, o)| b.alias(*i, *o));
        let sum = b.exp(y)?;
        b.finish(&[sum, x])
    };
    assert_eq!(module(&[2], &[(0, 1), (1, 0)]).unwrap().aliases, [Some(1), Some(0)]);
    refused(module(&[2], &[(2, 0)]), "func.func", "input 2");
    refused(module(&[2], &[(0, 2)]), "func.func", "output 2");
    refused(module(&[3], &[(0, 0)]), "func.func", "input 0");
    refused(module(&[2], &[(0, 0), (1, 0)]), "func.func", "output 0");
}

#[test]
fn literals_check_their_length() {
    let ty = TensorType::new(F32, [2]);
    refused(Literal::dense(ty.clone(), vec![0; 7]), "stablehlo.constant", "tensor<2xf32>");
    assert!(Literal::dense(ty.clone(), vec![0; 8]).unwrap().is_splat());
    let huge = TensorType::new(F32, [i64::MAX, i64::MAX]);
    refused(Literal::dense(huge, vec![]), "stablehlo.constant", "bytes");
    assert!(!Literal::splat(TensorType::new(F32, [0]), Scalar::Int(1)).is_splat());
}

#[test]
fn small_floats_round_to_nearest_even() {
    let e4m3 = |x: f64| Scalar::Float(x).to_bytes(ElementType::F8E4M3FN)[0];
    let e5m2 = |x: f64| Scalar::Float(x).to_bytes(ElementType::F8E5M2)[0];
    assert_eq!((e4m3(1.0), e4m3(-1.0), e4m3(448.0), e4m3(1e9), e4m3(0.0)), (0x38, 0xb8, 0x7e, 0x7f, 0));
    assert_eq!((e4m3(1.0625), e4m3(1.1875)), (0x38, 0x3a)); // ties
    assert_eq!((e5m2(1.0), e5m2(-2.0), e5m2(1e9), e5m2(f64::NAN) & 0x7c), (0x3c, 0xc0, 0x7c, 0x7c));
    assert_eq!((e5m2(1.125), e5m2(1.375)), (0x3c, 0x3e)); // ties
}

#[test]
fn integers_wrap() {
    let bytes = |i: i64, element| Scalar::Int(i).to_bytes(element);
    assert_eq!(bytes(-1, ElementType::U8), [255]);
    assert_eq!(bytes(300, ElementType::I8), [44]);
    assert_eq!(bytes(i64::MIN, I32), [0; 4]);
    assert_eq!(Scalar::Float(2.9).to_bytes(I32), [2, 0, 0, 0]);
    assert_eq!(Scalar::Float(0.5).to_bytes(BOOL), [1]);
}
