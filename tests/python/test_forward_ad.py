"""Tangents: derivatives in a direction, computed along with values."""

from __future__ import annotations

import pytest

import rgrad as torch
import rgrad.autograd.forward_ad as fwAD


def t(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x * y.sin() + y,
        lambda x, y: (x @ y).exp(),
        lambda x, y: torch.softmax(x + 2 * y, 0).cumsum(0),
        lambda x, y: x.clone().mul_(y)[1:],
        lambda x, y: torch.stack([x, y]).max(0).values,
    ],
)
def test_a_tangent_is_the_product_of_the_jacobian_with_the_tangents_of_the_inputs(function):
    x, y, dx, dy = t(0.3, 1.2, -0.4), t(0.5, -0.7, 2.0), t(1.0, -2.0, 0.5), t(0.25, 3.0, 1.0)
    step = 1e-6
    expected = (function(x + step * dx, y + step * dy) - function(x - step * dx, y - step * dy)) / (2 * step)
    with fwAD.dual_level():
        primal, tangent = fwAD.unpack_dual(function(fwAD.make_dual(x, dx), fwAD.make_dual(y, dy)))
    assert torch.allclose(primal, function(x, y)) and torch.allclose(tangent, expected, rtol=1e-7, atol=1e-8)
    assert not primal.requires_grad and not tangent.requires_grad


def test_other_inputs_may_require_gradients():
    w = t(2.0, 3.0).requires_grad_()
    with fwAD.dual_level():
        dual = fwAD.make_dual(t(1.0, 1.0), t(1.0, 0.5))
        assert fwAD.unpack_dual(dual * w * w).tangent.tolist() == [4.0, 4.5]
        assert fwAD.unpack_dual(w * w).tangent is None
        # A value that requires a gradient itself.
        assert fwAD.unpack_dual(fwAD.make_dual(w, t(1.0, 1.0)) ** 2).tangent.tolist() == [4.0, 6.0]


@pytest.mark.parametrize("draw", ["bernoulli_", "cauchy_", "exponential_", "log_normal_", "normal_", "uniform_"])
def test_numbers_that_are_drawn_do_not_change_with_what_they_replace(draw):
    with fwAD.dual_level():
        dual = fwAD.make_dual(t(0.5, 0.5), t(1.0, 1.0))
        assert fwAD.unpack_dual(getattr(dual, draw)()).tangent.tolist() == [0.0, 0.0]


def test_tangents_end_with_their_level():
    with pytest.raises(RuntimeError, match="no level exists"):
        fwAD.make_dual(t(1.0), t(1.0))
    with fwAD.dual_level():
        dual = fwAD.make_dual(t(1.0), t(1.0))
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            fwAD.enter_dual_level()
    assert fwAD.unpack_dual(dual).tangent is None
    with fwAD.dual_level():
        assert fwAD.unpack_dual(dual).tangent is None
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        fwAD.exit_dual_level()
    with fwAD.dual_level(), pytest.raises(RuntimeError, match="not the last one"):
        fwAD.exit_dual_level(level=1)
    assert fwAD._current_level == -1


def test_values_and_tangents_must_fit():
    with fwAD.dual_level():
        with pytest.raises(RuntimeError, match="has a different size"):
            fwAD.make_dual(t(1.0), t(1.0, 2.0))
        with pytest.raises(RuntimeError, match="tangent of the shape and dtype"):
            fwAD.make_dual(t(1.0), t(1.0).float())
        with pytest.raises(ValueError, match="Expected primal to be floating point"):
            fwAD.make_dual(torch.tensor([1]), torch.tensor([1]))


def test_a_dual_tensor_shares_memory_and_version_with_its_value():
    x, dx = t(1.0, 2.0), t(0.5, 0.25)
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, dx)
        primal, tangent = fwAD.unpack_dual(dual)
        assert tangent is dx and primal.data_ptr() == dual.data_ptr() == x.data_ptr()
        x.add_(1)
        assert x._version == dual._version == primal._version == 1
        dual.mul_(2)
        assert x.tolist() == [4.0, 6.0] and not x.requires_grad
        assert fwAD.unpack_dual(dual).tangent.tolist() == [1.0, 0.5]
        assert fwAD.unpack_dual(x).tangent is None


def test_the_text_of_a_dual_tensor_shows_its_tangent():
    x = torch.tensor([1.0, 2.0])
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, torch.tensor([0.5, 0.25]))
        assert repr(dual) == str(dual) == f"{dual}" == "tensor([1., 2.], tangent=tensor([0.5000, 0.2500]))"
        assert repr(dual * 2) == "tensor([2., 4.], tangent=tensor([1.0000, 0.5000]))"
        assert repr(x) == "tensor([1., 2.])" and "tangent" not in repr(fwAD.unpack_dual(dual))[:40]
        wide = fwAD.make_dual(torch.zeros(2, 12), torch.ones(2, 12))
        lines = repr(wide).splitlines()
        assert lines[2].startswith("       tangent=tensor([[1., 1.") and lines[3].startswith(" " * 8 + "[1., 1.")
    assert "tangent" not in repr(dual)


def test_a_tangent_of_another_layout_is_copied():
    with fwAD.dual_level():
        for x in (t(1.0, 2.0, 3.0)[:2], t(1.0, 9.0, 2.0)[::2]):
            dx = t(0.5, 0.25)
            tangent = fwAD.unpack_dual(fwAD.make_dual(x, dx)).tangent
            assert tangent is not dx and torch.equal(tangent, dx)
            tangent.mul_(2)
            assert dx.tolist() == [0.5, 0.25]
        empty = torch.empty(0, 3), torch.empty(3, 0).t()
        assert fwAD.unpack_dual(fwAD.make_dual(*empty)).tangent is empty[1]


def test_a_tensor_that_has_a_tangent_gets_no_second_one():
    with fwAD.dual_level():
        dual = fwAD.make_dual(t(1.0), t(1.0))
        with pytest.raises(RuntimeError, match="has a forward gradient at the same level"):
            fwAD.make_dual(t(1.0), dual)
        with pytest.raises(RuntimeError, match="has a forward gradient at the same level"):
            fwAD.make_dual(dual * 2, t(1.0))
        # What was unpacked has no tangent, so it may.
        primal, tangent = fwAD.unpack_dual(dual * dual)
        assert fwAD.unpack_dual(fwAD.make_dual(primal, tangent) * 3).tangent.tolist() == [6.0]
    for bad in ("level", "unpack"):
        with fwAD.dual_level(), pytest.raises(RuntimeError, match="Invalid level"):
            fwAD.make_dual(t(1.0), t(1.0), level=1) if bad == "level" else fwAD.unpack_dual(t(1.0), level=1)


def test_views_of_a_dual_tensor_and_writes_to_them_carry_tangents():
    with fwAD.dual_level():
        dual = fwAD.make_dual(t(1.0, 2.0, 3.0), t(1.0, 10.0, 100.0))
        view = dual[1:]
        assert fwAD.unpack_dual(view).tangent.tolist() == [10.0, 100.0]
        view *= 2
        assert fwAD.unpack_dual(dual).tangent.tolist() == [1.0, 20.0, 200.0]
        # Tensors that had no tangent, and a view of one.
        plain = torch.zeros(3, dtype=torch.float64)
        plain[0] = dual[2]
        assert fwAD.unpack_dual(plain).tangent.tolist() == [200.0, 0.0, 0.0]
        base = torch.ones(2, 2, dtype=torch.float64)
        base.t()[0].mul_(dual[:2])
        assert fwAD.unpack_dual(base).tangent.tolist() == [[1.0, 0.0], [20.0, 0.0]]
        # A detached view changes the value only.
        kept = torch.zeros(3, dtype=torch.float64)
        kept.detach().add_(dual)
        assert fwAD.unpack_dual(kept).tangent is None and kept.tolist() == dual.tolist()


def test_tensors_without_elements_pass_no_tangent_on():
    empty = torch.empty(0, dtype=torch.float64)
    with fwAD.dual_level():
        dual = fwAD.make_dual(empty, empty)
        # The gradient of the norm is divided by a power of the norm, which is 0.
        assert fwAD.unpack_dual(torch.linalg.norm(dual, 3)).tangent.item() == 0.0
        assert fwAD.unpack_dual(dual * 2).tangent.shape == (0,)
    assert torch.func.jvp(lambda x: torch.linalg.norm(x, 3), (empty,), (empty,))[1].item() == 0.0


def test_detached_tensors_have_no_tangents():
    with fwAD.dual_level():
        dual = fwAD.make_dual(t(1.0), t(1.0))
        for found in (dual.detach(), dual.data, (dual * 2).clone().detach_()):
            assert fwAD.unpack_dual(found * 2).tangent is None


@pytest.mark.parametrize("switch", [torch.no_grad, lambda: torch.set_grad_enabled(False)])
def test_tangents_pass_operations_under_no_grad(switch):
    w = t(3.0, 4.0).requires_grad_()
    with fwAD.dual_level():
        dual = fwAD.make_dual(t(1.0, 2.0), t(1.0, 0.5))
        with switch():
            y = (dual * w).sin().mul_(2)
            z = torch.nn.functional.relu(torch.stack([y, dual]))
            other = w * 2
            w.add_(0)
            of_views = dual.T[:1]
        assert not other.requires_grad
        assert torch.allclose(fwAD.unpack_dual(y).tangent, 2 * (w.detach() * t(1, 2)).cos() * w.detach() * t(1, 0.5))
        assert fwAD.unpack_dual(z).tangent[1].tolist() == [1.0, 0.5]
        assert not fwAD.unpack_dual(y).primal.requires_grad
        assert fwAD.unpack_dual(of_views).tangent.tolist() == [1.0]
        assert fwAD.unpack_dual(dual * 2).tangent.tolist() == [2.0, 1.0]
        with torch.inference_mode():
            assert fwAD.unpack_dual(dual * 2).tangent is None
    assert torch._C._len_torch_function_stack() == 0
    with torch.no_grad(), fwAD.dual_level():
        dual = fwAD.make_dual(t(2.0), t(1.0))
        assert fwAD.unpack_dual(dual**2).tangent.tolist() == [4.0]
    assert torch._C._len_torch_function_stack() == 0


def test_writes_under_no_grad_change_tangents_and_meet_nothing_that_was_saved():
    x, dx = t(0.3, 1.2, -0.4), t(1.0, -2.0, 0.5)

    def f(x):
        y = x.softmax(0)
        y[0] = y[1] * 2
        y.exp_().mul_(3)
        y[1:].mul_(x[:2])
        z = torch.zeros(3, dtype=torch.float64)
        z.add_(y)
        return torch.cat([z.view(3, 1).squeeze(), y.chunk(3)[2]])

    step = 1e-6
    expected = (f(x + step * dx) - f(x - step * dx)) / (2 * step)
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, dx)
        with torch.no_grad():
            y = f(dual)
            whole = dual * 2
            whole.T[0].mul_(3)
        assert torch.allclose(fwAD.unpack_dual(y).tangent, expected, rtol=1e-7, atol=1e-8)
        assert fwAD.unpack_dual(whole).tangent.tolist() == [6.0, -4.0, 1.0]


def test_a_level_may_end_under_no_grad_with_another_mode_inside():
    class Seen(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with torch.no_grad():
        fwAD.enter_dual_level()
        with Seen():
            fwAD.exit_dual_level()
            assert torch._C._len_torch_function_stack() == 1
    assert torch._C._len_torch_function_stack() == 0


def test_a_mode_is_entered_only_where_a_program_switches_recording_off():
    class Switches(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                y = x * 2
            return y.detach()

        @staticmethod
        def jvp(ctx, dx):
            with torch.no_grad():
                return dx * 2

    with fwAD.dual_level():
        dual = fwAD.make_dual(t(1.0), t(1.0))
        assert fwAD.unpack_dual(Switches.apply(dual) * dual).tangent.tolist() == [4.0]
        assert torch._C._len_torch_function_stack() == 0
        assert torch.autograd.gradcheck(torch.sin, t(1.0).requires_grad_()) and not torch.is_inference_mode_enabled()
        with torch.no_grad():
            assert torch._C._len_torch_function_stack() == 1
            fwAD.unpack_dual(dual * 2)
            assert torch._C._len_torch_function_stack() == 1


def test_a_thread_under_no_grad_does_not_disturb_another():
    import threading

    entered, leave, found = threading.Event(), threading.Event(), []

    def work(dual):
        with torch.no_grad():
            entered.set()
            assert leave.wait(10)
            found.append(fwAD.unpack_dual(dual * 3).tangent.tolist())

    with fwAD.dual_level():
        dual = fwAD.make_dual(t(2.0), t(1.0))
        thread = threading.Thread(target=work, args=(dual,))
        thread.start()
        assert entered.wait(10)
        with torch.no_grad():
            assert fwAD.unpack_dual(dual * 2).tangent.tolist() == [2.0]
        leave.set()
        thread.join()
        assert found == [[3.0]] and fwAD.unpack_dual(dual * 2).tangent.tolist() == [2.0]


def test_gradients_have_tangents():
    x = t(2.0).requires_grad_()
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, t(1.0))
        # d/dx x³ = 3x², whose derivative is 6x; with and without create_graph.
        for create_graph in (True, False):
            (g,) = torch.autograd.grad(dual**3, dual, create_graph=create_graph)
            assert fwAD.unpack_dual(g).primal.tolist() == [12.0]
            assert fwAD.unpack_dual(g).tangent.tolist() == [12.0]
            assert fwAD.unpack_dual(g).primal.requires_grad == create_graph
        (g,) = torch.autograd.grad(dual**3, dual, t(1.0, 2.0).view(2, 1), is_grads_batched=True)
        assert fwAD.unpack_dual(g).tangent.tolist() == [[12.0], [24.0]]
        (dual**3).sum().backward()
        assert x.grad.tolist() == [12.0]


def test_tangents_and_values_can_be_differentiated():
    x, dx = t(2.0).requires_grad_(), t(3.0).requires_grad_()
    with fwAD.dual_level():
        primal, tangent = fwAD.unpack_dual(fwAD.make_dual(x, dx) ** 3)
        # The tangent is 3x² dx.
        assert torch.autograd.grad(tangent, (x, dx))[0].tolist() == [36.0]
        assert torch.autograd.grad(primal, x)[0].tolist() == [12.0]
        assert fwAD.unpack_dual(primal).tangent is None and fwAD.unpack_dual(tangent).tangent is None
        with torch.no_grad():
            assert not fwAD.unpack_dual(fwAD.make_dual(x, dx) ** 3).tangent.requires_grad


def test_a_level_does_not_keep_tangents_alive():
    import weakref

    with fwAD.dual_level():
        dx = t(1.0)
        seen = weakref.ref(dx)
        dual = fwAD.make_dual(t(1.0), dx)
        del dx
        assert seen() is not None
        del dual
        assert seen() is None


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n, y):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        assert fwAD.unpack_dual(x).tangent is None
        return x**3, n, y.clone()

    @staticmethod
    def backward(ctx, g, _, h):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g, None, h

    @staticmethod
    def jvp(ctx, dx, n, dy):
        assert n is None and dy.tolist() == [0.0]
        (x,) = ctx.saved_tensors
        # Wrong on purpose, to be told from the derivative by backward.
        return 300 * x**2 * dx, None, dy


def test_a_custom_function_calls_its_jvp():
    y = t(1.0).requires_grad_()
    with fwAD.dual_level():
        dual = fwAD.make_dual(t(2.0), t(1.0))
        cube, n, same = Cube.apply(dual, 5, y)
        assert n == 5 and fwAD.unpack_dual(cube * 2).tangent.tolist() == [2400.0]
        assert fwAD.unpack_dual(same).tangent.tolist() == [0.0]
        # Gradients come from backward.
        assert torch.autograd.grad(same * cube, y)[0].tolist() == [8.0]
        with torch.no_grad():
            assert fwAD.unpack_dual(Cube.apply(dual, 5, t(1.0))[0]).tangent.tolist() == [1200.0]


def test_what_a_jvp_must_not_do_raises():
    class Base(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def with_jvp(f, forward=None):
        body = {"jvp": staticmethod(f)} | ({} if forward is None else {"forward": staticmethod(forward)})
        return type("F", (Base,), body)

    def in_place(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    with fwAD.dual_level():
        dual = fwAD.make_dual(t(1.0, 2.0), t(1.0, 1.0))
        with pytest.raises(NotImplementedError, match="You must implement the jvp function"):
            Base.apply(dual)
        assert Base.apply(t(1.0)).tolist() == [2.0]
        for f, message in (
            (lambda ctx, d: (d, d), r"invalid number of forward gradients \(expected 1 but got 2\)"),
            (lambda ctx, d: d[:1], "has a different size"),
            (lambda ctx, d: 3, r"expected Variable or None \(got int\)"),
        ):
            with pytest.raises(RuntimeError, match=message):
                with_jvp(f).apply(dual)
        view = with_jvp(lambda ctx, d: d.narrow(0, 0, 1).clone(), lambda ctx, x: x.narrow(0, 0, 1))
        with pytest.raises(RuntimeError, match="jvp is not returning a view"):
            view.apply(dual)
        with pytest.raises(RuntimeError, match="not modifying the forward mode gradients inplace"):
            with_jvp(lambda ctx, d: d * 2, in_place).apply(dual.clone())
        right = with_jvp(lambda ctx, d: d.mul_(2), in_place)
        copy = dual.clone()
        assert right.apply(copy) is copy and fwAD.unpack_dual(copy * 3).tangent.tolist() == [6.0, 6.0]
        right_view = with_jvp(lambda ctx, d: d.narrow(0, 0, 1), lambda ctx, x: x.narrow(0, 0, 1))
        assert fwAD.unpack_dual(right_view.apply(dual)).tangent.tolist() == [1.0]


def test_a_backward_that_hides_its_gradient_raises_rather_than_give_a_wrong_tangent():
    class Hidden(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return (g * 2).detach()

    # Only functions of programs need a jvp; this one passes for one of the library.
    Hidden.__module__ = "rgrad.test"
    with fwAD.dual_level():
        y = Hidden.apply(fwAD.make_dual(t(1.0, 2.0), t(1.0, 1.0)))
        with pytest.raises(NotImplementedError, match="Trying to use forward AD with an operation"):
            fwAD.unpack_dual(y)
        # A derivative of zero is none that hides.
        z = fwAD.make_dual(t(1.5, 2.5), t(1.0, 1.0)).floor()
        assert fwAD.unpack_dual(z).tangent.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_tangents_on_a_gpu_are_those_of_the_cpu(gpu, dtype):
    x, dx = torch.linspace(0.1, 0.9, 12).view(3, 4), torch.linspace(-1, 1, 12).view(3, 4)

    def f(x):
        return (x @ x.t()).softmax(1).log()

    with fwAD.dual_level():
        expected = fwAD.unpack_dual(f(fwAD.make_dual(x, dx))).tangent
        found = fwAD.unpack_dual(f(fwAD.make_dual(x.to(gpu, dtype), dx.to(gpu, dtype)))).tangent
    assert found.device.type == gpu.type and found.dtype is dtype
    assert torch.allclose(found.cpu().float(), expected, atol=1e-5 if dtype is torch.float32 else 2e-2)


def test_a_jvp_gives_no_tangent_to_what_has_no_gradient_and_writes_where_forward_does():
    class Fixed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x.clone()
            ctx.mark_non_differentiable(out)
            return x.clone(), out

        @staticmethod
        def jvp(ctx, tangent):
            return tangent.clone(), tangent.clone()

    class Unwritten(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, tangent):
            return tangent

    with fwAD.dual_level():
        x = fwAD.make_dual(torch.ones(2), torch.ones(2))
        with pytest.raises(RuntimeError, match="You should return None at that position instead"):
            Fixed.apply(x)
        with pytest.raises(RuntimeError, match="jvp function must modify the corresponding gradient inplace"):
            Unwritten.apply(x)


def test_tangents_are_switched_off_until_they_are_switched_on():
    core = torch._C
    try:
        core._set_fwd_grad_enabled(False)
        core._set_fwd_grad_enabled(False)
        assert not fwAD._is_fwd_grad_enabled() and not core._is_fwd_grad_enabled()
        with fwAD._set_fwd_grad_enabled(True):
            assert core._is_fwd_grad_enabled()
        assert not core._is_fwd_grad_enabled()
    finally:
        core._set_fwd_grad_enabled(True)
    assert fwAD._is_fwd_grad_enabled()
    with fwAD.dual_level():
        dual = fwAD.make_dual(torch.ones(2), torch.ones(2))
        assert fwAD.unpack_dual(dual * 2).tangent.tolist() == [2.0, 2.0]


def test_an_operation_without_a_derivative_has_no_tangent():
    x = torch.tensor([1.0, -2.0])
    for f in (lambda x: torch.heaviside(x, x), lambda x: torch.floor_divide(x, 2 * x)):
        with pytest.raises(NotImplementedError, match="Trying to use forward AD with aten::"):
            torch.func.jvp(f, (x,), (x,))
