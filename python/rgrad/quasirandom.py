"""`torch.quasirandom`: Sobol points, which fill a cube more evenly than random ones."""

from __future__ import annotations

import functools
import struct
from pathlib import Path
from typing import Any

import rgrad
from rgrad import _C

Tensor = _C.Tensor

__all__ = ["SobolEngine"]

_BITS = 30

# Note [Direction numbers]
# A dimension has a primitive polynomial x^s + a_1 x^(s-1) + … + 1 over the field of two elements and odd numbers m_1 …
# m_s with m_k < 2^k; further ones follow as m_k = 2 a_1 m_(k-1) ^ 4 a_2 m_(k-2) ^ … ^ 2^s m_(k-s) ^ m_(k-s). The j-th
# bit of the Gray code of a point's number adds m_j / 2^j, without carry (Bratley and Fox: Algorithm 659, 1988). The
# polynomials and first numbers are those of Joe and Kuo (Constructing Sobol Sequences with Better Two-Dimensional
# Projections, 2008). The file has how many dimensions there are of each degree s, then bit by bit of each dimension a_1
# … a_(s-1) and m_1 … m_s without their first and last bits, which are 1 and known from s.


@functools.cache
def _table() -> tuple[list[int], str]:
    """The degrees of all dimensions but the first, and the bits of the file: Note [Direction numbers]."""
    data = Path(__file__).with_name("_sobol_directions.bin").read_bytes()
    counts = struct.unpack_from("<17H", data)
    degrees = [degree for degree, count in enumerate(counts) for _ in range(count)]
    length = sum(_length(degree) for degree in degrees)
    return degrees, f"{int.from_bytes(data[struct.calcsize('<17H') :], 'big'):0{length}b}"


def _length(degree: int) -> int:
    """How many bits of the file a dimension has."""
    return degree - 1 + degree * (degree - 1) // 2


def _directions(dimension: int) -> list[list[int]]:
    """The direction numbers of dimensions, as multiples of 2^-30."""
    degrees, bits = _table()
    made, at = [[1 << (_BITS - 1 - k) for k in range(_BITS)]], 0
    for degree in degrees[: dimension - 1]:
        inner = [bits[at + i] == "1" for i in range(degree - 1)]
        at += degree - 1
        m = [1]
        for k in range(1, degree):
            m.append(2 * int(bits[at : at + k], 2) + 1)
            at += k
        for k in range(degree, _BITS):
            value = m[k - degree] << degree ^ m[k - degree]
            for i, is_set in enumerate(inner, 1):
                value ^= m[k - i] << i if is_set else 0
            m.append(value)
        made.append([value << (_BITS - 1 - k) for k, value in enumerate(m)])
    return made


class SobolEngine:
    """Draws the points of a Sobol sequence in a cube, in order.

    Args:
        dimension: of the cube, up to 4096.
        scramble: whether the points are scrambled at random, which keeps them as even.
        seed: of the scrambling; it gives the points that PyTorch gives for it. By default rgrad's generator is used.

    >>> import rgrad
    >>> rgrad.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = _BITS
    MAXDIM = 4096

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.dimension = dimension
        self.scramble = scramble
        self.seed = seed
        self.sobolstate = rgrad.tensor(_directions(dimension))
        self.shift = rgrad.zeros(dimension, dtype=rgrad.int64)
        if scramble:
            self._scramble()
        self.num_generated = 0

    def _scramble(self) -> None:
        """Multiplies the bits of each direction number with a random triangular matrix, and draws a random shift (Owen:
        Scrambling Sobol' and Niederreiter-Xing Points, 1998; Matoušek: On the L2-Discrepancy for Anchored Boxes, 1998).
        """
        count = self.dimension
        draws = _random_bits(count * _BITS + count * _BITS * _BITS, self.seed)
        powers = rgrad.ones(_BITS, dtype=rgrad.int64) << rgrad.arange(_BITS)
        self.shift = (draws[: count * _BITS].view(count, _BITS) * powers).sum(1)
        eye = rgrad.eye(_BITS, dtype=rgrad.int64)
        lower = draws[count * _BITS :].view(count, _BITS, _BITS).tril(-1) + eye
        # The first row and column belong to the highest bit.
        places = rgrad.arange(_BITS - 1, -1, -1)
        made = rgrad.zeros_like(self.sobolstate)
        for row, place in enumerate(places.tolist()):
            mask = (lower[:, row] << places).sum(1, keepdim=True)
            made = made | (_parity(self.sobolstate & mask) << place)
        self.sobolstate = made

    @property
    def quasi(self) -> Tensor:
        """The last point that was drawn, or the first one, in units of 2^-30."""
        return self._points(max(self.num_generated - 1, 0), 1)[0]

    def _points(self, start: int, n: int) -> Tensor:
        number = rgrad.arange(start, start + n)
        gray = (number ^ (number >> 1)).unsqueeze(-1)
        points = self.shift.expand(n, self.dimension)
        for bit in range((start + n).bit_length()):
            points = points ^ ((gray >> bit & 1) * self.sobolstate[:, bit])
        return points

    def _check(self, n: int) -> None:
        if n < 0:
            raise ValueError(f"n must be non-negative, but got {n}")
        if self.num_generated + n > 1 << _BITS:
            raise ValueError(f"SobolEngine can generate at most {1 << _BITS} points")

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next points, (n, dimension).

        Args:
            n: how many.
            out: receives the result.
            dtype: float32 or float64; the default dtype if None.
        """
        self._check(n)
        dtype = dtype or rgrad.get_default_dtype()
        if dtype not in (rgrad.float32, rgrad.float64):
            raise NotImplementedError(f"SobolEngine.draw gives float32 or float64, but got {dtype}")
        made = (self._points(self.num_generated, n).double() * 2.0**-_BITS).to(dtype)
        self.num_generated += n
        return made if out is None else out.resize_(made.shape).copy_(made)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next ``2^m`` points, where all points so far are as many as a power of two.

        Args:
            m: the exponent.
            out: receives the result.
            dtype: float32 or float64; the default dtype if None.
        """
        n, before = 2**m, self.num_generated
        total = before + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{before} points have been previously generated, then: n={before}+2**{m}={total}. "
                "SobolEngine.draw() draws any number."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Begins again at the first point."""
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leaves out the next n points.

        Args:
            n: how many.
        """
        self._check(n)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        text = f"dimension={self.dimension}"
        text += ", scramble=True" if self.scramble else ""
        text += f", seed={self.seed}" if self.seed is not None else ""
        return f"SobolEngine({text})"


def _parity(bits: Tensor) -> Tensor:
    """1 where the number of ones among the bits is odd."""
    for half in (16, 8, 4, 2, 1):
        bits = bits ^ (bits >> half)
    return bits & 1


def _random_bits(n: int, seed: int | None) -> Tensor:
    """Random zeros and ones; for a seed the last bits of what a Mersenne twister draws."""
    if seed is None:
        return rgrad.randint(2, (n,))
    import numpy as np

    twister = np.random.MT19937()
    twister._legacy_seeding(seed & 0xFFFFFFFF)  # pyright: ignore[reportAttributeAccessIssue]
    return rgrad.from_numpy((twister.random_raw(n) & np.uint64(1)).astype(np.int64))
