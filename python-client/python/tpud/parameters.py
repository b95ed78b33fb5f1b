"""Parameters and buffers on the device: uploaded once, again when they changed.

A parameter counts as unchanged while all of these are equal: the storage (the object, held by a weak reference, so
that a new storage at the old address is seen), the data pointer, dtype, sizes and strides, torch's version counter,
and a sample of the content. The counter sees every in-place op; the sample is for writes that bypass it, such as
`p.data.mul_(2)` or a write through a NumPy view. Tensors of at most 64 KiB are compared whole, larger ones at 128
words spread evenly. What remains unseen is a write that bypasses the counter *and* misses every sampled word, such
as one row of a large embedding table through `.data`; `tpud.invalidate(tensor)` is for that.

Tensors made in inference mode have no counter, so they are never kept: they are sent with every call.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from tpud import _tpud, errors
from tpud.encode import DTYPES

WHOLE_BYTES = 64 * 1024
SAMPLED_WORDS = 128


class Resident:
    """One parameter as it was when it was uploaded."""

    __slots__ = ("__weakref__", "buffer", "connection", "dtype", "is_complex", "pointer", "sample", "shape", "storage", "storage_id", "strides", "version", "view")

    def __init__(self, tensor: torch.Tensor, connection: _tpud.Connection) -> None:
        storage = tensor.untyped_storage()
        self.connection = connection
        self.storage = StorageWeakRef(storage)
        self.storage_id = storage._cdata
        self.pointer = tensor.data_ptr()
        self.shape = tensor.shape
        self.dtype = tensor.dtype
        self.is_complex = tensor.is_complex()
        self.strides = tensor.stride()
        self.version = tensor._version
        self.view = _sample_view(tensor)
        self.sample = self.view.tobytes()
        self.buffer = _upload(tensor, connection)

    def is_current(self, tensor: torch.Tensor) -> bool:
        """Whether `tensor` still is what was uploaded. The order matters: memory is read only once it is known to be
        the living storage's."""
        try:
            return (
                tensor.data_ptr() == self.pointer
                and tensor._version == self.version
                and tensor.untyped_storage()._cdata == self.storage_id
                and tensor.stride() == self.strides
                and tensor.shape == self.shape
                and tensor.dtype is self.dtype
                and not (self.is_complex and tensor.is_conj())
                and self.view.tobytes() == self.sample
            )
        except RuntimeError:  # an inference tensor: it has no version
            return False


class ParameterStore:
    """Shares uploads between the compiled functions of a process, so that tied weights and several graphs of one
    model use one device buffer. An entry lives as long as some compiled function uses it."""

    def __init__(self) -> None:
        self._entries: weakref.WeakValueDictionary[tuple[Any, ...], Resident] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def resident(self, tensor: torch.Tensor, connection: _tpud.Connection) -> Resident:
        """The upload of `tensor`, made now if there is no current one."""
        key = (tensor.untyped_storage()._cdata, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        found = self._entries.get(key)
        if found is not None and found.connection is connection and found.is_current(tensor):
            return found
        made = Resident(tensor, connection)
        with self._lock:
            self._entries[key] = made
        return made

    def forget(self, tensor: torch.Tensor) -> None:
        """Makes every entry over the storage of `tensor` stale."""
        storage = tensor.untyped_storage()._cdata
        with self._lock:
            entries = list(self._entries.values())
        for entry in entries:
            if entry.storage_id == storage:
                entry.version = -1


store = ParameterStore()


def _after_fork() -> None:
    global store
    store = ParameterStore()


def is_keepable(tensor: torch.Tensor) -> bool:
    """Whether a change of `tensor` can be noticed, so that it may stay on the device."""
    return not tensor.is_inference() and not tensor.is_conj() and not tensor.is_neg()


def _upload(tensor: torch.Tensor, connection: _tpud.Connection) -> _tpud.Buffer:
    dense = tensor.detach().contiguous()
    try:
        return connection.upload(dense.data_ptr(), dense.nbytes, DTYPES[dense.dtype], list(dense.shape))
    except _tpud.RawError as raw:
        if errors.is_lost(raw):
            raise
        errors.raise_from(raw, f"uploading a parameter of {dense.nbytes:,} bytes")


def _sample_view(tensor: torch.Tensor) -> memoryview:
    """The sampled memory of a tensor; does not keep it alive."""
    if tensor.numel() == 0:
        return memoryview(b"")
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    length = span * tensor.element_size()
    raw = memoryview((ctypes.c_uint8 * length).from_address(tensor.data_ptr())).cast("B")
    if length <= WHOLE_BYTES:
        return raw
    words = raw[: length // 8 * 8].cast("Q")
    # An odd step: a power of two would look at one column of a matrix only.
    return words[:: (len(words) // SAMPLED_WORDS) | 1]
