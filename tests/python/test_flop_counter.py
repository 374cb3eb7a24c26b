"""Counts of multiplications and additions."""

from __future__ import annotations

import pytest

import rgrad as torch
from rgrad import nn
from rgrad.utils.flop_counter import FlopCounterMode


def _count(call):
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


@pytest.mark.parametrize(
    ("call", "flops"),
    [
        # What PyTorch 2.15 counts for the same calls.
        (lambda: torch.ones(2, 3) @ torch.ones(3, 4), 48),
        (lambda: torch.bmm(torch.ones(5, 2, 3), torch.ones(5, 3, 4)), 240),
        (lambda: torch.addmm(torch.ones(4), torch.ones(2, 3), torch.ones(3, 4)), 48),
        (lambda: nn.Linear(3, 4)(torch.ones(2, 3)), 48),
        (lambda: nn.Conv2d(3, 8, 3, padding=1)(torch.ones(1, 3, 5, 5)), 10800),
        (lambda: nn.Conv2d(4, 8, 3, groups=2)(torch.ones(1, 4, 5, 5)), 2592),
        (lambda: nn.ConvTranspose2d(4, 2, 3)(torch.ones(1, 4, 5, 5)), 3600),
        (lambda: nn.functional.scaled_dot_product_attention(*[torch.ones(1, 2, 4, 8)] * 3), 1024),
        (lambda: torch.ones(3) + 1, 0),
    ],
)
def test_of_calls(call, flops):
    assert _count(call) == flops


def test_by_module(capsys):
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5))
    with FlopCounterMode() as counter:
        net(torch.ones(2, 3))
    counts = {name: sum(c.values()) for name, c in counter.get_flop_counts().items()}
    assert counts == {"Global": 128, "Sequential": 128, "Sequential.0": 48, "Sequential.2": 80}
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["Module", "FLOP", "%", "Total"] and len(shown) == 5
    net(torch.ones(2, 3))
    assert counter.get_total_flops() == 128


def test_of_the_backward_pass():
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(8, 4, 3), nn.Flatten(), nn.Linear(196, 5)
    )
    with FlopCounterMode(display=False) as counter:
        net(torch.ones(2, 3, 5, 5, requires_grad=True)).sum().backward()
    counts = {name: {str(op): n for op, n in c.items()} for name, c in counter.get_flop_counts().items()}
    # What PyTorch 2.15 counts.
    assert counts["Sequential.0"] == {"aten.convolution": 21600, "aten.convolution_backward": 43200}
    assert counts["Sequential.2"] == {"aten.convolution": 28800, "aten.convolution_backward": 57600}
    assert counts["Sequential.4"] == {"aten.addmm": 3920, "aten.mm": 7840}
    assert _count(lambda: net(torch.ones(2, 3, 5, 5)).sum().backward()) == 141360


def test_of_formulas_of_a_program():
    double = {torch.ops.aten.mm: lambda a, b, *, out_shape: out_shape[0]}
    with FlopCounterMode(display=False, custom_mapping=double) as counter:
        torch.ones(2, 3) @ torch.ones(3, 4)
    assert counter.get_total_flops() == 2
