"""What tpud-stablehlo builds, judged by the real StableHLO dialect, then compiled and run by XLA's CPU client.

The modules come from `cargo run -p tpud-mlir --example all_ops`: one for each op of the builder on every element type
it takes, as text and as MLIR bytecode.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import ml_dtypes
import numpy as np
import pytest
from jaxlib import _jax, xla_client
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, stablehlo

ROOT = Path(__file__).resolve().parents[2]
GENERATE = ["cargo", "run", "--quiet", "--package", "tpud-mlir", "--example", "all_ops", "--"]

DTYPES = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "ui8": np.uint8,
    "ui16": np.uint16,
    "ui32": np.uint32,
    "ui64": np.uint64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
}


@pytest.fixture(scope="session")
def directory(tmp_path_factory) -> Path:
    """The generated files."""
    out = tmp_path_factory.mktemp("all_ops")
    subprocess.run([*GENERATE, str(out)], cwd=ROOT, check=True)
    return out


@pytest.fixture(scope="session")
def names(directory) -> list[str]:
    """The names of all modules."""
    found = sorted(path.stem for path in directory.glob("*.mlir"))
    assert len(found) > 100
    return found


@pytest.fixture
def context() -> Iterator[ir.Context]:
    """An MLIR context that knows func, StableHLO and CHLO, and no other dialect's ops."""
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    with ir.Context() as made:
        made.append_dialect_registry(registry)
        made.load_all_available_dialects()
        stablehlo.register_dialect(made)
        chlo.register_dialect(made)
        yield made


def parse_text(directory: Path, name: str) -> ir.Module:
    return ir.Module.parse((directory / f"{name}.mlir").read_text())


def parse_bytecode(directory: Path, name: str) -> ir.Module:
    return ir.Module.parse((directory / f"{name}.mlirbc").read_bytes())


def signature(module: ir.Module) -> tuple[list, list]:
    """Input and output types of `main` as (shape, numpy dtype)."""
    main = module.body.operations[0]

    def described(types) -> list:
        ranked = [ir.RankedTensorType(ty) for ty in types]
        return [(tuple(ty.shape), np.dtype(DTYPES[str(ty.element_type)])) for ty in ranked]

    return described(main.type.inputs), described(main.type.results)


def run_on_zeros(bytecode: bytes, inputs: list) -> list[np.ndarray]:
    """Compiles as the daemon does, from bytecode, and runs."""
    devices = tuple(jax.devices("cpu")[:1])
    options = xla_client.CompileOptions()
    # What is asked is whether XLA takes the module, not how fast the code is.
    options.executable_build_options.debug_options.xla_backend_optimization_level = 0
    executable = devices[0].client.compile_and_load(bytecode, _jax.DeviceList(devices), options)
    with jax.enable_x64(True):
        args = [jax.device_put(np.zeros(shape, dtype), devices[0]) for shape, dtype in inputs]
        results = executable.execute_sharded(args).disassemble_into_single_device_arrays()
    return [np.asarray(shards[0]) for shards in results]


def test_modules_verify(directory, names, context, subtests):
    for name in names:
        with subtests.test(name):
            assert parse_text(directory, name).operation.verify()
            assert parse_bytecode(directory, name).operation.verify()


def test_text_and_bytecode_are_one_module(directory, names, context, subtests):
    for name in names:
        with subtests.test(name):
            assert str(parse_bytecode(directory, name)) == str(parse_text(directory, name))


def test_bytecode_has_no_locations(directory, context):
    with_lines = parse_bytecode(directory, "locations")
    assert "model.py" not in with_lines.operation.get_asm(enable_debug_info=True)
    assert b"model.py" not in (directory / "locations.mlirbc").read_bytes()


def test_portable_artifact_round_trip(directory, names, context, subtests):
    version = stablehlo.get_current_version()
    for name in names:
        module = parse_bytecode(directory, name)
        if "chlo." in str(module):
            continue  # a portable artifact holds StableHLO's own ops only
        with subtests.test(name):
            artifact = stablehlo.serialize_portable_artifact_str(str(module), version)
            again = stablehlo.deserialize_portable_artifact(context, artifact)
            # Attributes that were left to their defaults are spelled out now, so compare artifacts.
            assert again.operation.verify()
            assert signature(again) == signature(module)
            assert stablehlo.serialize_portable_artifact_str(str(again), version) == artifact


def test_modules_compile_and_run(directory, names, context, subtests):
    for name in names:
        with subtests.test(name):
            inputs, outputs = signature(parse_bytecode(directory, name))
            results = run_on_zeros((directory / f"{name}.mlirbc").read_bytes(), inputs)
            assert [(r.shape, r.dtype) for r in results] == outputs


def test_constants_hold_their_values(directory, context):
    inputs, _ = signature(parse_bytecode(directory, "constant_bools"))
    results = run_on_zeros((directory / "constant_bools.mlirbc").read_bytes(), inputs)
    assert [len(r) for r in results] == list(range(1, 18))
    for bools in results:
        assert bools.tolist() == [i % 3 == 0 for i in range(len(bools))]
    for name, dtype in [("I32", np.int32), ("U8", np.uint8), ("BF16", ml_dtypes.bfloat16), ("C64", np.complex64)]:
        results = run_on_zeros((directory / f"constant_{name}.mlirbc").read_bytes(), [])
        expected = (np.arange(8) % 5).astype(dtype).reshape(2, 4)
        assert np.array_equal(results[0], expected)
        assert results[4].shape == (2, 0, 3)


def test_a_wrong_module_is_refused(directory, context):
    """The dialect does look: a result type that does not follow from the operands is an error."""
    text = (directory / "concatenate.mlir").read_text().replace("tensor<2x6xf32>", "tensor<2x7xf32>")
    with pytest.raises(ir.MLIRError):
        ir.Module.parse(text)
