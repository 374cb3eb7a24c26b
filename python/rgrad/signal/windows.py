"""`torch.signal.windows`: weights of samples that fall towards both ends.

Each function takes the number of samples M, and ``sym``: whether the window is symmetric, or else the beginning of one
of M + 1 samples, as for periodic data. ``dtype`` is float32 or float64, the default dtype if None; ``layout`` must be
strided.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import rgrad
from rgrad import _C
from rgrad._layout import strided

Tensor = _C.Tensor

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


class _Samples:
    """The places of samples, and how windows are made of them.

    Args:
        name: of the function, for errors.
        M: how many samples.
        sym: whether the window is symmetric.
        options: dtype, layout, device and requires_grad.
    """

    def __init__(self, name: str, M: int, sym: bool, options: dict[str, Any]) -> None:
        self.dtype = options["dtype"] or rgrad.get_default_dtype()
        self.options = options
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        if options["layout"] is not strided:
            raise ValueError(f"{name} is implemented for strided tensors only, got: {options['layout']}")
        if self.dtype not in (rgrad.float32, rgrad.float64):
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {self.dtype}")
        self.count = M
        self.last = M - 1 if sym else M
        self.places = rgrad.arange(M, dtype=rgrad.float64)

    def share(self) -> Tensor:
        """The places as shares of the length, from 0 to 1."""
        return self.places / max(self.last, 1)

    def made(self, values: Tensor) -> Tensor:
        """The window of the requested dtype and device. A single sample has the weight 1."""
        values = rgrad.ones_like(values) if self.count == 1 else values
        values = values.to(dtype=self.dtype, device=self.options["device"])
        return values.requires_grad_() if self.options["requires_grad"] else values


def _cosines(samples: _Samples, coefficients: Iterable[float]) -> Tensor:
    """``Σ (-1)^i a_i cos(2 π i k)`` for shares k of the length."""
    total = rgrad.zeros_like(samples.places)
    for i, a in enumerate(coefficients):
        total = total + (-a if i % 2 else a) * (2 * math.pi * i * samples.share()).cos()
    return samples.made(total)


def _kaiser(samples: _Samples, beta: float) -> Tensor:
    inside = (1 - (2 * samples.share() - 1).square()).clamp(min=0).sqrt()
    return samples.made(rgrad.special.i0(beta * inside) / rgrad.special.i0(samples.places.new_tensor(beta)))


def _bartlett(samples: _Samples) -> Tensor:
    return samples.made(1 - (2 * samples.share() - 1).abs())


def _options(dtype: Any, layout: Any, device: Any, requires_grad: bool) -> dict[str, Any]:
    return {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle that is 0 at its ends; see the module for the arguments."""
    return _bartlett(_Samples("bartlett", M, sym, _options(dtype, layout, device, requires_grad)))


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A sum of cosines of 0, 1, 2, … periods with the weights ``a`` and alternating signs; see the module."""
    samples = _Samples("general_cosine", M, sym, _options(dtype, layout, device, requires_grad))
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    coefficients = list(a)
    if not coefficients:
        raise ValueError("Coefficients cannot be empty")
    return _cosines(samples, coefficients)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``alpha - (1 - alpha) cos``; see the module for the other arguments."""
    samples = _Samples("general_hamming", M, sym, _options(dtype, layout, device, requires_grad))
    return _cosines(samples, (alpha, 1 - alpha))


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Hamming's window, ``0.54 - 0.46 cos``; see the module for the arguments."""
    return _cosines(_Samples("hamming", M, sym, _options(dtype, layout, device, requires_grad)), (0.54, 0.46))


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Hann's window, ``0.5 - 0.5 cos``; see the module for the arguments.

    >>> import rgrad
    >>> rgrad.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _cosines(_Samples("hann", M, sym, _options(dtype, layout, device, requires_grad)), (0.5, 0.5))


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Blackman's window of three cosines; see the module for the arguments."""
    return _cosines(_Samples("blackman", M, sym, _options(dtype, layout, device, requires_grad)), (0.42, 0.5, 0.08))


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Nuttall's window of four cosines (Some Windows with Very Good Sidelobe Behavior, 1981); see the module."""
    samples = _Samples("nuttall", M, sym, _options(dtype, layout, device, requires_grad))
    return _cosines(samples, (0.3635819, 0.4891775, 0.1365995, 0.0106411))


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Half a period of a sine, between its zeros; see the module for the arguments."""
    samples = _Samples("cosine", M, sym, _options(dtype, layout, device, requires_grad))
    return samples.made((math.pi * (samples.places + 0.5) / (samples.last + 1)).sin())


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``exp(-|k - center| / tau)``; the center must be None if ``sym``; see the module for the other arguments."""
    samples = _Samples("exponential", M, sym, _options(dtype, layout, device, requires_grad))
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = samples.last / 2 if center is None else center
    return samples.made((-(samples.places - middle).abs() / tau).exp())


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The density of a normal distribution, 1 in the middle; see the module for the other arguments."""
    samples = _Samples("gaussian", M, sym, _options(dtype, layout, device, requires_grad))
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return samples.made((-((samples.places - samples.last / 2) / std).square() / 2).exp())


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Kaiser's window: a modified Bessel function of a half circle of radius ``beta``; see the module."""
    samples = _Samples("kaiser", M, sym, _options(dtype, layout, device, requires_grad))
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _kaiser(samples, beta)


def of_length(
    name: str, window_length: int, periodic: bool, options: dict[str, Any], parameters: tuple[float, ...]
) -> Tensor:
    """The windows that are functions of `rgrad` itself, with RuntimeErrors and in any floating-point dtype.

    Args:
        name: without "_window".
        window_length: how many samples.
        periodic: the opposite of ``sym``.
        options: dtype, layout, device and requires_grad.
        parameters: the coefficients of cosines, or beta of Kaiser's window.
    """
    dtype = options["dtype"] or rgrad.get_default_dtype()
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name}_window expects floating point dtypes, got: {dtype}")
    if window_length < 0:
        raise RuntimeError(f"{name}_window requires non-negative window_length, got window_length={window_length}")
    plain = {**options, "dtype": rgrad.float64, "layout": strided, "requires_grad": False}
    samples = _Samples(name, window_length, not periodic, plain)
    if name == "kaiser":
        made = _kaiser(samples, *parameters)
    else:
        made = _cosines(samples, parameters) if parameters else _bartlett(samples)
    made = made.to(dtype)
    return made.requires_grad_() if options["requires_grad"] else made
