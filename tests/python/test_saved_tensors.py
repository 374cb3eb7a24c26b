"""What nodes keep for backward: hooks on it, and checkpointing without a backward inside backward."""

from __future__ import annotations

import pytest

import rgrad as torch
from rgrad.autograd import graph
from rgrad.autograd.graph import (
    disable_saved_tensors_hooks,
    get_gradient_edge,
    register_multi_grad_hook,
    save_on_cpu,
    saved_tensors_hooks,
)
from rgrad.utils.checkpoint import CheckpointError, checkpoint, set_checkpoint_early_stop


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(values, requires_grad=True)


def test_every_saved_tensor_passes_through_the_hooks():
    packed, x = [], leaf(2.0, 3.0)
    with saved_tensors_hooks(lambda t: packed.append(t.tolist()) or len(packed) - 1, lambda i: torch.tensor(packed[i])):
        y = (x * x).exp()
    y.sum().backward()
    assert [2.0, 3.0] in packed
    assert torch.allclose(x.grad, 2 * x.detach() * y.detach())


@pytest.mark.parametrize(
    ("run", "order"),
    [
        # Inputs by the order of their names in PyTorch, then results.
        (lambda a, b: a * b, [2.0, 1.0]),  # other, self
        (lambda a, b: a**b, [2.0, 1.0, 1.0]),  # exponent, self, result
        (lambda a, b: torch.dot(a, b), [1.0, 2.0]),  # self, tensor
        (lambda a, b: a[None] @ b[:, None], [2.0, 1.0]),  # mat2, self
        (lambda a, b: torch.addmm(torch.zeros(1, 1), a[None], b[:, None]), [1.0, 2.0]),  # mat1, mat2
        (lambda a, b: torch.lerp(a, b, b * 2), [2.0, 1.0, 4.0]),  # end, self, weight
    ],
)
def test_tensors_are_packed_and_unpacked_in_the_order_of_pytorch(run, order):
    a, b = torch.full((1,), 1.0, requires_grad=True), torch.full((1,), 2.0, requires_grad=True)
    packed, unpacked = [], []

    def pack(t):
        packed.append(t.item())
        return t

    def unpack(t):
        unpacked.append(t.item())
        return t

    with saved_tensors_hooks(pack, unpack):
        y = run(a, b)
    assert packed == order
    y.sum().backward()
    assert unpacked == order


def test_the_innermost_pair_of_hooks_applies():
    used, x = [], leaf(2.0)

    def pair(name):
        return saved_tensors_hooks(lambda t: used.append(name) or t, lambda t: t)

    with pair("outer"):
        a = x.exp()
        with pair("inner"):
            b = a.sin()
        c = b.exp()
    c.backward()
    assert used == ["outer", "inner", "outer"]


def test_an_unpack_hook_that_returns_no_tensor_is_an_error():
    with saved_tensors_hooks(lambda t: t, lambda t: 5):
        y = leaf(2.0).exp()
    with pytest.raises(TypeError, match="Output of saved tensor unpack_hook expected to be a Tensor"):
        y.backward()


def test_hooks_may_be_forbidden_for_a_block():
    hooks = saved_tensors_hooks(lambda t: t, lambda t: t)
    with disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
        hooks.__enter__()
    with save_on_cpu():
        y = leaf(1.0).exp()
    y.backward()


def test_a_hook_on_several_tensors_sees_all_gradients_of_one_backward():
    a, b = leaf(2.0), leaf(3.0)
    c, d = a * b, a * 5
    seen = []
    handle = register_multi_grad_hook((a, b, c, d), lambda grads: seen.append([g and g.item() for g in grads]))
    (c + d).sum().backward(retain_graph=True)
    d.sum().backward(retain_graph=True)
    handle.remove()
    (c + d).sum().backward()
    assert seen == [[8.0, 2.0, 1.0, 1.0], [5.0, None, None, 1.0]]


def test_a_hook_on_any_of_several_tensors_runs_once_a_backward():
    a, b = leaf(2.0), leaf(3.0)
    c = a * b
    seen = []
    register_multi_grad_hook((a, b, c), lambda g: seen.append(g.item()), mode="any")
    c.backward(retain_graph=True)
    c.backward()
    assert seen == [1.0, 1.0]
    with pytest.raises(ValueError, match="Expects mode to be one of"):
        register_multi_grad_hook((a,), print, mode="some")


def test_gradient_edges_stand_for_tensors():
    x = leaf(2.0)
    y = x * 3
    (g,) = torch.autograd.grad(get_gradient_edge(y * y), get_gradient_edge(y), torch.ones(1))
    assert g.tolist() == [12.0]
    with pytest.raises(RuntimeError, match="does not require gradients"):
        get_gradient_edge(torch.ones(1))


def test_a_checkpointed_region_runs_again_in_backward_and_stops_early():
    steps = []

    def region(x):
        steps.append("sin")
        y = x.sin()
        steps.append("exp")
        y = y.exp()
        steps.append("end")
        return y + 1

    x = leaf(0.5)
    y = checkpoint(region, x, use_reentrant=False)
    assert steps == ["sin", "exp", "end"]
    y.backward()
    assert steps == ["sin", "exp", "end", "sin", "exp"]
    assert torch.allclose(x.grad, x.detach().cos() * x.detach().sin().exp())
    steps.clear()
    with set_checkpoint_early_stop(False):
        checkpoint(region, leaf(0.5), use_reentrant=False).backward()
    assert steps == ["sin", "exp", "end"] * 2


def test_checkpointing_reaches_parameters_through_grad_and_twice():
    layer, x = torch.nn.Linear(2, 2).double(), torch.ones(1, 2, dtype=torch.float64)
    y = checkpoint(lambda v, scale: layer(v).tanh() * scale, x, use_reentrant=False, scale=2)
    (first,) = torch.autograd.grad(y.sum(), layer.weight, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), layer.weight)
    z = layer(x).tanh() * 2
    (expected,) = torch.autograd.grad(z.sum(), layer.weight, create_graph=True)
    (expected_second,) = torch.autograd.grad(expected.sum(), layer.weight)
    assert torch.allclose(first, expected) and torch.allclose(second, expected_second)


def test_nested_regions_draw_the_same_random_numbers_again():
    torch.manual_seed(0)
    drop, x = torch.nn.Dropout(0.5), torch.ones(50, requires_grad=True)

    def inner(v):
        return drop(v).exp()

    y = checkpoint(lambda v: checkpoint(inner, v, use_reentrant=False) * 2, x, use_reentrant=False)
    y.sum().backward()
    kept = y.detach() > 2.5
    assert bool(((x.grad != 0) == kept).all()) and 0 < int(kept.sum()) < 50


def test_a_region_that_does_something_else_the_second_time_is_an_error():
    calls = []

    def fewer(x):
        calls.append(1)
        return x.sin() if len(calls) > 1 else x.sin().exp()

    with pytest.raises(CheckpointError, match="A different number of tensors was saved"):
        checkpoint(fewer, leaf(1.0, 2.0), use_reentrant=False).sum().backward()
    calls.clear()

    def smaller(x):
        calls.append(1)
        return x.exp() if len(calls) == 1 else x[:1].exp()

    with pytest.raises(CheckpointError, match="have different metadata than during the forward pass"):
        checkpoint(smaller, leaf(1.0, 2.0), use_reentrant=False).sum().backward()


def test_an_input_changed_after_its_region_is_noticed():
    x = torch.ones(2)
    w = leaf(1.0, 2.0)
    y = checkpoint(lambda v: (v * w).exp(), x, use_reentrant=False)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_hooks_are_callables_and_are_not_forbidden_while_in_use():
    with pytest.raises(TypeError, match="saved tensor hooks must be callable, not int"):
        torch.autograd.graph.saved_tensors_hooks(1, 2).__enter__()
    with (
        torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
        pytest.raises(RuntimeError, match="^not here$"),
        torch.autograd.graph.disable_saved_tensors_hooks("not here"),
    ):
        raise AssertionError("unreachable")


def test_an_unpacked_tensor_of_another_shape_is_an_error_of_the_derivative():
    x = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: torch.ones(5)):
        y = x * x
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(3\) must match the size of tensor b \(5\)"):
        y.sum().backward()


def test_anomaly_mode_looks_for_nan_unless_told_otherwise():
    assert torch.is_anomaly_check_nan_enabled() and not torch.is_anomaly_enabled()
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        assert torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()
    assert torch.is_anomaly_check_nan_enabled() and not torch.is_anomaly_enabled()


def test_saved_tensors_may_be_written_where_that_is_allowed():
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    with graph.allow_mutation_on_saved_tensors():
        y = x.clone()
        loss = (y * y).sum()
        y.zero_()
        loss.backward()
        assert x.grad.tolist() == [4.0, 6.0]
        with pytest.raises(RuntimeError, match="contexts cannot be nested"), graph.allow_mutation_on_saved_tensors():
            pass
        late = (y * x).sum()
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors' context"):
        late.backward()


def test_a_write_from_outside_is_counted_by_hand():
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    y = x * 1
    loss = (y * y).sum()
    graph.increment_version(y)
    graph.increment_version([y, x])
    assert (y._version, x._version) == (2, 1)
    with pytest.raises(RuntimeError, match="is at version 2; expected version 0"):
        loss.backward()
    with pytest.raises(RuntimeError, match=r"increment_version expect a Iterable\[Tensor\] as input"):
        graph.increment_version(1)


@pytest.mark.parametrize("hooks", [(), (lambda t: t,), (1, 1), (lambda t: t, None)])
def test_a_saved_tensor_takes_two_hooks(hooks):
    saved = leaf(1.0).exp().grad_fn._raw_saved_result
    with pytest.raises(TypeError, match="incompatible function arguments"):
        saved.register_hooks(*hooks)


def test_saved_tensors_are_copied_once_before_they_are_overwritten_and_freed_with_their_nodes():
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as context:
        x = torch.ones(3, requires_grad=True)
        y = x.clone()
        first, second = y**2, y**3
        assert len(context.cloned) == 0
        y[:2].mul_(5)
        assert len(context.cloned) == 1
        third = y**2
        y.zero_()
        assert len(context.cloned) == 2
        (first + second + third).sum().backward()
        assert x.grad.tolist() == [55.0, 55.0, 7.0]
        del first, second, third
        assert len(context.cloned) == 0
        z = torch.ones(1, requires_grad=True)
        factor = torch.full((1,), 2.0)
        product = z * factor
        torch.sin(factor, out=factor)
        product.backward()
        assert z.grad == 2


def test_leaving_a_block_that_was_not_entered_has_no_effect():
    block = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    block.__exit__()
    with block:
        assert torch.autograd.graph.innermost_saved_tensors_hooks() is block
    block.__exit__()
    assert torch.autograd.graph.innermost_saved_tensors_hooks() is None


def test_hooks_that_backward_enters_end_with_it():
    x = torch.ones(3, requires_grad=True)
    product = x * x
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t * 10, lambda t: t)

    def enter(grad):
        hooks.__enter__()
        return grad

    product.register_hook(enter)
    product.sum().backward()
    y = x * 2
    assert (y * y).grad_fn._saved_self.tolist() == [2.0, 2.0, 2.0]
