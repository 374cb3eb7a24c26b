"""Products of several pairs of matrices whose sizes differ in one dimension."""

from __future__ import annotations

import rgrad
from rgrad import _C

Tensor = _C.Tensor


def _check(
    mat_a: Tensor, mat_b: Tensor, offs: Tensor | None, bias: Tensor | None, out_dtype: rgrad.dtype | None
) -> None:
    for name, mat in (("mat_a", mat_a), ("mat_b", mat_b)):
        if mat.dim() not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    if mat_a.dtype not in (rgrad.float32, rgrad.bfloat16, rgrad.float16):
        raise RuntimeError(f"Expected mat_a to be Float32, BFloat16 or Float16 matrix, got {mat_a.dtype}")
    if mat_a.dtype != mat_b.dtype:
        raise RuntimeError(f"Expected mat_a and mat_b to have the same dtype, got {mat_a.dtype} and {mat_b.dtype}")
    both_2d = mat_a.dim() == mat_b.dim() == 2
    # With two matrices in two dimensions the groups part the dimension that is summed over.
    if mat_a.size(-1) != mat_b.size(-2):
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if (offs is not None) == (mat_a.dim() == mat_b.dim() == 3):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if offs is None:
        if mat_a.size(0) != mat_b.size(0):
            raise RuntimeError("batched dimension has to match")
    else:
        if offs.dim() != 1:
            raise RuntimeError("offs has to be 1D")
        if offs.dtype != rgrad.int32:
            raise RuntimeError("Offsets have to be int32")
        groups = mat_b.size(0) if mat_b.dim() == 3 else mat_a.size(0)
        if not both_2d and offs.size(0) != groups:
            raise RuntimeError("matrix batch sizes have to match")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype != mat_a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: rgrad.dtype | None = None,
) -> Tensor:
    """Multiplies groups of rows by a matrix per group, as layers with several experts do.

    Group i ends at ``offs[i]`` of the dimension that is parted: rows of `mat_a` where `mat_b` has three dimensions,
    columns of `mat_b` where `mat_a` has three, and the dimension that is summed over where both have two. Elements
    after the last group are zero in the result.

    Args:
        mat_a: ``(M, K)`` or ``(G, M, K)``, of float32, bfloat16 or float16.
        mat_b: ``(K, N)`` or ``(G, K, N)``, of the same dtype.
        offs: int32 ends of the groups, not decreasing, ``(G,)``; needed unless both matrices have three dimensions.
        bias: must be None.
        out_dtype: must be that of `mat_a`, if given.

    Returns:
        ``(M, N)`` if one matrix has three dimensions, otherwise ``(G, M, N)``.

    Raises:
        RuntimeError: sizes or dtypes do not fit together, or offsets leave the dimension.

    >>> rows, experts = rgrad.ones(3, 2), rgrad.stack([rgrad.eye(2), 2 * rgrad.eye(2)])
    >>> rgrad.nn.functional.grouped_mm(rows, experts, offs=rgrad.tensor([1, 3], dtype=rgrad.int32))[:, 0]
    tensor([1., 2., 2.])
    """
    _check(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return rgrad.bmm(mat_a, mat_b)
    parted, dim = (mat_b, 1) if mat_a.dim() == 3 else (mat_a, 1 if mat_b.dim() == 2 else 0)
    ends: list[int] = offs.tolist()
    starts = [0, *ends[:-1]]
    size = parted.size(dim)
    if any(a > b for a, b in zip(starts, ends, strict=True)) or (ends and ends[-1] > size):
        raise RuntimeError(f"offs must not decrease or exceed the size {size} of the dimension, but got {ends}")
    groups = [(a, b - a) for a, b in zip(starts, ends, strict=True)]
    if mat_a.dim() == mat_b.dim() == 2:
        return rgrad.stack([mat_a.narrow(1, *group) @ mat_b.narrow(0, *group) for group in groups])
    if mat_a.dim() == 2:
        parts = [mat_a.narrow(0, *group) @ matrix for group, matrix in zip(groups, mat_b, strict=True)]
    else:
        parts = [matrix @ mat_b.narrow(1, *group) for group, matrix in zip(groups, mat_a, strict=True)]
    rest = size - (ends[-1] if ends else 0)
    if rest:
        parts.append(mat_a.new_zeros((rest, mat_b.size(-1)) if dim == 0 else (mat_a.size(-2), rest)))
    return rgrad.cat(parts, dim)
