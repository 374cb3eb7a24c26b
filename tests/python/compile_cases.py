"""Programs that `compile` is tested with, and what looks at the log of a region."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rgrad as torch

F = torch.nn.functional
SHAPE = (256, 128)


def data(*shape: int, seed: int = 0, grad: bool = False) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*(shape or SHAPE), generator=generator).requires_grad_(grad)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)


def assert_eager_bits(program: Callable[[torch.Tensor], list[torch.Tensor]], x: torch.Tensor, name: str) -> None:
    """That a compiled program has the results of the eager one, bit for bit but for those of NaNs."""
    wanted, got = program(x.clone()), torch.compile(program)(x.clone())
    for k, (a, b) in enumerate(zip(got, wanted, strict=True)):
        assert same(a.nan_to_num(), b.nan_to_num()), f"result {k} of {name}"


def log_of(f: Callable[..., Any], *args: Any) -> list[str]:
    """What was computed together when a function ran in a region."""
    torch._C._enter_region(True)
    try:
        f(*args)
    finally:
        lines = torch._C._exit_region()
    return lines


def groups(lines: list[str]) -> list[str]:
    return [line.strip() for line in lines if line.startswith("  ")]


# ---- programs whose results are the eager ones, bit for bit


def gelu_chain(x):
    return F.gelu(x + 1) * x.sigmoid() + torch.tanh(x)


def layer_norm_by_hand(x):
    m = x.mean(-1, keepdim=True)
    v = ((x - m) ** 2).mean(-1, keepdim=True)
    return (x - m) * torch.rsqrt(v + 1e-5)


def masked_softmax(x):
    return torch.softmax(x.masked_fill(x > 0.5, -1e9) * 0.125, -1)


def log_softmax_loss(x):
    return -(torch.log_softmax(x, -1) * x.detach().softmax(-1)).sum(-1).mean()


def rotary(x):
    a, b = (x * 2).chunk(2, -1)
    return torch.cat([a * 3 - b, a + b * 3], -1)


def transposed(x):
    return (x * 2).t().contiguous().relu().t() + x


def broadcasts(x):
    return (x + x[0]) * x[:, :1] - x.sum(0) / x.max(-1, keepdim=True).values


def in_place(x):
    y = x * 1
    y.mul_(2).add_(x)
    y[:, 3:7].relu_()
    y[5] = 0.25
    return y.exp_()


def several_results(x):
    y = x * 2
    return y, y.sin(), (y + 1).sum()


def comparisons(x):
    return torch.where((x > 0) & (x < 1), x * 2, -x).clamp(-1, 1)


def reductions(x):
    y = x * x
    return y.sum(), y.mean(-1), y.amax(-1), y.amin(0), y.prod(-1), y.norm()


def half_and_integers(x):
    y = (x + 1).half() * 2
    return y.float() + (x * 10).int() % 3


def random_numbers(x):
    torch.manual_seed(3)
    return F.dropout(x * 2, 0.3) + torch.rand_like(x) * x.bernoulli(0.5)


def normal_network(x):
    torch.manual_seed(4)
    layer = torch.nn.Sequential(torch.nn.Linear(128, 64), torch.nn.GELU(), torch.nn.LayerNorm(64))
    return layer(x * 2) + 1


def overlapping_copies(x):
    y = x * 2
    y[1:].copy_(y[:-1].clone())
    y[:, 1:] += y[:, :-1] * 2
    return y


PROGRAMS = [
    gelu_chain,
    layer_norm_by_hand,
    masked_softmax,
    log_softmax_loss,
    rotary,
    transposed,
    broadcasts,
    in_place,
    several_results,
    comparisons,
    reductions,
    half_and_integers,
    random_numbers,
    normal_network,
    overlapping_copies,
]
