"""Weights of samples that fall towards both ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import _C

Tensor = _C.Tensor


def _window(
    name: str, window_length: int, periodic: bool, options: dict[str, Any], shape: Callable[[Tensor], Tensor]
) -> Tensor:
    """A window from its function of the place, which goes from 0 to 1, in float64. A single sample has the weight 1."""
    dtype = options["dtype"] or rgrad.get_default_dtype()
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name}_window expects floating point dtypes, got: {dtype}")
    if window_length < 0:
        raise RuntimeError(f"{name}_window requires non-negative window_length, got window_length={window_length}")
    last = window_length if periodic else window_length - 1
    places = rgrad.arange(window_length, dtype=rgrad.float64, device="cpu") / max(last, 1)
    made = (rgrad.ones_like(places) if window_length == 1 else shape(places)).to(dtype)
    made = made.to(options["device"] or rgrad.get_default_device())
    return _C._require_grad(made) if options["requires_grad"] else made


def _cosines(*coefficients: float) -> Callable[[Tensor], Tensor]:
    """``Σ (-1)^i a_i cos(2 π i t)``."""

    def shape(t: Tensor) -> Tensor:
        total = rgrad.zeros_like(t)
        for i, a in enumerate(coefficients):
            total = total + (-a if i % 2 else a) * (2 * math.pi * i * t).cos()
        return total

    return shape


def _options(dtype: Any, device: Any, requires_grad: bool) -> dict[str, Any]:
    return {"dtype": dtype, "device": device, "requires_grad": requires_grad}


def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A triangle.

    Args:
        window_length: how many samples.
        periodic: whether the window is the beginning of a symmetric one of one sample more.
        dtype: a floating-point dtype; the default one if None.
        layout: must be strided.
        device: where the result is to be.
        requires_grad: whether the result requires gradients.
        pin_memory: makes no difference.
    """
    return _window(
        "bartlett", window_length, periodic, _options(dtype, device, requires_grad), lambda t: 1 - (2 * t - 1).abs()
    )


def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Blackman's window; see `bartlett_window` for the arguments."""
    return _window(
        "blackman", window_length, periodic, _options(dtype, device, requires_grad), _cosines(0.42, 0.5, 0.08)
    )


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """``alpha - beta cos``; see `bartlett_window` for the other arguments."""
    return _window("hamming", window_length, periodic, _options(dtype, device, requires_grad), _cosines(alpha, beta))


def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Hann's window; see `bartlett_window` for the arguments."""
    return _window("hann", window_length, periodic, _options(dtype, device, requires_grad), _cosines(0.5, 0.5))


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Kaiser's window, a Bessel function of a half circle of radius ``beta``; see `bartlett_window` for the rest."""
    scale = rgrad.special.i0(rgrad.tensor(beta, dtype=rgrad.float64, device="cpu"))

    def shape(t: Tensor) -> Tensor:
        return rgrad.special.i0(beta * (1 - (2 * t - 1).square()).clamp(min=0).sqrt()) / scale

    return _window("kaiser", window_length, periodic, _options(dtype, device, requires_grad), shape)
