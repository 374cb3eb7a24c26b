"""Blocks that several networks consist of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rgrad import nn
from rgrad.vision.ops.misc import Conv2dNormActivation


def inverted_bottleneck(
    channels: tuple[int, int, int],
    kernel: int,
    stride: int,
    norm_layer: Callable[..., nn.Module],
    activation_layer: Callable[..., nn.Module],
    dilation: int = 1,
    excitation: Callable[[], nn.Module] | None = None,
) -> list[nn.Module]:
    """The layers of an inverted bottleneck (Sandler et al., 2018): expand, convolve each channel, project.

    Args:
        channels: of the input, between the layers, and of the result. Where the first two are equal, nothing expands.
        kernel: edge of the convolution of each channel.
        stride: of that convolution.
        norm_layer: makes a normalization.
        activation_layer: makes an activation; none follows the projection.
        dilation: of the convolution of each channel.
        excitation: makes a module before the projection.
    """
    before, wide, after = channels
    common: Any = {"norm_layer": norm_layer, "activation_layer": activation_layer}
    layers: list[nn.Module] = []
    if wide != before:
        layers.append(Conv2dNormActivation(before, wide, kernel_size=1, **common))
    layers.append(
        Conv2dNormActivation(wide, wide, kernel_size=kernel, stride=stride, dilation=dilation, groups=wide, **common)
    )
    if excitation is not None:
        layers.append(excitation())
    layers.append(Conv2dNormActivation(wide, after, kernel_size=1, norm_layer=norm_layer, activation_layer=None))
    return layers
