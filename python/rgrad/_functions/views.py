"""Parts of tensors, and what is complex about real ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad import _C
from rgrad._out import write_exactly, write_out

Tensor = _C.Tensor


def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`rgrad.chunk`, whose results may be written to in place; they are copies."""
    return tuple(part.clone() for part in input.chunk(chunks, dim))


def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`rgrad.split`, whose results may be written to in place; they are copies."""
    return tuple(part.clone() for part in input.split(split_size, dim))


def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """`rgrad.split_with_sizes`, whose results may be written to in place; they are copies."""
    return tuple(part.clone() for part in input.split_with_sizes(list(split_sizes), dim))


def _copied(name: str, part: Tensor, out: Tensor | None) -> Tensor:
    return part.clone(memory_format=rgrad.contiguous_format) if out is None else write_exactly(name, part, out)


def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy without history."""
    return _copied("detach_copy", input.detach(), out)


def select_copy(input: Tensor, dim: int, index: int, *, out: Tensor | None = None) -> Tensor:
    """`rgrad.select` as a copy."""
    return _copied("select_copy", input.select(dim, index), out)


def slice_copy(
    input: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A slice of one dimension as a copy.

    Args:
        input: of any shape and dtype.
        dim: the dimension.
        start: the first index; the beginning if None.
        end: the index behind the last; the end if None.
        step: the distance of indices, positive.
        out: receives the result.
    """
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    return _copied("slice_copy", input.movedim(dim, 0)[start:end:step].movedim(0, dim), out)


def split_copy(
    input: Tensor, split_size: int, dim: int = 0, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...] | None:
    """`rgrad.split` as copies.

    Args:
        input: of any shape and dtype.
        split_size: the size of the parts along `dim`; the last may be smaller.
        dim: the dimension.
        out: a tensor for each part, of its shape; then nothing is returned.
    """
    parts = input.split(split_size, dim)
    if out is None:
        return tuple(_copied("split_copy", part, None) for part in parts)
    if len(out) != len(parts):
        raise RuntimeError(
            f"split_copy_Tensor_out() expected an out= argument of size {len(parts)}, got size {len(out)}"
        )
    for target, part in zip(out, parts, strict=True):
        target.copy_(part)
    return None


def _debug_has_internal_overlap(input: Tensor) -> int:
    """Whether two elements lie at one place in memory: 0 if none do, 1 if some do, 2 if the strides leave it open."""
    strides = sorted((stride, size) for stride, size in zip(input.stride(), input.shape, strict=True) if size > 1)
    if 0 in input.shape:
        return 0
    if strides and strides[0][0] == 0:
        return 1
    expected = 1
    for stride, size in strides:
        if stride != expected:
            return 2
        expected *= size
    return 0


def isreal(input: Tensor) -> Tensor:
    """Whether each element is a real number: all are."""
    return rgrad.ones_like(input, dtype=rgrad.bool)


def imag(input: Tensor) -> Tensor:
    """Raises an error, as no tensor is complex."""
    raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")


def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The conjugate: of real numbers they themselves, the same tensor."""
    return input if out is None else write_out("conj_physical", input, out)


def conj_physical_(input: Tensor) -> Tensor:
    """The conjugate, in place: the same tensor."""
    return input


def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The root of the sum of squares over dimensions.

    Args:
        input: of a floating-point dtype.
        dim: one dimension or several.
        keepdim: whether they are kept with the size 1.
        out: receives the result.
    """
    dims = [dim] if isinstance(dim, int) else list(dim)
    made = _C._linalg.vector_norm(input, 2, dims or None, keepdim)
    return made if out is None else write_exactly("frobenius_norm", made, out)


def nuclear_norm(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The sum of the singular values of matrices.

    Args:
        input: matrices, of two or more dimensions.
        dim: the dimensions of the matrices; by default the last two. May be `keepdim` in their place.
        keepdim: whether they are kept with the size 1.
        out: receives the result.
    """
    if isinstance(dim, bool):
        dim, keepdim = None, dim
    made = _C._linalg.matrix_norm(input, "nuc", list(dim) if dim is not None else (-2, -1), keepdim)
    return made if out is None else write_exactly("nuclear_norm", made, out)


def get_device(input: Tensor) -> int:
    """The number of the GPU that a tensor is on; -1 on the CPU."""
    return input.get_device()


def is_distributed(input: Tensor) -> bool:
    """False: no tensor is spread over processes."""
    return False


def from_file(
    filename: Any,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A vector over the beginning of a file, whose pages are read on use.

    Args:
        filename: the path.
        shared: whether writes change the file, which is then extended to the size; else they stay in memory.
        size: how many elements.
        dtype: the default dtype if None.
        layout: must be strided.
        device: must be the CPU.
        pin_memory: makes no difference.
    """
    from rgrad.storage import from_file as mapped

    if device is not None and rgrad.device(device).type != "cpu":
        raise RuntimeError(f"from_file maps memory of the CPU, but got device {device}")
    dtype = dtype or rgrad.get_default_dtype()
    if size == 0:
        return rgrad.empty(0, dtype=dtype)
    storage = mapped(filename, bool(shared), size * dtype.itemsize)
    return rgrad.empty(0, dtype=dtype).set_(storage)
