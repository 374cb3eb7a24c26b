"""Networks whose widths and depths are a linear function, rounded (Radosavovic et al., 2020)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rgrad import nn
from rgrad.vision.models._api import builder
from rgrad.vision.models._published import published
from rgrad.vision.models._utils import _make_divisible, initialize
from rgrad.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation

__all__ = [
    "RegNet",
    "RegNet_X_16GF_Weights",
    "RegNet_X_1_6GF_Weights",
    "RegNet_X_32GF_Weights",
    "RegNet_X_3_2GF_Weights",
    "RegNet_X_400MF_Weights",
    "RegNet_X_800MF_Weights",
    "RegNet_X_8GF_Weights",
    "RegNet_Y_128GF_Weights",
    "RegNet_Y_16GF_Weights",
    "RegNet_Y_1_6GF_Weights",
    "RegNet_Y_32GF_Weights",
    "RegNet_Y_3_2GF_Weights",
    "RegNet_Y_400MF_Weights",
    "RegNet_Y_800MF_Weights",
    "RegNet_Y_8GF_Weights",
    "regnet_x_16gf",
    "regnet_x_1_6gf",
    "regnet_x_32gf",
    "regnet_x_3_2gf",
    "regnet_x_400mf",
    "regnet_x_800mf",
    "regnet_x_8gf",
    "regnet_y_128gf",
    "regnet_y_16gf",
    "regnet_y_1_6gf",
    "regnet_y_32gf",
    "regnet_y_3_2gf",
    "regnet_y_400mf",
    "regnet_y_800mf",
    "regnet_y_8gf",
]

_STRIDE = 2


class SimpleStemIN(Conv2dNormActivation):
    """A 3x3 convolution with a stride of 2.

    Args:
        width_in: channels of the input.
        width_out: channels of the result.
        norm_layer: makes a normalization.
        activation_layer: makes an activation.
    """

    def __init__(
        self,
        width_in: int,
        width_out: int,
        norm_layer: Callable[..., nn.Module],
        activation_layer: Callable[..., nn.Module],
    ) -> None:
        around: Any = {"norm_layer": norm_layer, "activation_layer": activation_layer}
        super().__init__(width_in, width_out, kernel_size=3, stride=2, **around)


class BottleneckTransform(nn.Sequential):
    """1x1, grouped 3x3 and 1x1 convolutions.

    Args:
        width_in: channels of the input.
        width_out: channels of the result.
        stride: of the 3x3 convolution.
        norm_layer: makes a normalization.
        activation_layer: makes an activation.
        group_width: channels of a group.
        bottleneck_multiplier: channels between, as a multiple of `width_out`.
        se_ratio: channels of the squeeze-and-excitation, as a multiple of `width_in`; None for none.
    """

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        norm_layer: Callable[..., nn.Module],
        activation_layer: Callable[..., nn.Module],
        group_width: int,
        bottleneck_multiplier: float,
        se_ratio: float | None,
    ) -> None:
        super().__init__()
        wide = round(width_out * bottleneck_multiplier)
        around: Any = {"norm_layer": norm_layer, "activation_layer": activation_layer}
        self.a = Conv2dNormActivation(width_in, wide, kernel_size=1, **around)
        self.b = Conv2dNormActivation(wide, wide, stride=stride, groups=wide // group_width, **around)
        if se_ratio:
            self.se = SqueezeExcitation(wide, round(se_ratio * width_in), activation=activation_layer)
        around["activation_layer"] = None
        self.c = Conv2dNormActivation(wide, width_out, kernel_size=1, **around)


class ResBottleneckBlock(nn.Module):
    """`BottleneckTransform` with a way around it; the arguments are its."""

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        norm_layer: Callable[..., nn.Module],
        activation_layer: Callable[..., nn.Module],
        group_width: int = 1,
        bottleneck_multiplier: float = 1.0,
        se_ratio: float | None = None,
    ) -> None:
        super().__init__()
        self.proj = None
        if stride != 1 or width_in != width_out:
            around: Any = {"norm_layer": norm_layer, "activation_layer": None}
            self.proj = Conv2dNormActivation(width_in, width_out, kernel_size=1, stride=stride, **around)
        settings = (norm_layer, activation_layer, group_width, bottleneck_multiplier, se_ratio)
        self.f = BottleneckTransform(width_in, width_out, stride, *settings)
        self.activation = activation_layer(inplace=True)

    def forward(self, x: Any) -> Any:
        """Maps (N, width_in, H, W) to (N, width_out, H / stride, W / stride)."""
        around = x if self.proj is None else self.proj(x)
        return self.activation(around + self.f(x))


class AnyStage(nn.Sequential):
    """Blocks, of which the first has the stride.

    Args:
        width_in: channels of the input.
        width_out: channels of the result.
        stride: of the first block.
        depth: number of blocks.
        block_constructor: makes a block.
        norm_layer: makes a normalization.
        activation_layer: makes an activation.
        group_width: channels of a group.
        bottleneck_multiplier: as for `BottleneckTransform`.
        se_ratio: as for `BottleneckTransform`.
        stage_index: the stage's number, for the names of the blocks.
    """

    def __init__(
        self,
        width_in: int,
        width_out: int,
        stride: int,
        depth: int,
        block_constructor: Callable[..., nn.Module],
        norm_layer: Callable[..., nn.Module],
        activation_layer: Callable[..., nn.Module],
        group_width: int,
        bottleneck_multiplier: float,
        se_ratio: float | None = None,
        stage_index: int = 0,
    ) -> None:
        super().__init__()
        settings = (norm_layer, activation_layer, group_width, bottleneck_multiplier, se_ratio)
        for place in range(depth):
            shape = (width_out, width_out, 1) if place else (width_in, width_out, stride)
            self.add_module(f"block{stage_index}-{place}", block_constructor(*shape, *settings))


@dataclass
class BlockParams:
    """The settings of the four stages: depths, widths, channels of groups, and those of the blocks."""

    depths: list[int]
    widths: list[int]
    group_widths: list[int]
    bottleneck_multipliers: list[float]
    strides: list[int]
    se_ratio: float | None = None

    @classmethod
    def from_init_params(
        cls,
        depth: int,
        w_0: int,
        w_a: float,
        w_m: float,
        group_width: int,
        bottleneck_multiplier: float = 1.0,
        se_ratio: float | None = None,
        **kwargs: Any,
    ) -> BlockParams:
        """The settings of a linear function of the block's number (section 3.3 of the paper).

        Args:
            depth: number of all blocks.
            w_0: width at the first block.
            w_a: by how much the width rises from block to block.
            w_m: widths are rounded to w_0 times powers of this, and then to multiples of 8.
            group_width: channels of a group.
            bottleneck_multiplier: as for `BottleneckTransform`.
            se_ratio: as for `BottleneckTransform`.
        """
        if w_a < 0 or w_0 <= 0 or w_m <= 1 or w_0 % 8 != 0:
            raise ValueError("Invalid RegNet settings")
        counts: dict[int, int] = {}
        for block in range(depth):
            power = round(math.log((w_0 + w_a * block) / w_0) / math.log(w_m))
            width = round(w_0 * w_m**power / 8) * 8
            counts[width] = counts.get(width, 0) + 1
        groups, widths = [], []
        for width in counts:
            between = int(width * bottleneck_multiplier)
            group = min(group_width, between)
            groups.append(group)
            widths.append(int(_make_divisible(between, group) / bottleneck_multiplier))
        stages = len(counts)
        multipliers, strides = [bottleneck_multiplier] * stages, [_STRIDE] * stages
        return cls(list(counts.values()), widths, groups, multipliers, strides, se_ratio)


class RegNet(nn.Module):
    """RegNet.

    Args:
        block_params: the settings of the stages.
        num_classes: number of outputs.
        stem_width: channels of the stem.
        stem_type: makes the stem; `SimpleStemIN` by default.
        block_type: makes a block; `ResBottleneckBlock` by default.
        norm_layer: makes a normalization; `BatchNorm2d` by default.
        activation: makes an activation; `ReLU` by default.
    """

    def __init__(
        self,
        block_params: BlockParams,
        num_classes: int = 1000,
        stem_width: int = 32,
        stem_type: Callable[..., nn.Module] | None = None,
        block_type: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        activation: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        layers = (norm_layer or nn.BatchNorm2d, activation or nn.ReLU)
        self.stem = (stem_type or SimpleStemIN)(3, stem_width, *layers)
        self.trunk_output = nn.Sequential()
        width, p = stem_width, block_params
        rows = zip(p.widths, p.strides, p.depths, p.group_widths, p.bottleneck_multipliers, strict=True)
        for place, (wide, stride, depth, group, multiplier) in enumerate(rows, 1):
            shape = (width, wide, stride, depth, block_type or ResBottleneckBlock)
            stage = AnyStage(*shape, *layers, group, multiplier, p.se_ratio, place)
            self.trunk_output.add_module(f"block{place}", stage)
            width = wide
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(width, num_classes)

        def begin(weight: Any) -> None:
            nn.init.normal_(weight, mean=0.0, std=math.sqrt(2.0 / (weight[0, 0].numel() * weight.shape[0])))

        initialize(self, conv=begin, norm=False, biases=False)
        initialize(self, linear=functools.partial(nn.init.normal_, mean=0.0, std=0.01))

    def forward(self, x: Any) -> Any:
        """Maps shape (N, 3, H, W) to (N, num_classes)."""
        return self.fc(self.avgpool(self.trunk_output(self.stem(x))).flatten(start_dim=1))


def _make(settings: tuple[Any, ...], **kwargs: Any) -> RegNet:
    kwargs.setdefault("norm_layer", functools.partial(nn.BatchNorm2d, eps=1e-05, momentum=0.1))
    return RegNet(BlockParams.from_init_params(*settings), **kwargs)


def _network(size: str, enum: Any, *settings: float) -> Any:
    # Those called Y have squeeze-and-excitations.
    more = (1.0, 0.25) if size.startswith("y") else ()
    make = functools.partial(_make, (*settings, *more))
    return builder(f"regnet_{size}", enum, make, f"RegNet{size[0].upper()} of about {size[2:].replace('_', '.')}.")


RegNet_Y_400MF_Weights, RegNet_Y_800MF_Weights = (
    published("RegNet_Y_400MF", __name__),
    published("RegNet_Y_800MF", __name__),
)
RegNet_Y_1_6GF_Weights, RegNet_Y_3_2GF_Weights = (
    published("RegNet_Y_1_6GF", __name__),
    published("RegNet_Y_3_2GF", __name__),
)
RegNet_Y_8GF_Weights, RegNet_Y_16GF_Weights = published("RegNet_Y_8GF", __name__), published("RegNet_Y_16GF", __name__)
RegNet_Y_32GF_Weights, RegNet_Y_128GF_Weights = (
    published("RegNet_Y_32GF", __name__),
    published("RegNet_Y_128GF", __name__),
)
RegNet_X_400MF_Weights, RegNet_X_800MF_Weights = (
    published("RegNet_X_400MF", __name__),
    published("RegNet_X_800MF", __name__),
)
RegNet_X_1_6GF_Weights, RegNet_X_3_2GF_Weights = (
    published("RegNet_X_1_6GF", __name__),
    published("RegNet_X_3_2GF", __name__),
)
RegNet_X_8GF_Weights, RegNet_X_16GF_Weights = published("RegNet_X_8GF", __name__), published("RegNet_X_16GF", __name__)
RegNet_X_32GF_Weights = published("RegNet_X_32GF", __name__)
regnet_y_400mf = _network("y_400mf", RegNet_Y_400MF_Weights, 16, 48, 27.89, 2.09, 8)
regnet_y_800mf = _network("y_800mf", RegNet_Y_800MF_Weights, 14, 56, 38.84, 2.4, 16)
regnet_y_1_6gf = _network("y_1_6gf", RegNet_Y_1_6GF_Weights, 27, 48, 20.71, 2.65, 24)
regnet_y_3_2gf = _network("y_3_2gf", RegNet_Y_3_2GF_Weights, 21, 80, 42.63, 2.66, 24)
regnet_y_8gf = _network("y_8gf", RegNet_Y_8GF_Weights, 17, 192, 76.82, 2.19, 56)
regnet_y_16gf = _network("y_16gf", RegNet_Y_16GF_Weights, 18, 200, 106.23, 2.48, 112)
regnet_y_32gf = _network("y_32gf", RegNet_Y_32GF_Weights, 20, 232, 115.89, 2.53, 232)
regnet_y_128gf = _network("y_128gf", RegNet_Y_128GF_Weights, 27, 456, 160.83, 2.52, 264)
regnet_x_400mf = _network("x_400mf", RegNet_X_400MF_Weights, 22, 24, 24.48, 2.54, 16)
regnet_x_800mf = _network("x_800mf", RegNet_X_800MF_Weights, 16, 56, 35.73, 2.28, 16)
regnet_x_1_6gf = _network("x_1_6gf", RegNet_X_1_6GF_Weights, 18, 80, 34.01, 2.25, 24)
regnet_x_3_2gf = _network("x_3_2gf", RegNet_X_3_2GF_Weights, 25, 88, 26.31, 2.25, 48)
regnet_x_8gf = _network("x_8gf", RegNet_X_8GF_Weights, 23, 80, 49.56, 2.88, 120)
regnet_x_16gf = _network("x_16gf", RegNet_X_16GF_Weights, 22, 216, 55.59, 2.1, 128)
regnet_x_32gf = _network("x_32gf", RegNet_X_32GF_Weights, 23, 320, 69.86, 2.0, 168)
