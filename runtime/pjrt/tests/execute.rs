//! Compiling and executing on the CPU: element types, shapes, layouts, donation, threads.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::fmt::Debug;

use half::{bf16, f16};
use support::*;
use tpud_pjrt::{Alias, ElementType, Error, TensorType};

fn adds<T: Plain + PartialEq + Debug>(kind: ElementType, mlir: &str, a: [T; 2], b: [T; 2], sum: [T; 2]) {
    let executable = compile(&add_module(&format!("2x{mlir}")));
    let signature = executable.signature();
    let expected = TensorType::new(kind, [2]);
    assert_eq!(signature.inputs, [expected.clone(), expected.clone()], "{kind}");
    assert_eq!(signature.outputs, [expected], "{kind}");
    let outputs = executable.execute(&[&upload(kind, &[2], &a), &upload_owned(kind, &[2], &b)], &[]).unwrap();
    assert_eq!(read::<T>(&outputs[0]), sum, "{kind}");
}

#[test]
fn integers_of_every_width_are_added() {
    adds(ElementType::U8, "ui8", [1, 250], [2, 10], [3, 4_u8]);
    adds(ElementType::U16, "ui16", [1, 65_535], [2, 2], [3, 1_u16]);
    adds(ElementType::U32, "ui32", [1, u32::MAX], [2, 2], [3, 1]);
    adds(ElementType::U64, "ui64", [1, u64::MAX], [2, 2], [3, 1]);
    adds(ElementType::S8, "i8", [1, 127], [2, 1], [3, -128_i8]);
    adds(ElementType::S16, "i16", [1, -7], [2, -8], [3, -15_i16]);
    adds(ElementType::S32, "i32", [1, i32::MAX], [2, 1], [3, i32::MIN]);
    adds(ElementType::S64, "i64", [1, i64::MAX], [2, 1], [3, i64::MIN]);
}

#[test]
fn floats_and_complex_numbers_are_added() {
    adds(ElementType::F32, "f32", [1.5, -2.0], [2.0, 0.25], [3.5, -1.75_f32]);
    adds(ElementType::F64, "f64", [1.5, 1e300], [2.0, 1e300], [3.5, 2e300]);
    adds(
        ElementType::F16,
        "f16",
        [1.5, 2.0].map(f16::from_f32),
        [1.0, 0.5].map(f16::from_f32),
        [2.5, 2.5].map(f16::from_f32),
    );
    let sum = [2.5, 2.5].map(bf16::from_f32);
    adds(ElementType::Bf16, "bf16", [1.5, 2.0].map(bf16::from_f32), [1.0, 0.5].map(bf16::from_f32), sum);

    let complex = compile(&add_module("1xcomplex<f32>"));
    let a = upload(ElementType::C64, &[1], &[1.0_f32, 2.0]);
    let b = upload(ElementType::C64, &[1], &[10.0_f32, 20.0]);
    assert_eq!(read::<f32>(&complex.execute(&[&a, &b], &[]).unwrap()[0]), [11.0, 22.0]);

    let complex = compile(&add_module("1xcomplex<f64>"));
    let a = upload(ElementType::C128, &[1], &[1.0_f64, -2.0]);
    assert_eq!(read::<f64>(&complex.execute(&[&a, &a], &[]).unwrap()[0]), [2.0, -4.0]);
}

#[test]
fn eight_bit_floats_and_booleans_pass_through() {
    for (kind, mlir, one_and_a_half) in
        [(ElementType::F8E4M3Fn, "f8E4M3FN", 0x3c_u8), (ElementType::F8E5M2, "f8E5M2", 0x3e)]
    {
        let module = format!(
            "func.func @main(%a: tensor<2x{mlir}>) -> (tensor<2xf32>, tensor<2x{mlir}>) {{
              %0 = stablehlo.convert %a : (tensor<2x{mlir}>) -> tensor<2xf32>
              %1 = stablehlo.negate %a : tensor<2x{mlir}>
              return %0, %1 : tensor<2xf32>, tensor<2x{mlir}>
            }}"
        );
        let outputs = compile(&module).execute(&[&upload(kind, &[2], &[one_and_a_half, 0])], &[]).unwrap();
        assert_eq!(read::<f32>(&outputs[0]), [1.5, 0.0], "{kind}");
        assert_eq!(read::<u8>(&outputs[1]), [one_and_a_half | 0x80, 0x80], "{kind}");
    }
    let module = "func.func @main(%a: tensor<4xi1>, %b: tensor<4xi1>) -> tensor<4xi1> {
      %0 = stablehlo.xor %a, %b : tensor<4xi1>
      return %0 : tensor<4xi1>
    }";
    let a = upload(ElementType::Pred, &[4], &[0_u8, 0, 1, 1]);
    let b = upload(ElementType::Pred, &[4], &[0_u8, 1, 0, 1]);
    assert_eq!(read::<u8>(&compile(module).execute(&[&a, &b], &[]).unwrap()[0]), [0, 1, 1, 0]);
}

#[test]
fn scalars_and_empty_tensors_work() {
    let scalar = compile(&add_module("f32"));
    let a = upload(ElementType::F32, &[], &[2.5_f32]);
    assert_eq!(read::<f32>(&scalar.execute(&[&a, &a], &[]).unwrap()[0]), [5.0]);

    let empty = compile(&add_module("3x0x2xf32"));
    let a = upload::<f32>(ElementType::F32, &[3, 0, 2], &[]);
    let b = upload_owned::<f32>(ElementType::F32, &[3, 0, 2], &[]);
    let outputs = empty.execute(&[&a, &b], &[]).unwrap();
    assert_eq!(outputs[0].tensor_type(), &TensorType::new(ElementType::F32, [3, 0, 2]));
    assert_eq!(outputs[0].to_vec().unwrap(), [0_u8; 0]);
}

#[test]
fn no_inputs_no_outputs_and_many_outputs_work() {
    let constant = compile(
        "func.func @main() -> tensor<2xi32> {
          %0 = stablehlo.constant dense<[7, 8]> : tensor<2xi32>
          return %0 : tensor<2xi32>
        }",
    );
    assert_eq!(read::<i32>(&constant.execute(&[], &[]).unwrap()[0]), [7, 8]);

    let nothing = compile("func.func @main(%a: tensor<2xi32>) { return }");
    assert!(nothing.execute(&[&upload(ElementType::S32, &[2], &[1, 2])], &[]).unwrap().is_empty());

    let many = compile(
        "func.func @main(%a: tensor<2xi32>) -> (tensor<2xi32>, tensor<2xf32>, tensor<2xi32>) {
          %0 = stablehlo.convert %a : (tensor<2xi32>) -> tensor<2xf32>
          return %a, %0, %a : tensor<2xi32>, tensor<2xf32>, tensor<2xi32>
        }",
    );
    let outputs = many.execute(&[&upload(ElementType::S32, &[2], &[1, 2])], &[]).unwrap();
    assert_eq!((read::<i32>(&outputs[0]), read::<f32>(&outputs[1])), (vec![1, 2], vec![1.0, 2.0]));
    assert_eq!(read::<i32>(&outputs[2]), [1, 2]);
}

/// A window that XLA once got wrong: padding on both sides, dilated, of a tensor that is padded itself.
#[test]
fn reduce_window_is_right() {
    let module = r#"func.func @main(%a: tensor<6xf32>) -> tensor<3xf32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = "stablehlo.reduce_window"(%a, %zero) <{
        window_dimensions = array<i64: 3>, window_strides = array<i64: 2>, window_dilations = array<i64: 2>,
        padding = dense<[[2, 1]]> : tensor<1x2xi64> }> ({
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %1 = stablehlo.add %x, %y : tensor<f32>
          stablehlo.return %1 : tensor<f32>
      }) : (tensor<6xf32>, tensor<f32>) -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }"#;
    let a = upload(ElementType::F32, &[6], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    // Padded: 0 0 1 2 3 4 5 6 0; windows {0,2,4}, {2,4,6}, {4,6,8}.
    assert_eq!(read::<f32>(&compile(module).execute(&[&a], &[]).unwrap()[0]), [4.0, 9.0, 8.0]);
}

/// The device may keep an output column by column; what is read is row by row all the same.
#[test]
fn a_column_major_result_is_read_row_by_row() {
    let module = r#"module attributes {
        mhlo.xla_entry_computation_result_layout = [dense<[0, 1]> : tensor<2xindex>],
        mhlo.xla_entry_computation_parameter_layouts = [dense<[1, 0]> : tensor<2xindex>] } {
      func.func @main(%a: tensor<2x3xi32>) -> tensor<2x3xi32> {
        %0 = stablehlo.add %a, %a : tensor<2x3xi32>
        return %0 : tensor<2x3xi32>
      }
    }"#;
    let a = upload(ElementType::S32, &[2, 3], &[1, 2, 3, 4, 5, 6]);
    assert_eq!(read::<i32>(&compile(module).execute(&[&a], &[]).unwrap()[0]), [2, 4, 6, 8, 10, 12]);
    let transpose = compile(
        r#"func.func @main(%a: tensor<2x3xi32>) -> tensor<3x2xi32> {
          %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xi32>) -> tensor<3x2xi32>
          return %0 : tensor<3x2xi32>
        }"#,
    );
    assert_eq!(read::<i32>(&transpose.execute(&[&a], &[]).unwrap()[0]), [1, 4, 2, 5, 3, 6]);
}

const DONATING: &str =
    "func.func @main(%a: tensor<1024xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<1024xf32>)
    -> tensor<1024xf32> {
  %0 = stablehlo.add %a, %b : tensor<1024xf32>
  return %0 : tensor<1024xf32>
}";

#[test]
fn a_donated_input_is_deleted_and_a_kept_one_is_not() {
    let executable = compile(DONATING);
    assert_eq!(executable.signature().aliases, [Alias { input: 0, output: 0 }]);
    let b = upload(ElementType::F32, &[1024], &[1.0_f32; 1024]);
    for (donate, deleted) in [(&[][..], false), (&[false, true][..], false), (&[true, false][..], true)] {
        let a = upload(ElementType::F32, &[1024], &[2.0_f32; 1024]);
        let outputs = executable.execute(&[&a, &b], donate).unwrap();
        assert_eq!(read::<f32>(&outputs[0]), [3.0; 1024], "{donate:?}");
        assert_eq!(a.is_deleted().unwrap(), deleted, "{donate:?}");
        assert!(!b.is_deleted().unwrap());
        match deleted {
            false => assert_eq!(read::<f32>(&a), [2.0; 1024]),
            true => assert!(matches!(a.to_vec(), Err(Error::Plugin { .. }))),
        }
    }
}

#[test]
fn a_buffer_used_twice_and_donated_is_an_error_or_right() {
    let executable = compile(DONATING);
    let a = upload(ElementType::F32, &[1024], &[2.0_f32; 1024]);
    match executable.execute(&[&a, &a], &[true, true]) {
        Ok(outputs) => assert_eq!(read::<f32>(&outputs[0]), [4.0; 1024]),
        Err(error) => assert!(matches!(error, Error::Plugin { .. }), "{error}"),
    }
}

#[test]
fn a_deleted_buffer_is_an_error_everywhere() {
    let executable = compile(&add_module("2xf32"));
    let a = upload(ElementType::F32, &[2], &[1.0_f32, 2.0]);
    a.delete().unwrap();
    a.delete().unwrap();
    assert!(a.is_deleted().unwrap());
    assert!(matches!(a.to_vec(), Err(Error::Plugin { .. })));
    assert!(matches!(executable.execute(&[&a, &a], &[]), Err(Error::Plugin { .. })));
}

#[test]
fn threads_execute_and_read_at_once() {
    let executable = compile(&add_module("256xi32"));
    let shared = upload(ElementType::S32, &[256], &[1_i32; 256]);
    std::thread::scope(|scope| {
        for thread in 0..8_i32 {
            let (executable, shared) = (&executable, &shared);
            scope.spawn(move || {
                for round in 0..100 {
                    let own = upload_owned(ElementType::S32, &[256], &[thread * 1000 + round; 256]);
                    let outputs = executable.execute(&[&own, shared], &[]).unwrap();
                    drop(own); // the execution keeps what it reads
                    assert_eq!(read::<i32>(&outputs[0]), [thread * 1000 + round + 1; 256]);
                    assert_eq!(read::<i32>(shared), [1; 256]);
                }
            });
        }
    });
}

#[test]
fn threads_donate_while_others_read() {
    let executable = compile(DONATING);
    let b = upload(ElementType::F32, &[1024], &[1.0_f32; 1024]);
    for _ in 0..50 {
        let a = upload(ElementType::F32, &[1024], &[2.0_f32; 1024]);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| a.to_vec());
            let outputs = executable.execute(&[&a, &b], &[true, false]).unwrap();
            assert_eq!(read::<f32>(&outputs[0]), [3.0; 1024]);
            // Before the donation: the old content. After it: an error. Never the new content.
            match reader.join().unwrap() {
                Ok(content) => assert_eq!(from_bytes::<f32>(&content), [2.0; 1024]),
                Err(error) => assert!(matches!(error, Error::Plugin { .. }), "{error}"),
            }
        });
    }
}
