"""What AOTAutograd gets back for a graph: a callable that compiles for the sizes it is called with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.convert_frame import compile_lock
from torch.utils._python_dispatch import _disable_current_modes

from tpud import errors
from tpud.capture import has_symbols, is_static, normalise, specialise
from tpud.options import Options
from tpud.program import Builder, Roles
from tpud.stepwise import Stepwise, makers


def executable(gm: fx.GraphModule, roles: Roles, options: Options, name: str) -> Callable[[list[Any]], Any]:
    """A callable in AOTAutograd's boxed convention (one list of arguments, which it empties) for a graph.

    A graph of static sizes is compiled now, one with symbolic sizes when it is first called with new ones.
    """
    if is_static(gm):
        run: Callable[[Sequence[Any]], Any] = Deferring(lambda: compile_static(gm, roles, options, name))
    elif makers(gm):
        run = Deferring(lambda: Stepwise(gm, roles, options, name, _part))
    else:
        run = Specialising(gm, roles, options, name)

    def call(args: list[Any]) -> Any:
        outputs = run(args)
        args.clear()
        return outputs

    call._boxed_call = True
    return call


def compile_static(gm: fx.GraphModule, roles: Roles, options: Options, name: str) -> Callable[[Sequence[Any]], Any]:
    """Compiles a graph whose sizes are all known."""
    # AOTAutograd calls us with its fake tensor mode on, but the constants in the graph are real tensors.
    with _disable_current_modes():
        program, _ = Builder(normalise(gm), roles, options, name).build()
    return program


class Deferring:
    """Compiles now, but raises what went wrong when it is called; the call after that tries again.

    Dynamo wraps everything that a backend raises in an exception of its own. A compiled function may raise what it
    likes, so this is how `tpud.UnsupportedOpError` and its kin reach the user as they are.
    """

    def __init__(self, make: Callable[[], Callable[[Sequence[Any]], Any]]) -> None:
        self.make = make
        self.program: Callable[[Sequence[Any]], Any] | None = None
        self.failure: errors.Error | None = None
        self.lock = threading.Lock()
        try:
            self.program = make()
        except errors.Error as error:
            self.failure = error

    def __call__(self, args: Sequence[Any]) -> Any:
        program = self.program
        if program is None:
            with self.lock:
                failure, self.failure = self.failure, None
                if failure is not None:
                    raise failure.with_traceback(None)
                if self.program is None:
                    self.program = self.make()
                program = self.program
        return program(args)


class Specialising:
    """A graph with symbolic sizes: compiled once for each set of sizes that it meets."""

    def __init__(self, gm: fx.GraphModule, roles: Roles, options: Options, name: str) -> None:
        self.gm = gm
        self.roles = roles
        self.options = options
        self.name = name
        placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        values = [node.meta.get("val") for node in placeholders]
        self.numbers = [i for i, value in enumerate(values) if not isinstance(value, torch.Tensor)]
        self.shaped = [i for i, value in enumerate(values) if isinstance(value, torch.Tensor) and has_symbols(value)]
        self.programs: dict[tuple[Any, ...], Callable[[Sequence[Any]], Any]] = {}
        self.traced: dict[tuple[Any, ...], fx.GraphModule] = {}
        self.lock = threading.Lock()

    def __call__(self, args: Sequence[Any]) -> Any:
        key = self._key(args)
        program = self.programs.get(key)
        if program is None:
            program = self._compile(key, args)
        return program(args)

    def _compile(self, key: tuple[Any, ...], args: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
        # Only one thread of a process may trace, be it here or in Dynamo; sending and compiling can wait elsewhere.
        with compile_lock:
            if key not in self.programs and key not in self.traced:
                self.traced[key] = specialise(self.gm, args)
        with self.lock:
            program = self.programs.get(key)
            if program is None:
                program = compile_static(self.traced[key], self.roles, self.options, self.name)
                self.programs[key] = program
                del self.traced[key]
        return program

    def _key(self, args: Sequence[Any]) -> tuple[Any, ...]:
        # A number's type is part of it: 1, 1.0 and True are equal, but give different graphs.
        numbers = tuple((type(args[i]), args[i]) for i in self.numbers)
        return numbers, tuple((args[i].shape, args[i].stride()) for i in self.shaped)


def _part(gm: fx.GraphModule, roles: Roles, options: Options, name: str) -> Callable[[Sequence[Any]], Any]:
    """A part of a graph between sizes that depend on data."""
    if is_static(gm):
        return compile_static(gm, roles, options, name)
    return Specialising(gm, roles, options, name)


def raising(error: errors.Error) -> Callable[..., Any]:
    """A compiled function that raises, see `Deferring`."""

    def run(*_: Any) -> Any:
        raise error.with_traceback(None)

    return run
