"""Initialization of parameters. Each function fills its tensor in place, unrecorded, and returns it."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import _C

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

# See `calculate_gain`. "leaky_relu" is missing, since its gain depends on the slope.
_GAINS: dict[str, float] = {
    "linear": 1,
    "conv1d": 1,
    "conv2d": 1,
    "conv3d": 1,
    "conv_transpose1d": 1,
    "conv_transpose2d": 1,
    "conv_transpose3d": 1,
    "sigmoid": 1,
    "tanh": 5 / 3,
    "relu": math.sqrt(2),
    "selu": 3 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Returns the factor by which weights before a nonlinearity are scaled to keep the variance.

    Args:
        nonlinearity: its name in ``nn.functional``.
        param: the negative slope, for ``leaky_relu``; 0.01 by default.

    Returns:
        1 for linear maps and sigmoid, 5/3 for tanh, ``sqrt(2)`` for relu, ``sqrt(2 / (1 + param**2))`` for
        leaky_relu, 3/4 for selu.

    Raises:
        ValueError: the name is none of these, or the slope is not a number.

    Example:
        >>> rgrad.nn.init.calculate_gain("tanh")
        1.6666666666666667
    """
    if nonlinearity == "leaky_relu":
        return _leaky_gain(0.01 if param is None else param)
    gain = _GAINS.get(nonlinearity)
    if gain is None:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return gain


def _leaky_gain(slope: Any) -> float:
    """The gain that preserves the mean square, given that a leaky ReLU scales half of it by ``slope**2``."""
    if isinstance(slope, bool) or not isinstance(slope, (int, float)):
        raise ValueError(f"negative_slope {slope} not a valid number")
    return math.sqrt(2 / (1 + slope**2))


def uniform_(tensor: _C.Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> _C.Tensor:
    """Fills with values from the uniform distribution over ``[a, b)``.

    Args:
        tensor: of a floating point dtype.
        a: lower bound.
        b: upper bound.
        generator: source of random numbers.
    """
    with rgrad.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: _C.Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> _C.Tensor:
    """Fills with values from the normal distribution.

    Args:
        tensor: of a floating point dtype.
        mean: mean of the distribution.
        std: its standard deviation.
        generator: source of random numbers.
    """
    with rgrad.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: _C.Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> _C.Tensor:
    """Fills with values from the normal distribution, restricted to ``[a, b]``.

    Args:
        tensor: of a floating point dtype.
        mean: mean of the distribution before it is restricted.
        std: its standard deviation.
        a: lower bound.
        b: upper bound.
        generator: source of random numbers.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )
    if tensor.is_meta:
        return tensor
    scale = std * math.sqrt(2.0)
    inside = (math.erf((b - mean) / scale) - math.erf((a - mean) / scale)) / 2
    # Rejection sampling: normal proposals if most of them are inside, else uniform ones, accepted with the probability
    # density relative to its maximum in the interval.
    mode = max(a, min(mean, b))
    peak = -0.5 * ((mode - mean) / std) ** 2
    with rgrad.no_grad():
        refused = None
        while refused is None or refused.any():
            values = rgrad.empty_like(tensor)
            if inside > 0.3:
                values.normal_(mean, std, generator=generator)
                outside = (values < a) | (values > b)
            else:
                values.uniform_(a, b, generator=generator)
                log_density = ((values - mean) / std) ** 2 * -0.5 - peak
                outside = rgrad.empty_like(tensor).uniform_(generator=generator).log() > log_density
            if refused is None:
                tensor.copy_(values)
                refused = outside
            else:
                tensor.copy_(rgrad.where(refused, values, tensor))
                refused = refused & outside
        return tensor


def constant_(tensor: _C.Tensor, val: float) -> _C.Tensor:
    """Fills with ``val``."""
    with rgrad.no_grad():
        return tensor.fill_(val)


def ones_(tensor: _C.Tensor) -> _C.Tensor:
    """Fills with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: _C.Tensor) -> _C.Tensor:
    """Fills with zeros."""
    with rgrad.no_grad():
        return tensor.zero_()


def eye_(tensor: _C.Tensor) -> _C.Tensor:
    """Fills a matrix with the identity."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with rgrad.no_grad():
        return tensor.copy_(rgrad.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: _C.Tensor, groups: int = 1) -> _C.Tensor:
    """Fills the weight of a convolution such that as many channels as possible pass through unchanged.

    Args:
        tensor: the weight, ``(out, in / groups, *kernel)`` with one to three dimensions of the kernel.
        groups: number of blocks of channels.

    Raises:
        ValueError: the tensor has another number of dimensions, or the groups don't divide its first size.
    """
    dimensions = tensor.dim()
    if dimensions not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    out_channels = tensor.size(0)
    if out_channels % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = out_channels // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    with rgrad.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, tensor.size(1))):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: _C.Tensor) -> tuple[int, int]:
    """Returns fan-in and fan-out: the inputs per output, and the outputs per input."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def _calculate_correct_fan(tensor: _C.Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of {['fan_in', 'fan_out']}")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def xavier_uniform_(tensor: _C.Tensor, gain: float = 1.0, generator: Any = None) -> _C.Tensor:
    """Fills from U(-k, k), ``k = gain * sqrt(6 / (fan_in + fan_out))``, Glorot's (AISTATS 2010, equation 16).

    Args:
        tensor: the weight, at least two-dimensional.
        gain: see :func:`calculate_gain`.
        generator: source of random numbers.
    """
    bound = gain * math.sqrt(6.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: _C.Tensor, gain: float = 1.0, generator: Any = None) -> _C.Tensor:
    """Fills from N(0, s), ``s = gain * sqrt(2 / (fan_in + fan_out))``, Glorot's (AISTATS 2010, equation 12).

    Args:
        tensor: the weight, at least two-dimensional.
        gain: see :func:`calculate_gain`.
        generator: source of random numbers.
    """
    std = gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return normal_(tensor, 0.0, std, generator)


def _kaiming_std(tensor: _C.Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def _warn_if_empty(tensor: _C.Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def kaiming_uniform_(
    tensor: _C.Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> _C.Tensor:
    """Fills from U(-k, k), ``k = gain * sqrt(3 / fan)`` (arXiv:1502.01852, equation 15).

    Args:
        tensor: the weight, at least two-dimensional.
        a: negative slope of the ReLU that follows (with ``leaky_relu``).
        mode: ``'fan_in'`` keeps the variance in the forward pass, ``'fan_out'`` in the backward pass.
        nonlinearity: name of the following function in ``nn.functional``.
        generator: source of random numbers.
    """
    if _warn_if_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: _C.Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> _C.Tensor:
    """Fills from N(0, gain / sqrt(fan)); the arguments are those of :func:`kaiming_uniform_`."""
    if _warn_if_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: _C.Tensor, gain: float = 1, generator: Any = None) -> _C.Tensor:
    """Fills with a uniformly distributed (semi-)orthogonal matrix; dimensions after the first are flattened.

    Args:
        tensor: at least two-dimensional, of a floating point dtype.
        gain: factor of the matrix.
        generator: source of random numbers.

    Raises:
        ValueError: the tensor has fewer dimensions.
    """
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.size(0), tensor.numel() // tensor.size(0)
    with rgrad.no_grad():
        drawn = rgrad.empty(rows, columns, dtype=tensor.dtype, device=tensor.device)
        vectors = drawn.normal_(0, 1, generator=generator).to(rgrad.float64)
        if rows > columns:
            vectors = vectors.t().contiguous()
        # Gram-Schmidt over the rows; the second projection removes the rounding error of the first.
        for index in range(vectors.size(0)):
            vector, earlier = vectors[index], vectors[:index]
            for _ in range(2):
                vector = vector - (earlier @ vector) @ earlier
            vectors[index] = vector / vector.norm()
        if rows > columns:
            vectors = vectors.t()
        return tensor.copy_(vectors.reshape(tensor.shape)).mul_(gain)


def sparse_(tensor: _C.Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> _C.Tensor:
    """Fills a matrix from N(0, std), with a fraction ``sparsity`` of each column zero.

    Args:
        tensor: two-dimensional, of a floating point dtype.
        sparsity: between 0 and 1.
        std: standard deviation of the other elements.
        generator: source of random numbers.

    Raises:
        ValueError: the tensor has another number of dimensions.
    """
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with rgrad.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[rgrad.randperm(rows)[:zeros], column] = 0
    return tensor


def _renamed(function: Callable[..., _C.Tensor]) -> Callable[..., _C.Tensor]:
    """Creates the older form of an initializer, without the underscore in its name."""
    new_name = function.__name__
    old_name = new_name[:-1]

    @functools.wraps(function)
    def renamed(*args: Any, **kwargs: Any) -> _C.Tensor:
        warnings.warn(
            f"`nn.init.{old_name}` is now deprecated in favor of `nn.init.{new_name}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    renamed.__name__ = old_name
    return renamed


uniform = _renamed(uniform_)
normal = _renamed(normal_)
constant = _renamed(constant_)
eye = _renamed(eye_)
dirac = _renamed(dirac_)
xavier_uniform = _renamed(xavier_uniform_)
xavier_normal = _renamed(xavier_normal_)
kaiming_uniform = _renamed(kaiming_uniform_)
kaiming_normal = _renamed(kaiming_normal_)
orthogonal = _renamed(orthogonal_)
sparse = _renamed(sparse_)


# The names by which packages call the unrecorded forms.
_no_grad_uniform_ = uniform_
_no_grad_normal_ = normal_
_no_grad_trunc_normal_ = trunc_normal_
_no_grad_fill_ = constant_
_no_grad_zero_ = zeros_
