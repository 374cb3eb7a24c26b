"""Distances between vectors."""

from __future__ import annotations

import rgrad
from rgrad import _C
from rgrad.amp.autocast_mode import in_float32

Tensor = _C.Tensor

# The names of dtypes in messages.
_SCALAR_TYPES = {
    "bool": "Bool",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "Float",
    "float64": "Double",
}


def scalar_type(tensor: _C.Tensor) -> str:
    """Returns the name that errors give the dtype of a tensor."""
    name = str(tensor.dtype).rpartition(".")[2]
    return _SCALAR_TYPES.get(name, name)


@in_float32("gpu")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Returns the cosine of the angle between ``x1`` and ``x2``: ``x1 · x2 / (max(|x1|, eps) * max(|x2|, eps))``.

    Args:
        x1: vectors along ``dim``; one of the two has a floating point dtype.
        x2: others, of a shape that broadcasts with that of ``x1``.
        dim: the dimension of the vectors, which the result lacks.
        eps: the minimum length of a vector.

    >>> import rgrad as torch
    >>> torch.nn.functional.cosine_similarity(torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0]]))
    tensor([1.])
    """
    common = rgrad.promote_types(x1.dtype, x2.dtype)
    if not common.is_floating_point:
        name = _SCALAR_TYPES[str(common).rpartition(".")[2]]
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {name}")
    x1, x2 = rgrad.broadcast_tensors(x1.to(common), x2.to(common))
    norm1 = x1.norm(2, dim, keepdim=True).clamp_min(eps)
    norm2 = x2.norm(2, dim, keepdim=True).clamp_min(eps)
    return ((x1 / norm1) * (x2 / norm2)).sum(dim)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Returns the p-norm of ``x1 - x2 + eps`` along the last dimension.

    Args:
        x1: vectors, ``(N, D)`` or ``(D,)``, of a floating point dtype.
        x2: others, of a shape that broadcasts with that of ``x1``.
        p: degree of the norm.
        eps: added to differences, so that equal vectors have a gradient.
        keepdim: whether the result keeps the last dimension, of size 1.
    """
    return (x1 - x2 + eps).norm(p, -1, keepdim=keepdim)


@in_float32("gpu")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of all pairs of rows.

    Shape:
        Input: ``(N, M)``. Output: ``(N * (N - 1) / 2,)``, in the order of the upper triangle.
    """
    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    if not input.is_floating_point():
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    first, second = rgrad.triu_indices(input.size(0), input.size(0), 1).to(input.device).unbind()
    return rgrad.cdist(input, input, p, compute_mode="donot_use_mm_for_euclid_dist")[first, second]
