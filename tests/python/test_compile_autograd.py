"""Autograd inside of regions: hooks, second derivatives, checkpoints, modes, views, whole training steps."""

from __future__ import annotations

from typing import Any

import pytest
from compile_cases import data, gelu_chain, same

import rgrad as torch

F = torch.nn.functional


def test_hooks_run_in_order_and_see_values():
    def run(compiled: bool):
        order: list[Any] = []
        x = data(grad=True)

        def f(x):
            y = x * 2
            y.register_hook(lambda g: order.append(("y", g.sum().item())) or g * 3)
            y.retain_grad()
            z = y.exp()
            z.register_hook(lambda g: order.append(("z", g.sum().item())))
            return z.sum()

        x.register_hook(lambda g: order.append(("x", g.sum().item())))
        x.register_post_accumulate_grad_hook(lambda p: order.append(("after", p.grad.sum().item())))
        loss = (torch.compile(f) if compiled else f)(x)
        loss.backward()
        return order, x.grad

    (order, grad), (eager_order, eager_grad) = run(True), run(False)
    assert order == eager_order and [name for name, _ in order] == ["z", "y", "x", "after"] and same(grad, eager_grad)


def test_retained_graphs_and_second_derivatives_are_right():
    def run(f):
        x = data(grad=True)
        y = f(x).sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        first.pow(2).sum().backward(retain_graph=True)
        y.backward()
        return first, x.grad

    assert all(same(a, b) for a, b in zip(run(torch.compile(gelu_chain)), run(gelu_chain), strict=True))
    with torch.defer():
        whole = run(gelu_chain)
    assert all(same(a, b) for a, b in zip(whole, run(gelu_chain), strict=True))


def test_a_function_of_ones_own_computes_inside():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x * 1)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    def run(f):
        x = data(grad=True)
        y = f(x)
        y.sum().backward()
        return y, x.grad

    def cubes(x):
        return Cube.apply(x * 2).tanh()

    assert all(same(a, b) for a, b in zip(run(torch.compile(cubes)), run(cubes), strict=True))


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointed_parts_are_computed_again_to_the_same_bits(use_reentrant):
    from rgrad.utils.checkpoint import checkpoint

    def part(x):
        return F.dropout(gelu_chain(x), 0.2)

    def f(x):
        return checkpoint(part, x * 2, use_reentrant=use_reentrant).sum()

    def run(f):
        torch.manual_seed(5)
        x = data(grad=True)
        f(x).backward()
        return x.grad

    assert same(run(torch.compile(f)), run(f))


def test_autocast_inference_mode_and_anomaly_mode_work_inside():
    x, w = data(grad=True), data(128, 128, seed=1)

    def cast(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x * 2) @ w

    y, eager = torch.compile(cast)(x), cast(x)
    assert y.dtype == torch.bfloat16 and same(y, eager)

    def inferred(x):
        with torch.inference_mode():
            return (x * 2).tanh()

    y = torch.compile(inferred)(x)
    assert y.is_inference() and same(y, inferred(x))

    with pytest.warns(UserWarning, match="Anomaly"):
        anomaly = torch.autograd.detect_anomaly(check_nan=True)
    with anomaly, pytest.warns(UserWarning, match="sqrt"):
        loss = torch.compile(lambda x: ((x * 0).sqrt() * 0).sum())(x)
        with pytest.raises(RuntimeError, match="returned nan values"):
            loss.backward()


def test_saved_tensor_hooks_see_computed_tensors():
    packed = []

    def pack(t):
        packed.append(t.sum().item())
        return t.detach().clone()

    def run(f):
        x = data(grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = f(x)
        y.sum().backward()
        return x.grad

    grad, count = run(torch.compile(gelu_chain)), len(packed)
    assert same(grad, run(gelu_chain)) and packed[:count] == packed[count:]


def test_a_saved_tensor_that_was_written_is_an_error_inside_too():
    @torch.compile
    def f(x):
        y = x * 2
        z = y.exp()
        z.add_(1)
        return z.sum()

    loss = f(data(grad=True))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_writes_to_views_reach_the_base_and_its_history():
    def f(x):
        y = x * 2
        row, column = y[3], y[:, 5]
        row.mul_(3)
        column.add_(row.sum())
        y.t()[1].zero_()
        return (y * y).sum()

    def run(f):
        x = data(grad=True)
        loss = f(x)
        loss.backward()
        return loss.detach(), x.grad

    assert all(same(a, b) for a, b in zip(run(torch.compile(f)), run(f), strict=True))


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_whole_training_steps_give_the_same_parameters(kind):
    def train(region: bool):
        torch.manual_seed(0)
        layers = torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.LayerNorm(256)
        net = torch.nn.Sequential(torch.nn.Linear(128, 256), *layers, torch.nn.Linear(256, 10))
        optimizer = kind(net.parameters(), lr=1e-2)
        x, target = data(), torch.arange(256) % 10
        for _ in range(4):
            with torch.defer() if region else torch.enable_grad():
                optimizer.zero_grad()
                loss = F.cross_entropy(net(x), target)
                loss.backward()
                optimizer.step()
        return [loss.detach(), *(p.detach() for p in net.parameters())]

    assert all(same(a, b) for a, b in zip(train(True), train(False), strict=True))


def test_functions_in_place_keep_their_result_once_and_what_was_read_before_stays_what_it_was():
    def f(x, w):
        h = x * w
        before, read = h.exp(), h * 3
        h += before
        F.relu_(h)
        F.relu6(read, inplace=True)
        return (h * read).sum(), read

    def run(function):
        x, w = data(grad=True), data(seed=1, grad=True)
        loss, read = function(x, w)
        assert read.grad_fn._saved_self.data_ptr() == read.data_ptr()
        loss.backward()
        return loss, x.grad, w.grad

    assert all(same(a, b) for a, b in zip(run(torch.compile(f)), run(f), strict=True))
