"""Networks for small devices: MobileNetV3 (Howard et al., 2019)."""

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
from rgrad.vision.ops.misc import SqueezeExcitation as SElayer

__all__ = [
    "MobileNetV3",
    "MobileNet_V3_Large_Weights",
    "MobileNet_V3_Small_Weights",
    "mobilenet_v3_large",
    "mobilenet_v3_small",
]

# Kernel, channels between, channels, whether there is a squeeze-and-excitation, activation, stride (tables 1 and 2 of
# the paper).
_ROWS: dict[str, list[tuple[int, int, int, bool, str, int]]] = {
    "mobilenet_v3_large": [
        (3, 16, 16, False, "RE", 1),
        (3, 64, 24, False, "RE", 2),
        (3, 72, 24, False, "RE", 1),
        (5, 72, 40, True, "RE", 2),
        (5, 120, 40, True, "RE", 1),
        (5, 120, 40, True, "RE", 1),
        (3, 240, 80, False, "HS", 2),
        (3, 200, 80, False, "HS", 1),
        (3, 184, 80, False, "HS", 1),
        (3, 184, 80, False, "HS", 1),
        (3, 480, 112, True, "HS", 1),
        (3, 672, 112, True, "HS", 1),
        (5, 672, 160, True, "HS", 2),
        (5, 960, 160, True, "HS", 1),
        (5, 960, 160, True, "HS", 1),
    ],
    "mobilenet_v3_small": [
        (3, 16, 16, True, "RE", 2),
        (3, 72, 24, False, "RE", 2),
        (3, 88, 24, False, "RE", 1),
        (5, 96, 40, True, "HS", 2),
        (5, 240, 40, True, "HS", 1),
        (5, 240, 40, True, "HS", 1),
        (5, 120, 48, True, "HS", 1),
        (5, 144, 48, True, "HS", 1),
        (5, 288, 96, True, "HS", 2),
        (5, 576, 96, True, "HS", 1),
        (5, 576, 96, True, "HS", 1),
    ],
}
_LAST = {"mobilenet_v3_large": 1280, "mobilenet_v3_small": 1024}
_SQUEEZE = functools.partial(SElayer, scale_activation=nn.Hardsigmoid)
_TAIL = 3  # blocks of the last stage


class InvertedResidualConfig:
    """The settings of a block, with all numbers of channels multiplied and rounded.

    Args:
        input_channels: channels of the input.
        kernel: edge of the convolution of each channel.
        expanded_channels: channels between.
        out_channels: channels of the result.
        use_se: whether there is a squeeze-and-excitation.
        activation: "RE" for ReLU, "HS" for Hardswish.
        stride: of the convolution of each channel.
        dilation: of that convolution.
        width_mult: multiplies the numbers of channels.
    """

    def __init__(
        self,
        input_channels: int,
        kernel: int,
        expanded_channels: int,
        out_channels: int,
        use_se: bool,
        activation: str,
        stride: int,
        dilation: int,
        width_mult: float,
    ) -> None:
        widths = (input_channels, expanded_channels, out_channels)
        self.input_channels, self.expanded_channels, self.out_channels = (
            self.adjust_channels(width, width_mult) for width in widths
        )
        self.kernel, self.stride, self.dilation = kernel, stride, dilation
        self.use_se, self.use_hs = use_se, activation == "HS"

    @staticmethod
    def adjust_channels(channels: int, width_mult: float) -> int:
        """A number of channels multiplied and rounded to a multiple of 8."""
        return _make_divisible(channels * width_mult, 8)


class InvertedResidual(nn.Module):
    """An inverted bottleneck with a way around it where the shapes are equal.

    Args:
        cnf: the settings.
        norm_layer: makes a normalization.
        se_layer: makes a squeeze-and-excitation.
    """

    def __init__(
        self,
        cnf: InvertedResidualConfig,
        norm_layer: Callable[..., nn.Module],
        se_layer: Callable[..., nn.Module] = _SQUEEZE,
    ) -> None:
        super().__init__()
        if cnf.stride not in (1, 2):
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        wide = cnf.expanded_channels
        squeeze = functools.partial(se_layer, wide, _make_divisible(wide // 4, 8)) if cnf.use_se else None
        layers = inverted_bottleneck(
            (cnf.input_channels, wide, cnf.out_channels),
            cnf.kernel,
            # A dilated convolution sees as far as one after a stride would.
            1 if cnf.dilation > 1 else cnf.stride,
            norm_layer,
            nn.Hardswish if cnf.use_hs else nn.ReLU,
            cnf.dilation,
            squeeze,
        )
        self.block = nn.Sequential(*layers)
        self.out_channels = cnf.out_channels
        self._is_cn = cnf.stride > 1

    def forward(self, input: Any) -> Any:
        """Maps (N, input_channels, H, W) to (N, out_channels, H / stride, W / stride)."""
        return self.block(input) + input if self.use_res_connect else self.block(input)


class MobileNetV3(nn.Module):
    """MobileNetV3.

    Args:
        inverted_residual_setting: the settings of each block.
        last_channel: size between the two linear layers.
        num_classes: number of outputs.
        block: makes a block; `InvertedResidual` by default.
        norm_layer: makes a normalization; `BatchNorm2d` with eps=0.001 and momentum=0.01 by default.
        dropout: the probability of dropping before the last layer.
    """

    def __init__(
        self,
        inverted_residual_setting: list[InvertedResidualConfig],
        last_channel: int,
        num_classes: int = 1000,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        dropout: float = 0.2,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if not inverted_residual_setting:
            raise ValueError("The inverted_residual_setting should not be empty")
        if not all(isinstance(row, InvertedResidualConfig) for row in inverted_residual_setting):
            raise TypeError("The inverted_residual_setting should be List[InvertedResidualConfig]")
        norm = norm_layer or functools.partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        make = block or InvertedResidual
        around: Any = {"norm_layer": norm, "activation_layer": nn.Hardswish}
        first, last = inverted_residual_setting[0].input_channels, inverted_residual_setting[-1].out_channels
        self.features = nn.Sequential(
            Conv2dNormActivation(3, first, stride=2, **around),
            *(make(row, norm) for row in inverted_residual_setting),
            Conv2dNormActivation(last, 6 * last, kernel_size=1, **around),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(6 * last, last_channel),
            nn.Hardswish(inplace=True),
            nn.Dropout(p=dropout, inplace=True),
            nn.Linear(last_channel, num_classes),
        )
        initialize(
            self,
            conv=functools.partial(nn.init.kaiming_normal_, mode="fan_out"),
            linear=functools.partial(nn.init.normal_, mean=0, std=0.01),
        )

    def forward(self, x: Any) -> Any:
        """Maps shape (N, 3, H, W) to (N, num_classes)."""
        return self.classifier(rgrad.flatten(self.avgpool(self.features(x)), 1))


def _mobilenet_v3_conf(
    arch: str, width_mult: float = 1.0, reduced_tail: bool = False, dilated: bool = False, **kwargs: Any
) -> tuple[list[InvertedResidualConfig], int]:
    """The settings of the blocks and the size before the last layer.

    Args:
        arch: "mobilenet_v3_large" or "mobilenet_v3_small".
        width_mult: multiplies all numbers of channels.
        reduced_tail: whether the last stage has half as many channels.
        dilated: whether it has dilated convolutions in place of a stride.
    """
    if arch not in _ROWS:
        raise ValueError(f"Unsupported model type {arch}")
    rows, settings, width = _ROWS[arch], [], 16
    less = 2 if reduced_tail else 1
    for place, (kernel, between, channels, squeezed, activation, stride) in enumerate(rows):
        tail = len(rows) - place <= _TAIL
        # The first block of the last stage still gets its channels from the stage before.
        first = len(rows) - place == _TAIL
        channels //= less if tail else 1
        between //= less if tail and not first else 1
        settings.append(
            InvertedResidualConfig(
                width, kernel, between, channels, squeezed, activation, stride, 2 if dilated and tail else 1, width_mult
            )
        )
        width = channels
    return settings, InvertedResidualConfig.adjust_channels(_LAST[arch] // less, width_mult)


def _make(arch: str, **kwargs: Any) -> MobileNetV3:
    chosen = {name: kwargs.pop(name) for name in ("width_mult", "reduced_tail", "dilated") if name in kwargs}
    settings, last = _mobilenet_v3_conf(arch, **chosen)
    return MobileNetV3(settings, last, **kwargs)


def _network(name: str, enum: Any) -> Any:
    return builder(name, enum, functools.partial(_make, name), f"MobileNetV3, the {name.rpartition('_')[2]} one.")


MobileNet_V3_Large_Weights = published("MobileNet_V3_Large", __name__)
MobileNet_V3_Small_Weights = published("MobileNet_V3_Small", __name__)
mobilenet_v3_large = _network("mobilenet_v3_large", MobileNet_V3_Large_Weights)
mobilenet_v3_small = _network("mobilenet_v3_small", MobileNet_V3_Small_Weights)
