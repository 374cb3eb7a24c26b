"""Window functions and Sobol sequences."""

from __future__ import annotations

import pytest
import reference
import reference_signal

import rgrad as torch
from rgrad.quasirandom import SobolEngine
from rgrad.signal import windows

VALUES = reference.read(reference_signal.__file__)


@pytest.mark.parametrize("name", reference_signal.CASES)
def test_values_are_those_of_pytorch(name):
    reference.check(reference_signal.CASES[name](torch), VALUES[name], 0 if "Sobol" in name else 1e-9)


@pytest.mark.parametrize("scramble", [False, True])
def test_points_are_balanced_in_every_dimension(scramble):
    points = SobolEngine(50, scramble, seed=3).draw(256, dtype=torch.float64)
    cells = (points * 256).long()
    assert all(sorted(column) == list(range(256)) for column in cells.T.tolist())
    assert (points >= 0).all() and (points < 1).all()


def test_scrambled_points_depend_on_the_seed_alone():
    first, again, other = (SobolEngine(4, scramble=True, seed=seed).draw(8) for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    torch.manual_seed(5)
    default = SobolEngine(4, scramble=True).draw(8)
    torch.manual_seed(5)
    assert torch.equal(default, SobolEngine(4, scramble=True).draw(8))


def test_points_continue_where_they_stopped():
    engine = SobolEngine(3)
    whole = SobolEngine(3).draw(20)
    assert torch.equal(torch.cat([engine.draw(7), engine.draw(1), engine.draw(12)]), whole)
    out = torch.empty(0)
    assert engine.reset().draw(20, out=out) is out and torch.equal(out, whole)
    assert engine.draw(0).shape == (0, 3) and engine.num_generated == 20
    with pytest.raises(ValueError, match=r"n=20\+2\*\*2=24"):
        engine.draw_base2(2)
    for dimension in (0, 1112):
        with pytest.raises(ValueError, match=r"Supported range of dimensionality for SobolEngine is \[1, 1111\]"):
            SobolEngine(dimension)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: windows.hann(-1), ValueError, "requires non-negative window length, got M=-1"),
        (lambda: windows.hann(2.5), TypeError, "integer window length"),
        (lambda: windows.hann(3, dtype=torch.int64), ValueError, "expects float32 or float64 dtypes, got: torch.int64"),
        (lambda: windows.hann(3, dtype=torch.float16), ValueError, "expects float32 or float64"),
        (lambda: windows.gaussian(3, std=0), ValueError, "Standard deviation must be positive, got: 0"),
        (lambda: windows.exponential(3, tau=-1), ValueError, "Tau must be positive, got: -1"),
        (lambda: windows.exponential(3, center=1.0), ValueError, "Center must be None for symmetric windows"),
        (lambda: windows.kaiser(3, beta=-1), ValueError, "beta must be non-negative, got: -1"),
        (lambda: windows.general_cosine(3, a=[]), ValueError, "Coefficients cannot be empty"),
        (lambda: windows.general_cosine(3, a=3), TypeError, "Coefficients must be a list/tuple"),
    ],
)
def test_windows_refuse_what_they_are_not(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_windows_have_the_default_dtype_and_may_require_a_gradient():
    assert windows.kaiser(4).dtype == torch.float32 and windows.hann(4, requires_grad=True).requires_grad
