"""`torch.fft`: frequencies, and what orders them. Transforms are of complex numbers, which rgrad has no tensors of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad import _C
from rgrad._absent import absent_function

Tensor = _C.Tensor

_WHY = "there are no complex tensors"
_TRANSFORMS = tuple(f"{kind}fft{dims}" for kind in ("", "i", "r", "ir", "h", "ih") for dims in ("", "2", "n"))

__all__ = [*_TRANSFORMS, "fftfreq", "fftshift", "ifftshift", "rfftfreq"]  # pyright: ignore[reportUnsupportedDunderAll]

globals().update({name: absent_function(f"torch.fft.{name}", _WHY) for name in _TRANSFORMS})


def _scaled(name: str, whole: Tensor, n: int, d: float, dtype: Any, out: Tensor | None, requires_grad: bool) -> Tensor:
    dtype = dtype or (rgrad.get_default_dtype() if out is None else out.dtype)
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    scale = 1 / (n * d) if n * d else rgrad.inf
    made = (whole.double() * scale).to(dtype) if whole.device.type == "cpu" else whole.to(dtype) * scale
    if out is not None:
        made = out.resize_(made.shape).copy_(made)
    return _C._require_grad(made) if requires_grad else made


def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of the n results of a transform: ``0, 1, …, -2, -1``, divided by ``n d``.

    Args:
        n: how many samples were transformed.
        d: the distance of the samples.
        out: receives the result.
        dtype: a floating-point dtype; the default one if None.
        layout: must be strided.
        device: where the result is to be.
        requires_grad: whether the result requires gradients.

    >>> import rgrad
    >>> rgrad.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    whole = rgrad.arange(n, device=device)
    whole = rgrad.where(whole >= (n + 1) // 2, whole - n, whole)
    return _scaled("fftfreq", whole, n, d, dtype, out, requires_grad)


def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of the results of a transform of n real numbers: ``0, 1, …, n // 2``, divided by ``n d``.

    Args:
        n: how many samples were transformed.
        d: the distance of the samples.
        out: receives the result.
        dtype: a floating-point dtype; the default one if None.
        layout: must be strided.
        device: where the result is to be.
        requires_grad: whether the result requires gradients.

    >>> import rgrad
    >>> rgrad.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    return _scaled("rfftfreq", rgrad.arange(n // 2 + 1, device=device), n, d, dtype, out, requires_grad)


def _dims(input: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    if dim is None:
        return list(range(input.dim()))
    dims = [dim] if isinstance(dim, int) else list(dim)
    for d in dims:
        if not -input.dim() <= d < input.dim():
            bounds = f"[{-input.dim()}, {input.dim() - 1}]"
            raise IndexError(f"Dimension out of range (expected to be in range of {bounds}, but got {d})")
    return dims


def fftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Moves the frequency 0 from the first place of each dimension to the middle.

    Args:
        input: of any shape and dtype.
        dim: the dimensions; all of them if None.

    >>> import rgrad
    >>> rgrad.fft.fftshift(rgrad.tensor([0, 1, 2, -2, -1]))
    tensor([-2, -1,  0,  1,  2])
    """
    dims = _dims(input, dim)
    return input.roll([input.size(d) // 2 for d in dims], dims)


def ifftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Undoes `fftshift`.

    Args:
        input: of any shape and dtype.
        dim: the dimensions; all of them if None.
    """
    dims = _dims(input, dim)
    return input.roll([(input.size(d) + 1) // 2 for d in dims], dims)
