"""Functions written by users: what they may return, mark, save and raise."""

from __future__ import annotations

import pickle

import pytest

import rgrad as torch
from rgrad.autograd.function import Function, once_differentiable


def function(forward, backward=None, **more):
    """A class of the name ``My`` with these static methods."""
    methods = {"forward": forward, "backward": backward, **more}
    return type(
        "My", (torch.autograd.Function,), {name: staticmethod(f) for name, f in methods.items() if f is not None}
    )


def leaf() -> torch.Tensor:
    return torch.ones(3, requires_grad=True)


@pytest.mark.parametrize("forward", [lambda ctx, a: a, lambda ctx, a: a.view(-1)])
def test_an_input_or_a_view_of_it_comes_out_with_the_functions_gradient(forward):
    my, x = function(forward, lambda ctx, g: g * 2), leaf()
    base = x * 1
    y = my.apply(base)
    assert y is not base and y._base is base and y.grad_fn.name() == "MyBackward"
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="Output 0 of My is a view and is being modified inplace. This view"):
        y.add_(1)


def test_one_of_several_views_that_a_function_returns_is_not_written():
    my = function(lambda ctx, a: (a[:1], a[1:]), lambda ctx, g, h: torch.cat([g, h]))
    _, y = my.apply(leaf() * 1)
    with pytest.raises(RuntimeError, match="Output 1 of My is a view .* returns multiple views"):
        y.add_(1)


def _adds_one(ctx, a):
    a.add_(1)
    ctx.mark_dirty(a)
    return a


def test_a_dirty_input_is_the_output():
    x = leaf()
    base = x * 1
    y = function(_adds_one, lambda ctx, g: g * 2).apply(base)
    assert y is base and y.grad_fn.name() == "MyBackward" and y.tolist() == [2.0, 2.0, 2.0]
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_dirty_view_changes_the_history_of_its_base():
    x = leaf()
    base = x * 1
    function(_adds_one, lambda ctx, g: g * 2).apply(base[:2])
    assert type(base.grad_fn).__name__ == "CopySlices"
    base.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 1.0]


def test_a_leaf_is_not_written_by_a_function():
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        function(_adds_one, lambda ctx, g: g).apply(leaf())


def test_what_is_marked_dirty_must_be_returned():
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a * 1

    with pytest.raises(RuntimeError, match="Some elements marked as dirty during the forward method were not returned"):
        function(forward, lambda ctx, g: g).apply(leaf() * 1)


def test_outputs_without_gradient_and_undefined_gradients():
    seen = []

    def forward(ctx, a):
        fixed = a * 2
        ctx.mark_non_differentiable(fixed)
        return fixed, a.long(), a * 3

    def backward(ctx, *grads):
        seen.append([g.tolist() for g in grads])
        return grads[-1]

    fixed, whole, y = function(forward, backward).apply(leaf())
    assert (fixed.requires_grad, whole.requires_grad, y.requires_grad) == (False, False, True)
    y.sum().backward()
    assert seen == [[[0.0] * 3, [0] * 3, [1.0] * 3]]


def test_undefined_gradients_may_be_left_undefined():
    seen = []

    def forward(ctx, a):
        ctx.set_materialize_grads(False)
        return a * 2, a * 3

    my = function(forward, lambda ctx, g, h: seen.append(g) or h)
    my.apply(leaf())[1].sum().backward()
    assert seen == [None]


@pytest.mark.parametrize(
    ("backward", "message"),
    [
        (lambda ctx, g: (g, g, g), r"returned an incorrect number of gradients \(expected 2, got 3\)"),
        (lambda ctx, g: g, r"function MyBackward returned an incorrect number of gradients \(expected 2, got 1\)"),
        (lambda ctx, g: (3, None), r"expected Variable or None \(got int\)"),
        (lambda ctx, g: (g, g), "returned a gradient different than None at position 2, but the corresponding forward"),
        (lambda ctx, g: (g[:2], None), "Function MyBackward returned an invalid gradient at index 0"),
        (None, "You must implement either the backward or vjp method"),
    ],
)
def test_a_wrong_backward_is_told_what_is_wrong(backward, message):
    y = function(lambda ctx, a, k: a * k, backward).apply(leaf(), 2)
    with pytest.raises((RuntimeError, NotImplementedError), match=message):
        y.sum().backward()


def test_backward_and_vjp_are_one_method_too_many():
    my = function(lambda ctx, a: a * 2, lambda ctx, g: g, vjp=lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        my.apply(leaf()).sum().backward()


def test_a_saved_output_is_differentiated_again_whichever_it_is():
    def forward(ctx, a):
        first, second = a * 2, a * 3
        ctx.save_for_backward(second)
        return first, second

    def backward(ctx, g, h):
        (second,) = ctx.saved_tensors
        assert second.output_nr == 1 and second.grad_fn is not None
        return g * second + h

    x = leaf()
    first, second = function(forward, backward).apply(x)
    (g,) = torch.autograd.grad(first.sum() + second.sum(), x, create_graph=True)
    g.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_a_saved_input_that_is_written_is_refused():
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * 2

    base = leaf() * 1
    y = function(forward, lambda ctx, g: ctx.saved_tensors[0] * g).apply(base)
    base.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_grad_fn_shows_the_attributes_of_ctx():
    def forward(ctx, a):
        ctx.scale = 7
        ctx.save_for_backward(a)
        return a * 2

    x = leaf()
    y = function(forward, lambda ctx, g: g).apply(x)
    assert type(y.grad_fn).__name__ == "MyBackward"
    assert y.grad_fn.scale == 7 and y.grad_fn.needs_input_grad == (True,) and y.grad_fn.saved_tensors[0] is x


def test_once_differentiable_refuses_the_second_time():
    my, x = function(lambda ctx, a: a * a, once_differentiable(lambda ctx, g: g * 2)), leaf()
    weight = torch.ones(3, requires_grad=True)
    (g,) = torch.autograd.grad(my.apply(x), x, weight, create_graph=True)
    with pytest.raises(RuntimeError, match="trying to differentiate twice a function that was marked with @once"):
        g.sum().backward()


def test_functions_are_neither_instantiated_nor_pickled():
    my = function(lambda ctx, a: a * 2, lambda ctx, g: g)
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        instance = my()
    with pytest.raises(RuntimeError, match="Legacy autograd function with non-static forward method is deprecated"):
        instance(leaf())
    with pytest.raises(TypeError, match="cannot pickle 'MyBackward' object"):
        pickle.dumps(my.apply(leaf()).grad_fn)


def test_a_function_that_writes_a_view_returns_one_tensor():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.mark_dirty(a)
            return a.mul_(2), b * 2

        @staticmethod
        def backward(ctx, g, h):
            return g * 2, h * 2

    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="modifies inplace an input that is a view of another Tensor"):
        Two.apply(x.clone().view(3), x)


def test_what_is_no_tensor_is_not_saved_and_named_by_its_place():
    class Saves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_forward(a)
            ctx.save_for_backward(a, None, 3)

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(TypeError, match="save_for_backward can only save variables, but argument 2 is of type int"):
        Saves.apply(torch.ones(1))


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, factor=2):
        ctx.factor = factor
        ctx.save_for_backward(x)
        return x * factor

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (g * ctx.factor, (g * x).sum())[: len(ctx.needs_input_grad)]


def test_arguments_by_name_take_their_places_and_are_differentiated_by():
    x, factor = torch.ones(3, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    for y in Scaled.apply(x, factor=factor), Scaled.apply(factor=factor, x=x):
        assert y.grad_fn.needs_input_grad == (True, True)
        assert [g.tolist() for g in torch.autograd.grad(y.sum(), (x, factor))] == [[3.0] * 3, 3.0]
    assert Scaled.apply(x).grad_fn.needs_input_grad == (True,)


def test_arguments_by_name_that_forward_does_not_have_are_refused():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(TypeError, match=r"forward\(\) got an unexpected keyword argument 'other'"):
        Scaled.apply(x, other=1)
    with pytest.raises(TypeError, match=r"forward\(\) got multiple values for argument 'x'"):
        Scaled.apply(x, x=x)
    with pytest.raises(TypeError, match=r"forward\(\) missing required argument: 'x' \(position 0\)"):
        Scaled.apply(factor=1)


def test_a_forward_without_ctx_has_its_defaults_among_the_inputs():
    seen = []

    class Plain(Function):
        @staticmethod
        def forward(x, factor=2):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append(inputs[1])

        @staticmethod
        def backward(ctx, g):
            return g, None

    x = torch.ones(3, requires_grad=True)
    for y in Plain.apply(x), Plain.apply(x, factor=4), Plain.apply(factor=5, x=x):
        y.sum().backward()
    assert seen == [2, 4, 5]


def test_a_ctx_answers_as_its_node():
    class Asks(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            assert ctx.name() == "AsksBackward"
            assert [n.name() for n, _ in ctx.next_functions] == ["torch::autograd::AccumulateGrad"]
            assert ctx.metadata == {"note": 1}
            assert ctx.note == 2
            return g * 2

    x = torch.ones(3, requires_grad=True)
    y = Asks.apply(x)
    node = y.grad_fn
    node.metadata["note"] = 1
    # Set on the node, found on the ctx.
    node.note = 2
    assert isinstance(node._ctx(), Asks._backward_cls)
    kept, nothing = node._raw_saved_tensors
    kept.register_hooks(lambda t: t * 2, lambda t: t)
    with pytest.raises(RuntimeError, match="^Calling register_hooks on a saved tensor with value None is forbidden"):
        nothing.register_hooks(lambda t: t, lambda t: t)
    assert node.saved_tensors[0].tolist() == [2.0] * 3
    y.sum().backward()
    with pytest.raises(RuntimeError, match="^Calling register_hooks on a saved tensor after it has been freed"):
        kept.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        _ = node._raw_saved_tensors


def test_only_tensors_are_marked():
    class Marks(Function):
        @staticmethod
        def forward(ctx, x, how):
            getattr(ctx, how)(1)
            return x * 2

    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="mark_dirty can only accept variables, but argument 0 is of type int"):
        Marks.apply(x, "mark_dirty")
    with pytest.raises(RuntimeError, match="mark_non_differentiable only accepts variable arguments, but got int"):
        Marks.apply(x, "mark_non_differentiable")


def test_what_maps_and_forward_mode_ask_for_says_that_it_is_not_there():
    assert Scaled.generate_vmap_rule is False
    with pytest.raises(NotImplementedError, match="override the vmap static method"):
        Scaled.vmap(None, (None,), None)
    with pytest.raises(NotImplementedError, match="You must implement the jvp function"):
        Scaled.jvp(None)


def test_the_node_that_refuses_a_second_derivative_has_pytorchs_name():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * 2

    x = torch.ones(3, requires_grad=True)
    (g,) = torch.autograd.grad(Once.apply(x), x, torch.ones(3, requires_grad=True), create_graph=True)
    assert g.grad_fn.name() == "torch::autograd::Error"
    with pytest.raises(RuntimeError, match="trying to differentiate twice"):
        g.sum().backward()


def test_marking_a_tensor_that_was_no_input_as_written_to_warns():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.warns(UserWarning, match="received a tensor that was not an input"):
        Wrong.apply(torch.ones(2, requires_grad=True).clone())


def test_an_inplace_function_is_a_function_with_a_setting():
    class Add(torch.autograd.function.InplaceFunction):
        @staticmethod
        def forward(ctx, a, b):
            ctx.mark_dirty(a)
            return a.add_(b), b + 2

        @staticmethod
        def backward(ctx, ga, gb):
            return ga, ga + gb

    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        assert Add(inplace=True).inplace
    x, y = torch.zeros(2), torch.ones(2, requires_grad=True)
    q, p = Add.apply(x, y)
    assert q is x
    (q + p).sum().backward()
    assert y.grad.tolist() == [2.0, 2.0]


def test_what_is_saved_for_forward_must_be_tensors():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(3)

    with pytest.raises(TypeError, match="argument 0 is of type int"):
        Wrong.apply(torch.ones(2))


def test_the_node_of_a_custom_function_passes_for_its_ctx():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    node = Double.apply(torch.ones(2, requires_grad=True)).grad_fn
    assert node.__class__ is Double._backward_cls and isinstance(node, Double._backward_cls)
    assert isinstance(node, torch.autograd.function.BackwardCFunction) and isinstance(node, torch.autograd.graph.Node)
    assert node.name() == type(node).__name__ == "DoubleBackward"


def test_a_pre_hook_meets_none_for_outputs_that_are_no_tensors():
    my = function(lambda ctx, x, n: (x * n, n, x * 2), lambda ctx, g1, n, g2: (3 * g1 + 2 * g2, None))
    x = leaf()
    a, _, b = my.apply(x, 3)
    seen = []

    def hook(grads):
        seen.append([g is None for g in grads])
        return (grads[0] * 10, None, grads[2])

    a.grad_fn.register_prehook(hook)
    (a + b).sum().backward()
    assert seen == [[False, True, False]] and x.grad.tolist() == [32.0] * 3


def test_the_gradient_of_a_constant_result_may_stay_undefined():
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, fills):
            constant = x.clone()
            ctx.mark_non_differentiable(constant)
            ctx._materialize_non_diff_grads = fills
            return x.clone(), constant

        @staticmethod
        def backward(ctx, *grads):
            seen.append(grads[1])
            return grads[0], None

    seen = []
    x = torch.ones(2, requires_grad=True)
    for fills in (True, False):
        Both.apply(x, fills)[0].sum().backward()
    assert seen[0].tolist() == [0.0, 0.0] and seen[1] is None
