"""Checkpointed regions that keep the results of some operations."""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import weakref

import pytest

import rgrad as torch
from rgrad.utils import _selective
from rgrad.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
)

F = torch.nn.functional
aten = torch.ops.aten
ATTENTION = aten._scaled_dot_product_flash_attention_for_cpu.default
_runs: list[str] = []


@torch.library.custom_op("selective::sine", mutates_args=())
def sine(x: torch.Tensor) -> torch.Tensor:
    _runs.append("sine")
    return x.sin()


@torch.library.custom_op("selective::both", mutates_args=())
def both(x: torch.Tensor) -> list[torch.Tensor]:
    _runs.append("both")
    return [x.sin(), x.cos()]


def _keep_argument(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _backward_of_both(ctx, g):
    (x,) = ctx.saved_tensors
    return g[0] * x.cos() - g[1] * x.sin()


@torch.library.custom_op("selective::tail", mutates_args=())
def tail(x: torch.Tensor) -> torch.Tensor:
    _runs.append("tail")
    return x[1:].sin()


def _backward_of_tail(ctx, g):
    (part,) = ctx.saved_tensors
    return torch.cat([torch.zeros_like(part[:1]), g * part.cos()])


tail.register_autograd(
    _backward_of_tail, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0][1:])
)
sine.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0].cos(), setup_context=_keep_argument)
both.register_autograd(_backward_of_both, setup_context=_keep_argument)
SINE, BOTH, TAIL = (getattr(torch.ops.selective, name).default for name in ("sine", "both", "tail"))


@pytest.fixture(autouse=True)
def _forget_runs():
    _runs.clear()
    torch.manual_seed(0)


def everything(ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE


def selectively(policy, function, *args, mutation=False, **kwargs):
    contexts = functools.partial(create_selective_checkpoint_contexts, policy, allow_cache_entry_mutation=mutation)
    return checkpoint(function, *args, use_reentrant=False, context_fn=contexts, **kwargs)


def gradients(call, *leaves):
    """The result of a call and the gradients of the leaves, from the same random numbers each time."""
    torch.manual_seed(3)
    result = call()
    return [result.detach(), *torch.autograd.grad(result.square().sum(), leaves)]


def assert_as_without(policy, function, *leaves, **options):
    """The region gives bit for bit what the function gives without a checkpoint."""
    expected = gradients(lambda: function(*leaves), *leaves)
    found = gradients(lambda: selectively(policy, function, *leaves, **options), *leaves)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    after = torch.get_rng_state()
    gradients(lambda: checkpoint(function, *leaves, use_reentrant=False), *leaves)
    assert torch.equal(torch.get_rng_state(), after)


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


@pytest.mark.parametrize(
    "policy, runs_again",
    [
        *((choice, choice.name.split("_")[1] != "SAVE") for choice in CheckpointPolicy),
        (True, False),
        (False, True),
        (None, True),
    ],
)
def test_a_policy_decides_whether_an_operation_runs_again(policy, runs_again):
    def choose(ctx, op, *args, **kwargs):
        return policy if op is SINE else CheckpointPolicy.PREFER_RECOMPUTE

    x = leaf(3)
    y = selectively(choose, lambda x: sine(x.cos()).exp(), x)
    assert len(_runs) == 1
    y.sum().backward()
    assert len(_runs) == 1 + runs_again
    assert torch.allclose(x.grad, -x.cos().sin().exp() * x.cos().cos() * x.sin())


def test_a_list_names_the_operations_whose_results_are_kept():
    x = leaf(3)
    selectively([SINE], lambda x: both(sine(x))[0].exp(), x).sum().backward()
    assert _runs == ["sine", "both", "both"]


def test_a_saved_product_is_computed_once():
    class Count(torch.overrides.TorchFunctionMode):
        """Sees the calls that the second run makes in the end."""

        def __init__(self, inner):
            self.inner, self.names = inner, []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.append(func.__name__)
            return func(*args, **(kwargs or {}))

        def __enter__(self):
            super().__enter__()
            self.inner.__enter__()

        def __exit__(self, *exc):
            self.inner.__exit__(*exc)
            super().__exit__(*exc)

    names = []
    for policy in ([], [aten.mm.default]):
        first, second = create_selective_checkpoint_contexts(policy)
        count = Count(second)

        def function(a, b):
            return (a.sin() @ b).exp().cos()

        y = checkpoint(
            function, leaf(2, 2), leaf(2, 2), use_reentrant=False, context_fn=lambda pair=(first, count): pair
        )
        y.sum().backward()
        names.append(count.names)
    assert names == [["sin", "matmul", "exp", "cos"], ["sin", "exp", "cos"]]


def test_gradients_of_common_operations_are_those_without_a_checkpoint():
    x, w, b = leaf(4, 4), leaf(4, 4), leaf(4)
    functions = [
        lambda x, w, b: F.linear(x.sin(), w, b).exp(),
        lambda x, w, b: (x[None].expand(2, 4, 4) @ w + b).softmax(-1).cos(),
        lambda x, w, b: torch.einsum("ij,jk->ik", x, w).tanh() * b,
        lambda x, w, b: F.layer_norm(F.gelu(x @ w), (4,), b),
        lambda x, w, b: F.conv1d(x.sin()[None], w[:, :, None], b).sigmoid(),
        lambda x, w, b: F.max_pool1d((x * w)[None], 2).exp() * b[:2],
        lambda x, w, b: (x / w.exp()).pow(2).sum(0) + b,
        lambda x, w, b: torch.cat([x.sin(), w.cos()]).sort(0).values.exp() * b,
        lambda x, w, b: F.normalize(x @ w).cos() * b.exp().rsqrt(),
        lambda x, w, b: F.log_softmax(x @ w, -1)[:, 1:].exp() + b[1:],
        lambda x, w, b: F.pad(x * w, (1, 1))[torch.tensor([0, 2])].sin() * b.sum(),
    ]
    for function in functions:
        assert_as_without(everything, function, x, w, b)
        assert_as_without([aten.mm.default, aten.addmm.default, aten._softmax.default], function, x, w, b)


def test_a_transformer_block_has_the_gradients_of_one_without_a_checkpoint():
    block = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
    x = leaf(2, 5, 16)
    products = [aten.mm.default, aten.addmm.default, ATTENTION]
    for policy in (products, [aten.native_dropout.default], everything):
        expected = gradients(lambda: block(x), x, *block.parameters())
        found = gradients(lambda policy=policy: selectively(policy, block, x), x, *block.parameters())
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_modules_have_the_gradients_of_ones_without_a_checkpoint():
    nn = torch.nn
    lstm = nn.LSTM(8, 4)
    for module, x in (
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.GELU(), nn.AvgPool2d(2)), leaf(2, 3, 6, 6)),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()), leaf(2, 3, 6, 6)),
        (lambda x: lstm(x)[0], leaf(5, 2, 8)),
    ):
        assert_as_without(everything, module, x)
        assert_as_without([aten.convolution.default, aten.mkldnn_rnn_layer.default], module, x)


def test_a_saved_batch_normalization_counts_each_batch_once():
    norm, x = torch.nn.BatchNorm1d(3), leaf(4, 3)
    selectively([aten.native_batch_norm.default], lambda x: norm(x.sin()).exp(), x).sum().backward()
    once = torch.nn.BatchNorm1d(3)
    once(x.sin())
    assert torch.equal(norm.running_mean, once.running_mean)


def test_operations_on_a_gpu_are_kept(gpu):
    x = torch.randn(1, 2, 4, 8, device=gpu, requires_grad=True)
    asked = []

    def choose(ctx, op, *args, **kwargs):
        asked.append(op)
        return CheckpointPolicy.MUST_SAVE

    def function(x):
        y = x.sin()
        return F.dropout(F.scaled_dot_product_attention(y, y, y, dropout_p=0.5), 0.5).exp() @ y.transpose(2, 3)

    assert_as_without(choose, function, x)
    assert aten._scaled_dot_product_efficient_attention.default in asked


def test_the_calls_that_a_composite_function_makes_are_seen():
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    asked = []

    def choose(ctx, op, *args, **kwargs):
        asked.append(op)
        return CheckpointPolicy.PREFER_RECOMPUTE

    selectively(choose, lambda x: attention(x, x, x, need_weights=False)[0], leaf(1, 3, 8))
    assert asked.count(aten.addmm.default) == 2 and asked.count(ATTENTION) == 1


def test_random_numbers_after_a_saved_draw_are_those_of_the_first_run():
    def function(x):
        y = F.dropout(x.sin(), 0.5)
        z = F.scaled_dot_product_attention(y, y, y, dropout_p=0.5)
        return (z * torch.rand(4) + F.dropout(x.cos(), 0.5)).sin()

    for policy in ([aten.native_dropout.default], [ATTENTION], [aten.rand.default], everything):
        assert_as_without(policy, function, leaf(2, 3, 4))


def test_without_preserve_rng_state_the_second_run_leaves_the_generator_to_the_program():
    x = leaf(8)
    y = selectively([aten.native_dropout.default], lambda x: F.dropout(x.sin()).exp(), x, preserve_rng_state=False)
    torch.rand(5)
    before = torch.get_rng_state()
    y.sum().backward()
    assert torch.equal(torch.get_rng_state(), before)


def test_policies_are_asked_in_the_first_run_with_the_result_and_the_arguments():
    asked = []

    def choose(ctx, op, *args, **kwargs):
        assert isinstance(ctx, SelectiveCheckpointContext)
        asked.append((str(op), ctx.is_recompute, [tuple(a.shape) for a in args], tuple(ctx.op_output.shape)))
        assert not ctx.op_output.requires_grad
        return CheckpointPolicy.MUST_SAVE

    weight, bias = leaf(3, 4), leaf(3)
    y = selectively(choose, lambda x: F.linear(x, weight, bias).sin(), leaf(2, 5, 4))
    expected = [
        ("aten.addmm.default", False, [(3,), (10, 4), (4, 3)], (2, 5, 3)),
        ("aten.sin.default", False, [(2, 5, 3)], (2, 5, 3)),
    ]
    assert asked == expected
    y.sum().backward()
    assert asked == expected


def test_operations_with_several_results_and_views_are_kept():
    def function(x):
        s, c = both(x.exp())
        values, indices = s.view(2, 3).max(1)
        first, *_ = c.split(2)
        return (values * first).sin() + indices

    x = leaf(6)
    for policy in ([BOTH], [aten.max.dim], [aten.split.Tensor, aten.view.default], everything):
        _runs.clear()
        expected = gradients(lambda: function(x), x)
        found = gradients(lambda policy=policy: selectively(policy, function, x), x)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        assert _runs.count("both") == (2 if policy is everything or BOTH in policy else 3)


def test_named_results_keep_their_names():
    def function(x):
        found = x.exp().topk(2)
        return found.values.sin() + found.indices

    assert_as_without([aten.topk.default], function, leaf(5))


def test_regions_take_keyword_arguments():
    x, scale = leaf(3), leaf(3)

    def function(x, *, scale):
        return sine(x * scale).exp()

    found = gradients(lambda: selectively([SINE], function, x, scale=scale), x, scale)
    assert len(_runs) == 1
    assert all(map(torch.equal, found, gradients(lambda: function(x, scale=scale), x, scale)))


def test_a_checkpoint_inside_the_region_recomputes_for_itself():
    def function(x):
        return checkpoint(lambda y: sine(y.cos()).exp(), x.cos(), use_reentrant=False).sin()

    x = leaf(3)
    expected = gradients(lambda: function(x), x)
    _runs.clear()
    assert all(map(torch.equal, gradients(lambda: selectively([SINE], function, x), x), expected))
    assert len(_runs) == 2  # The first run, and the second run of the inner region.


def test_a_selective_checkpoint_inside_another_uses_both_stores():
    def function(x):
        return selectively([SINE], lambda y: sine(y.cos()).exp(), x.cos()).sin()

    x = leaf(3)
    expected = gradients(lambda: x.cos().cos().sin().exp().sin(), x)
    _runs.clear()
    assert all(map(torch.allclose, gradients(lambda: selectively([SINE], function, x), x), expected))
    assert len(_runs) == 1


def test_hooks_on_saved_tensors_inside_the_region_get_all_of_them():
    packed = []

    def function(x):
        def pack(t):
            packed.append(t.shape)
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = (x @ x).exp()
        return y.sin()

    x = leaf(3, 3)
    expected = gradients(lambda: function(x), x)
    count = len(packed)
    packed.clear()
    y = selectively(everything, function, x)
    assert len(packed) == count
    assert all(map(torch.equal, [y, *torch.autograd.grad(y.square().sum(), x)], expected))


def test_the_contexts_work_inside_a_context_of_the_program():
    entered = []

    class Both:
        def __init__(self, inner):
            self.inner = inner

        def __enter__(self):
            entered.append(self)
            return self.inner.__enter__()

        def __exit__(self, *exc):
            return self.inner.__exit__(*exc)

    x = leaf(3)
    contexts = [Both(inner) for inner in create_selective_checkpoint_contexts([SINE])]
    y = checkpoint(lambda x: sine(x.cos()).exp(), x, use_reentrant=False, context_fn=lambda: tuple(contexts))
    y.sum().backward()
    assert len(_runs) == 1 and entered == contexts


def test_autocast_casts_are_made_again_of_the_arguments():
    w, bias, x = leaf(6, 4), leaf(6), leaf(5, 4)

    def function(x, w, bias):
        with torch.autocast("cpu", torch.bfloat16):
            return F.linear(x.sin(), w, bias).float().sin()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_selective.Slot, "keep", lambda slot, tensor: pytest.fail("kept in half precision"))
        assert_as_without([aten.addmm.default], function, x, w, bias)


def test_a_user_function_of_autograd_runs_inside_the_region():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return sine(x) * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (x.cos() * x + x.sin())

    def function(x):
        return Square.apply(x.exp()).cos()

    x = leaf(3)
    expected = gradients(lambda: Square.apply(x.exp()).cos(), x)
    _runs.clear()
    assert all(
        map(torch.equal, gradients(lambda: selectively([SINE], lambda x: Square.apply(x.exp()).cos(), x), x), expected)
    )
    assert len(_runs) == 1


def test_runs_see_their_operations_where_overriding_is_disabled():
    def function(x):
        return (x.sin().exp() * x).exp().cos()

    x = leaf(4)
    expected = gradients(lambda: function(x), x)[1]
    blocks = (
        contextlib.nullcontext,
        torch.overrides.BaseTorchFunctionMode,
        torch._C.DisableTorchFunction,
        torch._C.DisableTorchFunctionSubclass,
    )
    for around_first in blocks:
        for around_second in blocks:
            with around_first():
                y = selectively([aten.exp.default], function, x)
            with around_second():
                (found,) = torch.autograd.grad(y.square().sum(), x)
            assert torch.equal(found, expected)


def test_a_call_that_ends_in_an_error_counts_as_one():
    def function(x):
        with contextlib.suppress(RuntimeError):
            torch.mm(x, torch.ones(5, 5))
        return (torch.mm(x.sin(), x) * 2).exp() + torch.mm(x, x.cos()).exp()

    assert_as_without([aten.mm.default], function, leaf(3, 3))


def test_backward_may_run_in_another_thread():
    x, found = leaf(4), []
    y = selectively([SINE], lambda x: sine(x.exp()).cos(), x)
    thread = threading.Thread(target=lambda: found.extend(torch.autograd.grad(y.sum(), x)))
    thread.start()
    thread.join()
    assert torch.allclose(found[0], -x.exp().sin().sin() * x.exp().cos() * x.exp()) and len(_runs) == 1


def test_saved_results_keep_the_class_of_tensors():
    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    classes = []

    def function(x):
        y = x.exp()
        classes.append(type(y))
        return F.normalize(y.sin()).cos()

    x = torch.randn(2, 4).as_subclass(Own).requires_grad_()
    for policy in ([aten.exp.default], everything):
        assert_as_without(policy, function, x)
    assert set(classes) == {Own}


def test_a_second_backward_through_the_region_is_an_error():
    y = selectively([SINE], lambda x: sine(x.cos()).exp(), leaf(3))
    y.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        y.sum().backward()


def test_a_region_that_saves_nothing_allows_a_second_backward():
    x = leaf(3)
    y = selectively([], lambda x: x.cos().exp(), x)
    y.sum().backward(retain_graph=True)
    once = x.grad.clone()
    y.sum().backward()
    assert torch.equal(x.grad, 2 * once)


def test_contexts_serve_one_region():
    contexts = create_selective_checkpoint_contexts([SINE])
    regions = [
        checkpoint(lambda x: sine(x.cos()).exp(), leaf(3), use_reentrant=False, context_fn=lambda: contexts)
        for _ in range(2)
    ]
    regions[0].sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        regions[1].sum().backward()


def test_a_saved_result_that_was_written_to_does_not_serve_its_own_backward():
    for allowed in (False, True):
        y = selectively([aten.exp.default], lambda x: x.exp().add_(1), leaf(3), mutation=allowed)
        with pytest.raises(RuntimeError, match="has been mutated"):
            y.sum().backward()


@pytest.mark.parametrize("operation", [torch.mm, lambda x, _: x.exp()])
def test_a_saved_result_that_is_written_to_is_an_error(operation):
    def function(x):
        y = operation(x, x)
        z = y.sin()
        y.add_(1)
        return z.exp()

    y = selectively([aten.mm.default, aten.exp.default], function, leaf(3, 3))
    with pytest.raises(RuntimeError, match="has been mutated"):
        y.sum().backward()


def test_a_saved_result_may_be_written_to_if_the_program_allows_it():
    def function(x):
        y = torch.mm(x, x)
        y.relu_()  # Once more is the same.
        return y.sin()

    assert_as_without([aten.mm.default], function, leaf(3, 3), mutation=True)
    with pytest.raises(RuntimeError, match="has been mutated"):
        selectively([aten.mm.default], function, leaf(3, 3)).sum().backward()


def test_a_second_run_with_other_operations_is_an_error():
    runs = []

    def function(x):
        runs.append(x)
        y = sine(x.cos())
        return (y if len(runs) == 1 else sine(y)).exp()

    with pytest.raises(RuntimeError, match="sine.default invocation index 1 encountered during backward but not found"):
        selectively([SINE], function, leaf(3)).sum().backward()


def test_gradients_that_a_region_computes_itself_do_not_pass_a_saved_operation():
    def function(x):
        (g,) = torch.autograd.grad((torch.sigmoid(x) + x).sum(), x)
        return (g * x.sin()).exp()

    assert_as_without([], function, leaf(3))
    with pytest.raises(RuntimeError, match="must recompute the operations"):
        selectively([aten.sigmoid.default], function, leaf(3)).sum().backward()


def test_without_gradients_the_function_is_called_alone():
    def refuse(ctx, op, *args, **kwargs):
        raise AssertionError

    with torch.no_grad():
        assert torch.equal(selectively(refuse, torch.exp, torch.zeros(2)), torch.ones(2))


def test_arguments_of_saved_operations_are_recomputed_also_where_a_view_of_them_is_saved():
    kept = []

    class Slot(_selective.Slot):
        __slots__ = ()

        def keep(self, tensor):
            kept.append(tuple(tensor.shape))
            super().keep(tensor)

    w, x = leaf(4, 5), leaf(2, 3, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_selective, "Slot", Slot)
        assert_as_without([aten.mm.default], lambda x, w: (x.sin() @ w.cos()).exp(), x, w)
        assert_as_without([TAIL], lambda x: tail(x.exp()).exp(), x)
        assert_as_without([aten.bmm.default], lambda x: (x.sin() @ x.cos().transpose(1, 2)).exp(), x)
        assert_as_without([aten.addmm.default], lambda x, w: F.linear(x.sin(), w.cos().t(), w[0].exp()).exp(), x, w)
        assert kept == []
        assert_as_without([aten._softmax.default], lambda x: x.sin().softmax(-1).exp(), x)
        assert kept == [(2, 3, 4)]  # The result, which its own backward needs.


def test_an_argument_that_lies_differently_in_the_second_run_is_an_error():
    x = leaf(4, 3)
    layouts = [x.t().contiguous().t(), x]

    def function(x):
        return tail(layouts.pop().exp()).exp()

    y = selectively([TAIL], function, x)
    with pytest.raises(RuntimeError, match="has strides .1, 4. in the second run"):
        y.sum().backward()


def test_views_are_made_again_of_what_is_recomputed():
    first, second = create_selective_checkpoint_contexts(everything)
    checkpoint(
        lambda x: x.relu_().view(2, 3).exp()[0].sin(),
        leaf(6) * 1,
        use_reentrant=False,
        context_fn=lambda: (first, second),
    )
    saved = {str(op): [entry is not None for entry in items] for op, items in first.store.items.items()}
    expected = {"aten.view.default": [False], "aten.exp.default": [True], "aten.select.int": [False]}
    assert saved == {**expected, "aten.sin.default": [True]}


def test_results_are_freed_with_the_graph():
    kept = []

    def choose(ctx, op, *args, **kwargs):
        kept.append(weakref.ref(ctx.op_output))
        return CheckpointPolicy.MUST_SAVE

    x = leaf(3)
    gc.collect()
    gc.disable()
    try:
        y = selectively(choose, lambda x: x.sin().exp().cos(), x)
        assert any(ref() is not None for ref in kept)
        del y
        assert all(ref() is None for ref in kept)
    finally:
        gc.enable()


def test_lists_hold_overloads_and_policies_are_functions_or_lists():
    for wrong in (aten.mm, torch.mm, "mm", torch.ops.selective.sine):
        with pytest.raises(ValueError, match="to be an OpOverload but got"):
            create_selective_checkpoint_contexts([SINE, wrong])
    for wrong in ((aten.mm.default,), {aten.mm.default}, None, 3):
        with pytest.raises(TypeError, match="must be either a function or a list of ops"):
            create_selective_checkpoint_contexts(wrong)
    assert str(aten.mm.default) == "aten.mm.default" and str(aten.mm) == "aten.mm"


def test_contexts_of_policies_need_the_form_that_is_not_reentrant():
    contexts = functools.partial(create_selective_checkpoint_contexts, [])
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(torch.sin, leaf(2), use_reentrant=True, context_fn=contexts)
