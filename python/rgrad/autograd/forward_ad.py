"""`torch.autograd.forward_ad`: derivatives in a direction, along with values.

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
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import rgrad
from rgrad import _C
from rgrad._C import Tensor

from . import _dual
from .function import Function, FunctionCtx

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A value, and its derivative in a direction.

    Attributes:
        primal: the value.
        tangent: the derivative, of its shape and dtype, or None if there is none.
    """

    primal: Tensor
    tangent: Tensor | None


# The number of the level that is entered, which is 0, or -1.
_current_level = -1


def _sweeping() -> bool:
    return _dual.level is not None and _dual.level.sweeping


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
        return None if _sweeping() else g, g, None


class _Severed(Function):
    """The identity, but for tangents, which its result has none of."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.detach()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor | None:
        return None if _sweeping() else g


class _Level(threading.local):
    """The dual tensors of a level, and what it does to calls in it; what is an attribute of it is that of a thread."""

    # False while the forward or the jvp of a custom function runs, in which tensors have no tangents.
    active = True
    # Whether the pass to the shifts runs, in which no gradient goes on to the values of dual tensors.
    sweeping = False
    # The mode that is entered while grad mode is off, and whether it is handling a call.
    mode: Any = None
    recording = False

    def __init__(self, duals: list[weakref.ref[Any]]) -> None:
        # One list for all threads.
        self.duals = duals

    def live(self) -> list[Any]:
        """The contexts of dual tensors that the graphs still hold."""
        found = [(reference, reference()) for reference in self.duals]
        self.duals[:] = [reference for reference, ctx in found if ctx is not None]
        return [ctx for _, ctx in found if ctx is not None]

    def has_tangent(self, x: Any) -> bool:
        """Whether a tensor follows from a dual tensor of this level."""
        if not self.active or not isinstance(x, Tensor) or not x.requires_grad:
            return False
        return any(_is_dual(node) and _ctx_of(node).level is self for node in _nodes(x))

    def switched(self) -> None:
        """Called after grad mode was set: without it, dual tensors need a mode to be recorded at all."""
        if self.recording or not self.active:
            return
        wanted = _dual.level is self and not _C.is_grad_enabled() and not _C.is_inference_mode_enabled()
        if wanted and self.mode is None:
            self.mode = _record_duals(self)
            self.mode.__enter__()
        elif not wanted and self.mode is not None:
            mode, self.mode = self.mode, None
            _leave(mode)

    def apply(self, cls: Any, ctx: FunctionCtx, args: tuple[Any, ...]) -> Any:
        """Calls a custom function with arguments of which some may have tangents."""
        # Functions of this library need no jvp; they are also known by the name of the package in whose place it is.
        own = cls.__module__.partition(".")[0] in ("rgrad", "torch")
        if own or not any(map(self.has_tangent, args)):
            with self._paused():
                recorded = _C.is_grad_enabled() and any(ctx.needs_input_grad)
                return cls._record(ctx, args, cls._call_forward(ctx, args), recorded)
        from ._custom_jvp import apply_with_jvp  # which uses what is below

        return apply_with_jvp(self, cls, ctx, args)

    def grad(
        self, roots: Sequence[Any], wanted: Sequence[Any], grads: Sequence[Any], allow_unused: bool, materialize: bool
    ) -> tuple[Tensor | None, ...]:
        """Gradients that have tangents and no other history."""
        found = _C._grad(roots, wanted, grads, True, True, allow_unused, materialize)
        return tuple(g if g is None else _without_history(g) for g in found)

    def shown(self, x: Tensor, text: str) -> str:
        """The text of a tensor with that of its tangent."""
        if not self.has_tangent(x):
            return text
        primal, tangent = unpack_dual(x)
        with self._paused():
            start, second = repr(primal)[:-1] + ", ", f"tangent={tangent!r})"
        if len(start.rpartition("\n")[2]) + len(second.partition("\n")[0]) > rgrad.get_printoptions()["linewidth"]:
            start = start[:-1] + "\n" + " " * len("tensor(")
        return start + second

    def _paused(self) -> _Pause:
        return _Pause(self)


class _Pause:
    """A block in which no tensor has a tangent."""

    def __init__(self, level: _Level) -> None:
        self._level = level

    def __enter__(self) -> None:
        self._before, self._level.active = self._level.active, False

    def __exit__(self, *exc: object) -> None:
        self._level.active = self._before


class _Recording:
    """A block in which grad mode is on, whatever the program has set: no level is told of it."""

    def __enter__(self) -> None:
        self._before = _C._set_grad_enabled(True)

    def __exit__(self, *exc: object) -> None:
        _C._set_grad_enabled(self._before)


# The graph.


def _is_dual(node: Any) -> bool:
    return type(node).__name__ == _Dual._backward_cls.__name__ and isinstance(node._ctx(), _Dual._backward_cls)


def _ends_tangents(node: Any) -> bool:
    return _is_dual(node) or (
        type(node).__name__ == _Severed._backward_cls.__name__ and isinstance(node._ctx(), _Severed._backward_cls)
    )


def _ctx_of(node: Any) -> Any:
    return node._ctx()


def _nodes(x: Tensor) -> Iterator[Any]:
    """The nodes on which the tangent of a tensor depends, or may depend: not those behind dual or severed tensors."""
    seen: set[Any] = set()
    waiting = [_C._gradient_edge(x)[0]]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        if not _ends_tangents(node):
            waiting += [edge for edge, _ in node.next_functions]


def _has_history(x: Tensor, leaves: Sequence[Tensor] = ()) -> bool:
    """Whether a tensor depends on a leaf that requires grad other than the shifts and the given ones."""
    # A batched tensor has the history of its value.
    x = _C._batch_value(x)[0]
    values = [_C._batch_value(leaf)[0] for leaf in leaves]
    seen: set[Any] = {_C._gradient_edge(leaf)[0] for leaf in values if leaf.is_leaf}
    waiting = [_C._gradient_edge(x)[0]] if x.requires_grad else []
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "AccumulateGrad":
            return True
        edges = [edge for edge, _ in node.next_functions]
        waiting += edges[:1] if _is_dual(node) else edges
    return False


def _without_history(x: Tensor) -> Tensor:
    """The same value with the same tangent, if it has one, as a tensor that depends on nothing else."""
    level = _dual.level
    if level is None or not level.has_tangent(x):
        return x.detach()
    tangent = _tangent(level, x, keep=False)
    return x.detach() if tangent is None else _made(level, x.detach(), tangent)


# Operations under no_grad.

_NOT_RECORDED = frozenset(
    {"backward", "detach", "detach_", "register_hook", "register_post_accumulate_grad_hook", "requires_grad_"}
    | {"retain_grad", "set_", "__deepcopy__", "__format__", "__reduce_ex__", "__repr__", "__setstate__", "__str__"}
)


def _record_duals(level: _Level) -> Any:
    """A mode that records calls with dual tensors while grad mode is off."""
    from rgrad.overrides import TorchFunctionMode
    from rgrad.utils._pytree import tree_leaves, tree_map

    class RecordDuals(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            name = getattr(func, "__name__", "")
            if name == "__get__" and not any(func.__self__ is getattr(Tensor, n) for n in ("T", "mT")):
                return func(*args, **kwargs)
            off = (
                _dual.level is not level
                or _C.is_inference_mode_enabled()
                or _C.is_grad_enabled()
                or name in _NOT_RECORDED
            )
            if off or not any(level.has_tangent(x) for x in tree_leaves((args, kwargs))):
                return func(*args, **kwargs)
            in_place = name == "__setitem__" or name.startswith("__i") or (name.endswith("_") and name[-2:] != "__")
            before, level.recording = _C._set_grad_enabled(True), True
            try:
                result = func(*args, **kwargs)
                if in_place:
                    _settle(level, args[0])
                    return result
                return tree_map(lambda x: _settled(level, x, (args, kwargs)), result)
            finally:
                level.recording = False
                _C._set_grad_enabled(before)

    return RecordDuals()


def _settled(level: _Level, x: Any, given: Any) -> Any:
    """A result as a dual tensor of its own, so that later writes do not meet what was saved for its tangent.

    Views stay connected with their base, which has to see what is written to them.
    """
    from rgrad.utils._pytree import tree_leaves

    if not isinstance(x, Tensor) or x._is_view() or any(x is arg for arg in tree_leaves(given)):
        return x
    return _without_history(x)


def _settle(level: _Level, x: Tensor) -> None:
    """As `_settled`, for a tensor that was written in place."""
    if not x._is_view() and level.has_tangent(x):
        tangent = _tangent(level, x, keep=False)
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


def _switch_grad_mode(enabled: bool) -> bool:
    """Sets grad mode within a level, which is told of it; returns the mode before."""
    before = _C._set_grad_enabled(enabled)
    if _dual.level is not None:
        _dual.level.switched()
    return before


def enter_dual_level() -> int:
    """Enters a level, in which tensors may have tangents; there is one at a time.

    Returns:
        The number of the level, 0.

    Raises:
        RuntimeError: a level is entered already.
    """
    global _current_level
    if _dual.level is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _dual.level = _Level([])
    _dual.set_grad_enabled = _switch_grad_mode
    _current_level = 0
    _dual.level.switched()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Leaves the level: all tensors lose their tangents.

    Args:
        level: the number of the level, which is 0.

    Raises:
        RuntimeError: no level is entered, or it has another number.
    """
    global _current_level
    if _dual.level is None and level is None:
        raise RuntimeError("Dual level must be a positive number: no level is entered.")
    if _dual.level is None or level not in (None, 0):
        raise RuntimeError(f"Trying to exit a forward AD level that was not the last one: {level} is not entered")
    left, _dual.level = _dual.level, None
    _dual.set_grad_enabled = _C._set_grad_enabled
    _current_level = -1
    left.switched()


class dual_level:
    """A context manager of a level, in which tensors may have tangents.

    >>> import rgrad as torch
    >>> import rgrad.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor(6.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()


# Dual tensors.


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor of a value that has a tangent, which operations pass on: see Note [Tangents by two backward passes].

    Args:
        tensor: the value, floating point.
        tangent: of the same shape and dtype. If it also has the same strides, `unpack_dual` returns this tensor, else
            a copy.
        level: the number of the level, which is 0.

    Returns:
        A tensor that shares the memory of the value. In inference mode it has no tangent.

    Raises:
        RuntimeError: no level is entered, one of the tensors has a tangent already, or the tangent has another shape
            or dtype than the value.
        ValueError: they are not floating point.
    """
    current = _dual.level
    if current is None:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists: use `dual_level`")
    if level not in (None, 0):
        raise RuntimeError(f"Invalid level given to make_dual: {level} is not entered")
    for name, given in (("primal", tensor), ("tangent", tangent)):
        if not given.is_floating_point():
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {given.dtype}")
    if _C.is_inference_mode_enabled():
        return tensor.detach()
    for name, given in (("value", tensor), ("tangent", tangent)):
        if current.has_tangent(given):
            raise RuntimeError(f"The {name} given to make_dual has a forward gradient at the same level 0 already")
    if not _C.is_grad_enabled():
        tensor, tangent = tensor.detach(), tangent if not tangent.requires_grad else tangent.detach()
    if tensor.shape == tangent.shape and not _same_layout(tensor, tangent):
        tangent = tangent.clone()
    return _made(current, tensor, tangent)


def _same_layout(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of the same shape have their elements at the same places of memory of the same size."""
    if one.numel() == 0:
        return True
    strides = zip(one.shape, one.stride(), other.stride(), strict=True)
    same_strides = all(size == 1 or a == b for size, a, b in strides)
    return same_strides and one.untyped_storage().nbytes() == other.untyped_storage().nbytes()


def _made(level: _Level, primal: Tensor, tangent: Tensor, in_place: bool = False) -> Tensor:
    if primal.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than its tensor: "
            f"{list(tangent.shape)} and {list(primal.shape)}"
        )
    if primal.dtype != tangent.dtype:
        raise RuntimeError(
            f"Expected a tangent of the shape and dtype of the value, which is {primal.dtype}, got {tangent.dtype}"
        )
    with _Recording(), level._paused():
        shift = _C._require_grad(_C.zeros_like(primal.detach()))
        dual = _Dual.apply(primal, shift, in_place)
    ctx = _ctx_of(dual.grad_fn)
    ctx.level, ctx.shift, ctx.tangent, ctx.primal = level, shift, tangent, None if in_place else primal
    level.duals.append(weakref.ref(ctx))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent of a tensor, which have no tangents.

    Args:
        tensor: any tensor.
        level: the number of the level, which is 0.

    Returns:
        Both; the tangent is None outside of a level, and for a tensor that follows from no dual tensor.

    Raises:
        NotImplementedError: an operation behind the tensor has a backward that cannot be differentiated.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"unpack_dual(): argument 'tensor' must be Tensor, not {type(tensor).__name__}")
    current = _dual.level
    if current is not None and level not in (None, 0):
        raise RuntimeError(f"Invalid level given to unpack_dual: {level} is not entered")
    if current is None or not current.has_tangent(tensor):
        return UnpackedDualTensor(tensor, None)
    keep = _C.is_grad_enabled()
    tangent = _tangent(current, tensor, keep)
    with current._paused():
        node = tensor.grad_fn
        primal = _ctx_of(node).primal if _is_dual(node) else None
        history = keep and _has_history(tensor)
        if not history:
            primal = tensor.detach()
        elif primal is None or not primal.requires_grad or primal.grad_fn is not None:
            primal = _Severed.apply(tensor if primal is None else primal)
        else:
            primal = primal.view_as(primal)
    return UnpackedDualTensor(primal, tangent)


def _tangent(level: _Level, tensor: Tensor, keep: bool) -> Tensor | None:
    """The tangent of a tensor that may have one: see Note [Tangents by two backward passes]."""
    node = tensor.grad_fn
    if _is_dual(node) and _ctx_of(node).level is level:
        tangent = _ctx_of(node).tangent
        return tangent if keep or not tangent.requires_grad else tangent.detach()
    duals = level.live()
    keep = keep and (_has_history(tensor) or any(d.tangent.requires_grad for d in duals))
    with _Recording(), level._paused():
        v = _probe(tensor)
        level.sweeping = True
        try:
            swept = _C._grad((tensor,), [d.shift for d in duals], (v,), True, True, True, False)
        finally:
            level.sweeping = False
        reached = [(g, d.tangent) for g, d in zip(swept, duals, strict=True) if g is not None]
        if not reached:
            return None
        # A tensor without elements passes no tangent on; what it is multiplied by may be infinite.
        varying = [(g, t) for g, t in reached if g.requires_grad and g.numel()]
        found: Tensor | None = None
        if varying:
            outputs, tangents = (tuple(part) for part in zip(*varying, strict=True))
            (found,) = _C._grad(outputs, (v,), tangents, True, keep, True, False)
        tangent = _C.zeros_like(tensor.detach()) if found is None else found
        _check_product(reached, [(v, tangent)])
        memory = tangent.untyped_storage()
        if any(t.untyped_storage() is memory for _, t in reached):
            # Backward passes the tangent of an input on as it is; programs may write to what they get.
            tangent = tangent.clone()
        if not keep or not tangent.requires_grad:
            return tangent.detach()
        return _Severed.apply(tangent)


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
