"""Type aliases for annotations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any, Union

from rgrad import Size, Tensor
from rgrad import device as _device
from rgrad._absent import absent_class
from rgrad.storage import TypedStorage, UntypedStorage

__all__ = ["Device", "FileLike", "Number", "Storage"]

_WHY = "shapes and numbers are never symbols"

SymInt = absent_class("torch.SymInt", _WHY)
SymFloat = absent_class("torch.SymFloat", _WHY)
SymBool = absent_class("torch.SymBool", _WHY)
DispatchKey = absent_class("torch.DispatchKey", "rgrad has no dispatcher with keys")

PySymType = Union[SymInt, SymFloat, SymBool]  # noqa: UP007 - the classes are made at run time
py_sym_types = (SymInt, SymFloat, SymBool)
Number = int | float | bool
BoolLikeType = Union[bool, SymBool]  # noqa: UP007
IntLikeType = Union[int, SymInt]  # noqa: UP007
FloatLikeType = Union[float, SymFloat]  # noqa: UP007
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]  # noqa: UP007
Device = _device | str | int | None
FileLike = Union[str, os.PathLike[str], IO[bytes]]  # noqa: UP007
Storage = (TypedStorage, UntypedStorage)


def _seen() -> tuple[Any, ...]:
    """Uses names that are only imported here so that programs can import them from this module."""
    return Sequence, Size, Tensor
