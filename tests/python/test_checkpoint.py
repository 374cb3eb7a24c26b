"""Checkpointing by a backward inside backward."""

from __future__ import annotations

import pytest

import rgrad as torch
from rgrad.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential, set_checkpoint_debug_enabled


def test_a_checkpointed_region_gives_the_gradients_of_a_plain_one():
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(3, 2), torch.randn(4, 3, requires_grad=True)
    recorded = []

    def region(v):
        recorded.append(torch.is_grad_enabled())
        return layer(v).tanh()

    checkpoint(region, x, use_reentrant=True).sum().backward()
    assert recorded == [False, True]
    by_checkpoint = [x.grad, layer.weight.grad, layer.bias.grad]
    x.grad = None
    layer.zero_grad()
    layer(x).tanh().sum().backward()
    for found, expected in zip(by_checkpoint, [x.grad, layer.weight.grad, layer.bias.grad], strict=True):
        assert torch.allclose(found, expected)


def test_the_second_run_draws_the_random_numbers_of_the_first():
    torch.manual_seed(0)
    x = torch.ones(100, requires_grad=True)
    y = checkpoint(torch.nn.Dropout(0.5), x, use_reentrant=True)
    state = torch.get_rng_state()
    y.sum().backward()
    assert torch.equal(x.grad, y)
    assert torch.equal(torch.get_rng_state(), state)


def test_regions_nest_and_return_values_that_are_no_tensors():
    x = torch.tensor([1.0, 2.0], requires_grad=True)

    def inner(v):
        return v * v, "label", None

    def outer(v):
        square, label, nothing = checkpoint(inner, v, use_reentrant=True)
        assert label == "label" and nothing is None
        return square * 3

    checkpoint(outer, x, use_reentrant=True).sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_a_region_runs_again_under_the_autocast_of_its_first_run():
    layer, x = torch.nn.Linear(2, 2), torch.ones(1, 2, requires_grad=True)
    dtypes = []

    def region(v):
        y = layer(v)
        dtypes.append(y.dtype)
        return y

    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = checkpoint(region, x, use_reentrant=True)
    y.sum().backward()
    assert dtypes == [torch.bfloat16, torch.bfloat16]


def test_a_chain_is_checkpointed_in_segments():
    torch.manual_seed(0)
    calls = []

    class Counted(torch.nn.Linear):
        def forward(self, v):
            calls.append(1)
            return super().forward(v)

    net, x = torch.nn.Sequential(*(Counted(2, 2) for _ in range(5))), torch.ones(1, 2, requires_grad=True)
    y = checkpoint_sequential(net, 2, x, use_reentrant=True)
    assert torch.allclose(y, net(x))
    calls.clear()
    y.sum().backward()
    assert len(calls) == 2


def test_misuse_of_checkpointing_is_told():
    x = torch.ones(2)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(torch.sin, x, use_reentrant=True)
    with pytest.warns(UserWarning, match="the use_reentrant parameter should be passed explicitly"):
        checkpoint(torch.sin, x.requires_grad_())
    with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
        checkpoint(torch.sin, x, use_reentrant=True, scale=2)
    y = checkpoint(lambda v: v.detach(), torch.ones(1, requires_grad=True), use_reentrant=True)
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True"):
        y.sum().backward()


def test_the_reentrant_form_refuses_grad_and_inputs():
    x = torch.ones(3, requires_grad=True)
    for run in (
        lambda y: torch.autograd.grad(y, x),
        lambda y: y.backward(inputs=[x]),
    ):
        with pytest.raises(
            RuntimeError, match=r"torch.utils.checkpoint is incompatible with .grad\(\) or passing an `inputs`"
        ):
            run(checkpoint(lambda t: t.sin(), x, use_reentrant=True).sum())
    y = checkpoint(lambda t: t.sin(), x, use_reentrant=False).sum()
    assert torch.autograd.grad(y, x)[0].tolist() == x.cos().tolist()


@pytest.mark.parametrize("around", [True, False])
def test_an_error_tells_where_each_run_saved_if_it_is_asked_to(around):
    runs = []

    def differs(t):
        runs.append(1)
        return t.sin() if len(runs) == 1 else t.sum().sin() * t

    x = torch.ones(2, requires_grad=True)
    with set_checkpoint_debug_enabled(True if around else None):
        y = checkpoint(differs, x, use_reentrant=False, debug=not around)
    with pytest.raises(CheckpointError, match="dumping logs of latest computation") as e:
        y.sum().backward()
    before, again = str(e.value).split("Tensors saved during recomputation")
    assert "torch.float32 [2], saved at" in before
    assert "in differs" in before
    assert "torch.float32 [], saved at" in again
    assert "different metadata" in str(e.value.__cause__)


def test_logs_are_not_kept_where_the_block_says_so_nor_beside_contexts():
    x = torch.ones(1, requires_grad=True)
    with set_checkpoint_debug_enabled(False):
        y = checkpoint(lambda t: t.sin(), x, use_reentrant=False, debug=True)
    y.backward()
    with pytest.raises(ValueError, match="debug=True is incompatible with non-default context_fn"):
        checkpoint(lambda t: t, x, use_reentrant=False, debug=True, context_fn=lambda: (None, None))


@pytest.mark.parametrize("segments", [1, 2, 3, 5, -1])
def test_a_chain_in_segments_computes_what_the_chain_computes(segments):
    calls = []

    def counted(function):
        def call(x):
            calls.append(function)
            return function(x)

        return call

    chain = [torch.tanh, torch.exp, torch.sin, torch.sigmoid, torch.neg]
    x = torch.linspace(-1, 1, 4, requires_grad=True)
    expected = x
    for function in chain:
        expected = function(expected)
    found = checkpoint_sequential(list(map(counted, chain)), segments, x, use_reentrant=False)
    assert calls == chain
    gradients = [torch.autograd.grad(y.sum(), x)[0] for y in (found, expected)]
    assert torch.equal(found, expected) and torch.equal(*gradients)
    # The last segment keeps what it saved; the others run again.
    again = len(chain) // segments * (segments - 1) if segments > 0 else 0
    assert len(calls) == len(chain) + again


def test_a_loss_of_class_indices_can_be_recomputed():
    x = torch.randn(4, 5, requires_grad=True)
    target = torch.tensor([0, 4, 2, 1])
    loss = checkpoint(torch.nn.functional.cross_entropy, x, target, use_reentrant=False)
    (expected,) = torch.autograd.grad(torch.nn.functional.cross_entropy(x, target), x)
    assert torch.equal(torch.autograd.grad(loss, x)[0], expected)


def test_random_states_of_devices_are_taken_and_restored():
    from rgrad.utils.checkpoint import get_device_states, set_device_states

    assert get_device_states(torch.ones(2), 3) == ([], [])
    set_device_states([], [])
    state = torch.get_rng_state()
    before = torch.rand(3)
    set_device_states([0], [state])
    assert torch.equal(torch.rand(3), before)
    if torch.gpu.is_available():
        x = torch.ones(2, device="gpu")
        devices, states = get_device_states(x, {"y": [x]})
        assert devices == [0] and torch.equal(states[0], torch.get_rng_state())
