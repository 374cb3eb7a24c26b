"""Convolutions."""

import math
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import _C

from .. import _conv_backend as _conv_backend
from .. import _core, init
from .. import functional as F
from ..parameter import Parameter
from .module import Module
from .utils import _pair, _reverse_repeat_tuple, _single, _triple

__all__ = ["Conv1d", "Conv2d", "Conv3d"]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """Base class of the convolutions: parameters, padding, repr. Subclasses name the operation."""

    _operation: Callable[..., _C.Tensor]
    _expand: Callable[[Any], tuple]

    in_channels: int
    out_channels: int
    groups: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Any  # a string or a number for every dimension
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]
    padding_mode: str
    transposed: bool

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._set_channels(in_channels, out_channels, groups, transposed=False)
        self._set_window(kernel_size, stride, dilation, output_padding=0)
        self._set_padding(padding, padding_mode)
        self._make_parameters(bias, device, dtype)

    def _set_channels(self, in_channels: int, out_channels: int, groups: int, transposed: bool) -> None:
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name} must be divisible by groups")
            setattr(self, name, channels)
        self.groups = groups
        self.transposed = transposed

    def _set_window(self, kernel_size: Any, stride: Any, dilation: Any, output_padding: Any) -> None:
        """Sets the attributes that have one number for every spatial dimension."""
        expand = type(self)._expand
        self.kernel_size, self.stride, self.dilation = expand(kernel_size), expand(stride), expand(dilation)
        self.output_padding = expand(output_padding)

    def _set_padding(self, padding: Any, mode: str) -> None:
        if padding == "same" and any(step != 1 for step in self.stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}")
        if mode not in _PADDING_MODES:
            modes = ", ".join(map(repr, _PADDING_MODES))
            raise ValueError(f"padding_mode must be one of {{{modes}}}, but got padding_mode='{mode}'")
        self.padding = padding if isinstance(padding, str) else type(self)._expand(padding)
        self.padding_mode = mode
        self._reversed_padding_repeated_twice = self._padding_for_pad()

    def _make_parameters(self, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = Parameter(rgrad.empty(self._weight_shape(), device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(rgrad.empty(self.out_channels, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def _weight_shape(self) -> tuple[int, ...]:
        """``(out, in / groups, *kernel)``; for transposed convolutions, in and out are exchanged."""
        ends = (self.out_channels, self.in_channels)
        first, second = reversed(ends) if self.transposed else ends
        return (first, second // self.groups, *self.kernel_size)

    def _padding_for_pad(self) -> tuple[int, ...]:
        """Returns the padding as ``functional.pad`` takes it: last dimension first, both sides of each."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        if self.padding == "valid":
            return (0,) * (2 * len(self.kernel_size))
        sides: list[int] = []
        for dilation, size in zip(reversed(self.dilation), reversed(self.kernel_size), strict=True):
            total = dilation * (size - 1)
            sides += [total // 2, total - total // 2]
        return tuple(sides)

    def reset_parameters(self) -> None:
        """Draws new initial values, from U(-k, k) with k = 1 / sqrt(fan_in)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _conv_forward(self, input: _C.Tensor, weight: _C.Tensor, bias: _C.Tensor | None) -> _C.Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return self._operation(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        ones, zeros = (1,) * len(self.dilation), (0,) * len(self.dilation)
        if self.padding != zeros:
            text += f", padding={self.padding}"
        if self.dilation != ones:
            text += f", dilation={self.dilation}"
        if self.output_padding != zeros:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class Conv1d(_ConvNd):
    """Convolves over one dimension.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the kernel.
        stride: step of the kernel.
        padding: what is added on both sides; a size, ``'valid'`` (none) or ``'same'`` (keep the size).
        dilation: distance between kernel elements.
        groups: number of groups of channels; outputs of a group depend on its inputs only.
        bias: whether to add a learned bias.
        padding_mode: ``'zeros'``, ``'reflect'``, ``'replicate'`` or ``'circular'``.

    Shape:
        Input: ``(N, in_channels, L)`` or without N. Output: ``(N, out_channels, L_out)`` with
        ``L_out = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``.
    """

    _operation = staticmethod(_core.conv1d)
    _expand = staticmethod(_single)


class Conv2d(_ConvNd):
    """Convolves over two dimensions.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the kernel, one number or a pair.
        stride: step of the kernel.
        padding: what is added on all sides; a size, a pair, ``'valid'`` (none) or ``'same'`` (keep the size).
        dilation: distance between kernel elements.
        groups: number of groups of channels; outputs of a group depend on its inputs only.
        bias: whether to add a learned bias.
        padding_mode: ``'zeros'``, ``'reflect'``, ``'replicate'`` or ``'circular'``.

    Shape:
        Input: ``(N, in_channels, H, W)`` or without N. Output: ``(N, out_channels, H_out, W_out)`` with
        ``H_out = (H + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``.

    Example:
        >>> layer = rgrad.nn.Conv2d(1, 6, 5)
        >>> layer(rgrad.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 6, 24, 24])
    """

    _operation = staticmethod(_core.conv2d)
    _expand = staticmethod(_pair)


class Conv3d(_ConvNd):
    """Convolves over three dimensions; the arguments are those of :class:`Conv2d` with triples for pairs.

    Shape:
        Input: ``(N, in_channels, D, H, W)`` or without N. Output: ``(N, out_channels, D_out, H_out, W_out)``.
    """

    _operation = staticmethod(_core.conv3d)
    _expand = staticmethod(_triple)
