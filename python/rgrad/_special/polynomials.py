"""Orthogonal polynomials, by recurrences (Abramowitz and Stegun: Handbook of Mathematical Functions, table 22.7)."""

from __future__ import annotations

from collections.abc import Callable

import rgrad
from rgrad import _C

from .common import elementwise

Tensor = _C.Tensor

_MOST = 100_000


def _recur(x: Tensor, n: Tensor, first: Tensor, step: Callable[[int, Tensor, Tensor], Tensor]) -> Tensor:
    """The polynomials of the orders n, elementwise; 0 for a negative order.

    Args:
        x: where they are taken.
        n: the orders, which are cut to integers.
        first: the polynomial of order 1 at x; that of order 0 is 1.
        step: the polynomial of order k + 1, from k and those of orders k and k - 1.
    """
    orders = n.detach().trunc()
    last = 0 if orders.is_meta or orders.numel() == 0 else int(_C._batch_value(orders)[0].max())
    if last > _MOST:
        raise RuntimeError(f"polynomials have orders up to {_MOST}, but got {last}")
    before, value = rgrad.ones_like(x), first
    made = rgrad.where(orders == 0, before, rgrad.zeros_like(before * orders))
    for k in range(1, last + 1):
        made = rgrad.where(orders == k, value, made)
        before, value = value, step(k, value, before)
    return made


def _chebyshev(x: Tensor, n: Tensor, first: Tensor) -> Tensor:
    return _recur(x, n, first, lambda k, value, before: 2 * x * value - before)


def _made(name: str, text: str, compute: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """A public function of x and n."""

    def function(input: Tensor, n: Tensor) -> Tensor:
        return compute(input, n)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{text}

    Args:
        input: x, a tensor or a number.
        n: the orders, a tensor or a number, up to {_MOST}; each is a step for all elements.
        out: receives the result.
    """
    return elementwise(function)


_KINDS: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "t": ("first", lambda x: x),
    "u": ("second", lambda x: 2 * x),
    "v": ("third", lambda x: 2 * x - 1),
    "w": ("fourth", lambda x: 2 * x + 1),
}


def _of_kind(kind: str, shifted: bool) -> Callable[..., Tensor]:
    number, first = _KINDS[kind]
    text = f"The Chebyshev polynomials of the {number} kind" + (", at 2 x - 1." if shifted else ".")

    def compute(x: Tensor, n: Tensor) -> Tensor:
        x = 2 * x - 1 if shifted else x
        return _chebyshev(x, n, first(x))

    return _made(f"{'shifted_' if shifted else ''}chebyshev_polynomial_{kind}", text, compute)


chebyshev_polynomial_t = _of_kind("t", False)
chebyshev_polynomial_u = _of_kind("u", False)
chebyshev_polynomial_v = _of_kind("v", False)
chebyshev_polynomial_w = _of_kind("w", False)
shifted_chebyshev_polynomial_t = _of_kind("t", True)
shifted_chebyshev_polynomial_u = _of_kind("u", True)
shifted_chebyshev_polynomial_v = _of_kind("v", True)
shifted_chebyshev_polynomial_w = _of_kind("w", True)

hermite_polynomial_h = _made(
    "hermite_polynomial_h",
    "The Hermite polynomials of physics.",
    lambda x, n: _recur(x, n, 2 * x, lambda k, value, before: 2 * (x * value - k * before)),
)
hermite_polynomial_he = _made(
    "hermite_polynomial_he",
    "The Hermite polynomials of probability.",
    lambda x, n: _recur(x, n, x, lambda k, value, before: x * value - k * before),
)
laguerre_polynomial_l = _made(
    "laguerre_polynomial_l",
    "The Laguerre polynomials.",
    lambda x, n: _recur(x, n, 1 - x, lambda k, value, before: ((2 * k + 1 - x) * value - k * before) / (k + 1)),
)
legendre_polynomial_p = _made(
    "legendre_polynomial_p",
    "The Legendre polynomials.",
    lambda x, n: _recur(x, n, x, lambda k, value, before: ((2 * k + 1) * x * value - k * before) / (k + 1)),
)
