"""Derivatives of `torch.func` in forward mode within each other, in `vmap`, and within a dual level."""

from __future__ import annotations

import threading

import pytest

import rgrad as torch
import rgrad.autograd.forward_ad as fwAD
from rgrad.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vmap

X = torch.tensor([0.5, 1.5, -0.7], dtype=torch.float64)
V = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
W = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]], dtype=torch.float64)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


def f(a):
    return (a.sin() * a).exp()


def scalar(a):
    return (W @ a.tanh()).sum() + (a**3).prod()


def pushed(function, at, direction):
    return jvp(function, (at,), (direction,))[1]


def test_second_and_third_derivatives_in_directions_are_those_of_backward_passes():
    def derived(function, direction):
        return lambda a: jacrev(function)(a) @ direction

    first, second = derived(f, V), derived(derived(f, V), V * 2)
    close(pushed(lambda a: pushed(f, a, V), X, V * 2), second(X).detach())
    third = pushed(lambda b: pushed(lambda a: pushed(f, a, V), b, V * 2), X, V + 1)
    close(third, derived(second, V + 1)(X).detach())
    value, derivative = jvp(lambda a: a * first(a), (X,), (V,))
    close(value, X * first(X).detach())
    close(derivative, (V * first(X) + X * derived(first, V)(X)).detach())


def test_jacobians_of_jacobians_by_columns_are_those_by_rows():
    close(jacfwd(jacfwd(scalar))(X), jacrev(jacrev(scalar))(X))
    close(jacfwd(jacfwd(jacfwd(scalar)))(X), jacrev(jacrev(jacrev(scalar)))(X))
    close(jacrev(jacfwd(f))(X), jacfwd(jacrev(f))(X))
    by_both = jacfwd(jacfwd(lambda a, b: a * b.sin().sum(), argnums=(0, 1)), argnums=(0, 1))(X, V)
    close(by_both[0][1], jacrev(jacrev(lambda a, b: a * b.sin().sum(), argnums=0), argnums=1)(X, V))
    close(vmap(hessian(scalar))(W), torch.stack([jacrev(jacrev(scalar))(row) for row in W]))


def test_a_network_has_second_derivatives_by_columns_also_for_each_slice():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.LayerNorm(4), torch.nn.Linear(4, 1)]
    model = torch.nn.Sequential(*layers).double()

    def cut(a):
        return (model(a[:, None].expand(3, 3).tril()[1:])[..., 0] * a[:2] * a.diag().sum(0)[1:]).sum()

    for function in (lambda a: model(a).sum(), cut):
        expected = torch.stack([torch.autograd.functional.hessian(function, row) for row in W])
        close(vmap(hessian(function))(W), expected)
        close(vmap(jacfwd(jacfwd(function)))(W), expected)


def test_directions_and_points_of_a_derivative_may_differ_between_slices():
    close(vmap(lambda d: pushed(f, X, d))(W), torch.stack([pushed(f, X, d) for d in W]))

    def inner(a):
        return vmap(lambda d: pushed(lambda b: f(b * d), a, d))(W)

    found = vmap(lambda t: pushed(inner, X, t))(W)
    columns = torch.autograd.functional.jacobian(inner, X)
    close(found, torch.stack([columns @ t for t in W]))
    close(inner(X), torch.stack([d * d * torch.func.grad(lambda b: f(b).sum())(X * d) for d in W]))
    # What a function knows may be of slices too.
    close(vmap(lambda w: pushed(lambda a: a * w.sin(), X, V))(W), V * W.sin())
    close(vmap(lambda w: jacfwd(lambda a: a * w)(X))(W), torch.stack([w.diag() for w in W]))


def test_perturbations_of_levels_are_told_apart():
    one = torch.tensor(1.0)
    found = pushed(lambda a: a * pushed(lambda b: a + b, one, one), torch.tensor(2.0), one)
    assert found.item() == 1.0
    found = pushed(lambda a: grad(lambda b: pushed(scalar, b, V))(a), X, V)
    close(found, grad(lambda a: V @ hessian(scalar)(a) @ V)(X))


def test_a_block_without_gradients_stops_no_tangents():
    def cube(a):
        with torch.no_grad():
            square = a * a
        return square * a

    close(pushed(cube, X, V), 3 * X**2 * V)
    close(pushed(lambda a: pushed(cube, a, V), X, V), 6 * X * V * V)
    close(jacfwd(cube)(X), (3 * X**2).diag())
    with torch.no_grad():
        close(pushed(lambda a: pushed(cube, a, V), X, V), 6 * X * V * V)
        close(pushed(grad(lambda a: f(a).sum()), X, V), pushed(lambda a: pushed(f, a, torch.ones_like(a)), X, V))

    def written(a):
        with torch.no_grad():
            b = a.clone()
            b[0] = a[1] * a[2]
            b.mul_(a)
        return b

    def recorded(a):
        return torch.stack([a[1] * a[2], *a[1:]]) * a

    close(pushed(lambda a: pushed(written, a, V), X, V), pushed(lambda a: pushed(recorded, a, V), X, V))
    close(vmap(lambda d: pushed(written, d, V))(W), vmap(lambda d: pushed(recorded, d, V))(W))


def test_tangents_and_values_are_told_apart_within_a_derivative():
    def parts(a):
        primal, tangent = fwAD.unpack_dual(a * a)
        assert fwAD.unpack_dual(primal).tangent is None and fwAD.unpack_dual(tangent).tangent is None
        return primal, tangent

    (square, tangent), found = jvp(parts, (X,), (V,))
    close(square, X * X)
    close(tangent, 2 * X * V)
    assert not any(t.any() for t in found)
    # They have the tangents of a derivative around it.
    close(pushed(lambda a: jvp(parts, (a,), (V,))[0][1], X, V), 2 * V * V)

    def made(a):
        return fwAD.unpack_dual(f(fwAD.make_dual(V.clone(), a.detach()))).tangent

    close(jvp(made, (X,), (V,))[0], pushed(f, V, X))
    with pytest.raises(RuntimeError, match="at the same level 0"):
        jvp(lambda a: fwAD.make_dual(a, V), (X,), (V,))
    with pytest.raises(NotImplementedError, match="pass randomness='different'"):
        jacfwd(lambda a: a * fwAD.unpack_dual(a).tangent.sin())(X)


def test_a_level_around_a_derivative_has_its_tangents_and_none_is_entered_within():
    with fwAD.dual_level():
        dual = fwAD.make_dual(X, V)
        for function in (lambda a: pushed(f, a, W[0]), grad(scalar), jacrev(f), jacfwd(f), vmap(f), f):
            found = fwAD.unpack_dual(function(dual)).tangent
            expected = torch.autograd.functional.jvp(function, X, V)[1]
            close(found, expected)
        with torch.no_grad():
            close(fwAD.unpack_dual(jacrev(f)(dual)).tangent, pushed(jacrev(f), X, V))
        text = jvp(lambda a: (a, print(end=repr(a)))[0], (dual,), (W[0],))[0]
        assert "tangent" in repr(text)

    def enters(a):
        with fwAD.dual_level():
            return a

    with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
        jvp(enters, (X,), (V,))
    assert torch.autograd._dual.running == []


def test_a_level_may_be_entered_for_each_slice():
    def tangent(a):
        with fwAD.dual_level():
            return fwAD.unpack_dual(f(fwAD.make_dual(a, V))).tangent

    close(vmap(tangent)(W), torch.stack([pushed(f, row, V) for row in W]))
    close(grad(lambda a: tangent(a).sum())(X), grad(lambda a: pushed(f, a, V).sum())(X))


class Square(torch.autograd.Function):
    """Its derivatives are wrong on purpose, to be told from each other."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        return g * 20 * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, t):
        return t * 200 * ctx.saved_tensors[0]


class Mapped(Square):
    """As `Square`, with a rule of its own, which adds 1."""

    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, x):
        return Mapped.apply(x) + 1, in_dims[0]


@pytest.mark.parametrize("function", [Square, Mapped])
def test_derivatives_in_directions_call_the_jvp_of_custom_functions(function):
    square, more = function.apply, float(function is Mapped)
    close(jvp(square, (X,), (V,)), (X**2, 200 * X * V))
    close(pushed(lambda a: pushed(square, a, V), X, V), 200 * V * V)
    close(jacfwd(square)(X), (200 * X).diag())
    close(pushed(grad(lambda a: square(a).sum()), X, V), 20 * V)
    close(grad(lambda a: pushed(square, a, V).sum())(X), 200 * V)
    # The derivative within `vmap`, and around it.
    close(vmap(lambda a: jvp(square, (a,), (V,)))(W), (W**2 + more, 200 * W * V))
    close(jvp(vmap(square), (W,), (W * 2,)), (W**2 + more, 400 * W * W))
    close(vmap(lambda d: pushed(square, X, d))(W), 200 * X * W)
    close(vmap(lambda a: pushed(vmap(square), a, V))(W + X), 200 * (W + X) * V)


def test_a_custom_function_without_backward_is_differentiated_forward():
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs)

        @staticmethod
        def jvp(ctx, dx, dy):
            x, y = ctx.saved_tensors
            return dx * y + x * dy

    close(pushed(lambda a: pushed(lambda b: Product.apply(b, a), a, V), X, V), V * V)
    close(jacfwd(lambda a: Product.apply(a, a.sin()))(X), (X.sin() + X * X.cos()).diag())


def test_a_linearized_derivative_is_called_for_many_directions():
    value, derivative = linearize(lambda a: pushed(f, a, V), X)
    close(value, pushed(f, X, V))
    close(vmap(derivative)(W), torch.stack([pushed(lambda a: pushed(f, a, V), X, d) for d in W]))


def test_the_switch_of_forward_mode_holds_until_a_derivative_begins():
    assert fwAD._is_fwd_grad_enabled()
    with fwAD._set_fwd_grad_enabled(False):
        assert not fwAD._is_fwd_grad_enabled()
        close(pushed(f, X, V), pushed(f, X, V))

    def half(a):
        with fwAD._set_fwd_grad_enabled(False):
            constant = a * 3
            # A derivative within has its tangents.
            close(pushed(torch.sin, V, V), V * V.cos())
        return a * constant

    close(pushed(half, X, V), 3 * X * V)
    close(grad(lambda a: half(a).sum())(X), 6 * X)
    seen = []

    class Asks(torch.autograd.Function):
        @staticmethod
        def forward(x):
            seen.append(fwAD._is_fwd_grad_enabled())
            return x * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def jvp(ctx, t):
            return t

    close(pushed(Asks.apply, X, V), V)
    assert seen == [False]


def test_derivatives_on_several_threads_know_nothing_of_each_other():
    failed = []

    def work(k):
        try:
            for _ in range(20):
                with torch.no_grad():
                    close(pushed(lambda a: pushed(lambda b: b**k, a, V), X, V), k * (k - 1) * X ** (k - 2) * V * V)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in (2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == [] and torch.autograd._dual.running == []


def test_columns_draw_random_numbers_of_their_own_only_if_they_may():
    with pytest.raises(RuntimeError, match="randomness error mode"):
        jacfwd(lambda a: a * torch.rand(3, dtype=a.dtype))(X)
    same = jacfwd(lambda a: a * torch.rand((), dtype=a.dtype), randomness="same")(X).diag()
    other = jacfwd(lambda a: a * torch.rand((), dtype=a.dtype), randomness="different")(X).diag()
    assert len(set(same.tolist())) == 1 and len(set(other.tolist())) == 3
    assert jacfwd(lambda a: a.sum() * torch.ones(0))(X).shape == (0, 3)
    assert jacfwd(lambda a: torch.ones(2) * a.sum())(torch.ones(0)).shape == (2, 0)
