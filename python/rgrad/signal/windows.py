"""Window functions.

All take the number of points M, and as keywords `sym`, whether the window is symmetric, for filters, or periodic, for
spectra; a dtype, float32 or float64; a layout; a device; and `requires_grad`. Values are computed in float64. Let
x = 2πn / (M - 1), or 2πn / M for a periodic window, for n = 0 … M - 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, TypedDict, Unpack

import rgrad
from rgrad import _C

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]

Tensor = _C.Tensor


class WindowOptions(TypedDict, total=False):
    """What every window takes by keyword, beside `sym`.

    Attributes:
        dtype: float32 or float64; the default dtype by default.
        layout: strided.
        device: of the result.
        requires_grad: whether the result requires a gradient.
    """

    dtype: rgrad.dtype | None
    layout: Any
    device: Any
    requires_grad: bool


def _window(
    name: str,
    formula: Callable[[float, float], float],
    M: int,
    sym: bool,
    alone: float = 1.0,
    *,
    dtype: rgrad.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A window by a formula of the point and of M - 1 (or M of a periodic window); `alone` is that of one point."""
    dtype = rgrad.get_default_dtype() if dtype is None else dtype
    if not isinstance(M, int):
        raise TypeError(f"{name} expects an integer window length, got: {type(M).__name__}")
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and layout is not rgrad.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (rgrad.float32, rgrad.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    length = M - 1 if sym else M
    values = [alone] if M == 1 else [formula(n, length) for n in range(M)]
    return rgrad.tensor(values, dtype=dtype, device=device, requires_grad=requires_grad)


def _cosine_sum(a: list[float]) -> Callable[[float, float], float]:
    def formula(n: float, length: float) -> float:
        x = 2 * math.pi * n / length
        return sum((-1) ** i * c * math.cos(i * x) for i, c in enumerate(a))

    return formula


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Unpack[WindowOptions]) -> Tensor:
    """Sums cosines: ``a[0] - a[1] cos(x) + a[2] cos(2x) - …``.

    Args:
        M: number of points.
        a: the coefficients.
        sym: whether the window is symmetric.
        **options: dtype, layout, device, requires_grad.

    Raises:
        TypeError: the coefficients are no list or tuple.
        ValueError: there are none, or M is negative, or the dtype is another one.
    """
    if not isinstance(a, (list, tuple)):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return _window("general_cosine", _cosine_sum(list(a)), M, sym, **options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Unpack[WindowOptions]) -> Tensor:
    """``alpha - (1 - alpha) cos(x)``.

    Args:
        M: number of points.
        alpha: the coefficient.
        sym: whether the window is symmetric.
        **options: dtype, layout, device, requires_grad.
    """
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Unpack[WindowOptions]) -> Tensor:
    """Hamming's window: ``0.54 - 0.46 cos(x)``.

    Args:
        M: number of points.
        sym: whether the window is symmetric.
        **options: dtype, layout, device, requires_grad.
    """
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Unpack[WindowOptions]) -> Tensor:
    """Hann's window: ``(1 - cos(x)) / 2``.

    Args:
        M: number of points.
        sym: whether the window is symmetric.
        **options: dtype, layout, device, requires_grad.

    >>> rgrad.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Unpack[WindowOptions]) -> Tensor:
    """Blackman's window: ``0.42 - 0.5 cos(x) + 0.08 cos(2x)``.

    Args:
        M: number of points.
        sym: whether the window is symmetric.
        **options: dtype, layout, device, requires_grad.
    """
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def nuttall(M: int, *, sym: bool = True, **options: Unpack[WindowOptions]) -> Tensor:
    """Nuttall's minimum 4-term Blackman-Harris window.

    Args:
        M: number of points.
        sym: whether the window is symmetric.
        **options: dtype, layout, device, requires_grad.
    """
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)


def bartlett(M: int, *, sym: bool = True, **options: Unpack[WindowOptions]) -> Tensor:
    """Bartlett's window, a triangle: ``1 - |2n / (M - 1) - 1|``.

    Args:
        M: number of points.
        sym: whether the window is symmetric.
        **options: dtype, layout, device, requires_grad.
    """

    def formula(n: float, length: float) -> float:
        return 1 - abs(2 * n / length - 1)

    return _window("bartlett", formula, M, sym, **options)


def cosine(M: int, *, sym: bool = True, **options: Unpack[WindowOptions]) -> Tensor:
    """Half a period of a sine: ``sin(π (n + 1/2) / M)``, with M + 1 for a periodic window.

    Args:
        M: number of points.
        sym: whether the window is symmetric.
        **options: dtype, layout, device, requires_grad.
    """

    def formula(n: float, length: float) -> float:
        return math.sin(math.pi * (n + 0.5) / (length + 1))

    return _window("cosine", formula, M, sym, **options)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    **options: Unpack[WindowOptions],
) -> Tensor:
    """``exp(-|n - center| / tau)``.

    Args:
        M: number of points.
        center: where it is 1; the middle if None, as it must be for symmetric windows.
        tau: the decay, above 0.
        sym: whether the window is symmetric.
        **options: dtype, layout, device, requires_grad.
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")

    def formula(n: float, length: float) -> float:
        return math.exp(-abs(n - (length / 2 if center is None else center)) / tau)

    alone = 1.0 if center is None else formula(0, 0)
    return _window("exponential", formula, M, sym, alone, **options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Unpack[WindowOptions]) -> Tensor:
    """``exp(-(n - (M - 1) / 2)² / (2 std²))``.

    Args:
        M: number of points.
        std: the standard deviation, above 0.
        sym: whether the window is symmetric.
        **options: dtype, layout, device, requires_grad.
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")

    def formula(n: float, length: float) -> float:
        return math.exp(-(((n - length / 2) / std) ** 2) / 2)

    return _window("gaussian", formula, M, sym, **options)


def _bessel_i0(x: float) -> float:
    """The modified Bessel function of order 0, by its power series."""
    total = term = 1.0
    k = 0
    while term > 1e-17 * total:
        k += 1
        term *= (x / (2 * k)) ** 2
        total += term
    return total


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Unpack[WindowOptions]) -> Tensor:
    """Kaiser's window: ``I₀(beta √(1 - (2n / (M - 1) - 1)²)) / I₀(beta)``.

    Args:
        M: number of points.
        beta: the shape, not negative.
        sym: whether the window is symmetric.
        **options: dtype, layout, device, requires_grad.
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    top = _bessel_i0(beta)

    def formula(n: float, length: float) -> float:
        return _bessel_i0(beta * math.sqrt(max(0.0, 1 - (2 * n / length - 1) ** 2))) / top

    return _window("kaiser", formula, M, sym, **options)
