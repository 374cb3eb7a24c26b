"""Quasi-random numbers: Sobol sequences.

Note [Sobol numbers]
~~~~~~~~~~~~~~~~~~~~
Every dimension but the first belongs to a primitive polynomial over the integers modulo 2, in the order of degree and
coefficients, and has odd initial numbers m₁ … m_s, as many as the degree s, with m_k < 2ᵏ. For a polynomial
xˢ + a₁ xˢ⁻¹ + … + a_{s-1} x + 1 the others are

    m_k = 2 a₁ m_{k-1} ⊕ 2² a₂ m_{k-2} ⊕ … ⊕ 2ˢ m_{k-s} ⊕ m_{k-s}

and the direction numbers are v_k = m_k / 2ᵏ. Point n is the exclusive or of the v_k of the bits of n's Gray code. The
initial numbers are those of Joe and Kuo ("Constructing Sobol sequences with better two-dimensional projections", 2008).
The file beside this module has those of the first 1111 dimensions, to degree 13: of every m_k after m₁, which is 1, the
k - 1 bits above the lowest, which is 1.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rgrad

if TYPE_CHECKING:
    from rgrad import Tensor

__all__ = ["SobolEngine"]

_BITS = 30


def _times(a: int, b: int, modulus: int, degree: int) -> int:
    """The product of two polynomials over GF(2), whose coefficients are bits."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        b >>= 1
        a <<= 1
        if a >> degree & 1:
            a ^= modulus
    return product


def _power_of_x(exponent: int, modulus: int, degree: int) -> int:
    result, square = 1, 2
    while exponent:
        if exponent & 1:
            result = _times(result, square, modulus, degree)
        square = _times(square, square, modulus, degree)
        exponent >>= 1
    return result


def _prime_factors(n: int) -> set[int]:
    factors = set()
    for p in itertools.count(2):
        if p * p > n:
            return factors | ({n} if n > 1 else set())
        while n % p == 0:
            factors.add(p)
            n //= p
    raise AssertionError


def _primitive_polynomials() -> Iterator[tuple[int, int]]:
    """Degrees and coefficients, as bits, in increasing order: x has the order 2ˢ - 1 modulo each of them."""
    yield 1, 3
    for degree in itertools.count(2):
        order = (1 << degree) - 1
        parts = [order // factor for factor in _prime_factors(order)]
        for polynomial in range((1 << degree) | 1, 1 << (degree + 1), 2):
            if _power_of_x(order, polynomial, degree) == 1 and all(
                _power_of_x(part, polynomial, degree) != 1 for part in parts
            ):
                yield degree, polynomial


@functools.lru_cache(maxsize=8)
def _direction_numbers(dimension: int) -> tuple[tuple[int, ...], ...]:
    """For every dimension, v₁ … v₃₀ times 2³⁰; see Note [Sobol numbers]."""
    data = Path(__file__).with_name("_sobol_numbers.bin").read_bytes()
    bits, left = int.from_bytes(data, "big"), 8 * len(data)
    rows = [[1] * _BITS]
    for degree, polynomial in itertools.islice(_primitive_polynomials(), dimension - 1):
        numbers = [1]
        for k in range(1, degree):
            left -= k
            numbers.append((bits >> left & ((1 << k) - 1)) << 1 | 1)
        for k in range(degree, _BITS):
            value = numbers[k - degree] ^ numbers[k - degree] << degree
            for i in range(1, degree):
                if polynomial >> (degree - i) & 1:
                    value ^= numbers[k - i] << i
            numbers.append(value)
        rows.append(numbers[:_BITS])
    return tuple(tuple(m << (_BITS - 1 - k) for k, m in enumerate(row)) for row in rows)


def _random_bits(seed: int, count: int) -> Tensor:
    """PyTorch's random bits for a seed: the lowest ones of the numbers of a Mersenne Twister.

    So a seed scrambles a sequence as it does in PyTorch. (Matsumoto and Nishimura, "Mersenne Twister", 1998.)
    """
    import numpy

    numbers = numpy.random.RandomState(seed & 0xFFFFFFFF).randint(1 << 32, size=count, dtype=numpy.uint32)
    return rgrad.from_numpy((numbers & 1).astype(numpy.int64))


class SobolEngine:
    """Draws points of a Sobol sequence, which fill the unit cube more evenly than random ones.

    Args:
        dimension: size of the points, at most `MAXDIM`, 1111 (PyTorch's tables have 21201).
        scramble: whether the direction numbers are multiplied by random matrices and the points shifted (Owen's
            scrambling in the linear form of Matoušek, 1998).
        seed: of the scrambling; from the default generator if None.

    Raises:
        ValueError: the dimension is out of its range.

    >>> rgrad.quasirandom.SobolEngine(2).draw(4)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500],
            [0.2500, 0.7500]])
    """

    MAXBIT = _BITS
    MAXDIM = 1111

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        self.sobolstate = rgrad.tensor(_direction_numbers(dimension), dtype=rgrad.int64, device="cpu")
        self.shift = rgrad.zeros(dimension, dtype=rgrad.int64, device="cpu")
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**_BITS).reshape(1, -1)
        self.num_generated = 0

    def _scramble(self) -> None:
        seed = int(rgrad.randint(1 << 32, ()).item()) if self.seed is None else self.seed
        size = self.dimension * _BITS
        bits = _random_bits(seed, size * (_BITS + 1))
        self.shift = (bits[:size].view(self.dimension, _BITS) << rgrad.arange(_BITS, device="cpu")).sum(1)
        # Lower triangles with ones on the diagonal, applied to the bits of every direction number modulo 2.
        lower = bits[size:].view(self.dimension, _BITS, _BITS).tril(-1)
        lower = (lower + rgrad.eye(_BITS, dtype=rgrad.int64, device="cpu")).float()
        place = rgrad.arange(_BITS - 1, -1, -1, device="cpu")
        bits = (self.sobolstate.unsqueeze(1) >> place.view(1, -1, 1)) & 1
        mixed = (lower @ bits.float()).long() & 1
        self.sobolstate = (mixed << place.view(1, -1, 1)).sum(1)

    def _points(self, first: int, count: int) -> Tensor:
        """The points from number `first` on, times 2³⁰, int64 ``(count, dimension)``."""
        if first + count > 1 << _BITS:
            raise ValueError(f"a sequence has 2**{_BITS} points at most")
        number = rgrad.arange(first, first + count, device="cpu").unsqueeze(1)
        gray = number ^ (number >> 1)
        result = self.shift.expand(count, self.dimension)
        for bit in range(max(1, first + count).bit_length()):
            result = result ^ ((gray >> bit & 1) * self.sobolstate[:, bit])
        return result

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: rgrad.dtype | None = None) -> Tensor:
        """Draws the next points.

        Args:
            n: number of points.
            out: where the result is written.
            dtype: of the result; the default dtype if None.

        Returns:
            A tensor ``(n, dimension)`` of numbers in [0, 1).
        """
        dtype = rgrad.get_default_dtype() if dtype is None else dtype
        points = self._points(self.num_generated, n)
        self.num_generated += n
        if n:
            self.quasi = points[-1].clone()
        result = points.to(dtype) * 2.0**-_BITS
        if out is None:
            return result
        out.resize_(result.shape).copy_(result)
        return out

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: rgrad.dtype | None = None) -> Tensor:
        """Draws ``2**m`` points; with those drawn before, they must be a power of 2, as then they are balanced.

        Args:
            m: exponent of the number of points.
            out: where the result is written.
            dtype: of the result; the default dtype if None.

        Raises:
            ValueError: the number of all points would be no power of 2.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: n={self.num_generated}+2**{m}="
                f"{total}. draw() draws any number."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Returns to the first point, and returns the engine."""
        self.quasi = self.shift.clone()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skips points, and returns the engine.

        Args:
            n: number of points.
        """
        self.num_generated += n
        if self.num_generated:
            self.quasi = self._points(self.num_generated - 1, 1)[0]
        return self

    def __repr__(self) -> str:
        settings: dict[str, Any] = {"dimension": self.dimension}
        if self.scramble:
            settings["scramble"] = True
        if self.seed is not None:
            settings["seed"] = self.seed
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in settings.items())})"
