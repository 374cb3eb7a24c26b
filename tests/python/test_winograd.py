"""Convolutions of float32 on the CPU by Winograd's algorithm."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rgrad as torch
import rgrad.nn.functional as F

winograd = torch.backends.winograd


@pytest.fixture(params=["baseline", "avx2", "avx512"])
def isa(request):
    """Each instruction set that the machine has."""
    before = torch._C._set_cpu_isa()
    if torch._C._set_cpu_isa(request.param) != request.param:
        torch._C._set_cpu_isa(before)
        pytest.skip("not on this machine")
    yield request.param
    torch._C._set_cpu_isa(before)


def operands(batch, c_in, c_out, size):
    torch.manual_seed(batch + c_in)
    return torch.randn(batch, c_in, *size), torch.randn(c_out, c_in, 3, 3), torch.randn(c_out)


def convolved(x, w, bias, padding):
    """The result, and the gradients of its operands for a gradient that differs by position."""
    inputs = [t.detach().requires_grad_() for t in (x, w, bias)]
    y = F.conv2d(*inputs, padding=padding)
    weights = torch.arange(y.numel(), dtype=y.dtype).reshape(y.shape).remainder(7) - 2
    return [y, *torch.autograd.grad(y, inputs, weights)]


def assert_near(got, exact):
    assert got.dtype == torch.float32 and got.shape == exact.shape
    size = exact.square().mean().sqrt()
    assert ((got.double() - exact).abs().max() / size).item() < 2e-5


def differs(x, w, padding=1):
    """Whether the switch makes a difference to the bits."""
    with winograd.flags(enabled=False):
        direct = F.conv2d(x, w, padding=padding)
    return not torch.equal(direct, F.conv2d(x, w, padding=padding))


@pytest.mark.parametrize(
    ("batch", "c_in", "c_out", "size", "padding"),
    [
        (1, 32, 32, (56, 56), 1),
        (2, 33, 47, (27, 31), 1),
        (8, 40, 32, (7, 7), 1),
        (1, 150, 70, (14, 13), 0),
        (3, 64, 64, (9, 30), (0, 1)),
        (1, 32, 40, (200, 5), 2),
    ],
)
def test_results_and_gradients_are_those_in_float64(isa, batch, c_in, c_out, size, padding):
    x, w, bias = operands(batch, c_in, c_out, size)
    assert differs(x, w, padding)
    exact = convolved(x.double(), w.double(), bias.double(), padding)
    for got, wanted in zip(convolved(x, w, bias, padding), exact, strict=True):
        assert_near(got, wanted)


def test_layouts_of_the_operands_do_not_matter():
    x, w, bias = operands(2, 48, 32, (20, 22))
    expected = convolved(x, w, bias, 1)
    strided = torch.empty(2, 22, 20, 48).permute(0, 3, 2, 1)
    strided.copy_(x)
    reversed_w = torch.empty(3, 3, 48, 32).permute(3, 2, 1, 0)
    reversed_w.copy_(w)
    every_other = torch.zeros(2, 48, 20, 44)[..., ::2]
    every_other.copy_(x)
    for other in (strided, every_other, x.to(memory_format=torch.channels_last)):
        got = convolved(other, reversed_w, bias, 1)
        assert all(torch.equal(g, e) for g, e in zip(got, expected, strict=True))
    assert F.conv2d(x.to(memory_format=torch.channels_last), w).is_contiguous(memory_format=torch.channels_last)


def test_bits_do_not_depend_on_the_number_of_threads():
    before = torch.get_num_threads()
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append([convolved(*operands(b, 64, 96, (18, 18)), 1) for b in (1, 9)])
    torch.set_num_threads(before)
    for other in results[1:]:
        for got, expected in zip(other, results[0], strict=True):
            assert all(torch.equal(g, e) for g, e in zip(got, expected, strict=True))


def test_the_switch_forbids_it():
    x, w, bias = operands(1, 64, 64, (16, 16))
    assert winograd.enabled and differs(x, w)
    with winograd.flags():
        assert not winograd.enabled and not differs(x, w)
    winograd.enabled = False
    try:
        assert not winograd.enabled and not differs(x, w)
    finally:
        winograd.enabled = True
    assert differs(x, w)
    assert not differs(x.double(), w.double())
    # A transposed convolution is the gradient of another one.
    with winograd.flags(enabled=False):
        direct = F.conv_transpose2d(x, w, bias, padding=1)
    assert not torch.equal(F.conv_transpose2d(x, w, bias, padding=1), direct)


def test_few_channels_and_other_kernels_are_computed_by_the_definition():
    x, w, _ = operands(1, 8, 64, (40, 40))
    assert not differs(x, w)
    x, w, _ = operands(1, 64, 64, (16, 16))
    assert not differs(x, w[:, :, :1])
    with winograd.flags(enabled=False):
        direct = F.conv2d(x, w, stride=2), F.conv2d(x, w[:, :32], groups=2), F.conv2d(x, w, dilation=2)
    assert torch.equal(F.conv2d(x, w, stride=2), direct[0])
    assert torch.equal(F.conv2d(x, w[:, :32], groups=2), direct[1])
    assert torch.equal(F.conv2d(x, w, dilation=2), direct[2])


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 3e38])
def test_what_is_not_finite_has_the_results_of_the_definition(value):
    x, w, _ = operands(2, 32, 32, (24, 24))
    assert differs(x, w)
    x[1, 3, 10, 11] = value
    with winograd.flags(enabled=False):
        direct = F.conv2d(x, w, padding=1)
    result = F.conv2d(x, w, padding=1)
    assert torch.equal(result.isfinite(), direct.isfinite())
    assert direct[0].isfinite().all() and torch.equal(result.nan_to_num(), direct.nan_to_num())


def test_rounding_errors_are_below_four_times_those_of_the_definition():
    for channels in (16, 64, 256):
        x, w, _ = operands(2, channels, 64, (40, 40))
        exact = F.conv2d(x.double(), w.double(), padding=1)
        assert differs(x, w)
        with winograd.flags(enabled=False):
            direct = (F.conv2d(x, w, padding=1) - exact).square().mean().sqrt()
        assert (F.conv2d(x, w, padding=1) - exact).square().mean().sqrt() < 4 * direct


MEMORY = """
import resource
import rgrad as torch
import rgrad.nn.functional as F
x, w = torch.randn(1, 32, 1024, 1024), torch.randn(32, 32, 3, 3)
F.conv2d(x[:, :, :64, :64], w)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
y = F.conv2d(x, w, padding=1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts kilobytes as Linux does")
def test_memory_of_the_transforms_does_not_grow_with_the_picture():
    grown = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    # The result has 128 MB, and all transformed tiles would have 302.
    assert int(grown.stdout) < 160_000
