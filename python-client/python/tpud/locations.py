"""Where a node comes from: the user's own line and the module that ran it."""

from __future__ import annotations

import functools
import os
import re
from typing import NamedTuple

import torch
from torch import fx

_FRAME = re.compile(r'^ *File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>[^\n]*)\n(?P<code>(?: {4,}[^\n]*\n?)?)', re.M)
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Location(NamedTuple):
    """One source line, as an error message shows it."""

    file: str = ""
    line: int = 0
    function: str = ""
    code: str = ""
    module_path: str = ""

    def __str__(self) -> str:
        if not self.file:
            return f"module {self.module_path}" if self.module_path else "(source line unknown)"
        where = f"{self.file}:{self.line}"
        code = f": {self.code}" if self.code else ""
        path = f" [{self.module_path}]" if self.module_path else ""
        return where + code + path


UNKNOWN = Location()


def locate(node: fx.Node) -> Location:
    """The innermost frame outside of torch that made `node`, with the path of its module."""
    frame = _innermost(node.meta.get("stack_trace") or "")
    stack = node.meta.get("nn_module_stack") or {}
    path = ""
    for entry in stack.values():
        path = entry[0] if isinstance(entry, tuple) else str(entry)
    return frame._replace(module_path=_module_path(path)) if path else frame


@functools.lru_cache(maxsize=4096)
def _innermost(trace: str) -> Location:
    frames = list(_FRAME.finditer(trace))
    for frame in reversed(frames):
        if not frame["file"].startswith((_TORCH, _OURS)):
            break
    else:
        if not frames:
            return UNKNOWN
        frame = frames[-1]
    return Location(frame["file"], int(frame["line"]), frame["function"].strip(), frame["code"].strip())


@functools.lru_cache(maxsize=4096)
def _module_path(path: str) -> str:
    """`L['self']._modules['layers']._modules['0'].act` becomes `layers.0.act`."""
    path = re.sub(r"^[LG]\[['\"][^'\"]*['\"]\]|^L__self___", "", path).replace("._modules", "")
    path = re.sub(r"\[['\"]?([^\]'\"]+)['\"]?\]", r".\1", path)
    return path.strip(".")
