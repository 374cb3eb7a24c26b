"""The part of `gradcheck` that compares the derivatives of forward mode with finite differences."""

from __future__ import annotations

from collections.abc import Sequence

import rgrad
from rgrad import _C
from rgrad._C import Tensor
from rgrad._vmap import level_of

from . import forward_ad
from .gradcheck import (
    GradcheckError,
    _analytical_mismatch,
    _as_tuple,
    _central,
    _Check,
    _close,
    _direction,
    _in_slow_mode,
    _numerical_jacobian,
    _unit_vectors,
)

Tangents = list[Tensor | None]


def _push(check: _Check, tangents: dict[int, Tensor]) -> Tangents:
    """The tangents of the outputs, for tangents of the inputs by position; other inputs have none."""
    inputs = list(check.inputs)
    for place in check.places:
        # Without a history, as forward mode needs none; a function that differentiates its inputs does.
        inputs[place] = inputs[place].detach().requires_grad_(check.differentiates)
    with forward_ad.dual_level():
        for place, tangent in tangents.items():
            inputs[place] = forward_ad.make_dual(inputs[place], tangent)
        outputs = _as_tuple(check.func(*inputs))
        # Not `no_grad`, for which a level enters a mode.
        before = _C._set_grad_enabled(False)
        try:
            pushed = [forward_ad.unpack_dual(o).tangent if isinstance(o, Tensor) else None for o in outputs]
        finally:
            _C._set_grad_enabled(before)
    return [None if t is None else t.detach() for t in pushed]


def _jacobian(check: _Check, place: int, outputs: Sequence[Tensor]) -> list[Tensor]:
    """For every output, a matrix with a row per element of the input and a column per element of the output."""
    point = check.inputs[place]
    zeros = _zeros(check)
    matrices = [_C.zeros((point.numel(), o.numel()), dtype=_dtype(o), device=o.device) for o in outputs]
    for row, unit in enumerate(_unit_vectors(point.detach())):
        for matrix, tangent, output in zip(matrices, _push(check, {**zeros, place: unit}), outputs, strict=True):
            if tangent is not None:
                _check_tangent(check, tangent, output)
                matrix[row] = tangent.reshape(-1)
    return matrices


def _zeros(check: _Check) -> dict[int, Tensor]:
    return {place: _C.zeros_like(check.inputs[place].detach()) for place in check.places}


def _dtype(output: Tensor) -> _C.dtype:
    return output.dtype if output.is_floating_point() else rgrad.get_default_dtype()


def _check_tangent(check: _Check, tangent: Tensor, output: Tensor) -> None:
    if tangent.shape != output.shape:
        raise GradcheckError("Forward mode gradient has incorrect size")
    if check.check_grad_dtypes and tangent.dtype != output.dtype:
        raise GradcheckError("Gradient has dtype mismatch")


def compare_matrices(check: _Check, all_outputs: Sequence[Tensor]) -> None:
    """Slow mode."""
    tracked = [k for k, o in enumerate(all_outputs) if o.requires_grad]
    for j, (place, point) in enumerate(zip(check.places, check.points, strict=True)):
        numerical = _numerical_jacobian(check, point, all_outputs)
        analytical = _jacobian(check, place, all_outputs)
        for i, k in enumerate(tracked):
            if not _close(analytical[k], numerical[k], check.rtol, check.atol):
                raise GradcheckError(_analytical_mismatch(i, j, numerical[k], analytical[k], "with forward mode "))


def compare_products(check: _Check, all_outputs: Sequence[Tensor]) -> None:
    """Fast mode."""
    generator = _C.Generator()
    tracked = [k for k, o in enumerate(all_outputs) if o.requires_grad]
    vs = {k: _direction(all_outputs[k], generator) for k in tracked}
    for j, (place, point) in enumerate(zip(check.places, check.points, strict=True)):
        u = _direction(point, generator)
        numerical = _central(check, point, u.view(point.shape) * check.eps, "")
        tangents = _push(check, {**_zeros(check), place: u.view(point.shape)})
        for i, k in enumerate(tracked):
            v, tangent = vs[k], tangents[k]
            if tangent is not None:
                _check_tangent(check, tangent, all_outputs[k])
            n = (v * numerical[k]).sum()
            a = _C.zeros_like(n) if tangent is None else (v * tangent.reshape(-1)).sum()
            # An error of atol in every element of J adds up to this in v'Ju.
            atol = check.atol * float(u.sum()) * float(v.sum())
            if not _close(a, n, check.rtol, atol):
                matrix = _numerical_jacobian(check, point, all_outputs)[k]
                raise GradcheckError(
                    _analytical_mismatch(i, j, n, a, "with forward mode ")
                    + _in_slow_mode(check, matrix, _jacobian(check, place, all_outputs)[k])
                )


def check_undefined(check: _Check) -> None:
    """A tangent of zeros is as good as none."""
    generator = _C.Generator()
    directions = {p: _direction(check.inputs[p], generator).view(check.inputs[p].shape) for p in check.places}
    for place in check.places:
        zeros = _push(check, {**directions, place: _C.zeros_like(directions[place])})
        others = {p: u for p, u in directions.items() if p != place}
        none: Tangents = _push(check, others) if others else [None for _ in zeros]
        for k, (a, b) in enumerate(zip(zeros, none, strict=True)):
            like = b if a is None else a
            if like is None:
                continue
            a, b = (_C.zeros_like(like) if t is None else t for t in (a, b))
            if not _close(a, b, check.rtol, check.atol):
                raise GradcheckError(
                    f"Expected output {k} to have the same tangent when input {place} has a tangent of zeros and when "
                    "it has none: jvp must be linear. check_undefined_grad=False leaves this check out."
                )


def check_batched(check: _Check) -> None:
    """Tangents of a batch of tangents equal those of its members."""
    for j, (place, point) in enumerate(zip(check.places, check.points, strict=True)):
        tangents = [_C.randn_like(point.detach()) for _ in range(2)]
        kept: list[int] = []

        def push(tangent: Tensor, place: int = place, kept: list[int] = kept) -> tuple[Tensor, ...]:
            pushed = _push(check, {place: tangent})
            kept[:] = [k for k, t in enumerate(pushed) if t is not None]
            return tuple(t for t in pushed if t is not None)

        single = [push(t) for t in tangents]
        if not kept:
            continue
        try:
            with level_of(2, "error") as level:
                pushed = push(_C._add_batch_dim(_C.stack(tangents), 0, level))
                batched = [_C._remove_batch_dim(t, level, 2, 0) for t in pushed]
        except RuntimeError as error:
            if "randomness error mode" not in str(error):
                raise
            raise RuntimeError(
                "vmap: We do not yet support calling random operations inside of vmap, as a batch is to give what its "
                "members give"
            ) from error
        for k, whole, parts in zip(kept, batched, zip(*single, strict=True), strict=True):
            if not _C.allclose(whole, _C.stack(list(parts))):
                raise GradcheckError(
                    f"For output {k} and input {j}:\n\ngradcheck or gradgradcheck failed while testing batched "
                    f"forward gradient computation.\n\nGot:\n{whole}\n\nExpected:\n{_C.stack(list(parts))}"
                )
