"""Classes of `__torch_dispatch__` that answer for sizes, share storages, and compute operations of programs."""

from __future__ import annotations

import pytest

import rgrad as torch
from rgrad.multiprocessing.reductions import StorageWeakRef
from rgrad.utils._python_dispatch import (
    TorchDispatchMode,
    is_in_torch_dispatch_mode,
    return_and_correct_aliasing,
)
from rgrad.utils._pytree import tree_map


def answering(answers, **policy):
    """An object of a class that answers for itself, and the names of what it was asked."""
    asked = []

    class Answering(torch.Tensor):
        @staticmethod
        def __new__(cls, made_by):
            data = torch.zeros(3, 2)
            if made_by == "wrapper":
                return torch.Tensor._make_wrapper_subclass(cls, data.size(), **policy)
            return torch.Tensor._make_subclass(cls, data, **policy)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            asked.append((str(func), args[1:]))
            return answers.get(str(func).split(".")[1], NotImplemented)

    return Answering, asked


@pytest.mark.parametrize("made_by", ["wrapper", "subclass"])
def test_a_class_answers_for_sizes_and_strides(made_by):
    sizes = {"sym_size": (5, 3), "sym_stride": (1, 5), "dim": 2, "numel": 15, "is_contiguous": True}
    cls, asked = answering(sizes, dispatch_sizes_strides_policy="sizes")
    t = cls(made_by)
    assert t.size() == (5, 3) and t.shape[1] == 3 and t.size(0) == 5
    assert t.stride() == (1, 5) and t.stride(0) == 1 and t.dim() == t.ndim == 2 and t.numel() == t.nelement() == 15
    assert t.is_contiguous() and t.is_contiguous(memory_format=torch.channels_last)
    assert asked[-1] == ("aten.is_contiguous.memory_format", (torch.channels_last,))
    asked.clear()
    t.data_ptr()
    assert asked == [("aten.numel.default", ())]


@pytest.mark.parametrize("made_by", ["wrapper", "subclass"])
def test_what_a_class_answers_none_for_is_what_the_object_was_made_with(made_by):
    names = ("sym_size", "sym_stride", "dim", "numel", "is_contiguous", "is_non_overlapping_and_dense")
    cls, asked = answering(dict.fromkeys(names), dispatch_sizes_strides_policy="sizes")
    t = cls(made_by)
    assert t.shape == (3, 2) and t.stride() == (2, 1) and t.dim() == 2 and t.numel() == 6 and t.is_contiguous()
    assert torch.ops.aten.is_non_overlapping_and_dense(t)
    assert not torch.ops.aten.is_non_overlapping_and_dense(torch.zeros(4, 4)[:, ::2])
    assert asked[5][0] == "aten.is_non_overlapping_and_dense.default"
    plain, asked = answering({})
    assert plain(made_by).shape == (3, 2) and plain(made_by).stride() == (2, 1) and not asked


@pytest.mark.parametrize("made_by", ["wrapper", "subclass"])
def test_a_class_that_must_answer_and_does_not_is_an_error(made_by):
    cls, _ = answering({}, dispatch_sizes_strides_policy="strides")
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.ops.aten.sym_stride'"):
        cls(made_by).stride()
    failed = r"Multiple dispatch failed for 'torch.ops.aten.is_contiguous'.*\n.*\n.*Answering"
    with pytest.raises(TypeError, match=failed):
        cls(made_by).is_contiguous()
    assert cls(made_by).shape == (3, 2)
    with pytest.raises(ValueError, match="Unknown sizes_strides_policy: all"):
        answering({}, dispatch_sizes_strides_policy="all")[0](made_by)


@pytest.mark.parametrize("made_by", ["wrapper", "subclass"])
def test_a_class_answers_for_the_device_and_the_layout(made_by):
    answers = {"device": torch.device("meta"), "layout": torch.sparse_csr}
    cls, asked = answering(answers, dispatch_device=True, dispatch_layout=True)
    t = cls(made_by)
    assert t.device.type == "meta" and t.layout == torch.sparse_csr
    assert [name for name, _ in asked] == ["prim.device.default", "prim.layout.default"]
    cls, _ = answering({}, dispatch_layout=True)
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.ops.prim.layout'"):
        cls(made_by).layout  # noqa: B018


class Pair(torch.Tensor):
    """Computes everything twice."""

    @staticmethod
    def __new__(cls, one, other):
        made = torch.Tensor._make_wrapper_subclass(cls, one.size(), strides=one.stride(), dtype=one.dtype)
        made.parts = (one, other)
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def part(i):
            own = tree_map(lambda t: t.parts[i] if isinstance(t, Pair) else t, (args, kwargs or {}))
            return func(*own[0], **own[1])

        one, other = part(0), part(1)
        if isinstance(one, torch.Tensor):
            out = Pair(one, other)
        else:
            out = [Pair(a, b) for a, b in zip(one, other, strict=True)]
        return return_and_correct_aliasing(func, args, kwargs, out)


def pair(shape):
    x = torch.arange(float(torch.Size(shape).numel())).view(shape)
    return Pair(x, 2 * x)


def same_memory(a, b):
    one, other = StorageWeakRef(a.untyped_storage()), StorageWeakRef(b.untyped_storage())
    assert (one == other) == (hash(one) == hash(other)) and one != 3
    return one == other


def test_views_of_a_wrapper_share_its_storage_and_other_results_do_not():
    x = pair((4, 3))
    for view in (x.view(3, 4), x.t(), x[1], *x.split(2), x.expand(2, 4, 3), x.detach(), x[:, 1:]):
        assert type(view) is Pair and same_memory(view, x)
    for other in (x + 1, x.clone(), torch.cat([x, x])):
        assert type(other) is Pair and not same_memory(other, x)
    assert x.mul_(2) is x and x.parts[0][3, 2] == 22
    out = pair((4, 3))
    assert torch.add(x, x, out=out) is out


class Names(TorchDispatchMode):
    """Notes operations, and their arguments but the first."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append((str(func), args[1:], kwargs))
        return func(*args, **(kwargs or {}))


@pytest.fixture
def power():
    @torch.library.custom_op("policies::power", mutates_args=())
    def power(x: torch.Tensor, k: int = 2, *, scale: float = 1.0) -> torch.Tensor:
        return x**k * scale

    power.register_autograd(
        lambda ctx, g: (2 * ctx.saved_tensors[0] * g, None),
        setup_context=lambda ctx, inputs, keyword_only_inputs, output: ctx.save_for_backward(inputs[0]),
    )
    return power


def test_modes_see_operations_of_programs_below_autograd_without_defaults(power):
    x = torch.tensor([3.0], requires_grad=True)
    with Names() as names:
        y = power(x)
        power(x, 2, scale=1.0)
        power(x, k=3, scale=2.0)
        y.backward()
    own = [call for call in names.seen if call[0] == "policies.power.default"]
    assert own == [("policies.power.default", (), {})] * 2 + [("policies.power.default", (3,), {"scale": 2.0})]
    assert x.grad.item() == 6 and ("aten.ones_like.default", (), {}) in [(n, a, {}) for n, a, _ in names.seen]
    assert type(y) is torch.Tensor and y.requires_grad


def test_a_class_computes_operations_of_programs(power):
    x = pair((2, 2))
    assert [t.tolist() for t in power(x, 3).parts] == [(x.parts[0] ** 3).tolist(), (x.parts[1] ** 3).tolist()]

    @power.register_torch_dispatch(Pair)
    def own(cls, func, types, args, kwargs):
        assert cls is Pair and types == (Pair,) and str(func) == "policies.power.default" and not kwargs
        return "the class"

    @torch.library.register_torch_dispatch("policies::power", Names)
    def of_mode(mode, func, types, args, kwargs):
        return NotImplemented if types else "the mode"

    assert power(x) == "the class"
    with Names():
        assert power(torch.ones(1)) == "the mode" and power(x) == "the class"


def test_vmap_calls_the_rule_of_an_operation_or_the_operation_for_each_slice(power):
    x = torch.arange(6.0).view(2, 3)
    with pytest.warns(UserWarning, match="not yet implemented the batching rule for policies::power"):
        assert torch.equal(torch.vmap(power, 1)(x), x.T**2)
    seen = []

    @power.register_vmap
    def rule(info, in_dims, x, k=2, *, scale=1.0):
        seen.append((info.batch_size, in_dims, x.shape, k))
        return power(x, k), in_dims[0]

    assert torch.equal(torch.vmap(power, (0, None))(x, 3), x**3)
    assert torch.equal(torch.func.vmap(torch.func.grad(lambda x: power(x).sum()))(x), 2 * x)
    assert seen[0] == (2, (0, None), (2, 3), 3)


def test_detaching_and_reading_an_element_are_seen_by_modes():
    x = torch.ones(2, requires_grad=True)
    with Names() as names:
        x.detach()
        assert x.data.requires_grad is False and x.sum().item() == 2
    assert [name for name, *_ in names.seen] == [
        "aten.detach.default",
        "aten.detach.default",
        "aten.sum.default",
        "aten._local_scalar_dense.default",
    ]


def test_modes_of_a_compiler_are_told_from_others():
    class Infra(Names):
        @classmethod
        def is_infra_mode(cls):
            return True

    with Infra():
        assert is_in_torch_dispatch_mode() and not is_in_torch_dispatch_mode(include_infra_modes=False)
        with Names(), Infra():
            assert is_in_torch_dispatch_mode(include_infra_modes=False)
    assert not is_in_torch_dispatch_mode()


def test_results_of_a_class_with_a_handler_are_not_converted_to_it():
    class Plain(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return super().__torch_dispatch__(func, types, args, kwargs)

    class Text(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return "text"

    x = Plain(torch.ones(2))
    assert type(x) is Plain and type(x.data) is type(x + 1) is type(x.detach()) is torch.Tensor
    for call in (torch.neg, torch.Tensor.detach, torch.sum):
        with pytest.raises(RuntimeError, match="Unable to cast text to Tensor"):
            call(Text(torch.ones(1)))


def test_gradients_of_a_class_are_accumulated_in_place():
    names = []

    class Noted(Pair):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            names.append(str(func))
            return Pair.__torch_dispatch__(func, types, args, kwargs)

    x = Noted(torch.ones(2), torch.ones(2)).requires_grad_()
    for _ in range(2):
        x.mul(3).backward(Pair(torch.ones(2), torch.ones(2)))
    assert x.grad.parts[0].tolist() == [6, 6]


def test_a_scoped_library_ends_with_its_block():
    with torch.library._scoped_library("policies_scoped", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: 2 * x, "CPU")
        assert torch.ops.policies_scoped.twice(torch.ones(1)).item() == 2
    with pytest.raises(AttributeError, match="has no attribute 'twice'"):
        torch.ops.policies_scoped.twice  # noqa: B018
    del torch.ops.policies_scoped


def test_a_class_that_answers_for_sizes_has_the_methods_of_tensor():
    class Answers(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return (7, 7)

    class Derived(Answers):
        pass

    for cls in (Answers, Derived):
        made = torch.Tensor._make_wrapper_subclass(cls, (2, 3), dispatch_sizes_strides_policy="sizes")
        assert made.size() == made.shape == (7, 7) and made.size(0) == 7
        assert all(getattr(cls, name) is getattr(torch.Tensor, name) for name in ("size", "stride", "shape"))
        with pytest.raises(AttributeError):
            made.ndim = 3
    plain = torch.ones(2, 3).as_subclass(Derived)
    assert plain.size() == (2, 3) and plain.shape == (2, 3) and plain.stride(0) == 3
