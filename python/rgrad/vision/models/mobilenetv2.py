"""Networks for small devices: MobileNetV2 (Sandler et al., 2018)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import nn
from rgrad.vision.models._api import builder
from rgrad.vision.models._blocks import inverted_bottleneck
from rgrad.vision.models._published import published
from rgrad.vision.models._utils import _make_divisible, initialize
from rgrad.vision.ops.misc import Conv2dNormActivation

__all__ = [
    "MobileNetV2",
    "MobileNet_V2_Weights",
    "mobilenet_v2",
]

# Factor of expansion, channels, blocks, and stride of the first block (table 2 of the paper).
_SETTINGS = [
    [1, 16, 1, 1],
    [6, 24, 2, 2],
    [6, 32, 3, 2],
    [6, 64, 4, 2],
    [6, 96, 3, 1],
    [6, 160, 3, 2],
    [6, 320, 1, 1],
]


class InvertedResidual(nn.Module):
    """An inverted bottleneck with a way around it where the shapes are equal.

    Args:
        inp: channels of the input.
        oup: channels of the result.
        stride: 1 or 2.
        expand_ratio: channels between, as a multiple of `inp`.
        norm_layer: makes a normalization.
    """

    def __init__(
        self,
        inp: int,
        oup: int,
        stride: int,
        expand_ratio: int,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        self.stride, self.out_channels = stride, oup
        self.use_res_connect = stride == 1 and inp == oup
        self._is_cn = stride > 1
        channels = (inp, round(inp * expand_ratio), oup)
        *layers, project = inverted_bottleneck(channels, 3, stride, norm_layer or nn.BatchNorm2d, nn.ReLU6)
        # The layers of the projection stand in the sequence itself, which its published keys show.
        self.conv = nn.Sequential(*layers, *project.children())

    def forward(self, x: Any) -> Any:
        """Maps (N, inp, H, W) to (N, oup, H / stride, W / stride)."""
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    """MobileNetV2.

    Args:
        num_classes: number of outputs.
        width_mult: multiplies all numbers of channels.
        inverted_residual_setting: lists of the factor of expansion, channels, blocks, and stride of the first block.
        round_nearest: numbers of channels are multiples of this.
        block: makes a block; `InvertedResidual` by default.
        norm_layer: makes a normalization; `BatchNorm2d` by default.
        dropout: the probability of dropping before the last layer.
    """

    def __init__(
        self,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        inverted_residual_setting: list[list[int]] | None = None,
        round_nearest: int = 8,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        settings = _SETTINGS if inverted_residual_setting is None else inverted_residual_setting
        if len(settings) == 0 or any(len(row) != 4 for row in settings):
            raise ValueError(
                f"inverted_residual_setting should be non-empty or a 4-element list, got {inverted_residual_setting}"
            )
        make, norm = block or InvertedResidual, norm_layer or nn.BatchNorm2d
        around: Any = {"norm_layer": norm, "activation_layer": nn.ReLU6}
        width = _make_divisible(32 * width_mult, round_nearest)
        self.last_channel = _make_divisible(1280 * max(1.0, width_mult), round_nearest)
        features: list[nn.Module] = [Conv2dNormActivation(3, width, stride=2, **around)]
        for factor, channels, count, first in settings:
            wanted = _make_divisible(channels * width_mult, round_nearest)
            for place in range(count):
                stride = 1 if place else first
                features.append(make(width, wanted, stride, expand_ratio=factor, norm_layer=norm))
                width = wanted
        features.append(Conv2dNormActivation(width, self.last_channel, kernel_size=1, **around))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout), nn.Linear(self.last_channel, num_classes))
        initialize(
            self,
            conv=functools.partial(nn.init.kaiming_normal_, mode="fan_out"),
            linear=functools.partial(nn.init.normal_, mean=0, std=0.01),
        )

    def forward(self, x: Any) -> Any:
        """Maps shape (N, 3, H, W) to (N, num_classes)."""
        x = nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(rgrad.flatten(x, 1))


MobileNet_V2_Weights = published("MobileNet_V2", __name__)
mobilenet_v2 = builder("mobilenet_v2", MobileNet_V2_Weights, MobileNetV2, "MobileNetV2.")
