"""Exchange of tensors with other libraries through DLPack, without a copy."""

from __future__ import annotations

from typing import Any

from rgrad._C import Tensor, from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """Returns a capsule for the memory of a tensor, which can be consumed once.

    >>> import rgrad as torch
    >>> capsule = torch.utils.dlpack.to_dlpack(torch.ones(2))
    >>> torch.utils.dlpack.from_dlpack(capsule)
    tensor([1., 1.])
    """
    return tensor.__dlpack__()
