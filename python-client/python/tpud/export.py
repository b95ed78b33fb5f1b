"""Graph files: `python -m tpud.export MODEL.pt2 -o MODEL.tpudgraph`, and `tpud.save_graph(fn, args, path)`.

A graph file is an encoded `tpud.v1.Graph`, for `tpud compile`. It holds shapes and constants, no parameters.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tpud import capture, encode, errors


def graph_of_program(program: torch.export.ExportedProgram, name: str = "graph") -> encode.Encoded:
    """The graph of a `torch.export` program, at its example sizes where they are symbolic."""
    from torch.export.graph_signature import InputKind, OutputKind

    from tpud.decompositions import decompositions

    # An exported program may still mutate its inputs; this makes it functional and leaves its ops whole.
    program = program.run_decompositions({})
    kept = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
    specs = program.graph_signature.input_specs
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    args = [_example(node.meta["val"]) for node in placeholders]
    graph = capture.specialise(program.graph_module, args, decompositions())
    captured = capture.normalise(graph)
    roles = ["parameter" if spec.kind in kept else "user_input" for spec in specs]
    index = {spec.target: position for position, spec in enumerate(specs) if spec.target}
    index |= {getattr(spec.arg, "name", None): position for position, spec in enumerate(specs)}
    mutations = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)
    outputs: list[tuple[str, int | None]] = [
        ("mutation", index[spec.target]) if spec.kind in mutations else ("user_output", None)
        for spec in program.graph_signature.output_specs
    ]
    outputs += [("user_output", None)] * len(captured.assertions)
    return _encode(captured, roles, outputs, name)


def save_graph(
    fn: Callable[..., Any], args: Sequence[Any], path: str | Path, kwargs: Mapping[str, Any] | None = None
) -> None:
    """Writes the graph of `fn(*args, **kwargs)` to `path`. A module is exported whole, so that its parameters are
    inputs; the arguments may be fake tensors."""
    module = fn if isinstance(fn, torch.nn.Module) else _function(fn)
    with torch.no_grad():
        program = torch.export.export(module, tuple(args), dict(kwargs or {}), strict=False)
    name = type(fn).__name__ if isinstance(fn, torch.nn.Module) else getattr(fn, "__name__", "graph")
    Path(path).write_bytes(graph_of_program(program, name).graph)


class _Function(torch.nn.Module):
    """A plain function, as `torch.export` wants it."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)


def _function(fn: Callable[..., Any]) -> _Function:
    # `torch.export` records the source lines of functions called `forward`, and of those that are registered.
    torch.fx.proxy._register_stack_trace_anchor(fn)
    return _Function(fn)


def _encode(captured: capture.Captured, roles: list[str], outputs: Any, name: str) -> encode.Encoded:
    try:
        return encode.encode_graph(captured.gm, roles, outputs, name)
    except encode.UnencodableError as error:
        text = "this graph can't be encoded:\n" + errors.describe_issues(error.issues)
        raise errors.UnsupportedOpError(text, "UNSUPPORTED_OP", issues=error.issues) from error


def _example(value: Any) -> Any:
    """A value at its example sizes: symbols take the numbers that they were traced with."""
    if isinstance(value, torch.Tensor):
        sizes = [_hint(size) for size in value.shape]
        with torch._subclasses.FakeTensorMode():
            return torch.empty_strided(sizes, [_hint(s) for s in value.stride()], dtype=value.dtype)
    return _hint(value)


def _hint(value: Any) -> Any:
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return value.node.hint
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """The command line: converts a `torch.export` archive."""
    parser = argparse.ArgumentParser(prog="python -m tpud.export", description=__doc__)
    parser.add_argument("archive", type=Path, help="a file written by torch.export.save")
    parser.add_argument("-o", "--output", help="default: the archive's name with .tpudgraph; -: standard output")
    options = parser.parse_args(argv)
    # What is printed on the way must not get into the graph.
    with contextlib.redirect_stdout(sys.stderr):
        try:
            encoded = graph_of_program(_load(options.archive), options.archive.stem)
        except (OSError, RuntimeError, ValueError) as error:
            sys.stderr.write(f"tpud.export: {options.archive}: {error}\n")
            return 1
    if options.output == "-":
        sys.stdout.buffer.write(encoded.graph)
        return 0
    target = Path(options.output) if options.output else options.archive.with_suffix(".tpudgraph")
    target.write_bytes(encoded.graph)
    sys.stderr.write(f"{target}: {len(encoded.nodes)} ops, {len(encoded.graph):,} bytes\n")
    return 0


def _load(archive: Path) -> torch.export.ExportedProgram:
    """Reads an archive; whatever is wrong with its content is a ValueError."""
    # Torch logs a first failure with its traceback, and then tries the format of older versions.
    logging.getLogger("torch.export").setLevel(logging.CRITICAL)
    try:
        return torch.export.load(archive)
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"not a readable archive of torch.export ({type(error).__name__}: {error})") from error


if __name__ == "__main__":
    sys.exit(main())
