"""Autograd as PyTorch users know it: accumulation, hooks, modes, views and in-place operations."""

import copy
import threading

import pytest

import rgrad as torch


def test_grad_keeps_its_identity_while_gradients_accumulate():
    x = torch.ones(2, requires_grad=True)
    x.sum().backward()
    g = x.grad
    (x * 2).sum().backward()
    assert x.grad is g and g.tolist() == [3.0, 3.0]


def test_a_gradient_may_be_assigned_and_deleted():
    x = torch.ones(2, requires_grad=True)
    x.grad = torch.full((2,), 5.0)
    x.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    del x.grad
    assert x.grad is None
    with pytest.raises(RuntimeError, match="gradient of size"):
        x.grad = torch.ones(3)


def test_backward_may_be_limited_to_some_inputs():
    a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    (a * b).backward(inputs=[a])
    assert a.grad.item() == 1.0 and b.grad is None


def test_unused_inputs_are_refused_allowed_or_zero():
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        torch.autograd.grad(a.sum(), [a, b])
    assert torch.autograd.grad(a.sum(), [a, b], allow_unused=True)[1] is None
    assert torch.autograd.grad(a.sum(), [a, b], materialize_grads=True)[1].tolist() == [0.0, 0.0]


def test_second_derivatives():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    g.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_hooks_on_a_tensor_run_in_order_and_see_what_the_one_before_returned():
    seen = []
    x = torch.ones(1, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: seen.append(("first", g.item())) or g * 10)
    y.register_hook(lambda g: seen.append(("second", g.item())))
    y.sum().backward()
    assert seen == [("first", 1.0), ("second", 10.0)] and x.grad.item() == 20.0


def test_a_post_accumulate_hook_sees_the_leaf_with_its_gradient():
    x = torch.ones(1, requires_grad=True)
    seen = []
    x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.item())))
    (x * 3).backward()
    assert seen == [(True, 3.0)]


def test_node_hooks_see_gradients_in_and_out():
    x = torch.ones(1, requires_grad=True)
    y = x * 4
    seen = []
    y.grad_fn.register_prehook(lambda gs: seen.append(("in", gs[0].item())))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append(("out", inputs[0].item(), outputs[0].item())))
    y.backward()
    assert seen == [("in", 1.0), ("out", 4.0, 1.0)]


def test_modes_decorate_functions_and_generators():
    x = torch.ones(1, requires_grad=True)

    @torch.no_grad()
    def f():
        return x * 2

    @torch.no_grad()
    def g():
        yield torch.is_grad_enabled()
        yield torch.is_grad_enabled()

    assert not f().requires_grad
    steps = g()
    assert next(steps) is False and torch.is_grad_enabled() and next(steps) is False
    with torch.set_grad_enabled(False), torch.enable_grad():
        assert (x * 2).requires_grad


def test_grad_mode_is_a_threads_own():
    seen = []
    with torch.no_grad():
        t = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        t.start()
        t.join()
    assert seen == [True]


def test_a_write_through_a_view_reaches_the_base():
    x = torch.ones(3, requires_grad=True)
    y = x * 1
    y[0] = y[1] * 5
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 6.0, 1.0]
    assert y._version == 1


def test_a_view_made_before_a_write_follows_its_base():
    w = torch.full((2,), 3.0, requires_grad=True)
    base = torch.zeros(2)
    view = base[:1]
    base.add_(w)
    assert view.requires_grad and view.tolist() == [3.0]
    view.sum().backward()
    assert w.grad.tolist() == [1.0, 0.0]


def test_views_of_one_call_are_not_written_in_place():
    a, _ = (torch.ones(4, requires_grad=True) * 1).split(2)
    with pytest.raises(RuntimeError, match="returns multiple views"):
        a.add_(1)


def test_data_is_written_without_being_counted():
    x = torch.ones(2, requires_grad=True)
    y = x * x
    x.data.mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_in_place_functions_keep_what_backward_needs():
    x = torch.tensor([0.5, 1.5], requires_grad=True)
    y = (x * 1).sin_()
    y.sum().backward()
    torch.testing.assert_close(x.grad, x.detach().cos())


@pytest.mark.parametrize(
    ("function", "saved", "slopes"),
    [
        (torch.relu_, "_saved_result", [0.0, 1.0, 1.0]),
        (torch.nn.functional.hardtanh_, "_saved_self", [0.0, 1.0, 0.0]),
        (lambda t: torch.nn.functional.relu6(t, inplace=True), "_saved_self", [0.0, 1.0, 0.0]),
    ],
)
def test_a_function_in_place_saves_its_result_in_the_memory_of_its_argument(function, saved, slopes):
    x = torch.tensor([-1.0, 0.25, 7.0], requires_grad=True)
    y = x * 1
    at = y.data_ptr()
    assert function(y) is y and y._version == 1
    assert y.data_ptr() == getattr(y.grad_fn, saved).data_ptr() == at
    y.sum().backward()
    assert x.grad.tolist() == slopes
    y = x * 1
    function(y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_sum_in_place_writes_to_the_memory_of_its_argument():
    x, z = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    y = x * 2
    at = y.data_ptr()
    y += z
    y.add_(z, alpha=3).sub_(1)
    assert y.data_ptr() == at and y._version == 3 and y.tolist() == [5.0, 5.0, 5.0]
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0] and z.grad.tolist() == [4.0, 4.0, 4.0]


def test_a_sum_in_place_with_a_tensor_that_lost_its_history_writes_nothing():
    x = torch.ones(4, requires_grad=True)
    y = x * 1
    lost, _ = y.split(2)
    with torch.no_grad():
        y.mul_(2)
    t = x[:2] * 3
    with pytest.raises(RuntimeError, match="view"):
        t += lost
    assert t.tolist() == [3.0, 3.0] and t._version == 0


def test_a_deep_copy_of_a_leaf_stands_alone():
    x = torch.ones(2, requires_grad=True)
    y = copy.deepcopy(x)
    y.sum().backward()
    assert y.requires_grad and x.grad is None


def test_many_threads_accumulate_into_one_leaf():
    x = torch.zeros(8, requires_grad=True)

    def work():
        for _ in range(100):
            (x * 2).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert x.grad.tolist() == [1600.0] * 8


def test_a_user_function_with_several_outputs_and_plain_arguments():
    class Split(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.scale = scale
            return x * scale, x + scale

        @staticmethod
        def backward(ctx, a, b):
            return a * ctx.scale + b, None

    x = torch.ones(2, requires_grad=True)
    a, b = Split.apply(x, 3.0)
    (a * 2 + b).sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]
    y = torch.ones(2, requires_grad=True)
    Split.apply(y, 3.0)[1].sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]


def test_variables_share_memory_and_have_no_history():
    x = torch.ones(2, requires_grad=True) * 2
    variable = torch.autograd.Variable(x, requires_grad=True)
    assert variable.is_leaf and variable.requires_grad and variable.data_ptr() == x.data_ptr()
    assert not torch.autograd.Variable(x).requires_grad
    assert isinstance(x, torch.autograd.Variable) and not isinstance(2, torch.autograd.Variable)
    with pytest.warns(UserWarning, match="volatile was removed and now has no effect"):
        torch.autograd.Variable(x, volatile=True)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        torch.autograd.Variable([1, 2])
