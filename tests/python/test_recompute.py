"""Values that backward computes again instead of keeping them, inside of regions."""

from __future__ import annotations

import threading

import pytest
from compile_cases import data, groups, log_of, same

import rgrad as torch

F = torch.nn.functional


def stored(lines: list[str]) -> int:
    return sum(int(line.split(", ")[1].split(" of ")[0]) for line in groups(lines) if " results stored" in line)


def gradients(f, *args: torch.Tensor, compiled: bool) -> list[torch.Tensor]:
    leaves = [a.detach().clone().requires_grad_() for a in args]
    loss = (torch.compile(f) if compiled else f)(*leaves)
    return [loss.detach(), *torch.autograd.grad(loss, leaves)]


def matches_eager(f, *args: torch.Tensor) -> bool:
    pairs = zip(gradients(f, *args, compiled=True), gradients(f, *args, compiled=False), strict=True)
    return all(same(a, b) for a, b in pairs)


@pytest.mark.own_region
def test_cheap_values_that_only_nodes_save_are_not_stored():
    x = data(grad=True)
    # `mul` saves both factors, which are computed again; the product is returned, and stored.
    assert stored(log_of(lambda: keep((x + 1) * (x - 2)))) == 1
    # Exponentials are kept: computing them takes longer than reading them.
    assert stored(log_of(lambda: keep((x + 1).exp() * (x - 2)))) == 2
    # What follows in a few steps from a value that its own node keeps is not.
    assert stored(log_of(lambda: keep((x.sigmoid() + 1).log()))) == 2


KEPT: list[torch.Tensor] = []


def keep(t: torch.Tensor) -> None:
    KEPT[:] = [t]


def test_factors_of_products_have_the_bits_of_eager():
    x, w = data(grad=True), data(128, 64, seed=1, grad=True)

    for f in (F.gelu, lambda h: F.dropout(F.gelu(h), 0.5), lambda h: F.layer_norm(h, (64,)), lambda h: F.silu(h) * 2):

        def program(x, w, f=f):
            torch.manual_seed(3)
            return (f(x @ w) @ w.T).square().sum()

        assert matches_eager(program, x, w)


def test_chains_and_views_and_values_per_row_have_the_bits_of_eager():
    x, r, w = data(), data(seed=1), data(128, seed=2)

    def residual_norm(x, r, w):
        y = x + r
        m = y.mean(-1, keepdim=True)
        v = ((y - m) ** 2).mean(-1, keepdim=True)
        return ((y - m) * torch.rsqrt(v + 1e-5) * w).sin().sum()

    def rotary(x, r, w):
        y = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w
        a, b = y.chunk(2, -1)
        c, s = r.chunk(2, -1)
        return torch.cat([a * c - b * s, a * s + b * c], -1).cos().sum()

    def turned(x, r, w):
        return ((x + r).t() * w.sum() * (x - r).t()).square().sum()

    assert all(matches_eager(f, x, r, w) for f in (residual_norm, rotary, turned))


def test_an_operand_that_is_written_before_backward_was_read_before():
    def run(compiled: bool):
        x, w, bias = data(grad=True), data(128, 64, seed=1, grad=True), data(64, seed=2, grad=True)
        shift = data(seed=4)

        def f():
            h = F.layer_norm(x @ w, (64,), None, bias)
            return (h @ w.t()) * ((x + shift) * (x - shift))

        y = (torch.compile(f) if compiled else f)()
        with torch.no_grad():
            # Nobody saved the bias or the shift, so an eager program may write them.
            bias.add_(1)
            shift.zero_()
        return torch.autograd.grad(y.sum(), (x, w))

    assert all(same(a, b) for a, b in zip(run(True), run(False), strict=True))


def test_an_operand_that_is_written_in_the_region_was_read_before():
    def run(compiled: bool):
        x, shift = data(grad=True), data(seed=4)

        def f():
            y = (x + shift) * (x - shift)
            shift.mul_(2)
            return y * shift

        y = (torch.compile(f) if compiled else f)()
        return torch.autograd.grad(y.sum(), x)[0], shift

    assert all(same(a, b) for a, b in zip(run(True), run(False), strict=True))


def test_a_whole_graph_may_write_an_operand_at_once():
    def run(compiled: bool):
        x, shift = data(grad=True), data(seed=4)

        def f():
            y = (x + shift) * (x - shift)
            shift[torch.tensor([3, 5])] = 0.0
            return y

        y = (torch.compile(f, fullgraph=True) if compiled else f)()
        return torch.autograd.grad(y.sum(), x)[0], shift

    assert all(same(a, b) for a, b in zip(run(True), run(False), strict=True))


def test_a_saved_value_that_was_written_is_an_error_as_in_eager_programs():
    def message(compiled: bool) -> str:
        x = data(grad=True)

        def f():
            a, b = x + 1, x - 1
            y = a * b
            a.mul_(2)
            return y.sum()

        with pytest.raises(RuntimeError, match="modified by an inplace operation") as e:
            (torch.compile(f) if compiled else f)().backward()
        return str(e.value)

    assert message(True) == message(False)


def test_a_value_outlives_the_node_that_computed_it():
    x, w = data(grad=True), data(128, 64, seed=1, grad=True)

    def f(x, w):
        h = F.gelu(x * 3)
        return h.sum(), (h @ w).sum()

    def run(compiled: bool):
        first, second = (torch.compile(f) if compiled else f)(x, w)
        # Frees what gelu has saved.
        (gx,) = torch.autograd.grad(first, x)
        return gx, torch.autograd.grad(second, w)[0]

    assert all(same(a, b) for a, b in zip(run(True), run(False), strict=True))


def test_hooks_of_saved_tensors_see_tensors():
    x = data(grad=True)
    seen: list[torch.Tensor] = []

    @torch.compile
    def f():
        with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
            return ((x + 1) * (x - 2)).sum()

    f().backward()
    assert len(seen) == 2 and {t.sum().item() for t in seen} == {(x + 1).sum().item(), (x - 2).sum().item()}

    y = torch.compile(lambda: (x + 1) * (x - 2))()
    packed: list[torch.Tensor] = []
    y.grad_fn._raw_saved_self.register_hooks(lambda t: packed.append(t) or t, lambda t: t)
    assert same(packed[0].detach(), (x + 1).detach()) and same(y.grad_fn._saved_self, x + 1)


def test_an_operand_that_is_written_before_its_result_is_saved_spoils_the_recipe():
    def run(compiled: bool, write) -> torch.Tensor:
        x, shift = data(grad=True), data(seed=4)

        def f():
            y = x - shift
            write(shift)
            return y * y

        return torch.autograd.grad((torch.compile(f) if compiled else f)().sum(), x)[0]

    for write in (lambda t: t.zero_(), lambda t: t.data.mul_(3)):
        assert same(run(True, write), run(False, write))


def test_backward_reads_what_was_written_without_counting():
    def run(compiled: bool, early: bool) -> torch.Tensor:
        x = data(grad=True)

        def f():
            y = x + 1
            alias = y.data if early else None
            return y, y * y, alias

        y, z, alias = (torch.compile(f) if compiled else f)()
        (y.data if alias is None else alias).fill_(3)
        return torch.autograd.grad(z.sum(), x)[0]

    assert all(same(run(True, early), run(False, early)) for early in (True, False))


def test_transforms_inside_of_regions_keep_what_they_know():
    x, v = data(), data(seed=1)

    def f(x):
        return ((x + 1) * (x - 2) * x.exp()).sum()

    def tangents(x):
        return torch.func.jvp(torch.func.grad(f), (x,), (v,))[1]

    def samples(x):
        return torch.func.vmap(torch.func.grad(f))(x)

    for program in (tangents, samples):
        assert same(torch.compile(program)(x), program(x))


def test_a_graph_that_is_retained_is_right_after_a_step():
    def run(compiled: bool):
        x, p = data(grad=True), data(seed=5, grad=True)

        def f():
            return ((x + p) * (x - 2)).sum()

        loss = (torch.compile(f) if compiled else f)()
        loss.backward(retain_graph=True)
        with torch.no_grad():
            p.add_(p.grad, alpha=-0.5)
        loss.backward()
        return x.grad, p.grad

    assert all(same(a, b) for a, b in zip(run(True), run(False), strict=True))


def test_long_chains_are_not_computed_from_their_beginning():
    x = data(grad=True)

    @torch.compile
    def f():
        h = x
        for _ in range(5000):
            h = h * 0.999 + 0.001
        return h.sum()

    loss = f()
    loss.backward()
    assert x.grad is not None and x.grad.std() < 1e-6
    del loss


def test_other_threads_may_write_operands_and_run_backward():
    x, shift = data(grad=True), data(seed=4)
    y = torch.compile(lambda: (x + shift) * (x - shift))()
    expected = torch.autograd.grad(((x + shift) * (x - shift)).sum(), x)[0]
    found: list[torch.Tensor] = []
    writer = threading.Thread(target=lambda: shift.zero_())
    reader = threading.Thread(target=lambda: found.append(torch.autograd.grad(y.sum(), x)[0]))
    writer.start()
    reader.start()
    writer.join()
    reader.join()
    assert same(found[0], expected)
