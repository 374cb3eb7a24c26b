"""Nodes of the graph as PyTorch shows them: names, edges, and what they kept beside tensors."""

from collections import OrderedDict

import pytest

import rgrad as torch

F = torch.nn.functional


def leaf(*shape):
    return torch.ones(*shape, requires_grad=True)


def plain(value):
    return value.item() if isinstance(value, torch.Tensor) else value


KEPT = {
    "stack": (lambda: torch.stack([leaf(1), leaf(1)], dim=1), {"dim": 1}),
    "cat": (lambda: torch.cat([leaf(1), leaf(1)]), {"dim": 0}),
    "sum": (lambda: leaf(2, 3).sum(), {"self_sym_sizes": (2, 3)}),
    "sum of dims": (
        lambda: leaf(2, 3, 4).sum(dim=(0, 2), keepdim=True),
        {"dim": (0, 2), "keepdim": True, "self_sym_sizes": (2, 3, 4)},
    ),
    "mean": (lambda: leaf(2, 3).mean(), {"self_sym_sizes": (2, 3), "self_sym_numel": 6}),
    "amax": (lambda: leaf(2, 3).amax(1), {"dim": (1,), "keepdim": False}),
    "max": (lambda: leaf(2, 3).max(1)[0], {"dim": 1, "keepdim": False, "self_sym_sizes": (2, 3)}),
    "prod": (lambda: leaf(2, 3).prod(1), {"dim": 1, "keepdim": False}),
    "var": (lambda: leaf(2, 3).var(1, correction=0), {"dim": (1,), "keepdim": False, "correction": 0}),
    "norm": (lambda: torch.linalg.vector_norm(leaf(2, 3), 3.0, dim=1), {"dim": (1,), "ord": 3.0}),
    "view": (lambda: leaf(2, 3).view(6), {"self_sym_sizes": (2, 3)}),
    "expand": (lambda: leaf(1, 3).expand(2, 3), {"self_sym_sizes": (1, 3)}),
    "permute": (lambda: leaf(2, 3, 4).permute(2, 0, 1), {"dims": (2, 0, 1)}),
    "transpose": (lambda: leaf(2, 3, 4).transpose(0, 2), {"dim0": 0, "dim1": 2}),
    "squeeze": (lambda: leaf(1, 3).squeeze(0), {"dim": 0, "self_sym_sizes": (1, 3)}),
    "unsqueeze": (lambda: leaf(2, 3).unsqueeze(1), {"dim": 1}),
    "select": (lambda: leaf(2, 3)[1], {"dim": 0, "index": 1, "self_sym_sizes": (2, 3)}),
    "slice": (lambda: leaf(5)[1:4], {"dim": 0, "start": 1, "end": 4, "step": 1}),
    "as_strided": (lambda: leaf(2, 2).as_strided((3,), (1,), 1), {"storage_offset": 1, "size": (3,), "stride": (1,)}),
    "as_strided without": (lambda: leaf(2, 2).as_strided((3,), (1,)), {"storage_offset": None}),
    "split": (lambda: leaf(4).split(2)[0], {"dim": 0, "split_size": 2, "self_sym_sizes": (4,)}),
    "flip": (lambda: leaf(2, 3).flip(1), {"dims": (1,)}),
    "repeat": (lambda: leaf(2).repeat(3, 2), {"repeats": (3, 2), "self_sym_sizes": (2,)}),
    "gather": (lambda: leaf(2, 3).gather(1, torch.zeros(2, 1, dtype=torch.int64)), {"dim": 1, "sparse_grad": False}),
    "index": (lambda: leaf(2, 2)[:, torch.tensor([0, 1])], {"self_sym_sizes": (2, 2)}),
    "cumsum": (lambda: leaf(2, 3).cumsum(1), {"dim": 1}),
    "softmax": (lambda: leaf(2, 3).softmax(1), {"dim": 1}),
    "tril": (lambda: leaf(2, 3).tril(1), {"diagonal": 1}),
    "add": (lambda: leaf(2) + leaf(2), {"alpha": 1}),
    "add scaled": (lambda: torch.add(leaf(2), leaf(2), alpha=3), {"alpha": 3}),
    "mul by a number": (lambda: leaf(2) * 2.5, {"other": 2.5}),
    "pow": (lambda: leaf(2) ** 3, {"exponent": 3}),
    "pow of a fraction": (lambda: leaf(2) ** 2.5, {"exponent": 2.5}),
    "clamp": (lambda: leaf(2).clamp(0.25, 4), {"min": 0.25, "max": 4}),
    "clamp below": (lambda: leaf(2).clamp(min=0.25), {"min": 0.25, "max": None}),
    "leaky_relu": (lambda: F.leaky_relu(leaf(2), 0.25), {"negative_slope": 0.25}),
    "threshold": (lambda: F.threshold(leaf(2), 1, 1), {"threshold": 1}),
    "gelu": (lambda: F.gelu(leaf(2), approximate="tanh"), {"approximate": "tanh"}),
    "logit": (lambda: torch.logit(leaf(2), 1.0), {"eps": 1.0}),
    "logit without": (lambda: torch.logit(leaf(2)), {"eps": None}),
    "rounded quotient": (lambda: torch.div(leaf(1), 2.0, rounding_mode="trunc"), {"rounding_mode": "trunc"}),
    "addmm": (lambda: torch.addmm(leaf(2, 2), leaf(2, 2), leaf(2, 2), beta=2, alpha=3), {"beta": 2, "alpha": 3}),
    "mse": (lambda: F.mse_loss(leaf(2), leaf(2)), {"reduction": 1}),
    "mse of each": (lambda: F.mse_loss(leaf(2), leaf(2), reduction="none"), {"reduction": 0}),
    "nll": (
        lambda: F.nll_loss(leaf(1, 2), torch.tensor([0]), reduction="sum"),
        {"reduction": 2, "ignore_index": 2**64 - 100},
    ),
    "conv": (
        lambda: F.conv2d(leaf(1, 1, 5, 5), leaf(2, 1, 3, 3), leaf(2), stride=2, padding=(1, 0)),
        {"stride": (2, 2), "padding": (1, 0), "dilation": (1, 1), "groups": 1, "bias_sym_sizes_opt": (2,)},
    ),
    "conv without a bias": (lambda: F.conv1d(leaf(1, 1, 5), leaf(2, 1, 3)), {"bias_sym_sizes_opt": (0,)}),
    "transposed conv": (
        lambda: F.conv_transpose1d(leaf(1, 1, 5), leaf(1, 2, 3), stride=2, output_padding=1),
        {"transposed": True, "output_padding": (1,)},
    ),
    "group_norm": (lambda: F.group_norm(leaf(2, 4, 3), 2), {"N": 2, "C": 4, "HxW": 3, "group": 2}),
    "batch_norm": (lambda: F.batch_norm(leaf(2, 4), None, None, training=True), {"training": True, "eps": 1e-5}),
    "embedding": (
        lambda: F.embedding(torch.tensor([0]), leaf(3, 2)),
        {"scale_grad_by_freq": False, "sparse": False, "weight_sym_argsize_0": 3},
    ),
    "nearest": (
        lambda: F.interpolate(leaf(1, 1, 4), scale_factor=0.5),
        {"output_size": (2,), "scales": 0.5, "self_sym_sizes": (1, 1, 4)},
    ),
    "nearest by size": (lambda: F.interpolate(leaf(1, 1, 4), 2), {"output_size": (2,), "scales": None}),
    "pad": (lambda: F.pad(leaf(3), (1, 2)), {"pad": (1, 2)}),
    "bilinear": (
        lambda: F.interpolate(leaf(1, 1, 4, 6), scale_factor=(0.5, 2.0), mode="bilinear"),
        {
            "output_size": (2, 12),
            "align_corners": False,
            "scales_h": 0.5,
            "scales_w": 2.0,
            "self_sym_sizes": (1, 1, 4, 6),
        },
    ),
    "linear by size": (
        lambda: F.interpolate(leaf(1, 1, 4), 3, mode="linear", align_corners=True),
        {"output_size": (3,), "align_corners": True, "scales": None},
    ),
    "max_pool2d": (
        lambda: F.max_pool2d(leaf(1, 1, 6, 6), (2, 3), padding=(0, 1), ceil_mode=True),
        {"kernel_size": (2, 3), "stride": (), "padding": (0, 1), "dilation": (1, 1), "ceil_mode": True},
    ),
    "avg_pool3d": (
        lambda: F.avg_pool3d(leaf(1, 1, 4, 4, 4), 2, 1, count_include_pad=False, divisor_override=3),
        {
            "kernel_size": (2, 2, 2),
            "stride": (1, 1, 1),
            "padding": (0, 0, 0),
            "ceil_mode": False,
            "count_include_pad": False,
            "divisor_override": 3,
        },
    ),
    "avg_pool1d": (lambda: F.avg_pool1d(leaf(1, 1, 4), 2).grad_fn.next_functions[0][0], {"kernel_size": (1, 2)}),
    "qr": (lambda: torch.linalg.qr(leaf(2, 2))[0], {"mode": "reduced"}),
    "cholesky": (lambda: torch.linalg.cholesky(torch.eye(2).requires_grad_()), {"upper": False}),
    "addbmm sizes": (
        lambda: torch.addbmm(leaf(3, 5), leaf(2, 3, 4), leaf(2, 4, 5)),
        {"batch1_sym_argsize_0": 2, "batch1_sym_argsize_1": 3, "batch2_sym_argsize_2": 5},
    ),
}

LAST, BEFORE_LAST = 2**64 - 1, 2**64 - 2
# Results by operation, and the dimensions that their nodes show.
NAMED = {
    "sum": (lambda: leaf(2, 3).sum(-1), {"dim": (LAST,)}),
    "sum in another order": (lambda: leaf(2, 3).sum((1, 0)), {"dim": (1, 0)}),
    "mean by keyword": (lambda: leaf(2, 3).mean(axis=(-1, 0)), {"dim": (LAST, 0)}),
    "softmax": (lambda: leaf(2, 3).softmax(dim=-1), {"dim": LAST}),
    "softmax from the first": (lambda: leaf(2, 3).softmax(dim=1), {"dim": 1}),
    "max": (lambda: leaf(2, 3).max(-2)[0], {"dim": BEFORE_LAST}),
    "cat": (lambda: torch.cat([leaf(2), leaf(2)], -1), {"dim": LAST}),
    "stack": (lambda: torch.stack([leaf(2), leaf(2)], -1), {"dim": LAST}),
    "split": (lambda: leaf(2, 4).split(2, -1)[1], {"dim": LAST}),
    "unbind": (lambda: leaf(2, 4).unbind(-1)[0], {"dim": LAST}),
    "transpose": (lambda: leaf(2, 3).transpose(-1, 0), {"dim0": LAST, "dim1": 0}),
    "permute": (lambda: leaf(2, 3, 4).permute(-1, 0, 1), {"dims": (LAST, 0, 1)}),
    "diagonal": (lambda: leaf(2, 3, 4).diagonal(1, -1, -2), {"offset": 1, "dim1": LAST, "dim2": BEFORE_LAST}),
    "gather": (lambda: leaf(2, 3).gather(-1, torch.tensor([[0]])), {"dim": LAST}),
    "squeeze": (lambda: leaf(2, 1).squeeze(-1), {"dim": LAST}),
    "unsqueeze": (lambda: leaf(2).unsqueeze(-1), {"dim": LAST}),
}


@pytest.mark.parametrize("operation", NAMED)
def test_a_node_shows_dimensions_as_they_were_named(operation):
    make, expected = NAMED[operation]
    node = make().grad_fn
    assert {name: getattr(node, f"_saved_{name}") for name in expected} == expected


def test_an_operation_made_of_others_shows_the_dimensions_that_its_last_one_counts():
    # Singular values have fewer dimensions than the matrices that are named.
    node = torch.linalg.matrix_norm(leaf(2, 3, 3), "nuc", dim=(-2, -1)).grad_fn
    assert node.name() == "SumBackward1"
    assert node._saved_dim == (1,)


def test_dimensions_that_do_nothing_leave_the_node_of_another_operation_alone():
    y = leaf(2, 3).sum(0)
    assert y.flatten(-1, -1).grad_fn is y.grad_fn
    assert y.grad_fn._saved_dim == (0,)


def test_resizing_along_several_dimensions_is_one_node():
    x = leaf(1, 1, 4, 4)
    y = F.interpolate(x, scale_factor=2, mode="bilinear")
    ((accumulator, _),) = y.grad_fn.next_functions
    assert accumulator.variable is x


@pytest.mark.parametrize("operation", KEPT)
def test_a_node_shows_the_numbers_that_its_operation_was_given(operation):
    make, expected = KEPT[operation]
    made = make()
    node = made.grad_fn if isinstance(made, torch.Tensor) else made
    for name, value in expected.items():
        shown = plain(getattr(node, f"_saved_{name}"))
        assert (shown, type(shown)) == (value, type(value)), name
        assert f"_saved_{name}" in dir(node)


def test_numbers_stay_when_tensors_are_freed():
    y = leaf(2, 3).prod(1)
    y.sum().backward()
    assert y.grad_fn._saved_dim == 1
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        _ = y.grad_fn._saved_result


def test_a_number_that_pytorch_keeps_as_a_tensor_is_freed_as_one():
    y = leaf(2) * 2
    assert y.grad_fn._saved_other.dtype == torch.int64
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        _ = y.grad_fn._saved_other


def test_indices_are_a_tuple_with_none_where_a_dimension_is_whole():
    index = torch.tensor([0, 1])
    node = leaf(2, 2)[:, index].grad_fn
    none, saved = node._saved_indices
    assert none is None
    assert saved.equal(index)
    none, saved = node._raw_saved_indices
    saved.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="None is forbidden"):
        none.register_hooks(lambda t: t, lambda t: t)
    assert isinstance(leaf(2)[index].grad_fn._saved_indices, tuple)


def test_saved_tensors_have_the_class_that_pytorch_names():
    y = leaf(2).exp()
    assert isinstance(y.grad_fn._raw_saved_result, torch._C._autograd.SavedTensor)
    with pytest.raises(RuntimeError, match="from Python is forbidden"):
        torch._C._autograd.SavedTensor()


def walk(node):
    if node is None:
        return None
    after = [walk(n) for n, _ in node.next_functions]
    name = node.name().removeprefix("torch::autograd::").removesuffix("Backward0")
    return (name, *after) if after else name


A = "AccumulateGrad"
WALKS = {
    "dot": (lambda: torch.dot(leaf(2), leaf(2)), ("Dot", A, A)),
    "mv": (lambda: leaf(2, 3) @ leaf(3), ("Mv", A, A)),
    "vm": (lambda: leaf(2) @ leaf(2, 3), ("SqueezeBackward4", ("Mm", ("Unsqueeze", A), A))),
    "batch of mv": (lambda: leaf(2, 2, 3) @ leaf(3), ("UnsafeView", ("Mv", ("View", A), A))),
    "addmm": (lambda: torch.addmm(leaf(2), leaf(2, 2), torch.ones(2, 2)), ("Addmm", A, A, None)),
    "baddbmm": (lambda: torch.baddbmm(leaf(1, 2, 2), leaf(1, 2, 2), leaf(1, 2, 2)), ("Baddbmm", A, A, A)),
    "addbmm": (lambda: torch.addbmm(leaf(2, 2), leaf(3, 2, 2), leaf(3, 2, 2)), ("Addbmm", A, A, A)),
    "addmv": (lambda: torch.addmv(leaf(2), leaf(2, 2), leaf(2)), ("Addmv", A, A, A)),
    "addr": (lambda: torch.addr(leaf(2, 2), leaf(2), leaf(2)), ("Addr", A, A, A)),
    "sub scaled": (lambda: torch.sub(leaf(2), leaf(2), alpha=3), ("Sub", A, A)),
    "where": (lambda: torch.where(torch.tensor([True, False]), leaf(2), 1.0), ("Where", A, None)),
    "conv without a bias": (lambda: F.conv1d(leaf(1, 1, 5), leaf(2, 1, 3)), ("Convolution", A, A, None)),
    "conv of one": (
        lambda: F.conv1d(leaf(1, 5), torch.ones(2, 1, 3)),
        ("SqueezeBackward1", ("Convolution", ("Unsqueeze", A), None, None)),
    ),
    "layer_norm": (lambda: F.layer_norm(leaf(2, 3), (3,)), ("NativeLayerNorm", A, None, None)),
    "batch_norm": (
        lambda: F.batch_norm(leaf(2, 3), None, None, leaf(3), training=True),
        ("NativeBatchNorm", A, A, None),
    ),
    "dropout": (lambda: F.dropout(leaf(4)), ("Mul", A, None)),
    "masked_select": (lambda: leaf(2).masked_select(torch.tensor([True, False])), ("MaskedSelect", A)),
    "without a derivative": (lambda: torch.ones(2) // leaf(2), ("NotImplemented", A)),
    "clamp by tensors": (lambda: leaf(2).clamp(leaf(2), leaf(2)), ("Clamp", A, A, A)),
}


@pytest.mark.parametrize("operation", WALKS)
def test_the_edges_of_a_node_are_pytorchs_in_number_and_order(operation):
    make, expected = WALKS[operation]
    assert walk(make().grad_fn) == expected


def numbers(*shape):
    return torch.arange(1.0, 1 + torch.Size(shape).numel(), dtype=torch.float64).reshape(shape).div(7).requires_grad_()


@pytest.mark.parametrize(
    "f, shapes",
    [
        (torch.dot, [(3,), (3,)]),
        (torch.mv, [(2, 3), (3,)]),
        (torch.matmul, [(3,), (2, 3, 2)]),
        (torch.matmul, [(2, 2, 3), (3,)]),
        (lambda *a: torch.addmm(*a, beta=2, alpha=3), [(3,), (2, 2), (2, 3)]),
        (lambda *a: torch.baddbmm(*a, beta=2, alpha=3), [(2, 1), (2, 2, 2), (2, 2, 3)]),
        (lambda *a: torch.addbmm(*a, beta=2, alpha=3), [(2, 3), (2, 2, 2), (2, 2, 3)]),
        (lambda *a: torch.addmv(*a, beta=2, alpha=3), [(1,), (2, 3), (3,)]),
        (lambda *a: torch.addr(*a, beta=2, alpha=3), [(2, 3), (2,), (3,)]),
        (lambda *a: torch.sub(*a, alpha=3), [(3,), (2, 3)]),
        (lambda *a: torch.add(*a, alpha=3), [(2, 3), (3,)]),
    ],
)
def test_products_and_sums_of_one_node_have_two_derivatives(f, shapes):
    inputs = tuple(numbers(*s) for s in shapes)
    assert torch.autograd.gradcheck(f, inputs)
    assert torch.autograd.gradgradcheck(f, inputs)


def test_a_node_says_what_the_gradients_that_enter_it_look_like():
    node = leaf(2, 3).max(1)[0].grad_fn
    (meta,) = node._input_metadata
    assert (meta.shape, meta.dtype, meta.device) == ((2,), torch.float32, torch.device("cpu"))
    assert node.requires_grad


def test_nothing_is_set_on_a_node_of_the_table():
    node = (leaf(2) * 2).grad_fn
    with pytest.raises(AttributeError):
        node.note = 1


def test_a_dict_of_hooks_is_read_when_the_gradient_comes():
    x = leaf(2)
    y = x * 2
    hooks = OrderedDict()
    y.grad_fn._register_hook_dict(hooks)
    hooks[0] = lambda g: g * 5
    y.sum().backward()
    assert x.grad.tolist() == [10.0, 10.0]


def test_hooks_meet_a_gradient_that_is_not_defined_as_none():
    class Stops(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return None

    log = []
    x = leaf(2)
    y = x * 2
    y.register_hook(lambda g: log.append(("y", g)))
    x.register_hook(lambda g: log.append(("x", g)))
    x.register_post_accumulate_grad_hook(lambda t: log.append("after"))
    Stops.apply(y).sum().backward()
    assert log == [("y", None), ("x", None), "after"]
    assert x.grad is None
    y = x * 2
    y.register_hook(lambda g: torch.ones(2))
    with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
        Stops.apply(y).sum().backward()


def test_a_hook_behind_an_accumulator_sees_what_was_added():
    log = []
    x = leaf(2)
    y = x * 3
    x.register_post_accumulate_grad_hook(lambda t: log.append("after"))
    accumulator = y.grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda by_input, by_output: log.append((by_input, by_output[0].tolist())))
    y.sum().backward()
    assert log == ["after", ((), [3.0, 3.0])]
    assert x.grad.tolist() == [3.0, 3.0]


def test_the_attribute_requires_grad_is_not_set_on_results():
    y = leaf(2) * 2
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad = True
    assert y.requires_grad_() is y


def test_a_hook_behind_an_accumulator_gets_the_gradient_that_became_that_of_the_leaf():
    x = leaf(2)
    accumulator = (x * 3).grad_fn.next_functions[0][0]

    def add_one(t):
        t.grad.add_(1)

    x.register_post_accumulate_grad_hook(add_one)
    seen = []
    accumulator.register_hook(lambda by_input, by_output: seen.append(by_output[0].tolist()))
    (x * 3).sum().backward()
    assert seen == [[4.0, 4.0]] and x.grad.tolist() == [4.0, 4.0]


def test_backward_into_a_result_runs_the_hooks_in_front_of_its_node():
    log = []
    x = leaf(2)
    y = x * 2
    y.register_hook(lambda g: log.append("tensor"))
    y.grad_fn.register_prehook(lambda gs: log.append("node"))
    y.sum().backward(inputs=(y,), retain_graph=True)
    assert log == ["tensor", "node"] and y.grad.tolist() == [1.0, 1.0] and x.grad is None
    log.clear()
    torch.autograd.grad(y.sum(), (y,))
    assert log == ["tensor"]


def test_hooks_can_ask_what_the_engine_runs_and_keeps():
    asked = {}
    x = leaf(2)
    y = x * 2
    accumulator = y.grad_fn.next_functions[0][0]

    def ask(g):
        asked["runs"] = torch._C._will_engine_execute_node(y.grad_fn)
        asked["keeps"] = torch._C._autograd._get_current_graph_task_keep_graph()

    y.register_hook(ask)
    y.sum().backward(retain_graph=True)
    assert asked == {"runs": True, "keeps": True}
    y.sum().backward(inputs=(x,), retain_graph=True)
    z = y.sum()
    hook = x.register_hook(lambda g: torch._C._will_engine_execute_node(accumulator))
    with pytest.raises(RuntimeError, match="are currently running autograd.grad"):
        torch.autograd.grad(z, (x,), retain_graph=True)
    hook.remove()
    z.backward()
    assert asked == {"runs": True, "keeps": False}
    with pytest.raises(RuntimeError, match="expects an grad_fn, but got Tensor"):
        torch._C._will_engine_execute_node(z)


def test_a_leaf_that_was_set_to_other_memory_is_another_input_of_later_graphs():
    x = leaf(2)
    edge = torch.autograd.graph.get_gradient_edge(x)
    y = (x * 2).sum()
    with torch.no_grad():
        x.set_(torch.ones(2))
    with pytest.raises(RuntimeError, match="to not have been used in the graph"):
        torch.autograd.grad(y, x, retain_graph=True)
    assert torch.autograd.grad(y, edge)[0].tolist() == [2.0, 2.0]
