//! Ahead-of-time compilation for TPUs that are not here, and modules that kill a compiler. Each test runs in a
//! process of its own, because libtpu reads its environment when it is loaded.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::os::unix::process::ExitStatusExt;

use support::*;
use tpud_pjrt::platform::tpu::{self, Role};
use tpud_pjrt::{CompileOptions, ElementType, Error, Program, TensorType, platform};

const MATMUL: &str =
    "func.func @main(%a: tensor<128x256xbf16> {tf.aliasing_output = 1 : i32}, %b: tensor<256x64xbf16>)
    -> (tensor<128x64xbf16>, tensor<128x256xbf16>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<128x256xbf16>, tensor<256x64xbf16>) -> tensor<128x64xbf16>
  %1 = stablehlo.add %a, %a : tensor<128x256xbf16>
  return %0, %1 : tensor<128x64xbf16>, tensor<128x256xbf16>
}";

#[test]
fn every_generation_compiles_in_one_process() {
    if let Some(output) =
        in_child("every_generation_compiles_in_one_process", &tpu::environment(Role::Compile))
    {
        return assert_passed(&output);
    }
    let plugin = tpu::load().unwrap_or_else(|error| panic!("{error}"));
    let identity = plugin.identity().unwrap();
    assert!(identity.name.starts_with("libtpu "), "{identity}");
    for (name, devices) in [
        ("v5e:2x2", 4),
        ("v5p:2x2x1", 4),
        ("v6e:2x2", 4),
        ("tpu7x:2x2x1", 8),
        ("v6e:1x1", 1),
        ("v7x:1x1x1", 2),
    ] {
        let topology = tpu::topology(&plugin, name).unwrap();
        let descriptions = topology.devices().unwrap();
        assert_eq!(descriptions.len(), devices, "{name}");
        // The table agrees with libtpu, which takes a few KiB more for a larger topology.
        let (exact, table) =
            (descriptions[0].memory_bytes().unwrap(), tpu::memory_bytes(&descriptions[0].kind));
        assert!(table.unwrap().abs_diff(exact) < 1 << 20, "{name}: {exact}");

        let executable =
            topology.compile(&Program::mlir(MATMUL.as_bytes()), &CompileOptions::default()).unwrap();
        assert!(executable.serialize().unwrap().len() > 10_000, "{name}");
        let memory = executable.memory().unwrap().unwrap();
        assert!(memory.argument >= 2 * (128 * 256 + 256 * 64) && memory.alias >= 2 * 128 * 256, "{memory:?}");
        assert!(memory.peak.is_some_and(|peak| peak >= memory.argument && peak < exact), "{memory:?}");
        let cost = executable.cost().unwrap().unwrap();
        assert!(cost.flops.unwrap() >= 2.0 * 128.0 * 256.0 * 64.0, "{cost:?}");
        assert!(cost.optimal_seconds.is_some_and(|seconds| seconds < 1.0), "{cost:?}");
        let signature = executable.signature().unwrap();
        assert_eq!(signature.inputs[1], TensorType::new(ElementType::Bf16, [256, 64]));
        assert_eq!(signature.outputs[1], TensorType::new(ElementType::Bf16, [128, 256]));
        assert_eq!((signature.aliases[0].input, signature.aliases[0].output), (0, 1));
    }
    let topology = tpu::topology(&plugin, "v6e:1x1").unwrap();
    let large = Program::mlir(include_bytes!("fixtures/does_not_fit.mlir"));
    let error = topology.compile(&large, &CompileOptions::default()).unwrap_err();
    assert_eq!(error.code(), tpud_pjrt::Code::ResourceExhausted, "{error}");
    assert!(matches!(
        topology.compile(&Program::mlir(b"garbage"), &CompileOptions::default()),
        Err(Error::Plugin { .. })
    ));
    assert!(matches!(tpu::topology(&plugin, "v6e:3x5"), Err(Error::Plugin { .. })));
    // The CPU plugin works beside it.
    let executable = compile(&add_module("2xi32"));
    let a = upload(ElementType::S32, &[2], &[1, 2]);
    assert_eq!(read::<i32>(&executable.execute(&[&a, &a], &[]).unwrap()[0]), [2, 4]);
}

/// The process must die by a signal: that is why compilers live in workers.
fn assert_killed(test: &str, variables: &[(&str, &str)], compile: impl FnOnce()) {
    match in_child(test, variables) {
        Some(output) => assert!(output.status.signal().is_some(), "survived: {output:?}"),
        None => compile(),
    }
}

#[test]
fn a_legal_module_kills_the_cpu_compiler() {
    assert_killed("a_legal_module_kills_the_cpu_compiler", &platform::cpu::environment(), || {
        let program = Program::mlir(include_bytes!("fixtures/kills_the_compiler.mlir"));
        let outcome = client().compile(&program, &CompileOptions::default());
        panic!("the plugin no longer dies of it: {outcome:?}");
    });
}

#[test]
fn a_legal_module_kills_libtpu() {
    assert_killed("a_legal_module_kills_libtpu", &tpu::environment(Role::Compile), || {
        let topology = tpu::topology(&tpu::load().unwrap(), "v6e:1x1").unwrap();
        let program = Program::mlir(include_bytes!("fixtures/kills_libtpu.mlir"));
        let outcome = topology.compile(&program, &CompileOptions::default());
        panic!("libtpu no longer dies of it: {outcome:?}");
    });
}
