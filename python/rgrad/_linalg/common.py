"""Checks, and forms of arguments and results, that the functions of `rgrad.linalg` share."""

from __future__ import annotations

import functools
from typing import Any, NoReturn

import rgrad
from rgrad import _C

Tensor = _C.Tensor


def expect_matrix(name: str, A: Tensor, argument: str = "A") -> None:
    """Raises RuntimeError for a tensor of less than two dimensions."""
    if A.dim() < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")


def expect_square(name: str, A: Tensor) -> int:
    """The size of square matrices; raises RuntimeError for others."""
    expect_matrix(name, A)
    rows, columns = A.shape[-2:]
    if rows != columns:
        raise RuntimeError(f"{name}: A must be batches of square matrices, but they are {rows} by {columns} matrices")
    return columns


def kind_of(A: Tensor) -> str:
    """PyTorch's word for a dtype in errors: Float, Long and so on."""
    return A.type().rpartition(".")[2].removesuffix("Tensor")


def expect_real(kernel: str, A: Tensor) -> None:
    """Raises NotImplementedError unless the dtype is float32 or float64."""
    if A.dtype not in (rgrad.float32, rgrad.float64):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{kind_of(A)}'")


def no_derivative(name: str) -> NoReturn:
    """Raises the error for the gradient of a function that has none."""
    raise NotImplementedError(f"the derivative for '{name}' is not implemented.")


def with_out(function: Any) -> Any:
    """Adds the keyword argument `out` to a function."""

    @functools.wraps(function)
    def call(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
        result = function(*args, **kwargs)
        if out is None:
            return result
        if out.shape != result.shape:
            out.resize_(result.shape)
        return out.copy_(result)

    return call


def named(name: str, made: tuple[Tensor, ...], out: Any = None) -> Any:
    """Several results as the named tuple of `rgrad.return_types`, written to the tensors of `out` if given."""
    from rgrad import return_types

    if out is not None:
        for target, value in zip(out, made, strict=True):
            target.resize_(value.shape).copy_(value)
        made = tuple(out)
    return getattr(return_types, name)(made)


def wide(t: Tensor) -> Tensor:
    """The tensor in float64 if its device supports that."""
    return t if t.is_cuda and not rgrad.gpu.get_device_properties(t.device)["float64"] else t.double()


def broadcast_batch(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Expands the dimensions in front of two batches of matrices to one shape."""
    batch = rgrad.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    return A.expand(*batch, *A.shape[-2:]), B.expand(*batch, *B.shape[-2:])
