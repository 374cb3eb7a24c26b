"""Conversion between a list of parameters and one vector."""

from __future__ import annotations

from collections.abc import Iterable

import rgrad
from rgrad import _C

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[_C.Tensor]) -> _C.Tensor:
    """Returns the concatenated elements of all parameters."""
    return rgrad.cat([parameter.view(-1) for parameter in parameters])


def vector_to_parameters(vec: _C.Tensor, parameters: Iterable[_C.Tensor]) -> None:
    """Replaces the parameters' data by views of ``vec`` in consecutive parts."""
    if not isinstance(vec, _C.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()
        parameter.data = vec[start:end].view_as(parameter).data
        start = end
