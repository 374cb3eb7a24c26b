"""Custom functions of dual tensors: their `jvp`, and what it must do where forward writes in place or returns views."""

from __future__ import annotations

from typing import Any

from rgrad import _C
from rgrad._C import Tensor

from ._dual import levels
from ._tangent_levels import _has_history, _Level, _made, _Only, _severed, _tangents, have_tangents
from .function import Function, FunctionCtx


def apply_with_jvp(level: _Level, cls: Any, ctx: FunctionCtx, args: tuple[Any, ...]) -> Any:
    """Calls forward and jvp, and returns dual tensors of a level, the innermost at which arguments have tangents."""
    keep = _C.is_grad_enabled()
    tangents = [_tangents(level, [x], keep)[0] if isinstance(x, Tensor) else None for x in args]
    others = tuple(other for other in levels() if other is not level)
    with _Only(others):
        # As if dual tensors did not require grad.
        ctx.needs_input_grad = tuple(isinstance(x, Tensor) and _has_history(x, level=level) for x in args)
        sliced = any(isinstance(x, Tensor) and _C._is_batched(x) for x in args)
        if cls.setup_context is not Function.setup_context and (sliced or have_tangents(args)):
            # The call itself is one for outer levels, and for `vmap`.
            output = cls.apply(*args)
            before = _C._set_grad_enabled(False)
            try:
                cls.setup_context(ctx, args, output)
            finally:
                _C._set_grad_enabled(before)
            produced = _with_bases(output)
        else:
            with _Only(()):
                made = cls._call_forward(ctx, args)
                produced = _with_bases(made)
                recorded = keep and any(isinstance(x, Tensor) and x.requires_grad for x in args)
                output = cls._record(ctx, args, made, recorded)
        dirty, fixed = ctx._dirty, ctx._non_differentiable
        given = tuple(
            _C.zeros_like(x) if ctx._materialize and t is None and isinstance(x, Tensor) and x.dtype.is_floating_point
            else t
            for x, t in zip(args, tangents, strict=True)
        )  # fmt: skip
        versions = [t._version if isinstance(t, Tensor) and not t.is_inference() else None for t in given]
        ctx._in_jvp = True  # type: ignore[attr-defined]
        try:
            found = _as_tuple(cls.jvp(ctx, *given))
        finally:
            ctx._in_jvp = False  # type: ignore[attr-defined]
    outputs = _as_tuple(output)
    if len(found) != len(outputs):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(outputs)} but got "
            f"{len(found)})"
        )
    duals = []
    for i, (o, (raw, base), t) in enumerate(zip(outputs, produced, found, strict=True)):
        if t is not None and not isinstance(t, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(t).__name__}) for grad output {i}.")
        if not isinstance(o, Tensor) or not o.dtype.is_floating_point or any(raw is x for x in fixed):
            if t is not None and isinstance(o, Tensor):
                raise RuntimeError(
                    f"Function's jvp returned a gradient at position {i}, but the output there is not differentiable. "
                    "You should return None at that position instead."
                )
            duals.append(o)
            continue
        in_place = any(raw is x for x in dirty)
        _check_aliasing(args, given, raw, base, t, in_place, versions)
        if t is None:
            duals.append(o if in_place else _severed(level, o))
        else:
            duals.append(_made(level, o, t, in_place))
    return duals[0] if not isinstance(output, tuple) else tuple(duals)


def _with_bases(outputs: Any) -> list[tuple[Any, Tensor | None]]:
    """Outputs with the tensors that they are views of."""
    return [(o, o._base if isinstance(o, Tensor) and o._is_view() else None) for o in _as_tuple(outputs)]


def _check_aliasing(
    args: Any, tangents: Any, raw: Tensor, base: Tensor | None, t: Any, in_place: bool, versions: list[int | None]
) -> None:
    """Tangents must be views, or be written in place, where the results are. Versions are those before the call."""
    for x, given, version in zip(args, tangents, versions, strict=True):
        if not isinstance(x, Tensor) or not isinstance(given, Tensor):
            continue
        if in_place:
            if raw is x and (t is not given or t._version == version):
                raise RuntimeError(
                    "An inplace custom Function is not modifying the forward mode gradients inplace: where forward "
                    "writes to an input, the jvp function must modify the corresponding gradient inplace and return it."
                )
            continue
        start = "A custom Function's forward is returning a view (or an input as-is) but the jvp is "
        if raw is x or (base is not None and base is x):
            if t is None or t is given or not t._is_view():
                raise RuntimeError(start + "not returning a view.")
            if t._base is not given and t._base is not given._base:
                raise RuntimeError(start + "not returning a view of the given tangent, as forward does of its input.")
        elif base is not None and base is x._base and (t is None or not _same_base(t, given)):
            raise RuntimeError(start + "not returning a view of the same base as the tangent of the input.")


def _same_base(view: Tensor, other: Tensor) -> bool:
    return view._is_view() and view._base is (other if other._base is None else other._base)


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)
