"""Random epilogues of products and convolutions: compiled, the bits are those of eager kernels.

`RANDOM_PROGRAMS` in the environment says how many are run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest
from compile_cases import groups, same

import rgrad as torch

F = torch.nn.functional
PROGRAMS = int(os.environ.get("RANDOM_PROGRAMS", "200"))
BATCH = 50
# Products of so many elements wait in a region.
LARGE = 131_072
DTYPES = [torch.float32, torch.float32, torch.float64]
WIDTHS = [15, 16, 17, 31, 32, 48, 64, 100, 129, 256, 500, 1025, 2049]

Results = list[torch.Tensor]


class Program:
    """A product, and up to five operations on it, that are chosen by a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.generator = torch.Generator().manual_seed(seed)
        choose = random.Random(seed)
        self.dtype = choose.choice(DTYPES)
        make = choose.choice([self.matrices, self.matrices, self.batches, self.convolution, self.gradient])
        self.product: Callable[[], torch.Tensor] = make(choose)
        shape = self.product().shape
        parts = [shape, shape[-1:], (*shape[:-1], 1), ()]
        if len(shape) > 2:
            parts.append((shape[1], *(1 for _ in shape[2:])))
        self.others = [self.numbers(*part) for part in parts]
        self.target = self.numbers(*shape)

    def numbers(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.generator).to(self.dtype)

    def matrices(self, choose: random.Random) -> Callable[[], torch.Tensor]:
        n, k = choose.choice(WIDTHS), choose.choice([1, 2, 5, 16, 33, 100, 1030])
        m = LARGE // n + choose.choice([1, 2, 17])
        a, b, bias = self.numbers(m, k + 3)[:, 1 : k + 1], self.numbers(k, n), self.numbers(n)
        a = a if choose.random() < 0.3 else a.T.contiguous().T if choose.random() < 0.5 else a.contiguous()
        b = b if choose.random() < 0.5 else b.T.contiguous().T
        return (lambda: torch.addmm(bias, a, b)) if choose.random() < 0.5 else (lambda: a @ b)

    def batches(self, choose: random.Random) -> Callable[[], torch.Tensor]:
        count, n = choose.choice([1, 2, 3, 16, 17, 40]), choose.choice([8, 33, 64, 200])
        m, k = LARGE // (count * n) + choose.choice([1, 2, 17]), choose.choice([1, 8, 40])
        a, b = self.numbers(count, m, k), self.numbers(count, k, n)
        a = a if choose.random() < 0.7 else a.transpose(0, 1).contiguous().transpose(0, 1)
        b = b if choose.random() < 0.5 else b.mT.contiguous().mT if choose.random() < 0.5 else b[0]
        return lambda: a @ b

    def shapes(self, choose: random.Random) -> tuple[torch.Tensor, torch.Tensor, dict[str, int]]:
        size, kernel = choose.choice([1, 4, 7, 8, 13, 16, 23, 32]), choose.choice([1, 1, 2, 3, 3, 5])
        kernel, c_in, c_out = min(kernel, size), choose.choice([3, 8, 16, 32]), choose.choice([8, 16, 48, 64])
        groups = choose.choice([1, 1, 1, 2, 0])
        if groups == 0:
            groups = c_in = c_out
        elif c_in % groups:
            groups = 1
        how = {"stride": choose.choice([1, 1, 1, 2]), "padding": choose.choice([0, kernel // 2]), "groups": groups}
        images = LARGE // (c_out * size * size) + choose.choice([1, 2, 9])
        return self.numbers(images, c_in, size, size), self.numbers(c_out, c_in // groups, kernel, kernel), how

    def convolution(self, choose: random.Random) -> Callable[[], torch.Tensor]:
        x, w, how = self.shapes(choose)
        bias = self.numbers(w.shape[0]) if choose.random() < 0.5 else None
        return lambda: F.conv2d(x, w, bias, **how)

    def gradient(self, choose: random.Random) -> Callable[[], torch.Tensor]:
        x, w, how = self.shapes(choose)
        g = self.numbers(*F.conv2d(x, w, **how).shape)
        return lambda: torch.nn.grad.conv2d_input(x.shape, w, g, **how)

    def __call__(self) -> Results:
        choose = random.Random(self.seed)
        y = value = self.product()
        results = [y] if choose.random() < 0.3 else []
        second = self.product() if choose.random() < 0.2 else None
        for _ in range(choose.randint(1, 5)):
            value, kept = self.step(choose, y, value, choose.choice(self.others))
            results += kept
            if second is not None and choose.random() < 0.3:
                value = value + second
        return [*results, value]

    def step(
        self, choose: random.Random, y: torch.Tensor, value: torch.Tensor, other: torch.Tensor
    ) -> tuple[torch.Tensor, Results]:
        match choose.randrange(14):
            case 0:
                return F.relu(value), []
            case 1:
                return value * other, []
            case 2:
                return value + other, []
            case 3:
                return F.gelu(value), []
            case 4:
                return torch.tanh(value) - other, []
            case 5:
                return torch.softmax(value, -1), []
            case 6:
                return value, [value.sum(-1)]
            case 7:
                return value, [value.sum()]
            case 8:
                return value - value.mean(-1, keepdim=True), []
            case 9:
                return torch.where(value > 0, value, other), []
            case 10:
                return value + y, []
            case 11 if value.shape[-1] % 2 == 0:
                a, b = value.chunk(2, -1)
                return value, [a * torch.sigmoid(b)]
            case 12:
                copy = value.clone()
                return copy.mul_(2).add_(other), []
            case _:
                return self.target.clone().add_(value), []


def compiled(program: Program) -> tuple[Results, bool]:
    """The results in a region, and whether a product was computed with what follows it."""
    torch._C._enter_region(True)
    try:
        results = program()
    finally:
        lines = groups(torch._C._exit_region())
    return results, any(line.startswith(("fused: matmul", "fused: convolution")) for line in lines)


@pytest.mark.own_region
@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_random_epilogues_have_the_bits_of_eager_kernels(first):
    fused = 0
    for seed in range(first, min(first + BATCH, PROGRAMS)):
        program = Program(seed)
        with torch.no_grad():
            wanted = program()
            found, is_fused = compiled(program)
        fused += is_fused
        assert len(found) == len(wanted) and all(map(same, found, wanted)), f"seed {seed}"
    assert fused > BATCH // 5
