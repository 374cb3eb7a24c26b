"""Details of autograd that PyTorch shows: nodes of operations, what they say of themselves, what hooks may return."""

import pickle
import warnings

import pytest

import rgrad as torch
from rgrad.autograd.graph import GradientEdge, get_gradient_edge
from rgrad.nn import functional as F

NAN = float("nan")


def leaf(*shape):
    return torch.arange(1.0, 1.0 + torch.Size(shape).numel()).reshape(shape).requires_grad_()


def graph(node):
    """A node with those behind it, leaves as `w`."""
    if node is None:
        return "-"
    name = node.name().removeprefix("torch::autograd::")
    behind = ", ".join(graph(n) for n, _ in node.next_functions)
    return "w" if name == "AccumulateGrad" else f"{name}({behind})" if behind else name


GRAPHS = {
    "F.linear(x, leaf(4, 3), leaf(4))": "AddmmBackward0(w, w, TBackward0(w))",
    "F.linear(x.detach(), leaf(4, 3), leaf(4))": "AddmmBackward0(w, -, TBackward0(w))",
    "F.linear(x, leaf(4, 3), torch.ones(4))": "AddmmBackward0(-, w, TBackward0(w))",
    "F.linear(x, torch.ones(4, 3), leaf(4))": "AddmmBackward0(w, w, -)",
    "F.linear(x, leaf(4, 3))": "MmBackward0(w, TBackward0(w))",
    "F.linear(y, leaf(4, 3), leaf(4))": "UnsafeViewBackward0(AddmmBackward0(w, ViewBackward0(w), TBackward0(w)))",
    "x.reshape(3, 2)": "ViewBackward0(w)",
    "x.t().reshape(6)": "UnsafeViewBackward0(CloneBackward0(TBackward0(w)))",
    "x.t().reshape(3, 1, 2)": "ReshapeAliasBackward0(TBackward0(w))",
    "x[:, 0].reshape(2, 1)": "ReshapeAliasBackward0(SelectBackward0(w))",
    "x.t().ravel()": "ViewBackward0(CloneBackward0(TBackward0(w)))",
    "x.clone().t_()": "TBackward1(CloneBackward0(w))",
    "x.clone().transpose_(0, 1)": "TransposeBackward1(CloneBackward0(w))",
    "x.clone().squeeze_()": "SqueezeBackward3(CloneBackward0(w))",
    "x.clone().squeeze_(0)": "SqueezeBackward4(CloneBackward0(w))",
    "x.clone().unsqueeze_(0)": "UnsqueezeBackward1(CloneBackward0(w))",
    "x @ leaf(1, 3, 4)": "CloneBackward0(TransposeBackward0(UnsafeViewBackward0(MmBackward0("
    "ReshapeAliasBackward0(TransposeBackward0(w)), TBackward0(w)))))",
    "leaf(2, 2, 3) @ leaf(1, 3, 4)": "UnsafeViewBackward0(MmBackward0(ViewBackward0(w), SqueezeBackward1(w)))",
    "x.detach() @ leaf(2, 3, 4)": "UnsafeViewBackward0(BmmBackward0(-, ViewBackward0(ExpandBackward0(w))))",
    "x.clamp(0, 1)": "ClampBackward1(w)",
    "x.clamp(min=0)": "ClampBackward1(w)",
    "x.clamp(torch.zeros(3), leaf(3))": "ClampBackward0(w, -, w)",
    "x.clamp(min=leaf(3))": "ClampBackward0(w, w, -)",
    "x.clamp_min(leaf(3))": "ClampMinBackward1(w, w)",
    "torch.where(x > 1, x, leaf(3))": "WhereBackward0(w, w)",
}


@pytest.mark.parametrize("program", GRAPHS)
def test_operations_have_the_nodes_of_pytorch(program):
    made = eval(program, {"torch": torch, "F": F, "leaf": leaf, "x": leaf(2, 3), "y": leaf(2, 2, 3)})
    assert graph(made.grad_fn) == GRAPHS[program]


# What is done to `a = x.clone()`, the node of `a` after it, and the gradient of its sum by `x`.
WRITES = {
    "a[0] = 5.0": ("CopySlices(CloneBackward0(w))", [[0.0] * 3, [1.0] * 3]),
    "a[0] = x[1]": ("CopySlices(CloneBackward0(w), SelectBackward0(w))", [[0.0] * 3, [2.0] * 3]),
    "a[:] = x * 2": ("CopyBackwards(CloneBackward0(w), MulBackward0(w, -))", [[2.0] * 3] * 2),
    "a[0].mul_(2)": ("CopySlices(CloneBackward0(w), -)", [[2.0] * 3, [1.0] * 3]),
    "a[0].mul_(x[1])": ("CopySlices(CloneBackward0(w), SelectBackward0(w))", [[4.0, 5.0, 6.0], [2.0, 3.0, 4.0]]),
    "a[0].exp_().zero_()": ("CopySlices(CopySlices(CloneBackward0(w)))", [[0.0] * 3, [1.0] * 3]),
    "a[0].copy_(x[1])": ("CopySlices(CloneBackward0(w), SelectBackward0(w))", [[0.0] * 3, [2.0] * 3]),
    "a[0].fill_(x.sum())": ("CopySlices(CloneBackward0(w), SumBackward0(w))", [[3.0] * 3, [4.0] * 3]),
    "a[[0]] = x[1]": ("IndexPutBackward0(CloneBackward0(w), SelectBackward0(w))", [[0.0] * 3, [2.0] * 3]),
}


@pytest.mark.parametrize("program", WRITES)
def test_a_write_has_the_node_and_the_gradient_of_pytorch(program):
    x = leaf(2, 3)
    a = x.clone()
    exec(program, {"torch": torch, "x": x, "a": a})
    shown, gradient = WRITES[program]
    assert graph(a.grad_fn) == shown
    a.sum().backward()
    assert x.grad.tolist() == gradient


def test_a_view_that_is_turned_in_place_stays_a_view_of_its_base():
    x = leaf(3, 2, 3)
    base = x.clone()
    view = base[0]
    view.t_()
    assert graph(view.grad_fn) == "TBackward1(SelectBackward0(CloneBackward0(w)))"
    assert view._base is base
    view.mul_(2)
    base.sum().backward()
    assert x.grad[:, 0, 0].tolist() == [2.0, 1.0, 1.0]


def test_what_was_a_view_before_its_base_was_turned_in_place_sees_later_writes():
    x = leaf(2, 3)
    base = x.clone()
    row = base[0]
    base.t_()
    base.mul_(2)
    row.sum().backward()
    assert x.grad.tolist() == [[2.0] * 3, [0.0] * 3]


def test_linear_shows_the_weight_transposed_among_what_it_saved():
    x, w = leaf(2, 3), leaf(4, 3)
    node = F.linear(x, w, leaf(4)).grad_fn
    assert node._saved_mat2.shape == (3, 4)
    assert node._saved_mat2.grad_fn.name() == "TBackward0"
    assert node._saved_mat1 is x
    assert (node._saved_alpha, node._saved_beta) == (1, 1)


def test_a_bias_receives_its_gradient_before_the_weight():
    layer, seen = torch.nn.Linear(2, 1), []
    for name, p in layer.named_parameters():
        p.register_post_accumulate_grad_hook(lambda _, name=name: seen.append(name))
    layer(torch.ones(3, 2)).sum().backward()
    assert seen == ["bias", "weight"]
    assert layer.weight.grad.is_contiguous()


# By program: the gradients of x = -1, 0, 0.5, 1, 2 and NaN.
CLAMPED = {
    "x.clamp(0, 1)": [0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
    "x.clamp(-1, 1)": [0.0, 1.0, 1.0, 0.0, 0.0, 0.0],
    "x.clamp(min=0)": [0.0, 0.0, 1.0, 1.0, 1.0, 0.0],
    "x.clamp(max=1)": [1.0, 1.0, 1.0, 0.0, 0.0, 0.0],
    "x.clamp_min(0)": [0.0, 0.0, 1.0, 1.0, 1.0, 0.0],
    "x.clamp_max(1)": [1.0, 1.0, 1.0, 0.0, 0.0, 0.0],
    "x.clone().clamp_(0, 1)": [0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
    "x.clamp(torch.tensor(0.0), torch.tensor(1.0))": [0.0, 0.5, 1.0, 0.5, 0.0, 1.0],
    "x.clamp(torch.tensor(0.0), None)": [0.0, 0.5, 1.0, 1.0, 1.0, 1.0],
    "x.clamp_min(torch.tensor(0.0))": [0.0, 0.5, 1.0, 1.0, 1.0, 1.0],
    "x.clamp_max(torch.tensor(1.0))": [1.0, 1.0, 1.0, 0.5, 0.0, 1.0],
    "F.hardswish(x)[5]": [0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    "F.hardsigmoid(x)[5]": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
}


@pytest.mark.parametrize("program", CLAMPED)
def test_at_its_bounds_a_clamp_has_the_gradient_of_pytorch(program):
    x = torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0, NAN], requires_grad=True)
    eval(program, {"x": x, "torch": torch, "F": F}).sum().backward()
    assert x.grad.tolist() == CLAMPED[program]


# Of x, min and max: their gradients.
BOUNDS = [
    ((0.0, 0.0, 1.0), (0.5, 0.5, 0.0)),
    ((1.0, 0.0, 1.0), (0.5, 0.0, 0.5)),
    ((-1.0, 0.0, 1.0), (0.0, 1.0, 0.0)),
    ((2.0, 0.0, 1.0), (0.0, 0.0, 1.0)),
    ((1.0, 1.0, 1.0), (1.0, 0.0, 0.0)),
    ((0.0, 1.0, 1.0), (0.0, 1.0, 0.0)),
    ((1.5, 2.0, 1.0), (0.0, 0.0, 1.0)),
    ((NAN, 2.0, 1.0), (1.0, 0.0, 1.0)),
]


@pytest.mark.parametrize(("values", "gradients"), BOUNDS)
def test_bounds_that_are_tensors_share_the_gradient_where_they_tie(values, gradients):
    tensors = [torch.tensor(v, requires_grad=True) for v in values]
    found = torch.autograd.grad(tensors[0].clamp(*tensors[1:]), tensors)
    assert tuple(g.item() for g in found) == gradients


FLAT = ["torch.relu(x)", "x.abs()", "F.leaky_relu(x)", "F.hardtanh(x)", "F.relu6(x)", "F.hardsigmoid(x)"]
FLAT += ["F.softshrink(x)", "F.hardshrink(x)", "F.threshold(x, 0.5, 0.0)"]


@pytest.mark.parametrize("program", FLAT)
def test_a_piecewise_linear_function_has_second_derivatives_of_zero(program):
    x = torch.tensor([-2.0, -0.3, 0.7, 3.0], requires_grad=True)
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    (g,) = torch.autograd.grad((eval(program, {"x": x, "torch": torch, "F": F}) * weights).sum(), x, create_graph=True)
    by_x, by_weights = torch.autograd.grad(g.sum(), [x, weights])
    assert by_x.tolist() == [0.0] * 4
    assert torch.equal(by_weights, (g / weights).detach())


def test_a_gradient_penalty_through_relu_reaches_biases_with_zeros():
    layer, x = torch.nn.Linear(2, 3), leaf(4, 2)
    (g,) = torch.autograd.grad(torch.relu(layer(x)).sum(), x, create_graph=True)
    g.square().sum().backward()
    assert layer.bias.grad.tolist() == [0.0] * 3


@pytest.mark.parametrize(
    ("shape", "strides"), [((1, 2, 3), (6, 3, 1)), ((2, 2, 3), (0, 3, 1)), ((1, 1, 2, 3), (6, 6, 3, 1))]
)
def test_a_new_dimension_of_one_has_the_stride_of_pytorch(shape, strides):
    assert torch.ones(2, 3).expand(shape).stride() == strides
    assert torch.tensor(1.0).expand(1, 2).stride() == (0, 0)


def test_the_product_of_a_matrix_with_a_batch_is_contiguous():
    for wanted in (True, False):
        assert (leaf(2, 3).requires_grad_(wanted) @ torch.ones(2, 3, 4)).stride() == (8, 4, 1)


# ---- what hooks return, and what gradients are given


def test_backward_takes_a_list_of_which_the_first_is_its_gradient():
    x = leaf(3)
    (x * 2).backward(gradient=[torch.ones(3), torch.ones(3)])
    assert x.grad.tolist() == [2.0] * 3
    with pytest.raises(TypeError, match="'float' object is not iterable"):
        (x * 2).backward(1.0)


def test_a_hook_after_accumulation_may_return_the_leaf():
    x = leaf(2)
    x.register_post_accumulate_grad_hook(lambda p: p)
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_node_hook_may_not_make_a_gradient_where_there_is_none():
    x = leaf(2)
    y = x * 2
    y.grad_fn.register_hook(lambda inputs, _: (inputs[0], torch.ones(2)))
    with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
        y.sum().backward()


def test_a_gradient_edge_must_name_an_output_of_its_node():
    x = leaf(2)
    edge = GradientEdge((x * 2).grad_fn, 3)
    with pytest.raises(IndexError):
        torch.autograd.grad(edge, x, torch.ones(2))
    assert torch.autograd.grad(get_gradient_edge(x * 2), x, torch.ones(2))[0].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("register", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_a_tensor_from_a_module_hook_passes_for_a_tuple_of_its_rows(register):
    layer, x = torch.nn.Linear(2, 2), leaf(1, 2)
    getattr(layer, register)(lambda module, *grads: grads[0][0] * 5)
    with pytest.raises(RuntimeError, match="hook 'hook' has changed the size of value"):
        layer(x).sum().backward()


def test_pickling_a_tensor_says_which_hooks_stay_behind():
    x = leaf(2)
    x.register_hook(len)
    with pytest.warns(UserWarning, match="backward hook <built-in function len> on tensor will not be serialized"):
        pickle.dumps(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pickle.dumps(leaf(2))


# ---- user functions


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, other):
        return x

    @staticmethod
    def backward(ctx, g):
        return g, None


def test_an_input_that_nothing_is_recorded_for_is_returned_as_it_is():
    x = torch.ones(2)
    assert Same.apply(x, 1) is x
    tracked = leaf(2)
    with torch.no_grad():
        assert Same.apply(tracked, 1) is not tracked


def test_a_ctx_shows_what_it_was_given():
    class Shown(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            assert ctx.to_save is ctx.dirty_tensors is ctx.non_differentiable is None
            ctx.save_for_backward(x)
            ctx.mark_dirty(x)
            assert ctx.to_save[0] is x
            assert ctx.dirty_tensors[0] is x
            with pytest.raises(TypeError, match=r"expected \(bool\)"):
                ctx.set_materialize_grads(3)
            return x

    Shown.apply(torch.ones(2))


# ---- grad_dtype


def test_a_leaf_may_have_a_gradient_of_another_dtype():
    x = leaf(2)
    assert x.grad_dtype is torch.float32
    x.grad_dtype = torch.float16
    with pytest.raises(RuntimeError, match="gradient with dtype 'float' to a tensor with grad_dtype 'Half'"):
        x.grad = torch.ones(2)
    for total in (2.0, 4.0):
        (x * 2).sum().backward()
        assert x.grad.dtype is torch.float16
        assert x.grad.tolist() == [total, total]
    with pytest.raises(
        RuntimeError, match="Cannot set grad_dtype to 'Double' because there is already a gradient with"
    ):
        x.grad_dtype = torch.float64
    x.grad_dtype = None
    x.grad = torch.ones(2, dtype=torch.int64)
    assert x.grad_dtype is None


def test_grad_dtype_is_of_leaves_and_dtypes():
    x = leaf(2)
    y = x * 2
    assert y.grad_dtype is torch.float32
    with pytest.raises(RuntimeError, match="grad_dtype can only be set on leaf tensors"):
        y.grad_dtype = torch.float64
    with pytest.raises(RuntimeError, match="grad_dtype must be a torch.dtype or None, but got int"):
        x.grad_dtype = 3


def test_checkpoint_sequential_wants_no_more_segments_than_functions():
    with pytest.raises(ValueError, match="must not be zero"):
        torch.utils.checkpoint.checkpoint_sequential([torch.sin, torch.cos], 3, leaf(2), use_reentrant=False)


def test_the_node_of_a_tensor_under_its_private_name_can_only_be_taken_away():
    y = leaf(2) * 2
    assert y._grad_fn is y.grad_fn
    with pytest.raises(RuntimeError, match="can be only set to None"):
        y._grad_fn = y.grad_fn
    with pytest.raises(RuntimeError, match="Deletion of _grad_fn not allowed"):
        del y._grad_fn
    y._grad_fn = None
    assert y.grad_fn is None and not y.requires_grad


def test_a_tensor_is_never_volatile_and_warns_of_it():
    x = leaf(2)
    with pytest.warns(UserWarning, match="volatile was removed"):
        assert x.volatile is False
    with pytest.warns(UserWarning, match="volatile was removed"):
        x.volatile = True


def test_hooks_that_are_set_as_a_dict_run_on_tensors_that_require_gradients():
    from collections import OrderedDict

    x, plain = leaf(2), torch.ones(2)
    hooks = OrderedDict([("double", lambda g: g * 2)])
    x._backward_hooks = plain._backward_hooks = hooks
    assert x._backward_hooks is hooks and plain._backward_hooks is hooks
    hooks["add"] = lambda g: g + 1
    (x * plain * 3).sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]
    fresh = leaf(2)
    fresh._backward_hooks = None
    assert fresh._backward_hooks is None
    with pytest.raises(RuntimeError, match="not allowed"):
        del fresh._backward_hooks


def test_the_core_tells_whether_hooks_of_saved_tensors_may_be_used():
    core = torch._C._autograd
    assert core._saved_tensors_hooks_is_enabled()
    with torch.autograd.graph.disable_saved_tensors_hooks("outer"):
        with torch.autograd.graph.disable_saved_tensors_hooks("inner"):
            assert core._saved_tensors_hooks_get_disabled_error_message() == "inner"
        assert core._saved_tensors_hooks_get_disabled_error_message() == "outer"
        assert not core._saved_tensors_hooks_is_enabled()
        with pytest.raises(RuntimeError, match="outer"):
            core._push_saved_tensors_default_hooks(lambda t: t, lambda t: t)
    core._saved_tensors_hooks_disable("by the core")
    assert not core._saved_tensors_hooks_is_enabled()
    core._saved_tensors_hooks_enable()
    assert core._saved_tensors_hooks_get_disabled_error_message() is None


def test_the_core_has_the_class_of_accumulators_and_functions_that_stop_gradients():
    functions = torch._C._functions
    x = leaf(2)
    assert isinstance((x * 2).grad_fn.next_functions[0][0], functions.AccumulateGrad)
    y = functions.UndefinedGrad()(x * 2)
    assert y.requires_grad and torch.equal(y, x * 2)
    y.sum().backward()
    assert x.grad is None
    a, b = functions.DelayedError("not twice", 2)(x * 2, x * 3)
    assert a.grad_fn.name() == "Error" and a.grad_fn is b.grad_fn
    with pytest.raises(RuntimeError, match="not twice"):
        (a + b).sum().backward()
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        functions.Other  # noqa: B018


def test_a_weak_reference_tells_whether_a_tensor_still_exists():
    x = leaf(2)
    reference = torch._C._WeakTensorRef(x)
    assert not reference.expired()
    del x
    assert reference.expired()


@pytest.mark.filterwarnings("ignore:index_reduce")
def test_the_second_derivative_of_a_product_over_two_zeros_is_an_error_not_zero():
    start, index = torch.ones(1, requires_grad=True), torch.tensor([0, 0])
    for values, fails in (([0.0, 0.0], True), ([0.0, 2.0], False)):
        src = torch.tensor(values, requires_grad=True)
        for product in (start.scatter_reduce(0, index, src, "prod"), start.index_reduce(0, index, src, "prod")):
            (first,) = torch.autograd.grad(product, src, create_graph=True)
            assert first.tolist() == [values[1], values[0]]
            if fails:
                with pytest.raises(RuntimeError, match="Double backward is unsupported for src when >1 zeros"):
                    first.sum().backward()
            else:
                first.sum().backward()


def test_statistics_that_require_gradients_are_refused():
    x, zeros, ones = torch.rand(4, 3), torch.zeros(3, requires_grad=True), torch.ones(3, requires_grad=True)
    for name, mean, var in (("mean", zeros, ones.detach()), ("var", zeros.detach(), ones)):
        for training in (False, True):
            with pytest.raises(RuntimeError, match=f"not differentiable with respect to argument 'running_{name}'"):
                F.batch_norm(x, mean, var, training=training)
    with torch.no_grad():
        assert torch.allclose(F.batch_norm(x, zeros, ones, eps=0.0), x)


def test_gradients_that_are_missing_become_zeros_which_a_recorded_pass_can_differentiate():
    x, y = torch.tensor(0.5, requires_grad=True), torch.tensor(1.0, requires_grad=True)
    (first,) = torch.autograd.grad(x * y, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x, create_graph=True, materialize_grads=True)
    assert second == 0 and second.requires_grad
    assert torch.autograd.grad(second, x, materialize_grads=True)[0] == 0
    assert not torch.autograd.grad(y * 2, x, materialize_grads=True)[0].requires_grad
    edge = torch.autograd.graph.get_gradient_edge(x.clone())
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when the given input is a GradientEdge"):
        torch.autograd.grad(y * 2, edge, materialize_grads=True)


def test_a_hook_of_any_gradient_is_called_once_by_each_of_several_backwards():
    import threading

    tensors = [torch.ones(2, requires_grad=True) for _ in range(3)]
    calls = []
    barrier = threading.Barrier(2)

    def hook(grad):
        calls.append(grad)
        barrier.wait(10)

    torch.autograd.graph.register_multi_grad_hook(tensors, hook, mode="any")
    losses = [sum((t * k).sum() for t in tensors) for k in (2.0, 3.0)]
    threads = [threading.Thread(target=loss.backward) for loss in losses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 2
