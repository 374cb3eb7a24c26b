"""Values beside NaN, of half types and of integers."""

from __future__ import annotations

import math

import pytest

import rgrad as torch


def test_an_incomplete_gamma_function_is_known_beside_nan_where_one_argument_decides():
    a = torch.tensor([math.inf, math.nan, math.nan, 2.0])
    x = torch.tensor([math.nan, math.inf, 1.0, math.nan])
    assert torch.special.gammainc(a, x).nan_to_num(nan=-1).tolist() == [0, 1, -1, -1]
    assert torch.special.gammaincc(a, x).nan_to_num(nan=-1).tolist() == [1, 0, -1, -1]


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_half_pictures_are_sampled_with_one_rounding(mode: str):
    torch.manual_seed(0)
    x, grid = torch.randn(1, 2, 5, 5, 5).half(), (torch.rand(1, 3, 3, 3, 3) * 2 - 1).half()
    found = torch.nn.functional.grid_sample(x, grid, mode=mode, align_corners=False)
    exact = torch.nn.functional.grid_sample(x.float(), grid.float(), mode=mode, align_corners=False)
    assert torch.equal(found, exact.half())


def test_a_ranking_loss_of_integers_is_a_float():
    one, two = torch.tensor([1, 5]), torch.tensor([3, 3])
    assert torch.nn.functional.margin_ranking_loss(one, two, torch.tensor([1, 1])).item() == 1.0


@pytest.mark.usefixtures("gpu")
def test_gammainc_of_doubles_is_as_precise_on_a_gpu():
    a, x = torch.linspace(0.2, 5, 9, dtype=torch.float64), torch.linspace(5, 0.3, 9, dtype=torch.float64)
    try:
        found = torch.special.gammainc(a.to("gpu"), x.to("gpu")).cpu()
    except NotImplementedError:
        pytest.skip("the adapter has no float64")
    torch.testing.assert_close(found, torch.special.gammainc(a, x), rtol=0, atol=1e-12)
