"""Modules for networks that process images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rgrad
from rgrad import Tensor, nn

__all__ = [
    "Conv2dNormActivation",
    "Conv3dNormActivation",
    "ConvNormActivation",
    "FrozenBatchNorm2d",
    "MLP",
    "Permute",
    "SqueezeExcitation",
]

_Layer = Callable[..., nn.Module] | None


def _keeping_size(kernel_size: Any, dilation: Any) -> Any:
    """The padding of an odd kernel that keeps the size for a stride of 1."""
    if isinstance(kernel_size, int) and isinstance(dilation, int):
        return (kernel_size - 1) // 2 * dilation
    dims = len(kernel_size if isinstance(kernel_size, Sequence) else dilation)
    kernels = kernel_size if isinstance(kernel_size, Sequence) else [kernel_size] * dims
    dilations = dilation if isinstance(dilation, Sequence) else [dilation] * dims
    return tuple((kernel - 1) // 2 * by for kernel, by in zip(kernels, dilations, strict=True))


class ConvNormActivation(nn.Sequential):
    """A convolution, a normalization and an activation.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: of the convolution.
        stride: of the convolution.
        padding: of the convolution; by default what keeps the size for a stride of 1.
        groups: of the convolution.
        norm_layer: makes the normalization of a number of channels; None for none.
        activation_layer: makes the activation; None for none.
        dilation: of the convolution.
        inplace: the activation's argument `inplace`; None if it has none.
        bias: whether the convolution has a bias; by default if there is no normalization.
        conv_layer: makes the convolution.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = 3,
        stride: Any = 1,
        padding: Any = None,
        groups: int = 1,
        norm_layer: _Layer = nn.BatchNorm2d,
        activation_layer: _Layer = nn.ReLU,
        dilation: Any = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
        conv_layer: Callable[..., nn.Module] = nn.Conv2d,
    ) -> None:
        geometry = {"stride": stride, "dilation": dilation, "groups": groups}
        geometry["padding"] = _keeping_size(kernel_size, dilation) if padding is None else padding
        geometry["bias"] = norm_layer is None if bias is None else bias
        layers = [conv_layer(in_channels, out_channels, kernel_size, **geometry)]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer(**({} if inplace is None else {"inplace": inplace})))
        super().__init__(*layers)
        self.out_channels = out_channels


class Conv2dNormActivation(ConvNormActivation):
    """`ConvNormActivation` of images."""


class Conv3dNormActivation(ConvNormActivation):
    """`ConvNormActivation` of volumes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Only the first six arguments are commonly given by position.
        if len(args) < 7:
            kwargs.setdefault("norm_layer", nn.BatchNorm3d)
        super().__init__(*args, conv_layer=nn.Conv3d, **kwargs)


class SqueezeExcitation(nn.Module):
    """Scales each channel by a number that depends on the means of all channels (Hu et al., 2017).

    Args:
        input_channels: channels of the input.
        squeeze_channels: channels between the two layers that compute the scales.
        activation: makes the activation between them.
        scale_activation: makes the activation after them.
    """

    def __init__(
        self,
        input_channels: int,
        squeeze_channels: int,
        activation: Callable[..., nn.Module] = nn.ReLU,
        scale_activation: Callable[..., nn.Module] = nn.Sigmoid,
    ) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = (
            nn.Conv2d(*widths, 1) for widths in ((input_channels, squeeze_channels), (squeeze_channels, input_channels))
        )
        self.activation, self.scale_activation = activation(), scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        """Scales (N, input_channels, H, W)."""
        return input * self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input)))))


class MLP(nn.Sequential):
    """Linear layers, each but the last followed by a normalization and an activation, and all by dropout.

    Args:
        in_channels: size of the input's last dimension.
        hidden_channels: sizes of the layers' results.
        norm_layer: makes the normalization of a size; None for none.
        activation_layer: makes the activation; None for none.
        inplace: the argument `inplace` of activations and dropouts; None for their default.
        bias: whether the layers have a bias.
        dropout: the probability of dropping.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: list[int],
        norm_layer: _Layer = None,
        activation_layer: _Layer = nn.ReLU,
        inplace: bool | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        options: Any = {} if inplace is None else {"inplace": inplace}
        layers: list[nn.Module] = []
        for place, (before, after) in enumerate(zip([in_channels, *hidden_channels], hidden_channels, strict=False)):
            layers.append(nn.Linear(before, after, bias=bias))
            if place < len(hidden_channels) - 1:
                if norm_layer is not None:
                    layers.append(norm_layer(after))
                if activation_layer is not None:
                    layers.append(activation_layer(**options))
            layers.append(nn.Dropout(dropout, **options))
        super().__init__(*layers)


class Permute(nn.Module):
    """Reorders the dimensions of its input.

    Args:
        dims: the input's dimensions in their new order.
    """

    def __init__(self, dims: list[int]) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        """Returns a view."""
        return x.permute(self.dims)


class FrozenBatchNorm2d(nn.Module):
    """Batch normalization whose statistics and affine parameters are fixed: all of them are buffers.

    Args:
        num_features: channels of the input, (N, num_features, H, W).
        eps: added to the variance.

    Example:
        >>> import rgrad as torch
        >>> norm = torch.vision.ops.FrozenBatchNorm2d(3)
        >>> norm, list(norm.parameters()), norm(torch.ones(1, 3, 2, 2)).shape
        (FrozenBatchNorm2d(3, eps=1e-05), [], torch.Size([1, 3, 2, 2]))
    """

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", rgrad.ones(num_features))
        self.register_buffer("bias", rgrad.zeros(num_features))
        self.register_buffer("running_mean", rgrad.zeros(num_features))
        self.register_buffer("running_var", rgrad.ones(num_features))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        # The state of a BatchNorm2d includes a batch counter, which is not needed here.
        state_dict.pop(prefix + "num_batches_tracked", None)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def forward(self, x: Tensor) -> Tensor:
        """Scales and shifts every channel."""
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.weight.shape[0]}, eps={self.eps})"
