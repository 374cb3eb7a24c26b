"""How functions of numbers take their arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import _C
from rgrad._out import refuse_partial_overlap, write_out

Tensor = _C.Tensor


def wide(t: Tensor) -> Tensor:
    """The tensor in float64 if its device supports that, else in float32."""
    is_double = not t.is_cuda or rgrad.gpu.get_device_properties(t.device)["float64"]
    return t.double() if is_double else t.float()


def elementwise(function: Callable[..., Tensor]) -> Callable[..., Any]:
    """Makes a function of tensors in `wide` precision one of tensors and numbers of any dtype, with `out=`.

    The result has the promoted dtype, or the default one for integers. At least one argument must be a tensor.
    """

    @functools.wraps(function)
    def call(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
        like = next((a for a in args if isinstance(a, Tensor)), None)
        if like is None or not all(isinstance(a, (Tensor, int, float)) for a in args):
            types = ", ".join(type(a).__name__ for a in args)
            raise TypeError(f"{function.__name__}() received an invalid combination of arguments - got ({types})")
        if out is not None and not function.__name__.startswith("_"):
            refuse_partial_overlap(out, *args)
        dtype = functools.reduce(rgrad.promote_types, (rgrad.result_type(like, a) for a in args))
        if not dtype.is_floating_point:
            dtype = rgrad.get_default_dtype()
        device = next((a.device for a in args if isinstance(a, Tensor) and a.dim()), like.device)
        tensors = [a if isinstance(a, Tensor) else rgrad.tensor(a, dtype=dtype, device=device) for a in args]
        # The steps of large tensors are computed together, without intermediate results in memory.
        with rgrad.defer():
            made = function(*(wide(t.to(dtype)) for t in tensors), **kwargs).to(dtype)
        return made if out is None else write_out(function.__name__, made, out)

    return call


def in_place(function: Callable[..., Tensor]) -> Callable[..., Any]:
    """The form of a function that overwrites its first argument."""

    @functools.wraps(function)
    def call(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        # A copy, as the function may keep its argument for the gradient.
        return self.copy_(function(self.clone(), *args, **kwargs))

    call.__name__ = call.__qualname__ = function.__name__ + "_"
    call.__doc__ = f"As `{function.__name__}`, in place."
    return call
