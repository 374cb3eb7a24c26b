"""Distances between all pairs of rows."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rgrad as torch


@pytest.mark.parametrize("shapes", [((30, 4), (7, 4)), ((2, 5, 4), (3, 1, 40, 4)), ((26, 1), (26, 1))])
def test_distances_between_many_rows_are_those_of_their_differences(shapes):
    torch.manual_seed(0)
    x, y = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes)
    apart = (x.unsqueeze(-2) - y.unsqueeze(-3)).pow(2).sum(-1).sqrt()
    for mode in ("use_mm_for_euclid_dist", "use_mm_for_euclid_dist_if_necessary", "donot_use_mm_for_euclid_dist"):
        found = torch.cdist(x, y, compute_mode=mode)
        torch.testing.assert_close(found, apart, rtol=1e-6, atol=1e-7)
        weight = torch.randn_like(found)
        for one, other in zip(
            torch.autograd.grad(found, [x, y], weight), torch.autograd.grad(apart, [x, y], weight, True), strict=True
        ):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    small = lambda x, y: torch.cdist(x, y, compute_mode="use_mm_for_euclid_dist")  # noqa: E731
    with pytest.raises(ValueError, match="fast is not a valid value for compute_mode"):
        torch.cdist(x, y, compute_mode="fast")
    few = (x[..., :3, :].detach().requires_grad_(), y[..., :2, :].detach().requires_grad_())
    assert torch.autograd.gradcheck(small, few) and torch.autograd.gradgradcheck(small, few)


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("shapes", [((5, 4), (7, 4)), ((2, 5, 4), (3, 1, 6, 4)), ((90, 70), (50, 70))])
def test_distances_of_any_order_are_norms_of_differences(order, shapes):
    torch.manual_seed(1)
    x, y = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes)
    apart = torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), order, -1)
    found = torch.cdist(x, y, order, compute_mode="donot_use_mm_for_euclid_dist")
    assert torch.equal(found, apart)
    weight = torch.randn_like(found)
    for one, other in zip(
        torch.autograd.grad(found, [x, y], weight), torch.autograd.grad(apart, [x, y], weight, True), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-11)
    few = (x[..., :3, :3].detach().requires_grad_(), y[..., :2, :3].detach().requires_grad_())
    assert torch.autograd.gradgradcheck(lambda x, y: torch.cdist(x, y, order), few)


MEMORY = """
import rgrad as torch

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024

x = torch.randn(1000, 64).requires_grad_()
torch.cdist(x[:4], x, 1.0).sum().backward()
weight = torch.rand(1000, 1000)
before = peak()
for order in (1.0, 3.0, float("inf")):
    torch.cdist(x, x, order).backward(weight)
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
def test_differences_of_all_pairs_of_rows_are_not_in_memory():
    result = subprocess.run([sys.executable, "-c", MEMORY], check=True, capture_output=True, text=True)
    # They alone would take 244 MB; the distances take 4.
    assert float(result.stdout) < 60


def test_distances_of_no_columns_are_zero_and_equal_extrema_all_have_the_gradient():
    for order in (0.0, 0.5, 1.0, 2.0, float("inf")):
        assert torch.equal(torch.cdist(torch.ones(2, 0), torch.ones(3, 0), order), torch.zeros(2, 3))
    x, y = torch.zeros(2, 2, requires_grad=True), torch.tensor([[1.0, 1.0], [0.0, -2.0]])
    torch.cdist(x, y, float("inf")).sum().backward()
    assert x.grad.tolist() == [[-1.0, 0.0], [-1.0, 0.0]]
    (equal,) = torch.autograd.grad(torch.cdist(x, x.detach(), 0.5).sum(), x)
    assert equal.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_the_gradient_of_a_distance_of_zero_is_zero():
    x = torch.arange(60.0).view(30, 2).requires_grad_()
    torch.cdist(x, x).sum().backward()
    assert x.grad is not None and x.grad.isfinite().all()
