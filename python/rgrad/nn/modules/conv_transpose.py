"""Transposed convolutions: the maps that compute the input gradients of convolutions."""

from collections.abc import Callable, Sequence
from typing import Any

from rgrad import _C

from .. import _core
from .conv import _ConvNd
from .utils import _pair, _single, _triple

__all__ = ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _ConvTransposeNd(_ConvNd):
    """Base class of the transposed convolutions. Subclasses name the operation."""

    _transpose: Callable[..., _C.Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        # This skips the constructor of `_ConvNd`, whose arguments are those of a plain convolution.
        super(_ConvNd, self).__init__()
        self._set_channels(in_channels, out_channels, groups, transposed=True)
        self._set_window(kernel_size, stride, dilation, output_padding)
        self._set_padding(padding, padding_mode)
        self._make_parameters(bias, device, dtype)

    def _fitted_padding(self, input: _C.Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """The output padding that results in ``output_size``; with a stride, several output sizes are possible."""
        if output_size is None:
            return self.output_padding
        spatial = len(self.kernel_size)
        leading = 2 if input.dim() == spatial + 2 else 1
        wanted = list(output_size)
        if len(wanted) == leading + spatial:
            wanted = wanted[leading:]
        if len(wanted) != spatial:
            raise ValueError(
                f"ConvTranspose{spatial}D: for {input.dim()}D input, output_size must have {spatial} "
                f"or {leading + spatial} elements (got {len(wanted)})"
            )
        least = [
            (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1
            for size, stride, padding, dilation, kernel in zip(
                input.shape[leading:], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        ]
        most = [size + stride - 1 for size, stride in zip(least, self.stride, strict=True)]
        if any(not low <= size <= high for low, size, high in zip(least, wanted, most, strict=True)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range "
                f"from {least} to {most} (for an input of {input.size()[2:]})"
            )
        return tuple(size - low for size, low in zip(wanted, least, strict=True))

    def forward(self, input: _C.Tensor, output_size: Sequence[int] | None = None) -> _C.Tensor:
        """Applies the layer; ``output_size`` selects one of the output sizes that are possible with a stride."""
        return self._transpose(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._fitted_padding(input, output_size),
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution over one dimension; the arguments are those of :class:`ConvTranspose2d`.

    Shape:
        Input: ``(N, in_channels, L)`` or without N. Output: ``(N, out_channels, L_out)``.
    """

    _transpose = staticmethod(_core.conv_transpose1d)
    _expand = staticmethod(_single)


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution over two dimensions.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: size of the kernel, one number or a pair.
        stride: step of the kernel in the output.
        padding: how much is cut off on all sides.
        output_padding: how much is added on one side of the output.
        groups: number of groups of channels; outputs of a group depend on its inputs only.
        bias: whether to add a learned bias.
        dilation: distance between kernel elements.
        padding_mode: ``'zeros'``.

    Shape:
        Input: ``(N, in_channels, H, W)`` or without N. Output: ``(N, out_channels, H_out, W_out)`` with
        ``H_out = (H - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``.

    Example:
        >>> layer = rgrad.nn.ConvTranspose2d(16, 8, 3, stride=2)
        >>> layer(rgrad.zeros(1, 16, 10, 10)).shape
        torch.Size([1, 8, 21, 21])
    """

    _transpose = staticmethod(_core.conv_transpose2d)
    _expand = staticmethod(_pair)


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution over three dimensions; the arguments are those of :class:`ConvTranspose2d`.

    Shape:
        Input: ``(N, in_channels, D, H, W)`` or without N. Output: ``(N, out_channels, D_out, H_out, W_out)``.
    """

    _transpose = staticmethod(_core.conv_transpose3d)
    _expand = staticmethod(_triple)
