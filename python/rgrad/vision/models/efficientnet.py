"""Networks scaled in width, depth and resolution (Tan and Le, 2019 and 2021)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import rgrad
from rgrad import nn
from rgrad.vision.models._api import builder
from rgrad.vision.models._blocks import inverted_bottleneck
from rgrad.vision.models._published import published
from rgrad.vision.models._utils import _make_divisible, initialize
from rgrad.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation
from rgrad.vision.ops.stochastic_depth import StochasticDepth

__all__ = [
    "EfficientNet",
    "EfficientNet_B0_Weights",
    "EfficientNet_B1_Weights",
    "EfficientNet_B2_Weights",
    "EfficientNet_B3_Weights",
    "EfficientNet_B4_Weights",
    "EfficientNet_B5_Weights",
    "EfficientNet_B6_Weights",
    "EfficientNet_B7_Weights",
    "EfficientNet_V2_L_Weights",
    "EfficientNet_V2_M_Weights",
    "EfficientNet_V2_S_Weights",
    "efficientnet_b0",
    "efficientnet_b1",
    "efficientnet_b2",
    "efficientnet_b3",
    "efficientnet_b4",
    "efficientnet_b5",
    "efficientnet_b6",
    "efficientnet_b7",
    "efficientnet_v2_l",
    "efficientnet_v2_m",
    "efficientnet_v2_s",
]


@dataclass
class _MBConvConfig:
    """A stage of blocks: factor of expansion, kernel, stride of the first block, channels, number of blocks, class."""

    expand_ratio: float
    kernel: int
    stride: int
    input_channels: int
    out_channels: int
    num_layers: int
    block: Callable[..., nn.Module]

    @staticmethod
    def adjust_channels(channels: int, width_mult: float, min_value: int | None = None) -> int:
        """A number of channels multiplied and rounded to a multiple of 8."""
        return _make_divisible(channels * width_mult, 8, min_value)


class MBConvConfig(_MBConvConfig):
    """A stage of `MBConv`, with channels and number of blocks multiplied.

    Args:
        expand_ratio: channels within a block, as a multiple of its input's.
        kernel: edge of the convolution of each channel.
        stride: of the first block.
        input_channels: channels of the input.
        out_channels: channels of the result.
        num_layers: number of blocks.
        width_mult: multiplies the numbers of channels.
        depth_mult: multiplies the number of blocks.
        block: makes a block; `MBConv` by default.
    """

    def __init__(
        self,
        expand_ratio: float,
        kernel: int,
        stride: int,
        input_channels: int,
        out_channels: int,
        num_layers: int,
        width_mult: float = 1.0,
        depth_mult: float = 1.0,
        block: Callable[..., nn.Module] | None = None,
    ) -> None:
        widths = [self.adjust_channels(width, width_mult) for width in (input_channels, out_channels)]
        count = self.adjust_depth(num_layers, depth_mult)
        super().__init__(expand_ratio, kernel, stride, widths[0], widths[1], count, block or MBConv)

    @staticmethod
    def adjust_depth(num_layers: int, depth_mult: float) -> int:
        """A number of blocks multiplied and rounded up."""
        return math.ceil(num_layers * depth_mult)


@dataclass
class FusedMBConvConfig(_MBConvConfig):
    """A stage of `FusedMBConv`; the arguments are those of `MBConvConfig` but for the multipliers."""

    block: Callable[..., nn.Module] | None = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.block = self.block or FusedMBConv


class _Block(nn.Module):
    """Layers with a way around them where the shapes are equal.

    Args:
        cnf: the stage's settings.
        stochastic_depth_prob: the probability that the layers are left out in training.
        layers: the layers.
    """

    def __init__(self, cnf: _MBConvConfig, stochastic_depth_prob: float, layers: list[nn.Module]) -> None:
        super().__init__()
        if not 1 <= cnf.stride <= 2:
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.out_channels = cnf.out_channels

    def forward(self, input: Any) -> Any:
        """Maps (N, input_channels, H, W) to (N, out_channels, H / stride, W / stride)."""
        result = self.block(input)
        return self.stochastic_depth(result) + input if self.use_res_connect else result


class MBConv(_Block):
    """An inverted bottleneck with a squeeze-and-excitation.

    Args:
        cnf: the stage's settings.
        stochastic_depth_prob: the probability that the block is left out in training.
        norm_layer: makes a normalization.
        se_layer: makes a squeeze-and-excitation.
    """

    def __init__(
        self,
        cnf: _MBConvConfig,
        stochastic_depth_prob: float,
        norm_layer: Callable[..., nn.Module],
        se_layer: Callable[..., nn.Module] = SqueezeExcitation,
    ) -> None:
        wide = cnf.adjust_channels(cnf.input_channels, cnf.expand_ratio)
        few = max(1, cnf.input_channels // 4)
        squeeze = functools.partial(se_layer, wide, few, activation=functools.partial(nn.SiLU, inplace=True))
        channels = (cnf.input_channels, wide, cnf.out_channels)
        layers = inverted_bottleneck(channels, cnf.kernel, cnf.stride, norm_layer, nn.SiLU, excitation=squeeze)
        super().__init__(cnf, stochastic_depth_prob, layers)


class FusedMBConv(_Block):
    """An inverted bottleneck whose first two convolutions are one.

    Args:
        cnf: the stage's settings.
        stochastic_depth_prob: the probability that the block is left out in training.
        norm_layer: makes a normalization.
    """

    def __init__(self, cnf: _MBConvConfig, stochastic_depth_prob: float, norm_layer: Callable[..., nn.Module]) -> None:
        wide = cnf.adjust_channels(cnf.input_channels, cnf.expand_ratio)
        expands = wide != cnf.input_channels
        first = wide if expands else cnf.out_channels
        layers: list[nn.Module] = [
            Conv2dNormActivation(
                cnf.input_channels,
                first,
                kernel_size=cnf.kernel,
                stride=cnf.stride,
                norm_layer=norm_layer,
                activation_layer=nn.SiLU,
            )
        ]
        if expands:
            project: Any = {"norm_layer": norm_layer, "activation_layer": None}
            layers.append(Conv2dNormActivation(wide, cnf.out_channels, kernel_size=1, **project))
        super().__init__(cnf, stochastic_depth_prob, layers)


class EfficientNet(nn.Module):
    """EfficientNet.

    Args:
        inverted_residual_setting: the settings of each stage.
        dropout: the probability of dropping before the last layer.
        stochastic_depth_prob: that of leaving out the last block; it rises linearly from 0 at the first one.
        num_classes: number of outputs.
        norm_layer: makes a normalization; `BatchNorm2d` by default.
        last_channel: channels before the last layer; four times the last stage's by default.
    """

    def __init__(
        self,
        inverted_residual_setting: Sequence[_MBConvConfig],
        dropout: float,
        stochastic_depth_prob: float = 0.2,
        num_classes: int = 1000,
        norm_layer: Callable[..., nn.Module] | None = None,
        last_channel: int | None = None,
    ) -> None:
        super().__init__()
        stages = inverted_residual_setting
        if not stages:
            raise ValueError("The inverted_residual_setting should not be empty")
        if not isinstance(stages, Sequence) or not all(isinstance(stage, _MBConvConfig) for stage in stages):
            raise TypeError("The inverted_residual_setting should be List[MBConvConfig]")
        norm = norm_layer or nn.BatchNorm2d
        around: Any = {"norm_layer": norm, "activation_layer": nn.SiLU}
        layers: list[nn.Module] = [Conv2dNormActivation(3, stages[0].input_channels, stride=2, **around)]
        total, done = sum(stage.num_layers for stage in stages), 0
        for stage in stages:
            blocks: list[nn.Module] = []
            for place in range(stage.num_layers):
                settings = stage
                if place:
                    settings = _MBConvConfig(**vars(stage))
                    settings.input_channels, settings.stride = stage.out_channels, 1
                blocks.append(stage.block(settings, stochastic_depth_prob * done / total, norm))
                done += 1
            layers.append(nn.Sequential(*blocks))
        width = stages[-1].out_channels
        last = 4 * width if last_channel is None else last_channel
        self.features = nn.Sequential(*layers, Conv2dNormActivation(width, last, kernel_size=1, **around))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout, inplace=True), nn.Linear(last, num_classes))
        bound = 1.0 / math.sqrt(num_classes)
        initialize(
            self,
            conv=functools.partial(nn.init.kaiming_normal_, mode="fan_out"),
            linear=functools.partial(nn.init.uniform_, a=-bound, b=bound),
        )

    def forward(self, x: Any) -> Any:
        """Maps shape (N, 3, H, W) to (N, num_classes)."""
        return self.classifier(rgrad.flatten(self.avgpool(self.features(x)), 1))


# Factor of expansion, kernel, stride, channels of the input, channels, blocks (table 1 of the first paper).
_STAGES = (
    (1, 3, 1, 32, 16, 1),
    (6, 3, 2, 16, 24, 2),
    (6, 5, 2, 24, 40, 2),
    (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4),
    (6, 3, 1, 192, 320, 1),
)
# Factors of width and depth, and the probability of dropping, of B0 to B7.
_SCALES = ((1.0, 1.0, 0.2), (1.0, 1.1, 0.2), (1.1, 1.2, 0.3), (1.2, 1.4, 0.3)) + (
    (1.4, 1.8, 0.4),
    (1.6, 2.2, 0.4),
    (1.8, 2.6, 0.5),
    (2.0, 3.1, 0.5),
)
# The stages of the second paper (table 4), as above; the first three are fused. Then the probability of dropping.
_V2_STAGES: dict[str, tuple[tuple[tuple[int, int, int, int, int, int], ...], float]] = {
    "s": (
        (
            (1, 3, 1, 24, 24, 2),
            (4, 3, 2, 24, 48, 4),
            (4, 3, 2, 48, 64, 4),
            (4, 3, 2, 64, 128, 6),
            (6, 3, 1, 128, 160, 9),
            (6, 3, 2, 160, 256, 15),
        ),
        0.2,
    ),
    "m": (
        (
            (1, 3, 1, 24, 24, 3),
            (4, 3, 2, 24, 48, 5),
            (4, 3, 2, 48, 80, 5),
            (4, 3, 2, 80, 160, 7),
            (6, 3, 1, 160, 176, 14),
            (6, 3, 2, 176, 304, 18),
            (6, 3, 1, 304, 512, 5),
        ),
        0.3,
    ),
    "l": (
        (
            (1, 3, 1, 32, 32, 4),
            (4, 3, 2, 32, 64, 7),
            (4, 3, 2, 64, 96, 7),
            (4, 3, 2, 96, 192, 10),
            (6, 3, 1, 192, 224, 19),
            (6, 3, 2, 224, 384, 25),
            (6, 3, 1, 384, 640, 7),
        ),
        0.4,
    ),
}
_FUSED = 3


def _first(level: int, dropout: float | None = None, **kwargs: Any) -> EfficientNet:
    width, depth, drop = _SCALES[level]
    stages = [MBConvConfig(*stage, width_mult=width, depth_mult=depth) for stage in _STAGES]
    if level >= 5:
        kwargs.setdefault("norm_layer", functools.partial(nn.BatchNorm2d, eps=0.001, momentum=0.01))
    return EfficientNet(stages, drop if dropout is None else dropout, **kwargs)


def _second(size: str, dropout: float | None = None, **kwargs: Any) -> EfficientNet:
    rows, drop = _V2_STAGES[size]
    stages = [FusedMBConvConfig(*row) for row in rows[:_FUSED]] + [MBConvConfig(*row) for row in rows[_FUSED:]]
    kwargs.setdefault("norm_layer", functools.partial(nn.BatchNorm2d, eps=1e-03))
    kwargs.setdefault("last_channel", 1280)
    return EfficientNet(stages, drop if dropout is None else dropout, **kwargs)


def _network(name: str, enum: Any) -> Any:
    make, choice = (_second, name[-1]) if "_v2_" in name else (_first, int(name[-1]))
    title = f"EfficientNet{'V2' if make is _second else ''}-{name[-2:].lstrip('_').upper()}."
    return builder(name, enum, functools.partial(make, choice), title)


EfficientNet_B0_Weights = published("EfficientNet_B0", __name__)
EfficientNet_B1_Weights = published("EfficientNet_B1", __name__)
EfficientNet_B2_Weights = published("EfficientNet_B2", __name__)
EfficientNet_B3_Weights = published("EfficientNet_B3", __name__)
EfficientNet_B4_Weights = published("EfficientNet_B4", __name__)
EfficientNet_B5_Weights = published("EfficientNet_B5", __name__)
EfficientNet_B6_Weights = published("EfficientNet_B6", __name__)
EfficientNet_B7_Weights = published("EfficientNet_B7", __name__)
EfficientNet_V2_S_Weights = published("EfficientNet_V2_S", __name__)
EfficientNet_V2_M_Weights = published("EfficientNet_V2_M", __name__)
EfficientNet_V2_L_Weights = published("EfficientNet_V2_L", __name__)
efficientnet_b0 = _network("efficientnet_b0", EfficientNet_B0_Weights)
efficientnet_b1 = _network("efficientnet_b1", EfficientNet_B1_Weights)
efficientnet_b2 = _network("efficientnet_b2", EfficientNet_B2_Weights)
efficientnet_b3 = _network("efficientnet_b3", EfficientNet_B3_Weights)
efficientnet_b4 = _network("efficientnet_b4", EfficientNet_B4_Weights)
efficientnet_b5 = _network("efficientnet_b5", EfficientNet_B5_Weights)
efficientnet_b6 = _network("efficientnet_b6", EfficientNet_B6_Weights)
efficientnet_b7 = _network("efficientnet_b7", EfficientNet_B7_Weights)
efficientnet_v2_s = _network("efficientnet_v2_s", EfficientNet_V2_S_Weights)
efficientnet_v2_m = _network("efficientnet_v2_m", EfficientNet_V2_M_Weights)
efficientnet_v2_l = _network("efficientnet_v2_l", EfficientNet_V2_L_Weights)
