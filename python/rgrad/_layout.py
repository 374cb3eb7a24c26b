"""`rgrad.layout`, `rgrad.strided`, the only layout of tensors here, and names to compare layouts with."""

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

sparse_coo = layout._make("sparse_coo")
sparse_csr = layout._make("sparse_csr")
sparse_csc = layout._make("sparse_csc")
sparse_bsr = layout._make("sparse_bsr")
sparse_bsc = layout._make("sparse_bsc")
jagged = layout._make("jagged")
_mkldnn = layout._make("_mkldnn")
