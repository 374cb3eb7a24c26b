"""Random programs on rows, their parts and values per row: compiled, the bits are those of eager kernels.

Such programs make groups of all kinds: sums of rows in machine code, parts of rows, pieces of concatenations, bytes.
`RANDOM_PROGRAMS` in the environment says how many are run.
"""

from __future__ import annotations

import os
import random

import pytest
from compile_cases import assert_eager_bits

import rgrad as torch

PROGRAMS = int(os.environ.get("RANDOM_PROGRAMS", "200"))
BATCH = 50
# Operations on so many elements wait in a region.
LARGE = 32_768
LENGTHS = [2, 4, 6, 24, 63, 64, 65, 128, 130, 192, 256, 1000, 1024, 2048]
DTYPES = [torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16]


class Program:
    """Twelve operations on values that are chosen by a seed."""

    def __init__(self, seed: int) -> None:
        choose = random.Random(seed)
        n, dtype = choose.choice(LENGTHS), choose.choice(DTYPES)
        rows = LARGE // n + choose.choice([1, 2, 3, 17])
        generator = torch.Generator().manual_seed(seed)

        def numbers(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=generator)

        self.seed = seed
        self.x, self.bias, self.scale = (numbers(*s).to(dtype) for s in ((rows, n), (n,), (rows, 1)))
        self.mask, self.bytes = numbers(rows, n) > 0, (numbers(rows, n).abs() * 80).to(torch.uint8)

    def __call__(self, x: torch.Tensor) -> list[torch.Tensor]:
        choose = random.Random(self.seed)
        values, results = [x, x * 1.5], []
        for _ in range(12):
            a = choose.choice(values)
            b = choose.choice([v for v in values if v.shape == a.shape])
            values += self.step(choose, a, b)
            results += [values[-1]] if choose.random() < 0.3 else []
        return [*results, values[-1], choose.choice(values)]

    def step(self, choose: random.Random, a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        n, like_x = a.shape[1], a.shape == self.x.shape
        match choose.randrange(13):
            case 0:
                return [a + b]
            case 1:
                return [a * b - 0.5]
            case 2:
                return [torch.sigmoid(a)]
            case 3:
                return [a.sum(-1, keepdim=True)]
            case 4 if n > 1:
                return [a - a.mean(-1, keepdim=True)]
            case 5 if n >= 4:
                p, q = a[:, : n // 2], a[:, n // 2 : n // 2 * 2]
                return [p * 2 - q, p * q + p]
            case 6 if n >= 2:
                start = choose.randrange(n - 1)
                return [a[:, start : choose.randrange(start, n) + 1].tanh()]
            case 7 if n <= 2048:
                return [torch.cat([a, b * 3], -1)]
            case 8 if like_x:
                return [torch.where(self.mask, a, a * 0.1) + self.bytes * self.bias]
            case 9 if like_x:
                return [(a * self.scale + self.bias).relu()]
            case 10:
                return [torch.softmax(a, -1)]
            case 11:
                c = a * 2
                c[:, ::2] += 1
                c[:, : n // 3 + 1] *= b[:, : n // 3 + 1]
                return [c]
            case 12 if self.x.shape[0] == a.shape[0]:
                return [a.amax(-1, keepdim=True) * self.x, a * self.scale]
            case _:
                return [a.abs()]


@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_random_programs_on_rows_have_the_bits_of_eager_kernels(first):
    for seed in range(first, min(first + BATCH, PROGRAMS)):
        program = Program(seed)
        assert_eager_bits(program, program.x, f"program {seed}")
