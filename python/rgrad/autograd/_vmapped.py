"""Custom functions of batched tensors, by their `vmap` or by a generated rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rgrad import _C
from rgrad._C import Tensor
from rgrad._vmap import as_given, broadcast_dims, innermost, is_dim, level_of, running, whole
from rgrad.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from . import _dual
from .function import Function, is_own


class VmapInfo(NamedTuple):
    """What a custom function's `vmap` is told about the call of `vmap`.

    Attributes:
        batch_size: the number of slices.
        randomness: what `vmap` does with random numbers: "error", "different" or "same".
    """

    batch_size: int
    randomness: str


def comes_first(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call with these arguments is one for all slices first, before tangents at the levels around `vmap`."""
    leaves = tree_leaves((args, kwargs))
    level = max(map(innermost, leaves), default=0)
    if level == 0 or is_own(cls) or not _dual.levels():
        return level > 0
    from ._tangent_levels import level_of_tangents

    inner = level_of_tangents(leaves)
    return inner is None or inner.depth < level


def apply(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a custom function with batched tensors among its arguments, in containers as well.

    Args:
        cls: the function.
        args: its arguments by position.
        kwargs: those by name, which may not be tensors.

    Raises:
        RuntimeError: if the function has no rule, or two.
    """
    if any(isinstance(v, Tensor) for v in tree_leaves(kwargs)):
        raise NotImplementedError(
            "Run vmap on autograd.Function with kwarg-only Tensor args. Please do not pass kwarg-only Tensors to "
            f"autograd.Function. Got: {kwargs}"
        )
    leaves, spec = tree_flatten(args)
    level = max(innermost(a) for a in leaves)
    dims = [0 if innermost(a) == level else None for a in leaves]
    values = [whole(a, level) for a in leaves]
    in_dims, own = tree_unflatten(dims, spec), tree_unflatten(values, spec)
    first = next(a for a, d in zip(values, dims, strict=True) if d is not None)
    size, randomness = first.shape[0], dict(running())[level]
    overridden = cls.vmap is not Function.vmap
    if cls.generate_vmap_rule:
        if overridden:
            raise RuntimeError(
                f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and a vmap "
                f"staticmethod: keep one of them"
            )
        outputs = _generated(cls, level, size, randomness, in_dims).apply(*own)
        several = isinstance(outputs, tuple)
        wrapped = [
            _C._add_batch_dim(o, 0, level) if isinstance(o, Tensor) else o for o in (outputs if several else (outputs,))
        ]
        return tuple(wrapped) if several else wrapped[0]
    if not overridden and is_own(cls):
        return _by_slices(cls, own, in_dims, level, size)
    if not overridden:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement "
            "the vmap staticmethod or set generate_vmap_rule=True."
        )
    values, dims = zip(*(as_given(a, level) for a in leaves), strict=True)
    in_dims, own = tree_unflatten(list(dims), spec), tree_unflatten(list(values), spec)
    return with_dims(cls.vmap(VmapInfo(size, randomness), in_dims, *own, **kwargs), level)


def with_dims(made: Any, level: int) -> Any:
    """Batched tensors for what a `vmap` staticmethod has returned: a pair of whole outputs and their mapped
    dimensions.
    """
    if not (isinstance(made, tuple) and len(made) == 2):
        found = f"{len(made)} returns" if isinstance(made, tuple) else f"a {type(made)}"
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns: an output, and out_dims that fit its structure. "
            f"Got {found} instead"
        )
    output, out_dims = made
    outs, spec = tree_flatten(output)
    dims = broadcast_dims(out_dims, spec)
    if dims is None or not all(map(is_dim, dims)):
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple: "
            f"out_dims={out_dims} has structure {tree_flatten(out_dims)[1]}, and the output {spec}"
        )
    wrapped = [
        o if d is None or not isinstance(o, Tensor) else _C._add_batch_dim(o, d, level)
        for o, d in zip(outs, dims, strict=True)
    ]
    return tree_unflatten(wrapped, spec)


def _by_slices(
    cls: type[Function], args: tuple[Any, ...], in_dims: tuple[int | None, ...], level: int, size: int
) -> Any:
    """Calls one of the functions of this package for each slice."""
    _C._announce_vmap_fallback(cls.__name__)
    made = [cls.apply(*(a if d is None else a[i] for a, d in zip(args, in_dims, strict=True))) for i in range(size)]
    several = isinstance(made[0], tuple)
    columns = zip(*made, strict=True) if several else [made]
    joined = [_C._add_batch_dim(_C.stack(list(column)), 0, level) for column in columns]
    return tuple(joined) if several else joined[0]


class _Context:
    """The ctx of one call for all slices, with the methods that `setup_context` calls."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """The caller has marked them."""

    def set_materialize_grads(self, value: bool) -> None:
        """Gradients are always materialized."""


def _generated(cls: Any, level: int, size: int, randomness: str, in_dims: tuple[int | None, ...]) -> Any:
    """A custom function of whole tensors that computes what `cls` does for slices.

    Its forward and its backward are those of `cls`, called with batched tensors.
    """

    def sliced(values: Any, dims: Any, inner: int) -> list[Any]:
        return [
            _C._add_batch_dim(v, 0, inner) if d is not None and isinstance(v, Tensor) else v
            for v, d in zip(values, dims, strict=True)
        ]

    def joined(t: Any, inner: int) -> Any:
        return _C._remove_batch_dim(t, inner, size, 0) if isinstance(t, Tensor) else t

    class Vmapped(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*args: Any) -> Any:
            made = cls.forward(*sliced(args, in_dims, level))
            return tuple(joined(t, level) for t in made) if isinstance(made, tuple) else joined(made, level)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.several = isinstance(output, tuple)
            outputs = output if ctx.several else (output,)
            ctx.values = [None if isinstance(v, Tensor) else v for v in (*inputs, *outputs)]
            kept = [v if isinstance(v, Tensor) else None for v in (*inputs, *outputs)]
            ctx.save_for_backward(*kept)
            ctx.save_for_forward(*kept)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            found = derived(ctx, cls.backward, grads, [0] * len(grads))
            # What all slices share gets the sum of their gradients.
            return tuple(
                g.sum(0) if d is None and isinstance(g, Tensor) else g for g, d in zip(found, in_dims, strict=True)
            )

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            found = derived(ctx, cls.jvp, tangents, in_dims)
            return found if ctx.several else found[0]

    def derived(ctx: Any, derivative: Any, given: tuple[Any, ...], dims: Sequence[int | None]) -> tuple[Any, ...]:
        """What a derivative of `cls` makes of the slices of gradients or tangents, as whole tensors."""
        saved = [v if t is None else t for t, v in zip(ctx.saved_tensors, ctx.values, strict=True)]
        inputs, outputs = saved[: len(in_dims)], saved[len(in_dims) :]
        with level_of(size, randomness) as inner:
            own = _Context(ctx.needs_input_grad)
            outs = tuple(sliced(outputs, [0] * len(outputs), inner))
            cls.setup_context(own, tuple(sliced(inputs, in_dims, inner)), outs if ctx.several else outs[0])
            found = derivative(own, *sliced(given, dims, inner))
            return tuple(joined(t, inner) for t in (found if isinstance(found, tuple) else (found,)))

    Vmapped.__name__, Vmapped.__module__ = f"Vmapped{cls.__name__}", cls.__module__
    return Vmapped
