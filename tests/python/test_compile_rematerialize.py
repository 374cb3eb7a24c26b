"""Values that later groups compute again, in place of reading them from memory."""

from __future__ import annotations

import os
import random

import pytest
from compile_cases import assert_eager_bits, data, groups, log_of

import rgrad as torch

PROGRAMS = int(os.environ.get("RANDOM_PROGRAMS", "400"))
BATCH = 100


def scaled_columns(x):
    y = x - x.amin(0)
    return y / (x.amax(0) + 1)


def standardized_columns(x):
    d = x - x.mean(0)
    return d / ((d * d).mean(0) + 1e-5).sqrt()


def by_total(x):
    y = (x + 1) * 0.5
    return y / (y * y).sum().sqrt()


def twice(x):
    y = x * 0.5
    z = y / (y.sum() + 10)
    return z + y * z.sum()


def rows_and_columns(x):
    y = x - 0.25
    column = (y * y).sum(0)
    return y * column, (y * column.sum()).sum(1)


def widened(x):
    y = x.double() * 2
    return y / (y * y).sum().sqrt(), y.amax(0) + y.float().double().sum(0)


CASES = [scaled_columns, standardized_columns, by_total, twice, rows_and_columns]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(200, 300), (1000, 257), (3000, 1024)], ids=str)
@pytest.mark.parametrize("f", [*CASES, widened], ids=lambda f: f.__name__)
def test_values_computed_again_have_the_bits_of_eager_kernels(f, shape, dtype):
    def program(x):
        out = f(x)
        return list(out) if isinstance(out, tuple) else [out]

    assert_eager_bits(program, data(*shape).to(dtype), f"{f.__name__} of {shape}")


@pytest.mark.own_region
@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_the_later_group_computes_the_value_and_nothing_stores_it(f):
    x, kept = data(3000, 1024), []
    log = groups(log_of(lambda: kept.append(f(x))))
    results = kept[0] if isinstance(kept[0], tuple) else kept
    stored = 0
    for line in log:
        operations, _, sizes = line.partition(" | ")
        if sizes.startswith(f"{x.numel()} "):
            names = operations.partition(": ")[2].split(" → ")
            unstored = int(sizes.split(" results stored, ")[1].split()[0]) // x.nbytes
            stored += sum(name != "reduction" for name in names) - unstored
    assert stored == sum(r.numel() == x.numel() for r in results), "\n".join(log)


@pytest.mark.own_region
def test_a_value_that_somebody_has_is_stored_and_read():
    x, kept = data(512, 512), []

    def f():
        y = x - x.mean(0)
        kept.extend([y, y / (y * y).sum().sqrt()])

    log = groups(log_of(f))
    made = [line for line in log if "sub" in line]
    assert len(made) == 1 and log[-1].startswith("alone: div"), "\n".join(log)


def test_values_whose_memory_is_written_later_are_computed_once():
    def program(x):
        x = x.clone()
        y = x * 2
        total = (y * y).sum()
        x.add_(1)
        return [y / total, x]

    def replaced(x):
        x = x.clone()
        y = x[1:] + 1
        total = y.sum()
        x[:-1] = y
        return [y / total, x]

    def made_and_written(x):
        x = x * 1.0
        y = x * 2
        total = (y * y).sum()
        x[:10].add_(1)
        return [y / total, x]

    def made_and_replaced(x):
        x = x * 1.0
        y = x * 2
        total = (y * y).sum()
        x.add_(1)
        return [y / total, x]

    def made_and_kept(x):
        x = x * 1.0
        y = x * 2
        total = (y * y).sum()
        return [y / total, x]

    for f in (made_and_written, made_and_replaced, made_and_kept):
        assert_eager_bits(f, data(256, 256), f.__name__)
    assert_eager_bits(program, data(256, 256), "written")
    assert_eager_bits(replaced, data(257, 256), "written in part")


def test_values_of_values_computed_again_are_computed_in_order():
    def program(x):
        a = x + 1
        b = a * 2
        first = b / (b.sum() + 1e3)
        c = a - b
        second = c * first.sum() + a
        return [first * second.amax(0), (c + a) * second.sum()]

    assert_eager_bits(program, data(700, 300), "chains")


def test_gradients_of_values_computed_again_have_the_bits_of_eager_kernels():
    def program(x):
        x = x.detach().requires_grad_()
        y = x[:, 1:] - x[:, :-1]
        loss = (standardized_columns(y).abs() + 1e-3).log().mean() + by_total(x).sum()
        return [loss.detach(), *torch.autograd.grad(loss, [x])]

    assert_eager_bits(program, data(300, 257), "gradients")


class Program:
    """Cheap operations on matrices, divisions by what needs all of one, and writes in place, chosen by a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, x: torch.Tensor) -> list[torch.Tensor]:
        choose = random.Random(self.seed)
        all_, divisors = [x, x * 1.0], [x.sum() + 1e3]
        for _ in range(choose.randrange(5, 14)):
            a, b = choose.choice(all_[-3:]), choose.choice(all_[-4:])
            match choose.randrange(10):
                case 0 | 1:
                    all_.append(a * choose.choice([0.5, 1.5]))
                case 2:
                    all_.append(a - b * 0.25)
                case 3:
                    divisors.append((a * a).sum() + 1)
                case 4:
                    divisors.append(a.amin(0).abs() + 1)
                case 5:
                    divisors.append((a * a).sum(0) + 1)
                case 6:
                    divisors.append(a.abs().sum(-1, keepdim=True) + 1)
                case 7:
                    all_.append(a / choose.choice(divisors))
                case 8:
                    a[choose.choice([0, 8]) : choose.choice([16, 256])].add_(1)
                case 9:
                    a[:, choose.choice([0, 1]) :].mul_(0.5)
        return [t / choose.choice(divisors) for t in all_[-2:]] + all_[-4:]


@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_random_programs_with_writes_in_place_have_the_bits_of_eager_kernels(first):
    for seed in range(first, min(first + BATCH, PROGRAMS)):
        assert_eager_bits(Program(seed), data(256, 256, seed=seed), f"program {seed}")
