"""Running operations and sorting on a GPU against the CPU: short and long lanes, every dtype, equal elements, NaN."""

import math
import os

os.environ.setdefault("RGRAD_GPU_ALLOW_CPU", "1")

import numpy as np
import pytest

import rgrad

if rgrad.gpu.device_count() == 0:
    if os.environ.get("RGRAD_REQUIRE_GPU"):
        raise RuntimeError("no adapter was found")
    pytest.skip("no adapter", allow_module_level=True)

DTYPES = ["float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
# One chunk, more than one, and lanes that are cut into segments.
SHAPES = [((7,), 0), ((4, 300, 3), 1), ((2, 2000), 1), ((3000, 2), 0), ((5, 1), 1)]


def numbers(*shape, dtype="float32", seed=0):
    values = np.random.default_rng(seed).integers(-5, 6, shape).astype("float32")
    return rgrad.tensor(values).to(getattr(rgrad, dtype))


def alike(found, expected, tolerance=0.0):
    found, expected = found.detach().cpu(), expected.detach()
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(
        found.double().numpy(), expected.double().numpy(), rtol=tolerance, atol=tolerance, equal_nan=True
    )


def same(f, t, tolerance=0.0, grad=False):
    """Calls `f` on both devices and compares its results, and the gradient where asked for."""
    here, there = t.detach().clone(), t.detach().to("gpu")
    if grad:
        here.requires_grad_()
        there.requires_grad_()
    expected, found = f(here), f(there)
    pairs = [(found, expected)] if isinstance(found, rgrad.Tensor) else list(zip(found, expected, strict=True))
    for a, b in pairs:
        assert a.device.type == rgrad.device("gpu").type
        alike(a, b, tolerance)
    if grad:
        for a, b in pairs[:1]:
            a.float().pow(2).sum().backward()
            b.float().pow(2).sum().backward()
        alike(there.grad, here.grad, tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_numbers_run_exactly_in_every_dtype(dtype):
    for shape, dim in SHAPES:
        x = numbers(*shape, dtype=dtype)
        same(lambda x: x.cumsum(dim, dtype=rgrad.int64), x)  # noqa: B023
        same(lambda x: x.cummax(dim), x)  # noqa: B023
        same(lambda x: x.cummin(dim), x)  # noqa: B023


def test_floats_run_along_any_dimension_forward_and_backward():
    for shape, dim in SHAPES:
        x = numbers(*shape) / 16 + 1.001
        same(lambda x: x.cumsum(dim), x, 1e-4, grad=True)  # noqa: B023
        same(lambda x: (x - x.detach() + 1.0).cumprod(dim), x, 1e-4, grad=True)  # noqa: B023
        same(lambda x: x.logcumsumexp(dim), x, 1e-5)  # noqa: B023
        same(lambda x: x.cummax(dim)[0], x, grad=True)  # noqa: B023


def test_a_running_extremum_keeps_a_nan_and_a_logarithm_its_infinities():
    x = numbers(2000)
    x[1200] = math.nan
    same(lambda x: x.cummax(0), x)
    same(lambda x: x.cummin(0), x)
    x[:] = -math.inf
    x[700] = 3.0
    same(lambda x: x.logcumsumexp(0), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_sorted_stably_in_every_dtype(dtype):
    for shape, dim in SHAPES:
        x = numbers(*shape, dtype=dtype)
        for descending in (False, True):
            same(lambda x: x.sort(dim, descending), x)  # noqa: B023
            same(lambda x: x.argsort(dim, descending), x)  # noqa: B023
        k = min(shape[dim], 5)
        if dtype != "bool":
            same(lambda x: x.topk(k, dim), x)  # noqa: B023
            same(lambda x: x.topk(k, dim, largest=False), x)  # noqa: B023
            same(lambda x: x.kthvalue(k, dim), x)  # noqa: B023


def test_nan_sorts_as_the_largest():
    x = numbers(900)
    x[[3, 500, 800]] = math.nan
    same(lambda x: x.sort(), x)
    same(lambda x: x.sort(descending=True), x)
    same(lambda x: x.topk(5), x)


def test_gradients_go_back_to_where_elements_stood():
    x = numbers(6, 400)
    same(lambda x: x.sort(1)[0], x, grad=True)
    same(lambda x: x.topk(7, 1)[0], x, grad=True)
    same(lambda x: x.kthvalue(9, 1)[0], x, grad=True)


def test_values_are_found_in_sorted_rows():
    rows, values = numbers(3, 50).sort(1)[0], numbers(3, 20, seed=1)
    for right in (False, True):
        same(lambda v: rgrad.searchsorted(rows.to(v.device), v, right=right), values)  # noqa: B023
        same(lambda v: rgrad.bucketize(v, rows[0].to(v.device).contiguous(), right=right), values)  # noqa: B023
        same(lambda v: rgrad.bucketize(v, rows[1].to(v.device).contiguous(), out_int32=True), values)
