"""Functions that divide by a norm or by a deviation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import rgrad
from rgrad import _C

from ._operations import batch_norm

Tensor = _C.Tensor
_nn = _C._nn


def normalize(
    input: Tensor, p: float = 2.0, dim: int | Sequence[int] = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Divides by the p-norm along ``dim``, clamped to at least ``eps``.

    Args:
        input: a tensor of a floating point dtype.
        p: degree of the norm.
        dim: one dimension or several.
        eps: the minimum norm.
        out: where the result is written.

    >>> rgrad.nn.functional.normalize(rgrad.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / norm if out is None else rgrad.div(input, norm, out=out)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divides by the root of the mean square over the last dimensions: ``x / sqrt(mean(x**2) + eps) * weight``.

    Args:
        input: ``(*, *normalized_shape)``, of a floating point dtype.
        normalized_shape: sizes of the last dimensions, over which the mean is taken.
        weight: factors, of that shape.
        eps: added to the mean; the dtype's machine epsilon by default.

    Returns:
        A tensor of the input's shape and dtype.

    Raises:
        RuntimeError: the input does not end with these sizes, or the weight has others.
    """
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    if tuple(input.shape[input.dim() - len(shape) :]) != shape:
        expected = "*" + ", ".join(map(str, shape))
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [{expected}], but got input of "
            f"size{list(input.shape)}"
        )
    if weight is not None and tuple(weight.shape) != shape:
        raise RuntimeError(
            "Expected weight to be of same shape as normalized_shape, but got weight of shape "
            f"{list(weight.shape)} and normalized_shape = {list(shape)}"
        )
    if eps is None:
        eps = rgrad.finfo(input.dtype).eps
    dims = tuple(range(-len(shape), 0))
    # Half types keep too few digits for a mean of squares.
    is_half = input.dtype in (rgrad.float16, rgrad.bfloat16)
    # Deferred, so that a large input is read once, by one fused kernel.
    with _C._Region():
        wide = input.float() if is_half else input
        result = wide * ((wide * wide).mean(dims, keepdim=True) + eps).rsqrt()
        if weight is not None:
            result = result * weight
        return result.to(input.dtype) if is_half else result


def _instance_norm_without_eps(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float,
    eps: float,
) -> Tensor:
    """Batch norm refuses an eps of 0; the norm of groups of one channel takes it, and has no statistics to update."""
    with rgrad.no_grad():
        for running, unbiased in ((running_mean, input.mean), (running_var, input.var)):
            if running is not None:
                new = unbiased(tuple(range(2, input.dim()))).mean(0)
                running.mul_(1 - momentum).add_(new.to(running.dtype), alpha=momentum)
    return _nn.group_norm(input, input.size(1), weight, bias, eps)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalizes every channel of every sample by itself.

    It is the batch norm of one sample whose channels are those of the whole batch; running statistics are
    then averaged over the batch.

    Args:
        input: ``(N, C, *)``, of a floating point dtype.
        running_mean: ``(C,)``; updated in place with `use_input_stats`, used without it.
        running_var: as `running_mean`.
        weight: factors, ``(C,)``.
        bias: what is added then, ``(C,)``.
        use_input_stats: whether mean and variance are those of the input.
        momentum: how much of the new statistics goes into the running ones.
        eps: added to the variance.

    Raises:
        ValueError: each channel has but one element, whose variance is nothing to divide by.
    """
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {rgrad.Size(input.shape)}"
        )
    batch, channels = input.shape[:2]

    def repeated(values: Tensor | None) -> Tensor | None:
        return None if values is None else values.repeat(batch)

    if use_input_stats and eps <= 0:
        return _instance_norm_without_eps(input, running_mean, running_var, weight, bias, momentum, eps)
    mean, variance = repeated(running_mean), repeated(running_var)
    merged = input.contiguous().view(1, batch * channels, *input.shape[2:])
    result = batch_norm(merged, mean, variance, repeated(weight), repeated(bias), use_input_stats, momentum, eps)
    if use_input_stats:
        with rgrad.no_grad():
            for running, updated in ((running_mean, mean), (running_var, variance)):
                if running is not None and updated is not None:
                    running.copy_(updated.view(batch, channels).mean(0))
    return result.view(input.shape)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divides by a power of the mean square over ``size`` adjacent channels."""
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)")
    if input.numel() == 0:
        return input
    square = input * input
    rows = square.reshape(input.size(0), 1, input.size(1), math.prod(input.shape[2:]))
    padded = _nn.pad(rows, (0, 0, size // 2, (size - 1) // 2))
    mean = _nn.avg_pool2d(padded, (size, 1), stride=1).reshape(input.shape)
    return input / (mean * alpha + k).pow(beta)
