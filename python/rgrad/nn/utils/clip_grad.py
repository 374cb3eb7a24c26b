"""Limiting the size of gradients."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable

import rgrad
from rgrad import _C

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _as_list(tensors: _C.Tensor | Iterable[_C.Tensor]) -> list[_C.Tensor]:
    return [tensors] if isinstance(tensors, _C.Tensor) else list(tensors)


def get_total_norm(
    tensors: _C.Tensor | Iterable[_C.Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> _C.Tensor:
    """Returns the norm of all tensors as if they were one vector.

    Args:
        tensors: a tensor or several.
        norm_type: degree of the norm; ``float('inf')`` for the largest absolute value.
        error_if_nonfinite: whether a norm that is nan or infinite is an error.
        foreach: accepted and without effect; there is one implementation.
    """
    tensors, norm_type = _as_list(tensors), float(norm_type)
    if not tensors:
        return rgrad.tensor(0.0)
    with rgrad.no_grad():
        if norm_type > 0 and all(
            t.device == tensors[0].device and t.is_cuda and t.dtype == rgrad.float32 for t in tensors
        ):
            # On a device, one launch processes many tensors.
            total = _C._optim.total_norm(tensors, norm_type)
        else:
            norms = [tensor.norm(norm_type).to(tensors[0].device) for tensor in tensors]
            total = rgrad.stack(norms).norm(norm_type)
        if error_if_nonfinite and not rgrad.isfinite(total):
            raise RuntimeError(
                f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
                "clipped. With `error_if_nonfinite=False` the gradients are scaled by it all the same."
            )
    return total


def clip_grads_with_norm_(
    parameters: _C.Tensor | Iterable[_C.Tensor],
    max_norm: float,
    total_norm: _C.Tensor,
    foreach: bool | None = None,
) -> None:
    """Scales the gradients, whose norm is ``total_norm``, so that it becomes at most ``max_norm``."""
    grads = [parameter.grad for parameter in _as_list(parameters) if parameter.grad is not None]
    if not grads:
        return
    with rgrad.no_grad():
        # Multiplies even if the factor is 1: testing the factor would require a device synchronization.
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        alike: dict[rgrad.device, list[_C.Tensor]] = {}
        for grad in grads:
            if grad.dtype == rgrad.float32:
                alike.setdefault(grad.device, []).append(grad)
            else:
                grad.mul_(factor.to(grad.device))
        for device, some in alike.items():
            _C._optim.scale_all(some, factor.to(device))


def clip_grad_norm_(
    parameters: _C.Tensor | Iterable[_C.Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> _C.Tensor:
    """Scales the gradients of all parameters so that their norm, as one vector, is at most ``max_norm``.

    Args:
        parameters: a parameter or several; those without gradient are skipped.
        max_norm: the largest norm.
        norm_type: degree of the norm.
        error_if_nonfinite: whether a norm that is nan or infinite is an error.
        foreach: accepted and without effect; there is one implementation.

    Returns:
        The norm before scaling.
    """
    generated = isinstance(parameters, types.GeneratorType)
    parameters = _as_list(parameters)
    if generated and not parameters:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    total_norm = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total_norm, foreach)
    return total_norm


def clip_grad_norm(
    parameters: _C.Tensor | Iterable[_C.Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> _C.Tensor:
    """Deprecated alias of :func:`clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: _C.Tensor | Iterable[_C.Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Limits every element of every gradient to ``[-clip_value, clip_value]``."""
    limit = float(clip_value)
    with rgrad.no_grad():
        for parameter in _as_list(parameters):
            if parameter.grad is not None:
                parameter.grad.clamp_(min=-limit, max=limit)
