"""Epilogues: what follows a product or a convolution is computed piece by piece with it, with the same bits."""

from __future__ import annotations

import pytest
from compile_cases import data, groups, log_of, same

import rgrad as torch

F = torch.nn.functional

pytestmark = pytest.mark.own_region

PRODUCTS = {
    "square": (640, 640, 640),
    "a row of weights wider than a block of columns is": (512, 64, 3000),
    "deeper than a block": (384, 2100, 160),
    "narrow": (4096, 64, 33),
    "thin": (2048, 3, 2048),
    "few rows": (70, 128, 1024),
    "one row": (1, 300, 40_000),
    "one column": (40_000, 300, 1),
    "rows that no tile divides": (1009, 77, 131),
}


def results(program):
    made = program()
    return [made] if isinstance(made, torch.Tensor) else list(made)


def both(program, fused=None):
    """Has the same results in a region; `fused` tells which operations the log has in one group."""
    wanted, found = results(program), []
    log = groups(log_of(lambda: found.extend(results(program))))
    assert len(found) == len(wanted) and all(map(same, found, wanted))
    if fused is not None:
        assert any(line.startswith(f"fused: {fused} |") for line in log), log
    return log


@pytest.mark.parametrize("sizes", PRODUCTS.values(), ids=PRODUCTS.keys())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_pointwise_operations_follow_a_product(sizes, dtype):
    m, k, n = sizes
    x, w, b = data(m, k).to(dtype), data(n, k, seed=1).to(dtype), data(n, seed=2).to(dtype)
    both(lambda: F.relu(F.linear(x, w, b)))
    both(lambda: F.gelu(x @ w.T) * 2 + b)
    both(lambda: torch.sigmoid(x @ w.T) + (x @ w.T))
    both(lambda: (x.T.contiguous().T @ w.T.contiguous()).tanh())


def test_an_activation_is_in_the_group_of_its_product_and_its_argument_has_no_memory():
    x, w, b = data(1024, 96), data(256, 96, seed=1), data(256, seed=2)
    log = both(lambda: F.relu(F.linear(x, w, b)), fused="matmul → relu")
    assert any("1 of 2 results stored" in line for line in log)


def test_a_product_that_somebody_keeps_is_stored():
    x, w = data(1024, 96), data(256, 96, seed=1)
    both(lambda: [y := x @ w.T, F.relu(y), y.sigmoid()], fused="matmul → relu → sigmoid")
    both(lambda: [y := x @ w.T, y.T.contiguous(), y.relu()])


def test_each_of_two_products_has_its_own_epilogue():
    x, w, v = data(1024, 96), data(256, 96, seed=1), data(256, 96, seed=2)
    both(lambda: F.silu(x @ w.T) * (x @ v.T))

    def turns():
        a, b = x @ w.T, x @ v.T
        return a.relu(), b.sigmoid()

    log = both(turns, fused="matmul → relu")
    assert any(line.startswith("fused: matmul → sigmoid |") for line in log), log


def test_operations_on_rows_follow_a_product():
    x, w, y = data(1024, 96), data(256, 96, seed=1), data(1024, 256, seed=3)
    weight, bias = data(256, seed=4), data(256, seed=5)
    both(lambda: torch.softmax(x @ w.T / 8, -1))
    both(lambda: (x @ w.T).sum(-1))
    both(lambda: F.layer_norm(x @ w.T + y, (256,), weight, bias))
    both(lambda: [(x @ w.T).reshape(1024, 4, 64).amax(-1), (x @ w.T).reshape(-1, 512).sum(-1)])
    a, b = (x @ w.T).chunk(2, -1)
    assert a.shape == b.shape
    both(lambda: (lambda a, b: F.silu(a) * b)(*(x @ w.T).chunk(2, -1)))


def test_reductions_of_all_rows_are_computed_after_the_product():
    x, w = data(1024, 96), data(256, 96, seed=1)
    both(lambda: F.relu(x @ w.T).sum())
    both(lambda: F.relu(x @ w.T).sum(0))
    both(lambda: [y := F.relu(x @ w.T), y.mean(), y.sum(0)])


@pytest.mark.parametrize("sizes", [(24, 64, 32, 80), (3, 600, 32, 300), (40, 30, 16, 50)])
def test_operations_follow_batches_of_products(sizes):
    count, m, k, n = sizes
    q, w = data(count, m, k), data(count, k, n, seed=1)
    both(lambda: torch.softmax(q @ w * 0.3, -1))
    both(lambda: F.relu(q.transpose(0, 1).contiguous().transpose(0, 1) @ w) + 1)
    both(lambda: F.relu(q @ w[0]))


def test_what_a_product_reads_is_not_overwritten_before_it_is_read():
    w = data(640, 640, seed=1)

    def replaced(x):
        return x.copy_(F.relu(x @ w))

    def added(x):
        x += x @ w
        return x

    def weight(x):
        y = w.clone()
        return y.mul_(torch.tanh(x @ y))

    for step in (replaced, added, weight):
        found, wanted = data(640, 640), data(640, 640)
        with torch.defer():
            step(found)
        assert same(found, step(wanted)) or step is weight and same(found, wanted)
        both(lambda step=step: step(data(640, 640)))


def test_results_are_written_over_the_product_and_other_tensors():
    x, w, y = data(1024, 96), data(256, 96, seed=1), data(1024, 256, seed=2)

    def in_place():
        z = x @ w.T
        z.relu_()
        z += y
        return z

    def accumulated():
        total = y.clone()
        total.add_(x @ w.T)
        total.add_(torch.mm(x, w.T), alpha=0.5)
        return total

    def given():
        out = torch.empty(1024, 256)
        torch.mm(x, w.T, out=out)
        return out.exp_()

    for program in (in_place, accumulated, given):
        both(program)


def test_gradients_pass_through_epilogues():
    x, w, b = data(1024, 96), data(256, 96, seed=1), data(256, seed=2)
    v = data(64, 256, seed=3)

    def step():
        parameters = [t.clone().requires_grad_() for t in (x, w, b, v)]
        x_, w_, b_, v_ = parameters
        loss = F.gelu(F.linear(F.relu(F.linear(x_, w_, b_)), v_)).square().mean()
        loss.backward()
        return [loss.detach(), *(p.grad for p in parameters)]

    both(step)


CONVOLUTIONS = {
    "one element": dict(channels=(32, 64), kernel=1),
    "one element, few images": dict(images=1, channels=(64, 96), kernel=1),
    "one element, small planes": dict(images=6, channels=(64, 256), kernel=1, size=7),
    "one element, single positions": dict(images=512, channels=(96, 128), kernel=1, size=1),
    "depthwise": dict(channels=(32, 32), kernel=3, groups=32, padding=1),
    "depthwise, small planes": dict(images=16, channels=(64, 64), kernel=3, groups=64, padding=1, size=7),
    "depthwise, strided": dict(channels=(32, 32), kernel=5, groups=32, padding=2, stride=2, size=40),
    "direct": dict(channels=(8, 24), kernel=3, padding=1),
    "direct, strided": dict(channels=(24, 24), kernel=3, padding=1, stride=2, size=40),
    "groups": dict(channels=(32, 32), kernel=3, groups=4, padding=1),
    "columns": dict(channels=(3, 64), kernel=7, padding=3, stride=2, size=48),
    "winograd": dict(channels=(32, 32), kernel=3, padding=1),
}


@pytest.mark.parametrize("case", CONVOLUTIONS.values(), ids=CONVOLUTIONS.keys())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_operations_follow_a_convolution(case, dtype):
    (c_in, c_out), size, kernel = case["channels"], case.get("size", 24), case["kernel"]
    groups, how = case.get("groups", 1), {k: case[k] for k in ("stride", "padding") if k in case}
    x = data(case.get("images", 8), c_in, size, size).to(dtype)
    w = data(c_out, c_in // groups, kernel, kernel, seed=1).to(dtype) * 0.2
    b, mean, var = (data(c_out, seed=s).to(dtype) for s in (2, 3, 4))

    def conv(x, w=w):
        return F.conv2d(x, w, b, groups=groups, **how)

    other = data(*conv(x).shape, seed=5).to(dtype)
    both(lambda: F.relu(conv(x)))
    both(lambda: F.relu(F.batch_norm(conv(x), mean, var.abs(), b, b)) + other)
    both(lambda: (conv(x) * other).clamp_(0, 6))

    def step():
        x_, w_ = x.clone().requires_grad_(), w.clone().requires_grad_()
        y = F.relu(conv(torch.tanh(x_ * 2), w_))
        (y * other).sum().backward()
        return y.detach(), x_.grad, w_.grad

    both(step)


def test_the_epilogue_of_a_convolution_is_in_its_group():
    x, w, scale = data(8, 32, 28, 28), data(64, 32, 1, 1, seed=1), data(64, 1, 1, seed=2)
    both(lambda: F.relu(F.conv2d(x, w) * scale), fused="convolution → mul → relu")


def test_a_convolution_is_computed_by_the_settings_of_its_call():
    x, w = data(4, 32, 40, 40), data(32, 32, 3, 3, seed=1)

    def program():
        torch._C._enable_winograd(False)
        try:
            by_definition = F.conv2d(x, w, padding=1)
        finally:
            torch._C._enable_winograd(True)
        return by_definition, F.relu(F.conv2d(x, w, padding=1)), F.relu(by_definition)

    both(program)


def test_sizes_that_do_not_fit_are_the_errors_of_eager_programs():
    x, w = data(1024, 96), data(256, 64)
    with pytest.raises(RuntimeError, match="1024x96 and 64x256"), torch.defer():
        F.relu(x @ w.T)


def test_results_do_not_depend_on_the_number_of_threads():
    x, w, threads = data(1024, 300), data(500, 300, seed=1), torch.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            with torch.defer():
                found.append(F.gelu(x @ w.T))
    finally:
        torch.set_num_threads(threads)
    assert same(found[0], found[1]) and same(found[0], found[2])
