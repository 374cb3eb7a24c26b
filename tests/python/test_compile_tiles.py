"""Groups that read columns that they reduce themselves: computed in tiles, with the bits of eager kernels."""

from __future__ import annotations

import os
import random

import pytest
from compile_cases import assert_eager_bits, groups, log_of

import rgrad as torch

PROGRAMS = int(os.environ.get("RANDOM_PROGRAMS", "200"))
BATCH = 50
# Channels beyond one block of 128 rows, few of them, rows that are no whole vectors, and rows of one tile.
SHAPES = [
    *((2, 32, 64, 64), (4, 160, 14, 14), (3, 21, 28, 28), (16, 264, 8, 8)),
    *((8, 3, 40, 40), (1, 96, 56, 56), (2, 16, 96, 96)),
]


def groups_of(f):
    kept = []
    return groups(log_of(lambda: kept.append(f())))


def channel_norm(x, weight, bias):
    mean = x.mean(1, keepdim=True)
    variance = (x - mean).pow(2).mean(1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-6) * weight[:, None, None] + bias[:, None, None]


def gated(x, weight, bias):
    gate = torch.sigmoid((x * weight[:, None, None]).sum(1, keepdim=True))
    return x * gate + bias[:, None, None], gate * 2


def unit(x, weight, bias):
    return x / ((x * x).sum(1, keepdim=True) + 1e-8).sqrt() * weight[:, None, None]


def centred_in_place(x, weight, bias):
    y = x * 1.5
    y -= y.mean(1, keepdim=True)
    y *= bias[:, None, None]
    return y, y.sum(1)


def between_extrema(x, weight, bias):
    y = x * weight[:, None, None]
    least = y.amin(1, keepdim=True)
    return (y - least) / (y.amax(1, keepdim=True) - least + 1) + bias[:, None, None]


def gated_by_extrema(x, weight, bias):
    return x * torch.sigmoid(x.mean(1, keepdim=True) + x.amax(1, keepdim=True))


TILED = [between_extrema, gated_by_extrema, channel_norm, gated, unit, centred_in_place]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("f", TILED, ids=lambda f: f.__name__)
def test_tiles_have_the_bits_of_eager_kernels(f, shape, dtype):
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(*s).to(dtype) for s in (shape, shape[1:2], shape[1:2]))
    runs = []
    for way in (f, torch.compile(f)):
        ins = [t.clone().requires_grad_() for t in (x, weight, bias)]
        outs = way(*ins)
        outs = outs if isinstance(outs, tuple) else (outs,)
        grads = torch.autograd.grad(sum((out * out).sum() for out in outs), ins, allow_unused=True)
        runs.append([*outs, *grads])
    for k, (a, b) in enumerate(zip(*runs, strict=True)):
        assert (a is None) == (b is None) and (a is None or torch.equal(a, b)), k


def test_values_of_pixels_that_are_in_memory_join_tiles():
    x, p = torch.randn(4, 64, 32, 32), torch.randn(4, 1, 32, 32)

    def f(x, p):
        shift = (x.sum(1, keepdim=True) + p).clone() - p.clone() * 2
        return x * shift + p.clone()

    assert torch.equal(torch.compile(f)(x, p), f(x, p))


@pytest.mark.own_region
def test_a_normalization_of_channels_is_one_group():
    x, weight, bias = torch.randn(2, 64, 64, 64), torch.randn(64), torch.randn(64)
    told = groups_of(lambda: channel_norm(x, weight, bias))
    assert len(told) == 1 and "in tiles of columns, 1 of 12 results stored" in told[0], told


@pytest.mark.own_region
def test_extrema_of_channels_are_in_the_group_that_reads_them():
    x, weight, bias = torch.randn(2, 64, 64, 64), torch.randn(64), torch.randn(64)
    for f in (between_extrema, gated_by_extrema):
        told = groups_of(lambda f=f: f(x, weight, bias))
        assert len(told) == 1 and "in tiles of columns, 1 of" in told[0], told


def test_extrema_of_tiles_keep_nans_infinities_and_the_sign_of_zero():
    x = torch.randn(2, 40, 32, 32)
    for k, special in enumerate([float("nan"), float("inf"), -float("inf"), 0.0, -0.0]):
        x[:, k :: k + 2, k::3] = special

    def f(x):
        least, most = x.amin(1, keepdim=True), x.amax(1, keepdim=True)
        return [least, most, 1 / least, 1 / most, x - least, x * most]

    assert_eager_bits(f, x, "extrema")


def test_tiles_that_are_narrowed_for_their_buffers_have_the_bits_of_eager_kernels():
    # Two million elements: the tiles of the plan leave no room for buffers.
    x, weight, bias = torch.randn(4, 128, 64, 64), torch.randn(128), torch.randn(128)

    def f(x):
        y = channel_norm(x, weight, bias)
        return [y, (y * y).sum(1), y.tanh() - x]

    assert_eager_bits(f, x, "a normalization")


def test_sums_of_long_rows_whose_readers_cannot_join_them_have_the_bits_of_eager_kernels():
    def f(x):
        y = x * 1.5
        # Another dtype of computation.
        return [y.double() - y.sum(1, keepdim=True).double()]

    assert_eager_bits(f, torch.randn(2, 16, 96, 96), "differences in float64")


def test_operands_that_have_no_tiles_are_read_after_the_sums():
    # The last dimension of the second operand can't be merged with the one before.
    x, y = torch.randn(4, 32, 24, 65), torch.randn(4, 1, 1, 65)
    f = lambda x, y: (x - x.mean(1, keepdim=True)) * y  # noqa: E731
    assert torch.equal(torch.compile(f)(x, y), f(x, y))


class Program:
    """Ten operations on images, pixels and channels that are chosen by a seed."""

    def __init__(self, seed: int) -> None:
        choose = random.Random(seed)
        channels, side = choose.choice([2, 3, 8, 21, 64, 130, 200]), choose.choice([6, 8, 14, 16, 25, 40])
        batch = choose.choice([1, 2, 3]) * max(1, 32_768 // (channels * side * side))
        dtype = choose.choice([torch.float32, torch.float32, torch.float64, torch.bfloat16])
        generator = torch.Generator().manual_seed(seed)
        shapes = [(batch, channels, side, side), (channels, 1, 1), (side, side), (batch, 1, side, side), (side,)]
        self.seed = seed
        self.x, *self.others = (torch.randn(*s, generator=generator).to(dtype) for s in shapes)

    def __call__(self, x: torch.Tensor) -> list[torch.Tensor]:
        choose = random.Random(self.seed)
        images, pixels, results = [x, x * 1.5], [self.others[2]], []
        for _ in range(10):
            a, b, p = choose.choice(images), choose.choice(images), choose.choice(pixels)
            match choose.randrange(10):
                case 0:
                    images.append(a + b)
                case 1:
                    images.append(torch.sigmoid(a) * choose.choice(self.others))
                case 2 | 3:
                    pixels.append(a.sum(1, keepdim=True))
                case 4:
                    images.append(a - a.mean(1, keepdim=True))
                case 5:
                    images.append(a * p)
                case 6:
                    pixels.append((p * 0.5 + choose.choice(pixels)).tanh())
                case 7:
                    images.append(a.clone().sub_(p))
                case 8:
                    pixels.append((a * b).sum(1).unsqueeze(1))
                case 9:
                    pixels.append(choose.choice([a.amin, a.amax])(1, keepdim=True))
            results += [images[-1]] if choose.random() < 0.2 else []
            results += [pixels[-1]] if choose.random() < 0.2 else []
        return [*results, images[-1], pixels[-1]]


@pytest.mark.own_region
def test_random_programs_on_channels_are_computed_in_tiles():
    told = [groups_of(lambda program=program: program(program.x)) for program in map(Program, range(20))]
    assert sum(any("in tiles of columns" in line for line in lines) for lines in told) > 5


@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_random_programs_on_channels_have_the_bits_of_eager_kernels(first):
    for seed in range(first, min(first + BATCH, PROGRAMS)):
        program = Program(seed)
        assert_eager_bits(program, program.x, f"program {seed}")
