"""Products with Jacobians and Hessians, and the comparison of derivatives with finite differences."""

from __future__ import annotations

import pytest

import rgrad as torch
from rgrad.autograd import Function, gradcheck, gradgradcheck
from rgrad.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp
from rgrad.autograd.gradcheck import GradcheckError


def cubes(x):
    return (x**3).sum()


POINT = torch.tensor([1.0, 2.0])
ONES = torch.ones(2)


def test_vjp_and_jvp_multiply_the_jacobian_from_either_side():
    def f(x):
        return torch.stack([x[0] * x[1], x[0] ** 2])

    output, left = vjp(f, POINT, torch.tensor([1.0, 10.0]))
    _, right = jvp(f, POINT, torch.tensor([1.0, 10.0]))
    assert output.tolist() == [2.0, 1.0]
    assert left.tolist() == [22.0, 1.0]
    assert right.tolist() == [12.0, 2.0]
    assert not left.requires_grad and not output.requires_grad


def test_jacobians_are_nested_by_output_and_input():
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0])
    (by_a, by_b), (none_by_a, _) = jacobian(lambda a, b: (a * b, b * 2), (a, b))
    assert by_a.tolist() == [[3.0, 0.0], [0.0, 3.0]]
    assert by_b.tolist() == [[1.0], [2.0]]
    assert none_by_a.tolist() == [[0.0, 0.0]]


def test_both_strategies_give_the_same_jacobian():
    def f(x):
        return torch.stack([x.prod(), x.sum() ** 2, x[0]])

    rows = jacobian(f, POINT)
    columns = jacobian(f, POINT, vectorize=True, strategy="forward-mode")
    assert rows.shape == (3, 2) and torch.equal(rows, columns)


def test_hessian_products_agree_with_the_hessian():
    h = hessian(cubes, POINT)
    assert h.tolist() == [[6.0, 0.0], [0.0, 12.0]]
    v = torch.tensor([1.0, -1.0])
    for product in (vhp, hvp):
        value, result = product(cubes, POINT, v)
        assert value.item() == 9.0 and torch.equal(result, h @ v)


def test_a_jacobian_with_create_graph_can_be_differentiated():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    jacobian(lambda x: x**3, x, create_graph=True).sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: vjp(lambda x: x.detach(), POINT, ONES, strict=True), "Output 0 of the user-provided function does"),
        (lambda: jacobian(lambda x, y: x * 2, (POINT, POINT), strict=True), "Output 0 .* is independent of input 1"),
        (lambda: hessian(lambda x: x.sum(), POINT, strict=True), "the jacobian of the user-provided function with"),
        (lambda: vjp(lambda x: x * 2, POINT), "The vector v can only be None if the user-provided function returns"),
        (lambda: vjp(lambda x: x * 2, POINT, torch.ones(3)), r"v has invalid size: should be torch.Size\(\[2\]\) but"),
        (lambda: hvp(lambda x: x * 2, POINT, ONES), "The Tensor returned by the function given to hvp should contain"),
        (lambda: vhp(lambda x: (x.sum(),), POINT, ONES), "The function given to vhp should return a single Tensor"),
        (lambda: jacobian(cubes, POINT, strict=True, vectorize=True), "`strict=True` and `vectorized=True` are not"),
    ],
)
def test_functional_errors_say_what_is_wrong(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


def test_functional_accepts_tensors_and_tuples_of_tensors_alone():
    with pytest.raises(TypeError, match="The inputs given to vjp must be either a Tensor or a tuple of Tensors"):
        vjp(cubes, [POINT])


class Wrong(Function):
    """Half the derivative of the square."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x


class Deaf(Function):
    """A backward that does not look at the gradient it is given."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return torch.full_like(g, 2.0)


class Restless(Function):
    """A backward that returns something slightly different each time."""

    calls = 0

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        Restless.calls += 1
        return g * 2 + Restless.calls * 1e-9


def double(*shape: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_right_derivatives_pass_both_checks(fast_mode):
    x, y = double(2, 3), double(3)
    assert gradcheck(lambda a, b: ((a * b).sin(), a.exp().sum(0)), (x, y), fast_mode=fast_mode)
    assert gradgradcheck(lambda a, b: (a * b).sin(), (x, y), fast_mode=fast_mode, check_batched_grad=True)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_a_wrong_derivative_is_shown_with_both_jacobians(fast_mode):
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0,\nnumerical:"):
        gradcheck(Wrong.apply, double(2), fast_mode=fast_mode)
    assert not gradcheck(Wrong.apply, double(2), fast_mode=fast_mode, raise_exception=False)


class Tripled(Function):
    """Twice its input, with a right backward and a tangent that is chosen."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2, None

    @staticmethod
    def jvp(ctx, dx, _):
        return dx * ctx.factor if isinstance(ctx.factor, (int, float)) else ctx.factor(dx)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradcheck_compares_forward_mode_where_it_is_asked_to(fast_mode):
    x, y = double(2, 3), double(3)
    modes = {"check_forward_ad": True, "fast_mode": fast_mode}
    assert gradcheck(lambda a, b: ((a * b).sin(), a.exp().sum(0)), (x, y), **modes, check_batched_forward_grad=True)
    assert gradcheck(Tripled.apply, (x, 2), **modes)
    assert gradcheck(Tripled.apply, (x, 3), fast_mode=fast_mode)
    message = "Jacobian computed with forward mode mismatch for output 0 with respect to input 0"
    for backward in (True, False):
        with pytest.raises(GradcheckError, match=message):
            gradcheck(Tripled.apply, (x, 3), **modes, check_backward_ad=backward, check_undefined_grad=False)
    # Only the second of two outputs and of two inputs is wrong.
    with pytest.raises(GradcheckError, match="forward mode mismatch for output 1 with respect to input 1"):
        gradcheck(lambda a, b: (a + b, Tripled.apply(b, 3)), (x, double(2, 3)), **modes)
    assert not gradcheck(Tripled.apply, (x, 3), **modes, raise_exception=False)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradgradcheck_compares_tangents_of_gradients(fast_mode):
    x, y = double(2, 3), double(3)
    for backward in (True, False):
        assert gradgradcheck(
            lambda a, b: ((a * b).sin(), a.exp()),
            (x, y),
            check_fwd_over_rev=True,
            check_rev_over_rev=backward,
            check_undefined_grad=backward,
            fast_mode=fast_mode,
        )

    class Thrifty(Function):
        """The square, which computes only gradients that are asked for."""

        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g if ctx.needs_input_grad[0] else None

        @staticmethod
        def jvp(ctx, dx):
            (x,) = ctx.saved_tensors
            return 2 * x * dx

    assert gradgradcheck(Thrifty.apply, x, check_fwd_over_rev=True, fast_mode=fast_mode)
    assert gradcheck(Thrifty.apply, x, check_forward_ad=True, fast_mode=fast_mode)

    class WrongSecond(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return Tripled.apply(1.5 * g * x**2, 3)

        @staticmethod
        def jvp(ctx, dx):
            return dx

    with pytest.raises(GradcheckError, match="forward mode mismatch"):
        gradgradcheck(WrongSecond.apply, x, check_fwd_over_rev=True, fast_mode=fast_mode)


def test_gradcheck_wants_a_jvp_that_is_linear_and_repeatable():
    class Sum(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.set_materialize_grads(False)
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g, g

        @staticmethod
        def jvp(ctx, da, db):
            # Wrong where there is no tangent.
            return 3 * da if db is None else 3 * db if da is None else da + db

    x = double(2)
    with pytest.raises(GradcheckError, match="tangent of zeros"):
        gradcheck(Sum.apply, (x, double(2)), check_forward_ad=True, check_backward_ad=False)
    calls = []

    def draws(d):
        calls.append(d)
        return d * (2 + 1e-3 * len(calls))

    with pytest.raises(GradcheckError, match="testing batched forward gradient"):
        gradcheck(
            lambda a: Tripled.apply(a, draws), x, check_forward_ad=True, check_batched_forward_grad=True, rtol=0.5
        )
    with pytest.raises(RuntimeError, match="random operations inside of vmap"):
        gradcheck(
            lambda a: Tripled.apply(a, lambda d: d * 2 + 0 * torch.randn_like(d)),
            x,
            check_forward_ad=True,
            check_batched_forward_grad=True,
        )
    for arguments in ({"check_forward_ad": False, "check_backward_ad": False}, {"check_batched_forward_grad": True}):
        with pytest.raises(AssertionError):
            gradcheck(torch.sin, x, **arguments)


def test_a_backward_that_needs_every_gradient_fails_with_a_warning():
    def needs_gradient(x):
        y = x.clone()
        y.register_hook(hook)
        return y

    def hook(g):
        if g is None:
            raise RuntimeError("no gradient")

    with (
        pytest.warns(UserWarning, match="New undefined gradient support checking feature"),
        pytest.raises(GradcheckError, match="Expected backward function to handle undefined output grads"),
    ):
        gradcheck(needs_gradient, double(2))


def test_the_basis_of_several_tensors_has_a_row_for_every_element():
    from rgrad.autograd.functional import _construct_standard_basis_for

    tensors = double(2, 3), double(), torch.ones(2)
    blocks = _construct_standard_basis_for(tensors, (6, 1, 2))
    assert [b.dtype for b in blocks] == [torch.float64, torch.float64, torch.float32]
    assert torch.equal(torch.cat([b.double() for b in blocks], 1), torch.eye(9, dtype=torch.float64))


def test_gradcheck_leaves_its_inputs_as_they_were():
    x = double(2, 2)
    before = x.detach().clone()
    gradcheck(torch.tanh, x)
    assert torch.equal(x, before)


def test_a_backward_must_be_linear_and_repeatable():
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(Deaf.apply, double(1))
    with pytest.raises(GradcheckError, match="Backward is not reentrant"):
        gradcheck(Restless.apply, double(2))
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(Restless.apply, double(2), nondet_tol=1e-3)


def test_gradcheck_refuses_inputs_that_it_cannot_move():
    with pytest.raises(ValueError, match="none of them have requires_grad=True"):
        gradcheck(torch.sin, torch.ones(2))
    with pytest.raises(RuntimeError, match="The 0th input has a dimension with stride 0"):
        gradcheck(torch.sin, torch.ones(1, dtype=torch.float64).expand(3).requires_grad_())
    with pytest.warns(UserWarning, match="is not a double precision floating point"):
        gradcheck(torch.sin, torch.ones(2, requires_grad=True), atol=1, rtol=1)


def test_gradients_of_a_batch_of_weights_are_stacked():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (g,) = torch.autograd.grad(x**2, x, torch.eye(2), is_grads_batched=True)
    assert g.tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_misuse_of_a_batch_of_gradients_is_told():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x**2
    with pytest.raises(RuntimeError, match=r"grad_output\[0\] has a shape of torch.Size\(\[2, 3\]\)"):
        torch.autograd.grad(y, x, torch.ones(2, 3), is_grads_batched=True)
    with pytest.raises(ValueError, match=r"got sizes \[2, 3\] for the mapped dimension"):
        torch.autograd.grad([y, x * 2], x, [torch.eye(2), torch.ones(3, 2)], is_grads_batched=True)
    with pytest.raises(ValueError, match="needs a batch of gradients for every output"):
        torch.autograd.grad(y, x, is_grads_batched=True)
    with pytest.raises(RuntimeError, match="`inputs` argument to `grad..` cannot be empty"):
        torch.autograd.grad(y.sum(), [])
