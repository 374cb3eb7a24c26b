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


def _gradients(compute, *numbers: list[float]):
    inputs = [torch.tensor(x, requires_grad=True) for x in numbers]
    result = compute(*inputs)
    result.backward(torch.ones_like(result))
    return [x.grad.nan_to_num(nan=-9, posinf=8, neginf=-8).tolist() for x in inputs]


def test_a_logit_within_limits_that_cross_is_that_of_the_lower_below_it_and_of_the_upper_above_both():
    found = torch.tensor([0.0, 0.45, 0.7, 1.0, math.nan]).logit(eps=0.6)
    torch.testing.assert_close(found[:4], torch.tensor([0.4054651, 0.4054651, -0.4054651, -0.4054651]))
    assert found[4].isnan()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_a_hypotenuse_is_infinite_beside_an_infinity(dtype: torch.dtype):
    a = torch.tensor([math.inf, math.nan, -math.inf, math.nan, 3.0, 0.0], dtype=dtype)
    b = torch.tensor([math.nan, math.inf, math.nan, 1.0, 4.0, 0.0], dtype=dtype)
    assert torch.hypot(a, b).nan_to_num(nan=-1, posinf=9).tolist() == [9, 9, 9, -1, 5, 0]


def test_a_factor_of_zero_has_no_part_in_the_derivative_of_xlogy():
    x, y = [0.0, 0.0, 0.0, 2.0], [0.0, math.inf, -1.0, 0.0]
    assert _gradients(torch.xlogy, x, y) == [[0, 8, 0, -8], [-9, 0, 0, 8]]
    assert _gradients(lambda a, b: torch.xlogy(a, b) * 0, x, y) == [[0, 0, 0, 0], [-9, 0, 0, -9]]


def test_a_factor_of_zero_has_no_part_in_xlog1py_and_its_derivative():
    x, y = [0.0, 0.0, 0.0, 2.0, -0.0], [-1.0, math.inf, -2.0, -1.0, 0.0]
    assert _gradients(torch.special.xlog1py, x, y) == [[0, 8, 0, -8, 0], [-9, 0, 0, 8, 0]]
    assert torch.special.xlog1py(torch.tensor(x), torch.tensor(y)).tolist() == [0, 0, 0, -math.inf, 0]
    a = torch.ones(1, requires_grad=True)
    assert torch.special.xlog1py(a, 2.0).grad_fn.name() == "SpecialXlog1PyBackward2"
    assert torch.special.xlog1py(2.0, a).grad_fn.name() == "SpecialXlog1PyBackward1"


def test_softsign_has_a_slope_only_where_it_has_a_value():
    x = [0.0, 1.0, math.inf, -math.inf]
    assert _gradients(torch.nn.functional.softsign, x) == [[1, 0.25, -9, -9]]


@pytest.mark.parametrize("n", [3_000_001, 8192, 8193])
def test_a_long_row_is_normalized_as_precisely_as_a_short_one(n: int):
    x = torch.rand(n)
    wide = x.double()
    exact = (wide - wide.mean()) / (wide.var(correction=0) + 1e-5).sqrt()
    assert (torch.nn.functional.layer_norm(x, (n,)).double() - exact).abs().max() < 2e-6


def test_a_search_among_numbers_that_are_not_sorted_ends_where_pytorchs_does():
    values = torch.tensor([[[1, 3, 5], [2, 4, 6]], [[1, 2, 3], [4, 5, 6]]]).permute(2, 1, 0)
    found = torch.searchsorted(values.double(), values.int())
    assert found.tolist() == [[[0, 0], [0, 1]], [[2, 0], [0, 1]], [[2, 0], [0, 0]]]
    with pytest.raises(RuntimeError, match="input value can be a scalar only when boundaries tensor dimension is 1"):
        torch.searchsorted(torch.tensor(1.0), 1.0)


@pytest.mark.usefixtures("gpu")
def test_gammainc_of_doubles_is_as_precise_on_a_gpu():
    a, x = torch.linspace(0.2, 5, 9, dtype=torch.float64), torch.linspace(5, 0.3, 9, dtype=torch.float64)
    try:
        found = torch.special.gammainc(a.to("gpu"), x.to("gpu")).cpu()
    except NotImplementedError:
        pytest.skip("the adapter has no float64")
    torch.testing.assert_close(found, torch.special.gammainc(a, x), rtol=0, atol=1e-12)


def test_zeros_keep_their_sign_beside_a_bound_that_is_zero():
    minus, plus = -torch.zeros(17), torch.zeros(17)
    for bounded in (minus.relu(), minus.clamp_min(0.0), minus.clamp(0.0, 1.0), minus.clamp_max(0.0)):
        assert bounded.signbit().all()
    for bounded in (plus.clamp_min(-0.0), plus.clamp(-1.0, -0.0), torch.nn.functional.hardtanh(plus, -0.0, 1.0)):
        assert not bounded.signbit().any()
    # Of two tensors, the second.
    assert torch.maximum(plus, minus).signbit().all() and not torch.maximum(minus, plus).signbit().any()
    assert torch.minimum(plus, minus).signbit().all() and not torch.minimum(minus, plus).signbit().any()


@pytest.mark.parametrize("n", [3, 1000])
def test_a_bound_that_is_nan_makes_every_result_nan_and_an_element_its_own(n: int):
    x = torch.linspace(-2, 2, n)
    x[0] = math.nan
    for bounded in (x.clamp(math.nan, 1.0), x.clamp_min(math.nan), x.clone().clamp_(max=math.nan)):
        assert bounded.isnan().all()
    kept = (x.clamp(-1, 1), x.relu(), x.clone().relu_(), x.clone().clamp_(-1, 1), torch.maximum(x, torch.zeros(n)))
    assert all(y.isnan().tolist() == [True] + [False] * (n - 1) for y in kept)
