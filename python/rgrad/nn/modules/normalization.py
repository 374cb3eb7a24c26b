"""Normalization within a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad import _C

from .. import _core, init
from .. import functional as F
from ..parameter import Parameter
from .module import Module

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]

_layer_norm = _core.layer_norm
_group_norm = _core.group_norm


class LayerNorm(Module):
    """Normalizes over the last dimensions.

    Args:
        normalized_shape: sizes of the dimensions normalized over; one number means the last dimension.
        eps: added to the variance.
        elementwise_affine: whether a scale and a shift per element are learned.
        bias: whether the shift is learned (with ``elementwise_affine``).

    Shape:
        Input and output: ``(*, *normalized_shape)``.

    Example:
        >>> rgrad.nn.LayerNorm(8)(rgrad.zeros(2, 5, 8)).shape
        torch.Size([2, 5, 8])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            _register(self, name, self.normalized_shape if wanted else None, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets scale 1 and shift 0."""
        _reset(self.weight, self.bias)

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return _layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Normalizes over groups of channels.

    Args:
        num_groups: number of groups.
        num_channels: number of channels, a multiple of ``num_groups``.
        eps: added to the variance.
        affine: whether a scale and a shift per channel are learned.
        bias: whether the shift is learned (with ``affine``).

    Shape:
        Input and output: ``(N, num_channels, *)``.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            _register(self, name, (num_channels,) if wanted else None, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets scale 1 and shift 0."""
        _reset(self.weight, self.bias)

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return _group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides by the root of the mean square over the last dimensions.

    Args:
        normalized_shape: sizes of these dimensions; one number means the last dimension.
        eps: added to the mean square; by default the precision of the input's dtype.
        elementwise_affine: whether a scale per element is learned.

    Shape:
        Input and output: ``(*, *normalized_shape)``.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        _register(self, "weight", self.normalized_shape if elementwise_affine else None, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets scale 1."""
        _reset(self.weight, None)

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LocalResponseNorm(Module):
    """Divides by a power of the mean square over ``size`` neighboring channels.

    Shape:
        Input and output: ``(N, C, *)``.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """Divides by a power of the mean square over neighboring channels, as AlexNet did.

    With p = (size + 1) // 2, channel c is divided by ``(k + alpha / size * sum(x[j]**2)) ** beta`` where j runs over
    the channels from c - p + 1 to c + p - 1, and over channel 0, as PyTorch's running sum never drops it.

    Args:
        size: number of channels by which the sum is divided.
        alpha: factor of the mean square.
        beta: the exponent.
        k: what is added to the mean square.

    Shape:
        Input and output: ``(N, C, H, W)``.

    >>> rgrad.nn.CrossMapLRN2d(3)(rgrad.zeros(1, 4, 2, 2)).shape
    torch.Size([1, 4, 2, 2])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        channel = rgrad.arange(input.size(1), device=input.device)
        near = (channel.unsqueeze(1) - channel).abs() < (self.size + 1) // 2
        near[:, :1] = True
        squares = (input * input).flatten(2)
        sums = (near.to(input.dtype) @ squares).view(input.shape)
        return (sums * (self.alpha / self.size) + self.k).pow(-self.beta) * input

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


def _as_shape(sizes: int | Sequence[int]) -> tuple[int, ...]:
    return (sizes,) if isinstance(sizes, int) else tuple(sizes)


def _register(module: Module, name: str, shape: tuple[int, ...] | None, device: Any, dtype: Any) -> None:
    parameter = None if shape is None else Parameter(rgrad.empty(shape, device=device, dtype=dtype))
    module.register_parameter(name, parameter)


def _reset(weight: Parameter | None, bias: Parameter | None) -> None:
    if weight is not None:
        init.ones_(weight)
    if bias is not None:
        init.zeros_(bias)
