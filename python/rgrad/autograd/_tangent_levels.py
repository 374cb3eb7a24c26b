"""How tensors have tangents, for `forward_ad` and the derivatives of `torch.func` in forward mode.

Note [Tangents by two backward passes]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Operations have backward derivatives only. The backward pass of ``y = f(x)`` is a linear function of the gradient v of
y, ``v -> J^T v``, and the derivative of a linear function is the function itself, transposed by the pass: so the
gradient of ``J^T v`` with respect to v, for a gradient t of its own, is ``J t``. A dual tensor therefore shares the
memory of its value and has a node whose second input, the *shift*, is a leaf that nothing else uses. Two passes
compute the tangent of a result when `unpack_dual` asks for it: one to the shifts, one through that pass. What this
means for programs:

- A dual tensor requires grad, as do results that have tangents, even if no other input does.
- What is recorded must be differentiable twice, and once more for a tangent of a gradient. An operation whose backward
  is not raises; one whose backward hides its dependence on the gradient is found by comparing ``v^T J t`` of both
  passes, and raises NotImplementedError.
- Under `no_grad`, operations on dual tensors are recorded with respect to the shifts only.
- The gradients of `autograd.grad` have tangents even without ``create_graph``; those of `backward` have none.
- A `backward` without ``retain_graph`` frees what tangents are computed from: unpack before it.
- A custom `Function` needs `jvp`, which is called at once: its results are dual tensors of their own.
- The tangent is what the backward implies, also where that is not the derivative: `max_unpool` with an index twice.
- Hooks on tensors that change gradients change tangents too; in PyTorch they do not.

Note [Levels of tangents]
~~~~~~~~~~~~~~~~~~~~~~~~~
`dual_level` is one level for all threads, and cannot be entered twice. Each derivative of `torch.func` in forward
mode enters one of its own thread within, so derivatives nest: a tensor has a tangent at every level whose shifts it
depends on. A pass to the shifts of one level goes through the dual tensors of others as through any operation, so the
tangent of an inner level depends on the shifts of the outer ones wherever the values or the given tangents do. A
value that leaves its level is *severed* from it: passes to the shifts of that level stop there. A tensor that is to
have tangents but no other history is made anew: its elements, with its tangent at the outermost level, and so on
inwards, where each tangent is made in this way for the levels outside of its own.

In `vmap`, the shifts are batched as the values and the tangents are, since a pass adds what the slices give to a shift
that they share; except for the levels of `jacfwd`, in which the tangents alone differ, so that the function is computed
once.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import rgrad
from rgrad import _C
from rgrad._C import Tensor

from . import _dual
from ._dual import levels, thread
from .function import Function, FunctionCtx


class _Dual(Function):
    """A value with a tangent. The ctx holds the tangent, so both are released with the graph."""

    @staticmethod
    def forward(ctx: Any, primal: Tensor, shift: Tensor, in_place: bool) -> Tensor:
        if not in_place:
            return primal.detach()
        ctx.mark_dirty(primal)
        return primal

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return None if thread.sweeping is ctx.level else g, g, None


class _Severed(Function):
    """The identity, but for the tangents of a level, which its result has none of."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, level: _Level) -> Tensor:
        ctx.level = level
        return x.detach()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, None]:
        return None if thread.sweeping is ctx.level else g, None


def _recorded(cls: Any, *args: Any) -> Tensor:
    """Calls one of these functions with values, whatever the program has set."""
    ctx = cls._backward_cls()
    ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
    with _Recording(), _Only(()):
        return cls._record(ctx, args, cls._call_forward(ctx, args), True)


class _Level:
    """The dual tensors of a level."""

    def __init__(self) -> None:
        # One list for all threads.
        self.duals: list[weakref.ref[Any]] = []
        # How many calls of `vmap` run around the level.
        self.depth = len(_C._vmap_levels())

    def live(self) -> list[Any]:
        """The contexts of dual tensors that the graphs still hold."""
        found = [(reference, reference()) for reference in self.duals]
        self.duals[:] = [reference for reference, ctx in found if ctx is not None]
        return [ctx for _, ctx in found if ctx is not None]

    def has_tangent(self, x: Any) -> bool:
        """Whether a tensor follows from a dual tensor of this level."""
        if not isinstance(x, Tensor) or not x.requires_grad:
            return False
        return any(_dual_ctx(node, self) is not None for node in _nodes(self, x))

    def outside(self) -> tuple[_Level, ...]:
        """The levels around this one."""
        around = levels()
        return around[: around.index(self)] if self in around else around


def have_tangents(values: Sequence[Any]) -> bool:
    """Whether there is a tensor among values that has a tangent at any level."""
    return any(level.has_tangent(x) for level in levels() for x in values)


def level_of_tangents(values: Sequence[Any]) -> _Level | None:
    """The innermost level at which any of the tensors among values has a tangent."""
    return next((level for level in reversed(levels()) if any(map(level.has_tangent, values))), None)


def apply(cls: Any, ctx: FunctionCtx, args: tuple[Any, ...]) -> Any:
    """Calls a custom function with arguments of which some may have tangents."""
    # Functions of this library need no jvp; they are also known by the name of the package in whose place it is.
    own = cls.__module__.partition(".")[0] in ("rgrad", "torch")
    level = None if own else level_of_tangents(args)
    if level is None:
        with _Only(()):
            recorded = _C.is_grad_enabled() and any(ctx.needs_input_grad)
            return cls._record(ctx, args, cls._call_forward(ctx, args), recorded)
    from ._custom_jvp import apply_with_jvp  # which uses what is below

    return apply_with_jvp(level, cls, ctx, args)


def grad(
    roots: Sequence[Any], wanted: Sequence[Any], grads: Sequence[Any], allow_unused: bool, materialize: bool
) -> tuple[Tensor | None, ...]:
    """Gradients that have tangents and no other history."""
    found = _C._grad(roots, wanted, grads, True, True, allow_unused, materialize)
    return tuple(g if g is None else without_history(g) for g in found)


class _Only:
    """A block in which tensors have tangents at the given levels only."""

    def __init__(self, visible: tuple[_Level, ...] | None) -> None:
        self._visible = visible

    def __enter__(self) -> None:
        self._before, thread.visible = thread.visible, self._visible

    def __exit__(self, *exc: object) -> None:
        thread.visible = self._before


class _Recording:
    """A block in which grad mode is on, whatever the program has set: no mode is entered or left."""

    def __enter__(self) -> None:
        self._before = _C._set_grad_enabled(True)

    def __exit__(self, *exc: object) -> None:
        _C._set_grad_enabled(self._before)


# The graph. A batched tensor has the history of its value.


def _node(x: Tensor) -> Any:
    """The node of a tensor; None if it has no history."""
    return _C._gradient_edge(_C._batch_value(x)[0])[0] if x.requires_grad else None


def _ctx_of(node: Any, cls: Any) -> Any:
    """The context of a node of one of the functions above; None for other nodes."""
    if type(node).__name__ != cls._backward_cls.__name__:
        return None
    ctx = node._ctx()
    return ctx if isinstance(ctx, cls._backward_cls) else None


def _dual_ctx(node: Any, level: _Level) -> Any:
    """The context of the node of a dual tensor of a level; None for other nodes."""
    ctx = _ctx_of(node, _Dual)
    return ctx if ctx is not None and ctx.level is level else None


def _ends_tangents(node: Any, level: _Level) -> bool:
    ctx = _ctx_of(node, _Dual) or _ctx_of(node, _Severed)
    return ctx is not None and ctx.level is level


def _nodes(level: _Level, x: Tensor) -> Iterator[Any]:
    """The nodes on which the tangent of a tensor at a level depends, or may depend: not those behind dual or severed
    tensors of the level.
    """
    seen: set[Any] = set()
    waiting = [_node(x)]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        if not _ends_tangents(node, level):
            waiting += [edge for edge, _ in node.next_functions]


def _has_history(x: Tensor, leaves: Sequence[Tensor] = (), level: _Level | None = None) -> bool:
    """Whether a tensor depends on a leaf that requires grad.

    Args:
        x: the tensor.
        leaves: leaves that do not count.
        level: the level whose shifts do not count either, as those of levels that have ended.
    """
    values = [_C._batch_value(leaf)[0] for leaf in leaves]
    seen: set[Any] = {_C._gradient_edge(leaf)[0] for leaf in values if leaf.is_leaf}
    waiting = [_node(x)]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "AccumulateGrad":
            return True
        edges = [edge for edge, _ in node.next_functions]
        dual = _ctx_of(node, _Dual)
        shifted = dual is not None and (dual.level is level or dual.level not in _dual.running)
        waiting += edges[:1] if shifted else edges
    return False


def without_history(x: Tensor) -> Tensor:
    """The same value with the same tangents, if it has any, as a tensor that depends on nothing else."""
    return _within(x, levels())


def _within(x: Tensor, kept: Sequence[_Level]) -> Tensor:
    """As `without_history`, with the tangents of these levels only. See Note [Levels of tangents]."""
    found = x.detach()
    for level in kept:
        (tangent,) = _tangents(level, [x], keep=False)
        if tangent is not None:
            found = _made(level, found, tangent)
    return found


def _severed(level: _Level, x: Tensor) -> Tensor:
    """The tensor, of whose history the dual tensors of a level are none."""
    value, own = _C._batch_value(x)
    value = _recorded(_Severed, value, level)
    return _C._batched(value, own) if own else value


def _left(level: _Level, x: Tensor, keep: bool) -> Tensor:
    """A tensor as it leaves a level: without tangents of the level, with those of outer ones, and with its other
    history if that is kept.
    """
    if not x.requires_grad:
        return x
    if keep and _has_history(x, level=level):
        return _severed(level, x)
    outside = level.outside()
    return _within(x, outside) if any(o.has_tangent(x) for o in outside) else x.detach()


# Operations under no_grad.

_NOT_RECORDED = frozenset(
    {"backward", "detach", "detach_", "register_hook", "register_post_accumulate_grad_hook", "requires_grad_"}
    | {"retain_grad", "set_", "__deepcopy__", "__format__", "__reduce_ex__", "__repr__", "__setstate__", "__str__"}
)


def _record_duals() -> Any:
    """A mode that records calls with dual tensors while grad mode is off."""
    from rgrad.overrides import TorchFunctionMode
    from rgrad.utils._pytree import tree_leaves, tree_map

    class RecordDuals(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            name = getattr(func, "__name__", "")
            if name == "__get__" and not any(func.__self__ is getattr(Tensor, n) for n in ("T", "mT")):
                return func(*args, **kwargs)
            off = _C.is_inference_mode_enabled() or _C.is_grad_enabled() or name in _NOT_RECORDED
            if off or not have_tangents(tree_leaves((args, kwargs))):
                return func(*args, **kwargs)
            in_place = name == "__setitem__" or name.startswith("__i") or (name.endswith("_") and name[-2:] != "__")
            before, thread.recording = _C._set_grad_enabled(True), True
            try:
                result = func(*args, **kwargs)
                if in_place:
                    _settle(args[0])
                    return result
                return tree_map(lambda x: _settled(x, (args, kwargs)), result)
            finally:
                thread.recording = False
                _C._set_grad_enabled(before)

    return RecordDuals()


def _settled(x: Any, given: Any) -> Any:
    """A result as a dual tensor of its own, so that later writes do not meet what was saved for its tangent.

    Views stay connected with their base, which has to see what is written to them.
    """
    from rgrad.utils._pytree import tree_leaves

    if not isinstance(x, Tensor) or x._is_view() or any(x is arg for arg in tree_leaves(given)):
        return x
    return without_history(x)


def _settle(x: Tensor) -> None:
    """As `_settled`, for a tensor that was written in place."""
    if x._is_view():
        return
    found = [(level, _tangents(level, [x], keep=False)[0]) for level in levels()]
    for level, tangent in found:
        if tangent is not None:
            _made(level, x, tangent, in_place=True)


def _leave(mode: Any) -> None:
    """Removes a mode, which need not be the innermost."""
    from rgrad.overrides import _pop_mode, _push_mode

    inner = []
    while _C._len_torch_function_stack() and (last := _pop_mode()) is not mode:
        inner.append(last)
    for other in reversed(inner):
        _push_mode(other)


# Levels.


def _switched() -> None:
    """Called after grad mode was set: without it, dual tensors need a mode to be recorded at all."""
    if thread.recording or thread.visible == ():
        return
    wanted = bool(levels()) and not _C.is_grad_enabled() and not _C.is_inference_mode_enabled()
    if wanted and thread.mode is None:
        thread.mode = _record_duals()
        thread.mode.__enter__()
    elif not wanted and thread.mode is not None:
        mode, thread.mode = thread.mode, None
        _leave(mode)


def _switch_grad_mode(enabled: bool) -> bool:
    """Sets grad mode within a level; returns the mode before."""
    before = _C._set_grad_enabled(enabled)
    _switched()
    return before


_lock = threading.Lock()


def _note(level: _Level, entered: bool) -> None:
    """Keeps `_dual.running`, and the function that sets grad mode while it is not empty."""
    with _lock:
        if entered:
            _dual.running.append(level)
        else:
            _dual.running.remove(level)
        _dual.set_grad_enabled = _switch_grad_mode if _dual.running else _C._set_grad_enabled


class transform_level:
    """The level of a derivative of `torch.func`, within those that this thread has entered."""

    def __enter__(self) -> _Level:
        level = self._level = _Level()
        self._before = thread.transforms, thread.visible
        _note(level, entered=True)
        thread.transforms = (*thread.transforms, level)
        if thread.visible is not None:
            thread.visible = (*thread.visible, level)
        _switched()
        return level

    def __exit__(self, *exc: object) -> None:
        thread.transforms, thread.visible = self._before
        _note(self._level, entered=False)
        _switched()


# Tangents.


def _made(level: _Level, primal: Tensor, tangent: Tensor, in_place: bool = False) -> Tensor:
    if primal.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor: "
            f"{list(tangent.shape)} and {list(primal.shape)}"
        )
    if primal.dtype != tangent.dtype:
        raise RuntimeError(
            f"Expected a tangent of the shape and dtype of the value, which is {primal.dtype}, got {tangent.dtype}"
        )
    value, own = _C._batch_value(primal)
    if not in_place:
        value, own = _with_levels_of(tangent, value, own)
    shift = _C._require_grad(_C.zeros_like(value.detach()))
    dual = _recorded(_Dual, value, shift, in_place)
    ctx = _ctx_of(dual.grad_fn, _Dual)
    ctx.level, ctx.shift, ctx.primal = level, shift, None if in_place or own else primal
    ctx.tangent = _of_value(tangent, own, value) if own else tangent
    level.duals.append(weakref.ref(ctx))
    if in_place:
        return primal
    return _C._batched(dual, own) if own else dual


def _with_levels_of(tangent: Tensor, value: Tensor, own: list[int]) -> tuple[Tensor, list[int]]:
    """A value with the mapped dimensions of its tangent too, but for levels in which only tangents differ."""
    of_tangent, found = _C._batch_value(tangent)
    for place, level in enumerate(found):
        if level not in own and level not in thread.apart:
            at = sum(other < level for other in own)
            value, own = value.unsqueeze(at), [*own[:at], level, *own[at:]]
            value = value.expand((*value.shape[:at], of_tangent.shape[place], *value.shape[at + 1 :]))
    return value, own


def everywhere(x: Tensor) -> tuple[Tensor, list[int]]:
    """The value of a tensor for each slice of all running levels of `vmap` but those in which only tangents differ."""
    missing = set(thread.apart).difference(_C._batch_value(x)[1])
    value, own = _C._batch_everywhere(x)
    for place in reversed(range(len(own))):
        if own[place] in missing:
            value = value.select(place, 0)
    return value, [level for level in own if level not in missing]


def _of_value(x: Tensor, own: list[int], value: Tensor) -> Tensor:
    """A tangent of slices as one of the value, of which the slices of these levels are; other levels are left."""
    whole, found = _C._batch_value(x)
    extra = [level for level in found if level not in own]
    for level in own:
        if level not in found:
            whole, found = whole.unsqueeze(len(found)), [*found, level]
    whole = whole.movedim([found.index(level) for level in (*extra, *own)], list(range(len(found))))
    return _C._batched(whole.expand((*whole.shape[: len(extra)], *value.shape)), extra)


def _of_slices(x: Tensor, own: list[int]) -> Tensor:
    """The opposite of `_of_value`."""
    whole, extra = _C._batch_value(x)
    found = [*extra, *own]
    return _C._batched(whole.movedim([found.index(n) for n in sorted(found)], list(range(len(found)))), sorted(found))


def _tangents(level: _Level, tensors: Sequence[Tensor], keep: bool) -> list[Tensor | None]:
    """The tangents at a level of tensors that may have some: see Note [Tangents by two backward passes].

    Args:
        level: the level.
        tensors: the tensors.
        keep: whether the tangents keep their histories; without, they have only the tangents of outer levels.
    """
    found: list[Tensor | None] = [None] * len(tensors)
    roots: list[int] = []
    for i, x in enumerate(tensors):
        if not level.has_tangent(x):
            continue
        dual = _dual_ctx(_node(x), level)
        if dual is None:
            roots.append(i)
        else:
            own = _C._batch_value(x)[1]
            tangent = _of_slices(dual.tangent, own) if own else dual.tangent
            found[i] = tangent if keep or not tangent.requires_grad else _within(tangent, level.outside())
    if roots:
        for i, tangent in zip(roots, _swept(level, [tensors[i] for i in roots], keep), strict=True):
            found[i] = tangent
    return found


def _swept(level: _Level, tensors: list[Tensor], keep: bool) -> list[Tensor | None]:
    """As `_tangents`, of tensors that are no dual tensors themselves."""
    duals = level.live()
    given = [*tensors, *(d.tangent for d in duals)]
    outside = level.outside()
    keep = keep and (any(_has_history(x, level=level) for x in tensors) or any(d.tangent.requires_grad for d in duals))
    recorded = keep or any(o.has_tangent(x) for o in outside for x in given)
    _expect_apart(duals, tensors)
    with _Recording(), _Only(outside):
        probes = [_probe(x) for x in tensors]
        before, thread.sweeping = thread.sweeping, level
        try:
            with _forward_errors():
                swept = _C._grad(tensors, [d.shift for d in duals], probes, True, True, True, False)
        finally:
            thread.sweeping = before
        reached = [(g, d.tangent) for g, d in zip(swept, duals, strict=True) if g is not None]
        if not reached:
            return [None] * len(tensors)
        # A tensor without elements passes no tangent on; what it is multiplied by may be infinite.
        varying = [(g, t) for g, t in reached if g.requires_grad and g.numel()]
        pushed: Sequence[Tensor | None] = [None] * len(tensors)
        if varying:
            outputs, tangents = (tuple(part) for part in zip(*varying, strict=True))
            with _forward_errors():
                pushed = _C._grad(outputs, probes, tangents, True, recorded, True, False)
        made = [_C.zeros_like(x.detach()) if t is None else t for x, t in zip(tensors, pushed, strict=True)]
    _check_product(reached, list(zip(probes, made, strict=True)))
    # Backward passes the tangent of an input on as it is; programs may write to what they get.
    shared = [_C._batch_value(t)[0].untyped_storage() for _, t in reached]
    return [_owned(level, t, keep, shared) for t in made]


@contextmanager
def _forward_errors() -> Iterator[None]:
    """A block in which an operation without a derivative is one that has no tangent."""
    try:
        yield
    except RuntimeError as error:
        found = re.match(r"derivative for (aten::\w+) is not implemented", str(error))
        if not found:
            raise
        raise NotImplementedError(
            f"Trying to use forward AD with {found[1]} that does not support it because it has not been implemented "
            "yet."
        ) from error


def _owned(level: _Level, tangent: Tensor, keep: bool, shared: list[Any]) -> Tensor:
    """A tangent that leaves its level, in memory other than that of the given ones."""
    memory = _C._batch_value(tangent)[0].untyped_storage()
    if any(memory is other for other in shared):
        with _Recording():
            tangent = tangent.clone()
    if keep and tangent.requires_grad:
        return _severed(level, tangent)
    return _within(tangent, level.outside()) if tangent.requires_grad else tangent


def _expect_apart(duals: Sequence[Any], tensors: Sequence[Tensor]) -> None:
    """Raises if a value differs between slices in which dual tensors were to differ in their tangents only."""
    mixed = {n for x in tensors for n in _C._batch_value(x)[1]}
    if mixed and any(mixed.intersection(_C._batch_value(d.tangent)[1]) for d in duals):
        raise NotImplementedError(
            "jacfwd: the function computes with a tangent that it has unpacked itself, so that its values differ "
            "between the columns: pass randomness='different'"
        )


# Relative errors of the product of `_check_product` that rounding explains, for types with few digits and others.
_ROUNDING = {_C.float16: 0.05, _C.bfloat16: 0.2}


def _probe(like: Tensor) -> Tensor:
    """A vector v for the pass of J^T v, of elements that differ: terms that do not cancel in general do not in v."""
    value, levels = _C._batch_value(like)
    v = _C.arange(value.numel(), dtype=_C.float32, device=value.device).mul_(0.7).add_(0.3).cos_()
    return _C._batched(_C._require_grad(v.to(value.dtype).view(value.shape)), levels)


def _check_product(first: Sequence[tuple[Tensor, Tensor]], second: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Raises if v^T J t differs between the pairs of J^T v and t, of the first pass, and those of v and J t."""

    def product(pairs: Sequence[tuple[Tensor, Tensor]]) -> tuple[float, float]:
        products = [a.detach().cpu().double() * b.detach().cpu().double() for a, b in pairs]
        terms = [_C._batch_value(t)[0] for t in products]
        return sum(float(t.sum()) for t in terms), sum(float(t.abs().sum()) for t in terms)

    (one, size), (other, other_size) = product(first), product(second)
    dtype = second[0][0].dtype
    # Terms that cancel leave what rounding left of them, which has nothing to do with the size of the result.
    given = [_C._batch_value(t)[0] for t in [t for _, t in first] + [v for v, _ in second]]
    noise = 1e4 * rgrad.finfo(dtype).eps * sum(float(t.detach().abs().sum()) for t in given)
    # A product that is not finite makes the comparison False: it cannot show an error.
    if abs(one - other) > _ROUNDING.get(dtype, 1e-3) * (size + other_size) + noise:
        raise NotImplementedError(
            "Trying to use forward AD with an operation that does not support it: its backward is not recorded as a "
            "function of the gradient, so that no tangent can be computed by differentiating it."
        )
