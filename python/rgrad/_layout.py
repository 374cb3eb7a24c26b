"""`rgrad.layout`, and `rgrad.strided`, the only layout of tensors here."""

from __future__ import annotations

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Self


class layout:
    """The memory layout of a tensor."""

    __module__ = "rgrad"
    _name: str

    def __new__(cls) -> layout:
        raise TypeError("cannot create 'torch.layout' instances")

    @classmethod
    def _make(cls, name: str) -> Self:
        self = object.__new__(cls)
        self._name = name
        return self

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


strided = layout._make("strided")
