"""Numbers that tell tensors apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

import rgrad
from rgrad import _C
from rgrad._out import kind_of, write_out

Tensor = _C.Tensor

_WIDE_INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")


def _reduced(input: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    """The dimensions that are reduced: all where none is named."""
    if not isinstance(dim, (int, tuple, list, type(None))):
        raise TypeError(f"hash_tensor(): argument 'dim' (position 2) must be tuple of ints, not {type(dim).__name__}")
    if input.dim() > 64:
        raise RuntimeError("only tensors with up to 64 dims are supported")
    named = [dim] if isinstance(dim, int) else list(dim or ())
    rank = max(input.dim(), 1)
    dims: list[int] = []
    for d in named:
        if not -rank <= d < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})")
        if d % rank in dims:
            raise RuntimeError(f"dim {d % rank} appears multiple times in the list of dims")
        dims.append(d % rank)
    if input.numel() == 0 and not dims:
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
            "with the 'dim' argument."
        )
    for d in dims:
        if input.dim() and input.shape[d] == 0:
            raise IndexError(f"hash_tensor: Expected reduction dim {d} to have non-zero size.")
    return dims if dims and input.dim() else list(range(input.dim()))


def hash_tensor(
    input: Tensor,
    dim: int | Sequence[int] | None = (),
    *,
    keepdim: bool = False,
    mode: int = 0,
    out: Tensor | None = None,
) -> Tensor:
    """The exclusive or of the bits of the elements, each widened to 64 bits.

    Floating-point elements are read as float64, others as int64. The order of the elements does not count.

    Args:
        input: the elements, of any dtype but those of float8 and unsigned integers of more than 8 bits.
        dim: the dimensions to reduce; all if none is named.
        keepdim: whether they are kept, with size 1.
        mode: 0, the only one.
        out: receives the result; uint64.

    Returns:
        The hashes, uint64.

    >>> import rgrad as torch
    >>> a = torch.tensor([[1.0, 2.0], [2.0, 1.0]])
    >>> torch.hash_tensor(a, 1)
    tensor([9218868437227405312, 9218868437227405312], dtype=torch.uint64)
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    dims = _reduced(input, dim)
    name = str(input.dtype).removeprefix("torch.")
    if name not in (*_WIDE_INTEGERS, "float16", "bfloat16", "float32", "float64"):
        raise NotImplementedError(f"\"xor_sum_cpu\" not implemented for '{kind_of(input)}'")
    wide = input.detach().to(rgrad.int64 if name in _WIDE_INTEGERS else rgrad.float64).contiguous().view(rgrad.int64)
    kept = [d for d in range(input.dim()) if d not in dims]
    sizes = [input.size(d) for d in range(input.dim())]
    bits = wide.permute((*kept, *dims)).reshape([*(sizes[d] for d in kept), math.prod(sizes[d] for d in dims)])
    while (count := bits.shape[-1]) > 1:
        half = count // 2
        folded = bits[..., :half] ^ bits[..., half : 2 * half]
        bits = rgrad.cat([folded, bits[..., 2 * half :]], -1)
    shape = [1 if d in dims else n for d, n in enumerate(sizes) if keepdim or d not in dims]
    made = bits.view(rgrad.uint64).reshape(shape)
    if out is None:
        return made
    if out.dtype != rgrad.uint64:
        raise RuntimeError(f"Expected result to be of dtype uint64, but got {kind_of(out)}")
    return write_out("hash_tensor", made, out)
