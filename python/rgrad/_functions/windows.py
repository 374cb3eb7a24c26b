"""Window functions by their older names; those of `rgrad.signal.windows` say more of them."""

from __future__ import annotations

from typing import Any

from rgrad import _C
from rgrad.signal.windows import of_length

Tensor = _C.Tensor


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
    return of_length("bartlett", window_length, periodic, _options(dtype, device, requires_grad), ())


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
    return of_length("blackman", window_length, periodic, _options(dtype, device, requires_grad), (0.42, 0.5, 0.08))


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
    return of_length("hamming", window_length, periodic, _options(dtype, device, requires_grad), (alpha, beta))


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
    return of_length("hann", window_length, periodic, _options(dtype, device, requires_grad), (0.5, 0.5))


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
    """Kaiser's window; see `bartlett_window` for the other arguments, and `rgrad.signal.windows.kaiser` for beta."""
    return of_length("kaiser", window_length, periodic, _options(dtype, device, requires_grad), (beta,))
