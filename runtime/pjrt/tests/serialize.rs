//! Executables as bytes: round trips, reports, and bytes that are none.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use support::*;
use tpud_pjrt::{
    Buffer, Code, CompileOptions, ElementType, Error, OptionValue, Program, TensorType, platform,
};

#[test]
fn an_executable_survives_its_client() {
    let (bytes, signature) = {
        let client = new_client();
        let module = add_module("2x3xf32");
        let executable =
            client.compile(&Program::mlir(module.as_bytes()), &CompileOptions::default()).unwrap();
        (executable.executable().serialize().unwrap(), executable.signature().clone())
    };
    let client = new_client();
    let executable = client.deserialize(&bytes).unwrap();
    assert_eq!(executable.signature(), &signature);
    let device = client.first_device().unwrap();
    let values = to_bytes(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let a = Buffer::copy_from_host(&device, TensorType::new(ElementType::F32, [2, 3]), &values).unwrap();
    let outputs = executable.execute(&[&a, &a], &[]).unwrap();
    drop((a, executable, client)); // outputs keep what they need
    assert_eq!(read::<f32>(&outputs[0]), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
}

#[test]
fn aliases_and_sorts_survive_too() {
    let module = r#"func.func @main(%a: tensor<5xi32> {tf.aliasing_output = 0 : i32}) -> tensor<5xi32> {
      %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> ({
      ^bb0(%x: tensor<i32>, %y: tensor<i32>):
        %1 = stablehlo.compare LT, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }) : (tensor<5xi32>) -> tensor<5xi32>
      return %0 : tensor<5xi32>
    }"#;
    let bytes = compile(module).executable().serialize().unwrap();
    let loaded = client().deserialize(&bytes).unwrap();
    assert_eq!(loaded.signature().aliases.len(), 1);
    let a = upload(ElementType::S32, &[5], &[3, -1, 4, 1, 5]);
    assert_eq!(read::<i32>(&loaded.execute(&[&a], &[true]).unwrap()[0]), [-1, 1, 3, 4, 5]);
    assert!(a.is_deleted().unwrap());
}

#[test]
fn memory_and_cost_are_reported() {
    let executable = compile(
        "func.func @main(%a: tensor<64x32xf32>, %b: tensor<32x16xf32>) -> tensor<64x16xf32> {
          %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
              : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
          return %0 : tensor<64x16xf32>
        }",
    );
    let memory = executable.executable().memory().unwrap().unwrap();
    assert_eq!((memory.argument, memory.output, memory.alias), (4 * (64 * 32 + 32 * 16), 4 * 64 * 16, 0));
    assert!(memory.peak.unwrap() >= memory.argument + memory.output);
    // Only one of the two CPU plugins analyses costs; where there is a number, it is the right one.
    if let Some(cost) = executable.executable().cost().unwrap() {
        assert_eq!(cost.flops, Some(2.0 * 64.0 * 32.0 * 16.0));
        assert_eq!(cost.bytes_accessed, Some((memory.argument + memory.output) as f64));
        assert_eq!(cost.optimal_seconds, None);
    }
    let program = executable.executable().optimized_program().unwrap().unwrap();
    assert!(program.format.starts_with("hlo") && !program.code.is_empty());
}

#[test]
fn bytes_that_are_no_executable_are_refused() {
    let good = compile(&add_module("8xf32")).executable().serialize().unwrap();
    let garbage: Vec<u8> = (0..=255).cycle().take(5000).collect();
    let cases =
        [vec![], vec![0; 4096], garbage, good[..good.len() / 2].to_vec(), good[..good.len() - 1].to_vec()];
    for (index, bytes) in cases.iter().enumerate() {
        match client().deserialize(bytes) {
            Err(Error::BadExecutable { .. }) if bytes.is_empty() => {}
            Err(Error::BadExecutable { reason }) => assert!(!reason.is_empty(), "case {index}"),
            other => panic!("case {index}: {other:?}"),
        }
    }
    assert!(client().deserialize(&good).is_ok());
}

#[test]
fn an_executable_of_another_level_says_what_it_was_pinned_to() {
    let module = add_module("65536xf32");
    for level in [platform::cpu::IsaLevel::V2, platform::cpu::isa_level()] {
        let options = platform::cpu::pin_to(level, CompileOptions::default());
        let executable = client().compile(&Program::mlir(module.as_bytes()), &options).unwrap();
        let a = upload(ElementType::F32, &[65536], &[1.5_f32; 65536]);
        assert_eq!(read::<f32>(&executable.execute(&[&a, &a], &[]).unwrap()[0]), [3.0; 65536], "{level:?}");
    }
}

#[test]
fn bad_programs_and_options_are_errors_with_a_reason() {
    let compile =
        |code: &[u8], options: &CompileOptions| client().compile(&Program::mlir(code), options).unwrap_err();
    let none = CompileOptions::default();
    for code in [&b""[..], b"garbage", b"\x00\xff\xfe", b"ML\xefR", b"func.func @f() { return }"] {
        let error = compile(code, &none);
        assert!(matches!(&error, Error::Plugin { message, .. } if !message.is_empty()), "{error}");
    }
    let mismatch = "func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>) -> tensor<2xf32> {
      %0 = stablehlo.add %a, %b : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }";
    assert!(matches!(compile(mismatch.as_bytes(), &none), Error::Plugin { .. }));
    let missing = "func.func @main() -> tensor<4xf32> {
      %0 = stablehlo.custom_call @no_such_thing() : () -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }";
    assert!(compile(missing.as_bytes(), &none).to_string().contains("no_such_thing"));
    let unknown = none.clone().with("xla_no_such_option", OptionValue::Bool(true));
    let error = compile(add_module("2xf32").as_bytes(), &unknown);
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.to_string().contains("xla_no_such_option"), "{error}");
}
