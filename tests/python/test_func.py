"""`func`: gradients of functions and calls over a dimension."""

from __future__ import annotations

import pickle

import pytest

import rgrad as torch
from rgrad.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)


def test_gradients_of_functions_nest_and_leave_no_history():
    x = torch.tensor(2.0)
    first, second = grad(lambda x: x**3), grad(grad(lambda x: x**3))
    assert first(x).item() == 12 and second(x).item() == 12 and grad(second)(x).item() == 6
    assert not first(x).requires_grad and not x.requires_grad
    with torch.no_grad():
        assert first(x).item() == 12
    y = torch.tensor(2.0, requires_grad=True)
    first(y).backward()
    assert y.grad.item() == 12


def test_gradients_by_several_arguments_and_containers():
    def f(p, x, scale=1.0):
        return (p["w"] * x).sum() * scale, x * 3

    p, x = {"w": torch.ones(2), "unused": torch.ones(1)}, torch.tensor([1.0, 2.0])
    found, more = grad(f, has_aux=True)(p, x, scale=2.0)
    assert found["w"].tolist() == [2, 4] and found["unused"].tolist() == [0] and torch.equal(more, x * 3)
    (by_p, by_x), (value, _) = grad_and_value(f, argnums=(0, 1), has_aux=True)(p, x)
    assert by_p["w"].tolist() == [1, 2] and by_x.tolist() == [1, 1] and value.item() == 3 and not value.requires_grad
    with pytest.raises(RuntimeError, match="return a scalar Tensor"):
        grad(lambda x: x)(x)


def test_products_with_jacobians():
    x = torch.tensor([1.0, 2.0])
    value, product = vjp(lambda x: (x**2, x.sum()), x)
    assert value[0].tolist() == [1, 4] and not value[0].requires_grad
    (g,) = product((torch.tensor([1.0, 1.0]), torch.tensor(10.0)))
    assert g.tolist() == [12, 14]
    assert torch.equal(product((torch.zeros(2), torch.tensor(1.0)))[0], torch.ones(2))


def test_calls_over_a_dimension_are_joined():
    a, b = torch.randn(3, 4), torch.randn(4, 3)
    assert torch.allclose(vmap(torch.dot, in_dims=(0, 1))(a, b), (a * b.T).sum(1))
    assert torch.equal(vmap(lambda x, y: x + y, in_dims=(0, None))(a, b[:, 0]), a + b[:, 0])
    assert torch.equal(vmap(lambda d: d["x"] * 2)({"x": a})[1], a[1] * 2)
    made = vmap(lambda x: (x, x.sum()), out_dims=(1, 0))(a)
    assert made[0].shape == (4, 3) and made[1].shape == (3,)
    assert torch.allclose(vmap(vmap(torch.dot), in_dims=(0, 0))(a[None], a[None])[0], (a * a).sum(1))
    per_sample = vmap(grad(lambda w, x: (w * x).sum() ** 2), in_dims=(None, 0))(torch.ones(4), a)
    assert torch.allclose(per_sample, 2 * a.sum(1, keepdim=True) * a)
    x = torch.randn(2, 2, requires_grad=True)
    torch.vmap(torch.sum)(x).sum().backward()
    assert x.grad.tolist() == [[1, 1], [1, 1]]


def test_random_calls_over_a_dimension_differ_or_not():
    same = vmap(lambda x: x + torch.rand(1), randomness="same")(torch.zeros(3))
    different = vmap(lambda x: x + torch.rand(1), randomness="different")(torch.zeros(3))
    assert len(set(same.flatten().tolist())) == 1 and len(set(different.flatten().tolist())) == 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: vmap(torch.neg, in_dims=None)(x), "expected `in_dims` to be int or a"),
        (lambda x: vmap(torch.neg, in_dims=5)(x), "Got in_dim=5 for some input, but that input is a Tensor"),
        (lambda x: vmap(torch.add)(x, x[:1]), "same size in the mapped dimension"),
        (lambda x: vmap(lambda x: 3)(x), "must only return Tensors"),
        (lambda x: vmap(torch.neg, in_dims=(0, 0))(x), "in_dims is not compatible with the structure of `inputs`"),
    ],
)
def test_what_can_not_be_mapped_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.ones(3, 2))


def test_modules_of_one_kind_are_stacked():
    models = [torch.nn.Linear(2, 3) for _ in range(4)]
    parameters, buffers = stack_module_state(models)
    assert parameters["weight"].shape == (4, 3, 2) and buffers == {} and parameters["weight"].is_leaf
    x = torch.randn(4, 2)
    made = vmap(lambda p, x: torch.func.functional_call(models[0], p, (x,)))(parameters, x)
    assert torch.allclose(made[2], models[2](x[2]))


def test_futures_have_their_values_when_they_are_set():
    from rgrad.futures import Future, collect_all, wait_all

    first, second = Future(), Future()
    doubled = first.then(lambda f: f.value() * 2)
    both = collect_all([first, second])
    with pytest.raises(RuntimeError, match="not set yet"):
        first.value()
    first.set_result(3)
    assert doubled.wait() == 6 and not both.done()
    second.set_exception(KeyError("no"))
    assert both.wait() == [first, second]
    with pytest.raises(KeyError):
        wait_all([first, second])
    with pytest.raises(RuntimeError, match="a Future can only be marked completed once"):
        first.set_result(4)


def _outputs(a, b):
    return {"product": a * b, "more": (a.sin().sum(), b * 2)}


def test_a_derivative_in_a_direction_is_the_product_with_the_jacobian():
    x, v = torch.tensor([0.5, 2.0]), torch.tensor([1.0, -3.0])
    value, derivative, more = jvp(lambda a: (a**3, a + 1), (x,), (v,), has_aux=True)
    assert torch.equal(value, x**3) and torch.allclose(derivative, 3 * x**2 * v) and torch.equal(more, x + 1)
    value, derivative = jvp(_outputs, (x, x), (v, v))
    assert torch.allclose(derivative["product"], 2 * x * v)
    assert torch.allclose(derivative["more"][0], (x.cos() * v).sum()) and torch.equal(derivative["more"][1], 2 * v)
    assert not derivative["product"].requires_grad and not value["product"].requires_grad
    constant = jvp(lambda a: torch.ones(2), (x,), (v,))
    assert constant[1].tolist() == [0.0, 0.0]
    with torch.no_grad():
        assert torch.allclose(jvp(torch.sin, (x,), (v,))[1], x.cos() * v)


def test_derivatives_in_directions_nest():
    x, v = torch.tensor([0.5, 2.0]), torch.tensor([1.0, -3.0])
    assert torch.allclose(jvp(lambda a: jvp(torch.sin, (a,), (v,))[1], (x,), (v,))[1], -x.sin() * v * v)
    assert torch.allclose(grad(lambda a: jvp(torch.sin, (a,), (v,))[1].sum())(x), -x.sin() * v)
    # By a tensor that the function knows, and by the direction.
    assert torch.equal(grad(lambda w: jvp(lambda a: a * w, (x,), (v,))[1].sum())(x), v)
    assert torch.equal(grad(lambda w: vjp(lambda a: a * w, x)[1](v)[0].sum())(x), v)
    assert torch.equal(grad(lambda d: jvp(lambda a: a * a, (x,), (d,))[1].sum())(v), 2 * x)
    assert torch.equal(grad(lambda d: vjp(lambda a: a * a, x)[1](d)[0].sum())(v), 2 * x)
    w = torch.ones(2, requires_grad=True)
    for found in (grad(lambda a: (a * w).sum())(x), jvp(lambda a: a * w, (x,), (v,))[1], jacrev(lambda a: a * w)(x)):
        (g,) = torch.autograd.grad(found.sum(), w)
        assert g.shape == (2,) and g.abs().sum() > 0


def test_a_linearized_function_is_called_once():
    calls = []

    def f(a, b):
        calls.append(1)
        return a.sin() * b

    x, v = torch.tensor([0.5, 2.0]), torch.tensor([1.0, -3.0])
    value, derivative = linearize(f, x, v)
    for da, db in ((v, x), (x, x)):
        assert torch.allclose(derivative(da, db), x.cos() * da * v + x.sin() * db)
    assert torch.equal(value, x.sin() * v) and len(calls) == 1
    with pytest.raises(RuntimeError, match="to have the same argspec as the primals"):
        derivative(v)
    with pytest.raises(RuntimeError, match="doesn't match the shape"):
        derivative(torch.ones(3), v)


@pytest.mark.parametrize("jacobian", [jacfwd, jacrev])
def test_jacobians_have_a_block_for_every_output_and_input(jacobian):
    x, y = torch.tensor([0.5, 2.0, 3.0]), torch.tensor([1.0, -3.0, 2.0])
    assert torch.equal(jacobian(lambda a: a * a)(x), torch.diag(2 * x))
    assert torch.equal(jacobian(lambda a: a.outer(a))(x)[0, 1], torch.tensor([2.0, 0.5, 0.0]))
    found = jacobian(_outputs)(x, y)
    assert torch.equal(found["product"], torch.diag(y)) and torch.allclose(found["more"][0], x.cos())
    assert torch.equal(found["more"][1], torch.zeros(3, 3))
    by_x, by_y = jacobian(_outputs, argnums=(0, 1))(x, y)["product"]
    assert torch.equal(by_x, torch.diag(y)) and torch.equal(by_y, torch.diag(x))
    matrix, more = jacobian(lambda p: (p["a"] * p["b"], {"a": p["a"]}), has_aux=True)({"a": x, "b": y})
    assert torch.equal(matrix["a"], torch.diag(y)) and torch.equal(matrix["b"], torch.diag(x))
    assert torch.equal(more["a"], x)
    with torch.no_grad():
        assert torch.equal(jacobian(lambda a: a * a)(x), torch.diag(2 * x))
    assert jacobian(lambda a: a * 2)(torch.ones(0)).shape == (0, 0)
    w = torch.ones(3, requires_grad=True)
    jacobian(lambda a: a * a)(w).sum().backward()
    assert w.grad.tolist() == [2, 2, 2]


def test_a_hessian_has_all_second_derivatives():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert torch.equal(hessian(lambda a: (a**3).sum())(x), torch.diag(6 * x))
    blocks = hessian(lambda a, b: (a * a * b).sum(), argnums=(0, 1))(x, y)
    expected = torch.diag(2 * y), torch.diag(2 * x), torch.diag(2 * x), torch.zeros(2, 2)
    assert all(torch.equal(a, b) for a, b in zip((*blocks[0], *blocks[1]), expected, strict=True))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: jvp(torch.sin, x, x), RuntimeError, "Expected primals to be a tuple"),
        (lambda x: jvp(torch.sin, (x,), x), RuntimeError, "to have the same python structure"),
        (lambda x: jvp(torch.sin, (x,), (x[:1],)), RuntimeError, "has a different size"),
        (lambda x: jvp(torch.sin, (x,), (x.double(),)), RuntimeError, "to have the dtype torch.float32"),
        (lambda x: jvp(torch.sin, (), ()), RuntimeError, "at least one Tensor"),
        (lambda x: jvp(torch.sin, (x.long(),), (x.long(),)), ValueError, "Expected primal to be floating point"),
        (lambda x: jvp(lambda a: 3, (x,), (x,)), RuntimeError, "to return only tensors, got unsupported type"),
        (lambda x: jvp(torch.sin, (x,), (x,), has_aux=True), RuntimeError, "output of function f should be a tuple"),
        (lambda x: jvp(lambda a: torch.ones(1), (x,), (x,), strict=True), RuntimeError, "independent of the inputs"),
        (lambda x: jacrev(torch.sin, argnums=1)(x), RuntimeError, "Got argnum=1, but only 1 positional inputs"),
        (lambda x: jacfwd(torch.sin, argnums=())(x), RuntimeError, "argnums must be non-empty"),
        (lambda x: jacfwd(torch.sin, argnums="a")(x), RuntimeError, "argnums must be int or Tuple"),
        (lambda x: jacrev(torch.sin, chunk_size=0), ValueError, "`chunk_size` should be greater than 0"),
    ],
)
def test_derivatives_of_what_is_no_function_of_tensors_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(torch.ones(2))


def test_futures_tell_what_failed_in_a_callback():
    from rgrad.futures import Future, collect_all, wait_all

    def fail(future):
        raise ValueError(f"not {future.value()}")

    first = Future()
    failed = first.then(fail)
    first.set_result(3)
    for get in (failed.wait, failed.value, lambda: wait_all([first, failed])):
        with pytest.raises(RuntimeError, match="error when running the callback: ValueError: not 3") as caught:
            get()
        assert isinstance(caught.value.__cause__, ValueError)
    assert failed.then(lambda future: future.done()).wait()
    with pytest.raises(AssertionError, match="'str'>, not an Exception"):
        Future().set_exception("text")
    with pytest.raises(RuntimeError, match="Can not pickle torch.futures.Future"):
        pickle.dumps(first)
    for use in (lambda: wait_all([None]), lambda: collect_all([first, None]), lambda: torch.jit.wait(None)):
        with pytest.raises(RuntimeError, match="Future can't be None"):
            use()
    with pytest.raises(TypeError, match="expected Futures, but got int"):
        collect_all([1])


def test_a_forked_call_is_a_future():
    future = torch.jit.fork(max, 2, 3)
    assert isinstance(future, torch.Future) and future.wait() == torch.jit.wait(future) == 3
    assert future.then(lambda f: f.value() + 1).wait() == 4


def test_a_mapped_function_may_index_with_its_arguments():
    from rgrad._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    seen = torch.tensor([[True, False, True], [True, True, False]])
    group = torch.tensor([0, 0, 1])

    def visible(batch, query, key):
        return seen[batch, key] & (group[query] == group[key])

    mask = visible
    for dims in ((None, None, 0), (None, 0, None), (0, None, None)):
        mask = torch.func.vmap(mask, in_dims=dims, out_dims=0)
    with TransformGetItemToIndex():
        made = mask(torch.arange(2), torch.arange(3), torch.arange(3))
    assert torch.equal(made, seen[:, None, :] & (group[:, None] == group)[None])


def test_the_former_names_say_which_is_to_be_called():
    from rgrad import functorch

    for name in ("grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "functionalize"):
        with pytest.warns(FutureWarning, match=f"Please use `torch.func.{name}` instead"):
            assert callable(getattr(functorch, name)(torch.sin))
    with pytest.warns(FutureWarning, match="Please use `torch.vmap`"):
        functorch.vmap(torch.sin)
    with pytest.warns(FutureWarning, match="Please use `torch.func.functional_call`"):
        function, parameters = functorch.make_functional(torch.nn.Linear(2, 3))
    assert function(parameters, torch.ones(1, 2)).shape == (1, 3)


def test_modules_whose_states_differ_are_not_stacked():
    models = [torch.nn.Linear(2, 2) for _ in range(2)]
    with pytest.raises(RuntimeError, match="same training/eval mode"):
        stack_module_state([models[0], torch.nn.Linear(2, 2).eval()])
    with pytest.raises(RuntimeError, match="of the same class"):
        stack_module_state([models[0], torch.nn.Bilinear(2, 2, 2)])
    models[0].weight.requires_grad_(False)
    with pytest.raises(RuntimeError, match="Expected weight from each model to have the same .requires_grad"):
        stack_module_state(models)


def test_an_input_that_is_returned_and_saved_is_refused_where_the_context_is_set_up_apart():
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*(inputs if ctx.mode == "input" else (output,)))

    x = torch.ones(2)
    for Same._backward_cls.mode in ("input", "output"):
        for call in (Same.apply, grad(lambda x: Same.apply(x.clone()).sum())):
            with pytest.raises(RuntimeError, match="returned as-is as output is being saved"):
                call(x)


class Net(torch.nn.Module):
    """Convolutions and linear layers, with and without a bias, a stride and several rows of a sample."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(2, 3, 3, padding=1)
        self.second = torch.nn.Conv2d(3, 4, (3, 2), stride=2, bias=False)
        self.third = torch.nn.Linear(9, 5)
        self.last = torch.nn.Linear(5, 2, bias=False)

    def forward(self, x):
        rows = self.second(self.first(x).tanh()).flatten(2)
        return self.last(self.third(rows).tanh())


@pytest.mark.parametrize("pictures", [(1,), (2,), ()])
def test_gradients_of_samples_are_those_of_a_loop(pictures):
    torch.manual_seed(0)
    net, x = Net().double(), torch.randn(4, *pictures, 2, 8, 6, dtype=torch.float64)
    parameters = {name: p.detach() for name, p in net.named_parameters()}

    def loss(parameters, x):
        x = x if pictures else x[None]
        return (torch.func.functional_call(net, parameters, x) ** 2).sum()

    found = vmap(grad(loss, (0, 1)), (None, 0))(parameters, x)
    expected = [grad(loss, (0, 1))(parameters, part) for part in x]
    for name in parameters:
        torch.testing.assert_close(found[0][name], torch.stack([e[0][name] for e in expected]))
    torch.testing.assert_close(found[1], torch.stack([e[1] for e in expected]))

    # Derivatives of these, by what all samples share and by what is their own.
    def of_gradient(parameters, x):
        by_weight, by_input = grad(loss, (0, 1))(parameters, x)
        return sum((t**2).sum() for t in by_weight.values()) + (by_input**3).sum()

    again = vmap(grad(of_gradient, (0, 1)), (None, 0))(parameters, x[:2])
    for i in range(2):
        one = grad(of_gradient, (0, 1))(parameters, x[i])
        torch.testing.assert_close(again[1][i], one[1])
        for name in parameters:
            torch.testing.assert_close(again[0][name][i], one[0][name])
    whole = grad(lambda p: vmap(of_gradient, (None, 0))(p, x[:2]).sum())(parameters)
    torch.testing.assert_close(whole["second.weight"], again[0]["second.weight"].sum(0))

    def outputs(p, x):
        return torch.func.functional_call(net, p, x if pictures else x[None]).sum((0, 1))

    jacobians = vmap(jacrev(outputs), (None, 0))(parameters, x)
    alone = jacrev(outputs)(parameters, x[0])
    for name in parameters:
        torch.testing.assert_close(jacobians[name][0], alone[name])


@pytest.mark.parametrize(
    ("op", "weight", "spatial", "options"),
    [
        ("conv1d", (4, 2, 3), (7,), {"dilation": 2, "padding": 1}),
        ("conv2d", (4, 1, 2, 3), (5, 6), {"groups": 2, "stride": (2, 1)}),
        ("conv2d", (4, 2, 3, 3), (5, 6), {"padding": "same"}),
        ("conv3d", (2, 2, 2, 1, 2), (3, 4, 3), {"padding": (1, 0, 1)}),
        ("conv_transpose2d", (2, 2, 3, 2), (3, 4), {"stride": 2, "output_padding": (1, 0), "groups": 2}),
    ],
)
def test_gradients_of_samples_by_shared_weights_of_all_convolutions(op, weight, spatial, options):
    torch.manual_seed(0)
    w = torch.randn(weight, dtype=torch.float64)
    x = torch.randn(3, 2, 2, *spatial, dtype=torch.float64)

    def loss(w, x):
        return (getattr(torch.nn.functional, op)(x, w, **options) ** 3).sum()

    found = vmap(grad(loss, (0, 1)), (None, 0))(w, x)
    for i in range(3):
        expected = grad(loss, (0, 1))(w, x[i])
        torch.testing.assert_close(found[0][i], expected[0])
        torch.testing.assert_close(found[1][i], expected[1])


def test_saved_tensor_hooks_are_refused_by_transforms_around_and_inside_of_them():
    def inside(x):
        with torch.autograd.graph.save_on_cpu():
            return x.sin().sum()

    x = torch.ones(2)
    for transform in (grad, jacrev, torch.func.grad_and_value, torch.func.functionalize, torch.func.hessian):
        with pytest.raises(RuntimeError, match="saved tensor hooks"), torch.autograd.graph.save_on_cpu():
            transform(lambda x: x.sin().sum())(x)
        with pytest.raises(RuntimeError, match="saved tensor hooks"):
            transform(inside)(x)
    torch.func.jvp(inside, (x,), (x,))
    inside(x)


class _Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(1, 1, bias=False)
        self.second = torch.nn.Linear(1, 1, bias=False)
        self.second.weight = self.first.weight
        self.plain, self.number = torch.ones(1), 1.0

    def forward(self, x):
        return self.second(self.first(x)) * self.plain + getattr(self, "extra", 0.0)


def test_functional_call_replaces_plain_attributes_and_adds_what_the_module_lacks():
    module, x = _Tied(), torch.ones(1)
    given = {"first.weight": torch.full((1, 1), 2.0), "plain": torch.tensor([3.0]), "extra": torch.tensor([0.5])}
    assert functional_call(module, given, x).item() == 12.5
    assert module.plain.item() == 1.0 and not hasattr(module, "extra")
    extra = torch.nn.Parameter(torch.zeros(1))
    seen = functional_call(_Parameters(), {"part.extra": extra}, ())
    assert seen[-1] is extra and len(list(_Parameters().parameters())) == len(seen) - 1


class _Parameters(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = torch.nn.Linear(1, 1)

    def forward(self):
        return list(self.parameters())


def test_functional_call_refuses_what_it_cannot_set():
    module, x, two = _Tied(), torch.ones(1), torch.full((1, 1), 2.0)
    with pytest.raises(ValueError, match=r"got multiple values for keys \['first.weight', 'second.weight'\]"):
        functional_call(module, {"first.weight": two, "second.weight": two + 1}, x)
    assert functional_call(module, {"first.weight": two, "second.weight": two + 1}, x, tie_weights=False).item() == 6.0
    with pytest.raises(TypeError, match="attribute `number`: 1.0 is not an instance of torch.Tensor"):
        functional_call(module, {"number": two}, x)
    with pytest.raises(TypeError, match="7 is not an instance of torch.Tensor"):
        functional_call(module, {"first.weight": 7}, x)
    with pytest.raises(AttributeError, match="_Tied has no attribute `third`"):
        functional_call(module, {"third.weight": two}, x)


def test_functional_call_follows_names_through_a_module_that_contains_itself():
    module = torch.nn.Linear(1, 1, bias=False)
    module.again = module
    weight = torch.full((1, 1), 4.0)
    assert functional_call(module, {"again.again.weight": weight}, torch.ones(1), tie_weights=False).item() == 4.0


def test_modules_are_made_as_functions_of_stacked_parameters():
    from rgrad.functorch._modules import functional_init, functional_init_with_buffers

    weights, call, names = functional_init(torch.nn.Linear, (4,))(2, 3)
    x = torch.randn(5, 2)
    assert names == ("weight", "bias") and weights[0].shape == (4, 3, 2)
    assert torch.allclose(vmap(call, (0, None))(weights, (x,))[2], x @ weights[0][2].T + weights[1][2])
    weights, buffers, call, _, of_buffers = functional_init_with_buffers(torch.nn.BatchNorm1d)(2)
    assert call(weights, buffers, (x,)).shape == (5, 2) and "running_mean" in of_buffers
    with pytest.raises(RuntimeError, match="has buffers"):
        functional_init(torch.nn.BatchNorm1d)(2)
    with pytest.raises(ValueError, match="NYI"):
        functional_init(torch.nn.Linear, (2, 3))
    with pytest.raises(ValueError, match="should be > 0"):
        functional_init(torch.nn.Linear, (0,))


def test_a_product_of_vjp_frees_or_records_its_graph_as_it_is_told():
    x, v = torch.tensor([0.5, 2.0]), torch.tensor([1.0, -3.0])
    _, product = vjp(torch.sin, x)
    assert torch.equal(product(v, False)[0], x.cos() * v)
    with pytest.raises(RuntimeError, match="a second time"):
        product(v)
    w = torch.ones(2, requires_grad=True)
    _, product = vjp(lambda a: (a * w).sin(), x)
    assert not product(v, create_graph=False)[0].requires_grad and product(v, True, True)[0].requires_grad


def test_dimensions_merge_and_results_of_slices_keep_theirs():
    from rgrad._vmap import reshape_dim_into, reshape_dim_outof, restore_vmap

    x = torch.arange(24).view(2, 3, 4)
    assert torch.equal(reshape_dim_into(0, 0, x), x.view(6, 4))
    assert torch.equal(reshape_dim_into(0, 1, x), x.movedim(0, 1).reshape(3, 8))
    assert torch.equal(reshape_dim_outof(-1, 2, x), x.view(2, 3, 2, 2))
    assert reshape_dim_outof(0, 0, torch.ones(0, 3)).shape == (0, 0, 3)
    found, dims = restore_vmap(lambda a, b, n: {"a": a + 1, "b": b, "n": n}, (1, None, None), 3, "error")(x, x, 5)
    assert torch.equal(found["a"], x.movedim(1, 0) + 1) and found["b"] is x and dims == {"a": 0, "b": None, "n": None}


def test_a_derivative_is_taken_in_inference_mode_too():
    x = torch.arange(3.0)
    with torch.inference_mode():
        made = torch.arange(3.0)
        for given in (x, made):
            assert grad(lambda t: (t**2).sum())(given).tolist() == [0, 2, 4]
            assert jvp(lambda t: t**2, (given,), (torch.ones(3),))[1].tolist() == [0, 2, 4]
            assert jacrev(lambda t: t**2)(given).diag().tolist() == [0, 2, 4]
            assert vjp(lambda t: t**2, given)[1](torch.ones(3))[0].tolist() == [0, 2, 4]
            assert linearize(lambda t: t**2, given)[1](torch.ones(3)).tolist() == [0, 2, 4]
            assert torch.is_inference_mode_enabled()
        assert (x * 2).is_inference()


def test_a_function_writes_in_place_to_what_it_made_and_not_to_what_it_captured():
    x, captured = torch.arange(3.0), torch.ones(3)

    def of_own(t):
        made = torch.ones(3)
        made.copy_(t)
        return made.mul_(t).sum()

    def of_captured(t):
        captured.add_(1)
        return (t * captured).sum()

    def pushed(f):
        return lambda t: jvp(f, (t,), (t,))

    def pulled(f):
        return lambda t: vjp(f, t)

    for transform in (grad, jacrev, jacfwd, hessian, pushed, pulled):
        transform(of_own)(x)
        with pytest.raises(RuntimeError, match="would mutate a captured Tensor"):
            transform(of_captured)(x)
    assert grad(of_own)(x).tolist() == [0, 2, 4] and captured.tolist() == [1, 1, 1]

    def nested(t):
        outer = t * 1
        return grad(lambda s: (s * outer.mul_(2)).sum())(t).sum()

    with pytest.raises(RuntimeError, match="would mutate a captured Tensor"):
        grad(nested)(x)
    for write in (lambda: captured[0].fill_(3), lambda: captured.__setitem__(0, 3.0), lambda: captured.data.add_(1)):
        with pytest.raises(RuntimeError, match="would mutate a captured Tensor"):
            grad(lambda t, write=write: (write(), t.sum())[1])(x)
    assert captured.tolist() == [1, 1, 1]
    # A view of an argument of the function is not captured, and neither is a result computed from one.
    assert jvp(lambda t: t.clone()[1:].mul_(2), (x,), (x,))[1].tolist() == [2, 4]
    assert grad(lambda t: (t * 1)[::2].mul_(3).sum())(x).tolist() == [3, 0, 3]
    functionalize(of_captured)(x)
    assert captured.tolist() == [2, 2, 2]
