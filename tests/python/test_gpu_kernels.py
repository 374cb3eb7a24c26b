"""Kernels of the GPU that have several forms, against the CPU: products, convolutions, broadcasts, optimizers."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

import rgrad as torch
import rgrad.nn.functional as F
from rgrad import nn

pytestmark = pytest.mark.usefixtures("gpu")


def counts() -> tuple[int, int]:
    """Launches and submissions so far."""
    stats = torch.gpu.stats()
    return stats["dispatches"], stats["submissions"]


@pytest.mark.parametrize(
    "shape, other",
    [
        ((6, 8), (8,)),
        ((6, 8), (6, 1)),
        ((3, 5, 4), (5, 1)),
        ((3, 5, 4), (3, 1, 4)),
        ((6, 7), (7,)),
        ((2, 3, 2, 3, 2, 4), (3, 1, 3, 1, 4)),
        ((70000, 4), (70000, 1)),
        ((4, 9), ()),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.float16])
def test_operands_that_are_broadcast_give_the_numbers_of_the_cpu(shape, other, dtype):
    torch.manual_seed(0)
    a, b = (torch.randint(-50, 50, s).to(dtype) for s in (shape, other))
    for f in (lambda a, b: a + b, lambda a, b: b - a, lambda a, b: torch.where(a > b, a, b)):
        assert torch.equal(f(a.to("gpu"), b.to("gpu")).cpu(), f(a, b))


ALL = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]


@pytest.mark.parametrize("name", ALL)
def test_large_tensors_give_the_numbers_of_the_cpu_in_every_dtype_and_layout(name):
    # From 65,536 elements on, an invocation on software computes many; what is no whole block stays as it was.
    torch.manual_seed(0)
    dtype = getattr(torch, name)
    flat, other, cube, rows, columns, planes = (
        torch.randint(0, 100, shape).to(dtype)
        for shape in ((65_600,), (65_600,), (4, 128, 256), (256,), (128, 1), (4, 1, 256))
    )

    def run(flat, other, cube, rows, columns, planes):
        yield flat.where(flat < other, other)
        yield flat[16:] * other[:-16]
        yield flat[:-3] == other[:-3]
        yield flat.float()
        yield flat.clone().mul_(other)
        yield (cube * rows, cube[:, :, 128:] * cube[:, :, :128], cube * columns, cube * planes)
        yield rows * columns.expand(4, 128, 256)
        yield cube.clone().mul_(rows)
        yield cube.flip(0) * cube

    tensors = (flat, other, cube, rows, columns, planes)
    found, expected = run(*(t.to("gpu") for t in tensors)), run(*tensors)
    for on_gpu, on_cpu in zip(found, expected, strict=True):
        pairs = zip(on_gpu, on_cpu, strict=True) if isinstance(on_gpu, tuple) else [(on_gpu, on_cpu)]
        for f, e in pairs:
            assert torch.equal(f.cpu(), e)


def test_functions_of_large_tensors_are_those_of_small_ones():
    x = torch.linspace(-3, 3, 65_544, device="gpu")
    assert torch.equal(x.tanh()[:8], x[:8].tanh()) and torch.equal(x.exp()[-8:], x[-8:].exp())


def test_sizes_that_a_float_cannot_hold_are_divided_exactly():
    # Three columns: no fours, and positions above 2^24.
    rows = torch.tensor(0, dtype=torch.uint8).to("gpu").expand(6_000_000, 3)
    column = torch.tensor([1, 2, 3], dtype=torch.uint8)
    assert torch.equal((rows + column.to("gpu"))[-100_000:].cpu(), column.expand(100_000, 3))


@pytest.mark.parametrize(
    "name, settings",
    [
        ("SGD", {}),
        ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
        ("Adam", {"weight_decay": 0.1}),
        ("AdamW", {"amsgrad": True}),
        ("RMSprop", {}),
        ("RMSprop", {"centered": True}),
        ("RMSprop", {"momentum": 0.5}),
        ("RMSprop", {"momentum": 0.5, "centered": True, "maximize": True}),
        ("Adagrad", {"lr_decay": 0.1}),
        ("Adadelta", {"weight_decay": 0.2}),
    ],
)
def test_a_step_over_many_parameters_takes_few_launches_and_the_numbers_of_the_cpu(name, settings):
    torch.manual_seed(1)
    shapes = [(3, 5), (7,), (4, 4), (0,), (33,), (1,), (16, 8), (2, 1030)]
    start = [torch.randn(*s) for s in shapes]
    grads = [[torch.randn(*s) for s in shapes] for _ in range(3)]
    found = {}
    for device in ("cpu", "gpu"):
        params = [p.clone().to(device).requires_grad_() for p in start]
        optimizer = getattr(torch.optim, name)(params, lr=0.05, **settings)
        for step in grads:
            for p, g in zip(params, step, strict=True):
                p.grad = g.to(device)
            before = counts()[0]
            optimizer.step()
        if device == "gpu":
            # Those of whole fours and the others, and one that is too large to share a launch on software.
            assert counts()[0] - before <= 3
        found[device] = torch.cat([p.detach().cpu().flatten() for p in params])
    torch.testing.assert_close(found["gpu"], found["cpu"], rtol=1e-4, atol=1e-5)


def test_clipping_reads_nothing_back():
    torch.manual_seed(2)
    grads = [torch.randn(*s) for s in ((5, 4), (3,), (8, 8))]
    norms = {}
    for device in ("cpu", "gpu"):
        params = [torch.zeros_like(g).to(device).requires_grad_() for g in grads]
        for p, g in zip(params, grads, strict=True):
            p.grad = g.clone().to(device)
        torch.gpu.synchronize()
        before = counts()[1]
        norm = nn.utils.clip_grad_norm_(params, 0.5)
        assert counts()[1] == before
        clipped = [p.grad.cpu().flatten() for p in params if p.grad is not None]
        norms[device] = torch.cat([norm.cpu().reshape(1), *clipped])
    torch.testing.assert_close(norms["gpu"], norms["cpu"])


@pytest.mark.parametrize("order", [1.0, 2.0, 3.5, float("inf")])
def test_the_norm_of_many_gradients_takes_a_launch_for_as_many_as_can_be_bound(order):
    torch.manual_seed(2)
    tensors = [torch.randn(5, 1 + i % 4) for i in range(70)] + [torch.randn(300, 41).t(), torch.zeros(0)]
    there = [t.to("gpu") for t in tensors]
    dense = [t.contiguous() for t in there]
    before = counts()[0]
    norm = nn.utils.get_total_norm(dense, order)
    # Of 71 tensors; at least seven are bound at once, and what they leave takes one or two more.
    assert counts()[0] - before <= 13
    assert norm.shape == () and norm.device == dense[0].device
    wanted = torch.cat([t.flatten().double() for t in tensors]).norm(order).float()
    for found in (norm, nn.utils.get_total_norm(there, order)):
        torch.testing.assert_close(found.cpu(), wanted, rtol=1e-5, atol=0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_the_norm_of_gradients_keeps_what_is_not_finite(value):
    tensors = [torch.ones(40).to("gpu"), torch.tensor([1.0, value]).to("gpu")]
    for order in (1.0, 2.0, float("inf")):
        norm = nn.utils.get_total_norm(tensors, order).item()
        assert norm == value or (norm != norm and value != value)
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.get_total_norm(tensors, 2.0, error_if_nonfinite=True)


@pytest.mark.parametrize("bad", [None, float("inf"), float("nan")])
def test_a_scaler_reads_back_only_whether_to_step(bad):
    p = torch.tensor([1.0, 2.0, 3.0]).to("gpu").requires_grad_()
    scaler, optimizer = torch.amp.GradScaler("gpu", init_scale=8.0), torch.optim.SGD([p], lr=0.5)
    scaler.scale((p * p).sum()).backward()
    if bad is not None and p.grad is not None:
        p.grad[1] = bad
    torch.gpu.synchronize()
    before = counts()[1]
    scaler.unscale_(optimizer)
    assert counts()[1] == before
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == ([0.0, 0.0, 0.0] if bad is None else [1.0, 2.0, 3.0])
    assert scaler.get_scale() == (8.0 if bad is None else 4.0)


def test_a_copy_of_many_bytes_keeps_them_and_the_order_of_what_is_done():
    x = torch.arange(1 << 19).to("gpu")
    y = x.clone()
    x.add_(1)
    z = x[4:].clone()
    assert torch.equal(y.cpu(), torch.arange(1 << 19))
    assert torch.equal(z.cpu(), torch.arange(5, (1 << 19) + 1))


def test_what_the_tuner_chose_outlives_the_process(tmp_path: Path):
    code = (
        "import rgrad as torch; a = torch.ones(256, 1024).to('gpu'); b = torch.ones(1024, 1024).to('gpu');"
        "before = torch.gpu.stats()['pipelines']; c = a @ b; torch.gpu.synchronize();"
        "print(torch.gpu.stats()['pipelines'] - before, c.sum().item() == 256.0 * 1024 * 1024)"
    )
    made = []
    for _ in range(2):
        env = os.environ | {"RGRAD_CACHE_DIR": str(tmp_path)}
        env.pop("RGRAD_GPU_TUNE", None)
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        pipelines, right = done.stdout.split()
        assert right == "True"
        made.append(int(pipelines))
    assert made[0] > made[1] == 1
    assert any(f.name.startswith("tuned-") for f in tmp_path.iterdir())


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_pools_of_any_window_give_the_numbers_of_the_cpu(size, stride):
    x = torch.randn(2, 3, 11, 9)
    for padding, ceil, counts in product(range(size // 2 + 1), (False, True), (False, True)):

        def pooled(t, padding=padding, ceil=ceil, counts=counts):
            mean = F.avg_pool2d(t, size, stride, padding, ceil, counts)
            most, at = F.max_pool2d(t, size, stride, padding, 1 + stride % 2, ceil, return_indices=True)
            return mean, most, at

        here, there = x.clone().requires_grad_(), x.to("gpu").requires_grad_()
        for a, b in zip(pooled(here), pooled(there), strict=True):
            assert torch.allclose(a.double(), b.cpu().double(), rtol=1e-5, atol=1e-6)
            if a.is_floating_point():
                weights = torch.linspace(0, 1, a.numel()).reshape(a.shape)
                (a * weights).sum().backward()
                (b * weights.to("gpu")).sum().backward()
        assert torch.allclose(here.grad, there.grad.cpu(), rtol=1e-5, atol=1e-6)


# ---- norms


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize(
    "shape, make",
    [
        ((5, 7, 33), lambda affine: nn.LayerNorm(33, elementwise_affine=affine)),
        ((4, 3, 10), lambda affine: nn.LayerNorm((3, 10), elementwise_affine=affine)),
        ((3, 3000), lambda affine: nn.LayerNorm(3000, elementwise_affine=affine)),
        ((3, 8, 5, 5), lambda affine: nn.GroupNorm(4, 8, affine=affine)),
        ((3, 6), lambda affine: nn.GroupNorm(2, 6, affine=affine)),
    ],
)
def test_norms_of_lanes_give_the_numbers_of_the_cpu(shape, make, dtype, affine):
    torch.manual_seed(3)
    x, g = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
    module = make(affine).to(dtype)
    for p in module.parameters():
        nn.init.normal_(p)
    found = {}
    for device in ("cpu", "gpu"):
        module.to(device).zero_grad()
        # Not contiguous: the first two dimensions are swapped in memory.
        own = x.transpose(0, 1).contiguous().to(device).transpose(0, 1).requires_grad_()
        y = module(own)
        y.backward(g.to(device))
        found[device] = [t.cpu().clone() for t in (y.detach(), own.grad, *(p.grad for p in module.parameters()))]
    for on_gpu, on_cpu in zip(found["gpu"], found["cpu"], strict=True):
        near = {"rtol": 2e-3, "atol": 4e-3} if dtype == torch.float16 else {"rtol": 1e-4, "atol": 1e-4}
        torch.testing.assert_close(on_gpu, on_cpu, **near)


@pytest.mark.own_region
def test_a_norm_of_lanes_is_one_launch_and_backward_two_with_two_sums():
    x, g = (torch.randn(64, 48, device="gpu", requires_grad=r) for r in (True, False))
    module = nn.LayerNorm(48).to("gpu")
    with torch.gpu.profile() as profile:
        y = module(x)
    assert [e.kernel for e in profile.events if e.op != "fill"] == ["norm"]
    with torch.gpu.profile() as profile:
        torch.autograd.grad(y, [x, *module.parameters()], g)
    kernels = [e.kernel for e in profile.events if e.op != "fill"]
    # A sum may take two passes.
    assert kernels[:2] == ["norm_backward", "reduce_formula"]
    assert set(kernels[2:]) == {"reduce_formula", "reduce"} and len(kernels) <= 5


def places(found: torch.Tensor, exact: torch.Tensor) -> float:
    """By how many units in the last place of float32 results are off at most."""
    unit = exact.abs().float()
    unit = (torch.nextafter(unit, torch.tensor(math.inf)) - unit).double()
    return ((found.cpu().double() - exact).abs() / unit).max().item()


@pytest.mark.parametrize("shape", [(1 << 20, 1), (100_003, 1), (5_000, 7)])
def test_a_sum_of_many_floats_loses_nothing_to_rounding(shape):
    # Added up one by one, the errors of equal numbers would all have one sign.
    x = torch.full(shape, 0.1)
    assert places(x.to("gpu").sum(0), x.double().sum(0)) <= 1
    assert places(x.to("gpu").mean(0), x.double().mean(0)) <= 1


def test_a_sum_with_infinities_is_one_of_them():
    for values, expected in (([1.0, math.inf, 2.0], math.inf), ([-math.inf, 1.0, 3e38, 3e38], -math.inf)):
        assert torch.tensor(values).to("gpu").sum().item() == expected
    assert torch.tensor([3e38, 3e38, 1.0]).to("gpu").sum().item() == math.inf
    assert math.isnan(torch.tensor([math.inf, -math.inf, 1.0]).to("gpu").sum().item())


def test_the_inverse_of_erf_is_within_a_place_near_its_ends():
    x = torch.linspace(0.997, 0.99999, 4001)
    assert places(x.to("gpu").erfinv(), x.double().erfinv()) <= 1
