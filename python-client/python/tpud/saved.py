"""Values that a forward leaves for its backward: they stay on the device, and autograd holds a handle.

AOTAutograd returns what backward needs as further outputs of the forward and gives them to `ctx.save_for_backward`.
A `SavedTensor` stands for such a value there: it has its sizes, strides and dtype but no memory, and it owns the
device buffer, so that memory on the device is free when autograd lets go of the graph. The backward's pieces take
the buffer. Whoever else looks at the tensor (saved-tensor hooks, a debugger, ops that run in eager PyTorch) gets the
values, which are then fetched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch._C._dynamo.guards import _empty_strided_cpu as empty_strided
from torch.utils import _pytree as pytree

from tpud import _tpud, errors
from tpud.layout import dense_strides, restride

_aten = torch.ops.aten
# Autograd's own bookkeeping: the same values under another tensor.
_SAME = frozenset({_aten.detach.default, _aten.alias.default})

_LOST = "values that the forward pass left on the device for this backward pass are gone: "
_AGAIN = "run the forward pass again, then backward: a lost device takes only the step that was under way"


class Held:
    """A buffer and the connection that it belongs to."""

    __slots__ = ("buffer", "connection")

    def __init__(self, buffer: _tpud.Buffer, connection: _tpud.Connection) -> None:
        self.buffer = buffer
        self.connection = connection


class SavedTensor(torch.Tensor):
    """A tensor whose values are on the device. They never change, so the tensor can't be written to."""

    held: Held

    @staticmethod
    def __new__(cls, held: Held, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> SavedTensor:
        tensor = torch.Tensor._make_wrapper_subclass(cls, sizes, strides=strides, dtype=dtype, device="cpu")
        tensor.held = held
        return tensor

    # Attributes and methods are torch's own; ops arrive below.
    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    @torch._disable_dynamo
    def __torch_dispatch__(
        cls, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _SAME:
            tensor = args[0]
            return SavedTensor(tensor.held, tensor.shape, tensor.stride(), tensor.dtype)
        _refuse_writes(func, args, kwargs)
        args, kwargs = pytree.tree_map_only(SavedTensor, SavedTensor.on_host, (args, kwargs))
        return func(*args, **kwargs)

    def on_host(self) -> torch.Tensor:
        """The values as an ordinary tensor, fetched anew at each call."""
        dense = empty_strided(tuple(self.shape), dense_strides(self.shape), self.dtype)
        try:
            self.held.buffer.download(dense.data_ptr(), dense.nbytes)
        except _tpud.RawError as raw:
            if errors.is_lost(raw):
                _raise_lost(self.held, raw)
            errors.raise_from(raw, "fetching a tensor that was saved for backward", kind=errors.Error)
        return dense if self.is_contiguous() else restride(dense, self.stride())

    def buffer_on(self, connection: _tpud.Connection) -> _tpud.Buffer:
        """The device buffer, for a piece on this connection."""
        if self.held.connection is not connection:
            _raise_lost(self.held)
        return self.held.buffer

    def __repr__(self, **_: Any) -> str:
        return f"SavedTensor({self.on_host()!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        memo[id(self)] = copy = self.on_host()
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.on_host().__reduce_ex__(protocol)

    def data_ptr(self) -> NoReturn:
        """There is no memory here to point to."""
        raise RuntimeError("a tensor that was saved for backward has no memory in this process; use its `clone()`")


def _of_values(name: str) -> Callable[..., Any]:
    """A method of torch.Tensor that reads memory without an op, on the fetched values."""

    def method(self: SavedTensor, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.on_host(), name)(*args, **kwargs)

    method.__name__ = name
    method.__doc__ = getattr(torch.Tensor, name).__doc__
    return method


for _name in ("numpy", "tolist", "storage", "untyped_storage", "__array__", "__dlpack__"):
    setattr(SavedTensor, _name, _of_values(_name))


def on_host(value: Any) -> Any:
    """A value for code that runs in eager PyTorch: fetched if it is on the device."""
    return value.on_host() if type(value) is SavedTensor else value


def _refuse_writes(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    for index, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            if any(type(each) is SavedTensor for each in pytree.tree_leaves(value)):
                message = f"{func} would write to a tensor that was saved for backward; write to its `clone()`"
                raise RuntimeError(message)


def _raise_lost(held: Held, cause: Exception | None = None) -> NoReturn:
    if held.connection.pid != os.getpid():
        why = f"they belong to process {held.connection.pid}, from which this one was forked"
    else:
        why = "the connection to the daemon was lost since"
    raise errors.UnavailableError(_LOST + why, "SAVED_TENSORS_LOST", _AGAIN) from cause
