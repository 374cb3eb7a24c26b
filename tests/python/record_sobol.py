"""Writes python/rgrad/_sobol_directions.bin from PyTorch's engine, whose state is the table of Joe and Kuo.

    python tests/python/record_sobol.py

To be run where PyTorch is installed. Of each dimension but the first, the polynomial is found as the one whose
recurrence (see rgrad/quasirandom.py) its direction numbers follow.
"""

from __future__ import annotations

import struct
from pathlib import Path

from torch.quasirandom import SobolEngine

DIMENSIONS = 4096
BITS = 30


def solve(equations: list[tuple[int, int]], unknowns: int) -> int | None:
    """The bits x with ``parity(mask & x) == value`` for all pairs of a mask and a value; None if there are none."""
    rows: dict[int, tuple[int, int]] = {}
    for mask, value in equations:
        for top, (other, known) in rows.items():
            if mask >> top & 1:
                mask, value = mask ^ other, value ^ known
        if mask:
            top = mask.bit_length() - 1
            for key, (other, known) in rows.items():
                if other >> top & 1:
                    rows[key] = other ^ mask, known ^ value
            rows[top] = mask, value
        elif value:
            return None
    assert len(rows) == unknowns
    return sum(value << top for top, (_, value) in rows.items())


def polynomial(m: list[int], degree: int) -> int | None:
    """The inner coefficients, that of the highest power first, of the polynomial that m follows; None if none fits."""
    equations = []
    for k in range(degree, BITS):
        rest = m[k] ^ m[k - degree] << degree ^ m[k - degree]
        terms = [m[k - i] << i for i in range(1, degree)]
        for bit in range(k + 1):
            mask = sum((term >> bit & 1) << (degree - 1 - i) for i, term in enumerate(terms, 1))
            equations.append((mask, rest >> bit & 1))
    return solve(equations, degree - 1)


def main() -> None:
    state = SobolEngine(DIMENSIONS).sobolstate.tolist()
    counts, bits, degree = [0] * 17, "", 1
    for row in state[1:]:
        m = [value >> (BITS - 1 - k) for k, value in enumerate(row)]
        while (inner := polynomial(m, degree)) is None:
            degree += 1
        counts[degree] += 1
        bits += f"{inner:0{degree - 1}b}" if degree > 1 else ""
        bits += "".join(f"{m[k] >> 1:0{k}b}" for k in range(1, degree))
    data = int(bits, 2).to_bytes((len(bits) + 7) // 8, "big")
    path = Path(__file__).resolve().parents[2] / "python" / "rgrad" / "_sobol_directions.bin"
    path.write_bytes(struct.pack("<17H", *counts) + data)
    print(counts, len(data))


if __name__ == "__main__":
    main()
