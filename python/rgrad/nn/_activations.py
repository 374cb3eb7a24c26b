"""Activations: in-place forms, and those that are composed of operations."""

from __future__ import annotations

import warnings
from typing import Any

import rgrad
from rgrad import _C

from ._forwarding import checked_by_the_core
from ._operations import celu, elu, hardtanh, leaky_relu, relu, selu

Tensor = _C.Tensor
_nn = _C._nn


@checked_by_the_core
def sigmoid(input: Tensor) -> Tensor:
    """Calls :meth:`Tensor.sigmoid`, which is ``1 / (1 + exp(-x))``."""
    return input.sigmoid()


@checked_by_the_core
def tanh(input: Tensor) -> Tensor:
    """Calls :meth:`Tensor.tanh`, the hyperbolic tangent."""
    return input.tanh()


def relu_(input: Tensor) -> Tensor:
    """Applies :func:`relu` in place."""
    return relu(input, inplace=True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Applies :func:`leaky_relu` in place."""
    return leaky_relu(input, negative_slope, inplace=True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Applies :func:`elu` in place."""
    return elu(input, alpha, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """Applies :func:`selu` in place."""
    return selu(input, inplace=True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Applies :func:`celu` in place."""
    return celu(input, alpha, inplace=True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Applies :func:`hardtanh` in place."""
    return hardtanh(input, min_val, max_val, inplace=True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """Applies :func:`threshold` in place."""
    return _nn.threshold(input, threshold, value, inplace=True)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Leaky ReLU whose slope is drawn per element from U(lower, upper), or in evaluation is their mean.

    Args:
        input: a tensor of a floating point dtype.
        lower: smallest slope for negative elements.
        upper: largest slope.
        training: whether to draw slopes.
        inplace: whether to write to the input.
    """
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, got {lower} and {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace=inplace)
    with rgrad.no_grad():
        slopes = rgrad.empty_like(input).uniform_(lower, upper)
        slopes = rgrad.where(input <= 0, slopes, rgrad.ones_like(input))
    return input.mul_(slopes) if inplace else input * slopes


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """Applies :func:`rrelu` in place."""
    return rrelu(input, lower, upper, training, inplace=True)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Multiplies the first half of ``input`` along ``dim`` with the sigmoid of the second.

    Args:
        input: a tensor of a floating point dtype, of size ``2 * k`` in ``dim``.
        dim: the dimension that is halved.

    Returns:
        A tensor of size ``k`` in that dimension.

    Raises:
        RuntimeError: the size is odd.
    """
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    size = input.size(dim)
    if size % 2 != 0:
        where = dim if dim >= 0 else dim + input.dim()
        raise RuntimeError(f"Halving dimension must be even, but dimension {where} is size {size}")
    values, gates = input.chunk(2, dim)
    return values * gates.sigmoid()


def _warn_of_chosen_dim(name: str, stacklevel: int) -> None:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Divides exponentials by their sum: ``exp(x) / sum(exp(x))`` along ``dim``.

    Args:
        input: a tensor of a floating point dtype.
        dim: along which the values add up to 1; chosen by the rank, with a warning, if not given.
        dtype: to which the input is cast first.

    Returns:
        A tensor of the input's shape.

    >>> rgrad.nn.functional.softmax(rgrad.zeros(2), dim=0)
    tensor([0.5000, 0.5000])
    """
    if dim is None:
        _warn_of_chosen_dim("softmax", _stacklevel)
    return _nn.softmax(input, dim, _stacklevel, dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Applies :func:`softmax` to the negated input.

    Args:
        input: a tensor of a floating point dtype.
        dim: along which the values add up to 1; chosen by the rank, with a warning, if not given.
        dtype: to which the input is cast first.

    Returns:
        A tensor of the input's shape.
    """
    if dim is None:
        _warn_of_chosen_dim("softmin", _stacklevel)
    return _nn.softmax(-input, dim, _stacklevel, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Takes the logarithm of :func:`softmax` without overflow: ``x - log(sum(exp(x)))`` along ``dim``.

    Args:
        input: a tensor of a floating point dtype.
        dim: along which the exponentials add up to 1; chosen by the rank, with a warning, if not given.
        dtype: to which the input is cast first.

    Returns:
        A tensor of the input's shape.
    """
    if dim is None:
        _warn_of_chosen_dim("log_softmax", _stacklevel)
    return _nn.log_softmax(input, dim, _stacklevel, dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Draws from the Gumbel-softmax distribution.

    Args:
        logits: log probabilities, not necessarily normalized.
        tau: temperature.
        hard: whether the values are one-hot (their gradient is that of the soft ones).
        eps: unused.
        dim: dimension of the classes.
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    with rgrad.no_grad():
        gumbels = -rgrad.empty_like(logits).exponential_().log()
    soft = softmax((logits + gumbels) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    one = rgrad.zeros_like(soft).scatter_(dim, index, 1.0)
    return one - soft.detach() + soft
