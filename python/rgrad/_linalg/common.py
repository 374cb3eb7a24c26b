"""Checks, and forms of arguments and results, that the functions of `rgrad.linalg` share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import rgrad
from rgrad import _C
from rgrad._out import kind_of, write_exactly, write_out

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


def expect_real(kernel: str, A: Tensor) -> None:
    """Raises NotImplementedError unless the dtype is float32 or float64."""
    if A.dtype not in (rgrad.float32, rgrad.float64):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{kind_of(A)}'")


def holds_anywhere(mask: Tensor) -> bool:
    """Whether a mask is true for any element, in `vmap` of any slice."""
    return bool(_C._batch_value(mask)[0].any())


def no_derivative(name: str) -> NoReturn:
    """Raises the error for the gradient of a function that has none."""
    raise NotImplementedError(f"the derivative for '{name}' is not implemented.")


def with_out(name: str, recorded: bool | Callable[..., bool] = False) -> Any:
    """Adds the keyword argument `out` to a function, a tensor to whose dtype the result can be cast.

    Args:
        name: of the function, for errors.
        recorded: see `write_out`; or a function that says it of the call's arguments.
    """

    def add(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
            result = function(*args, **kwargs)
            if out is None:
                return result
            if not rgrad.can_cast(result.dtype, out.dtype):
                raise RuntimeError(
                    f"{name}: Expected result to be safely castable from {kind_of(result)} dtype, but got result with "
                    f"dtype {kind_of(out)}"
                )
            if out.device != result.device:
                raise RuntimeError(
                    f"{name}: Expected result and input tensors to be on the same device, but got result on "
                    f"{out.device} and input on {result.device}"
                )
            keeps_history = recorded(*args, **kwargs) if callable(recorded) else recorded
            return write_out(f"linalg_{function.__name__}", result, out, keeps_history)

        return call

    return add


def named(
    name: str, made: tuple[Tensor, ...], out: Any = None, write: Callable[[str, Tensor, Tensor], Tensor] = write_exactly
) -> Any:
    """Several results as the named tuple of `rgrad.return_types`, stored in the tensors of `out` if given."""
    from rgrad import return_types

    if out is None:
        return getattr(return_types, name)(made)
    if len(out) != len(made):
        raise TypeError(f"expected tuple of {len(made)} elements but got {len(out)}")
    stored = tuple(write(name, value, target) for value, target in zip(made, out, strict=True))
    return getattr(return_types, f"{name}_out")(stored)


def wide(t: Tensor) -> Tensor:
    """The tensor in float64 if its device supports that."""
    return t if t.is_cuda and not rgrad.gpu.get_device_properties(t.device)["float64"] else t.double()


def broadcast_batch(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Expands the dimensions in front of two batches of matrices to one shape."""
    batch = rgrad.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    return A.expand(*batch, *A.shape[-2:]), B.expand(*batch, *B.shape[-2:])
