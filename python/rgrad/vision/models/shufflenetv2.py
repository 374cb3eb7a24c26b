"""Networks that shuffle channels between halves (Ma et al., 2018)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import nn
from rgrad.vision.models._api import builder
from rgrad.vision.models._published import published

__all__ = [
    "ShuffleNetV2",
    "ShuffleNet_V2_X0_5_Weights",
    "ShuffleNet_V2_X1_0_Weights",
    "ShuffleNet_V2_X1_5_Weights",
    "ShuffleNet_V2_X2_0_Weights",
    "shufflenet_v2_x0_5",
    "shufflenet_v2_x1_0",
    "shufflenet_v2_x1_5",
    "shufflenet_v2_x2_0",
]


def channel_shuffle(x: Any, groups: int) -> Any:
    """Interleaves groups of channels: those of (N, C, H, W) that were C / groups apart become neighbors."""
    count, channels, height, width = x.shape
    return x.view(count, groups, channels // groups, height, width).transpose(1, 2).reshape(count, -1, height, width)


def _pointwise(before: int, after: int) -> list[nn.Module]:
    return [nn.Conv2d(before, after, kernel_size=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]


def _channelwise(width: int, stride: int) -> list[nn.Module]:
    shape: Any = {"kernel_size": 3, "stride": stride, "padding": 1, "groups": width, "bias": False}
    return [nn.Conv2d(width, width, **shape), nn.BatchNorm2d(width)]


class InvertedResidual(nn.Module):
    """A block: one half of the channels goes around it, or a second branch makes that half.

    Args:
        inp: channels of the input.
        oup: channels of the result.
        stride: 1, with `inp` equal to `oup`, or 2.
    """

    def __init__(self, inp: int, oup: int, stride: int) -> None:
        super().__init__()
        if not 1 <= stride <= 3:
            raise ValueError("illegal stride value")
        if stride == 1 and inp != oup // 2 * 2:
            raise ValueError(f"stride 1 needs as many channels of the result as of the input, not {oup} and {inp}")
        self.stride, half = stride, oup // 2
        self.branch1 = nn.Sequential(*(_channelwise(inp, stride) + _pointwise(inp, half) if stride > 1 else []))
        before = inp if stride > 1 else half
        self.branch2 = nn.Sequential(*_pointwise(before, half), *_channelwise(half, stride), *_pointwise(half, half))

    def forward(self, x: Any) -> Any:
        """Maps (N, inp, H, W) to (N, oup, H / stride, W / stride)."""
        first, second = (self.branch1(x), x) if self.stride > 1 else x.chunk(2, dim=1)
        return channel_shuffle(rgrad.cat((first, self.branch2(second)), dim=1), 2)


class ShuffleNetV2(nn.Module):
    """ShuffleNetV2.

    Args:
        stages_repeats: blocks of each of the three stages.
        stages_out_channels: channels of the stem, of each stage, and of the last convolution.
        num_classes: number of outputs.
        inverted_residual: makes a block.
    """

    def __init__(
        self,
        stages_repeats: list[int],
        stages_out_channels: list[int],
        num_classes: int = 1000,
        inverted_residual: Callable[..., nn.Module] = InvertedResidual,
    ) -> None:
        super().__init__()
        for name, values, count in (("repeats", stages_repeats, 3), ("out_channels", stages_out_channels, 5)):
            if len(values) != count:
                raise ValueError(f"expected stages_{name} as list of {count} positive ints")
        self._stage_out_channels = stages_out_channels
        width, *stages, last = stages_out_channels
        first = nn.Conv2d(3, width, kernel_size=3, stride=2, padding=1, bias=False)
        self.conv1 = nn.Sequential(first, nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        for place, (count, channels) in enumerate(zip(stages_repeats, stages, strict=True), 2):
            blocks = [inverted_residual(width, channels, 2)]
            blocks += [inverted_residual(channels, channels, 1) for _ in range(count - 1)]
            self.add_module(f"stage{place}", nn.Sequential(*blocks))
            width = channels
        self.conv5 = nn.Sequential(*_pointwise(width, last))
        self.fc = nn.Linear(last, num_classes)

    def forward(self, x: Any) -> Any:
        """Maps shape (N, 3, H, W) to (N, num_classes)."""
        x = self.maxpool(self.conv1(x))
        x = self.conv5(self.stage4(self.stage3(self.stage2(x))))
        return self.fc(x.mean([2, 3]))


def _network(width: str, enum: Any, *channels: int) -> Any:
    make = functools.partial(ShuffleNetV2, [4, 8, 4], [24, *channels])
    return builder(f"shufflenet_v2_x{width}", enum, make, f"ShuffleNetV2 of {width.replace('_', '.')} times the width.")


ShuffleNet_V2_X0_5_Weights = published("ShuffleNet_V2_X0_5", __name__)
ShuffleNet_V2_X1_0_Weights = published("ShuffleNet_V2_X1_0", __name__)
ShuffleNet_V2_X1_5_Weights = published("ShuffleNet_V2_X1_5", __name__)
ShuffleNet_V2_X2_0_Weights = published("ShuffleNet_V2_X2_0", __name__)
shufflenet_v2_x0_5 = _network("0_5", ShuffleNet_V2_X0_5_Weights, 48, 96, 192, 1024)
shufflenet_v2_x1_0 = _network("1_0", ShuffleNet_V2_X1_0_Weights, 116, 232, 464, 1024)
shufflenet_v2_x1_5 = _network("1_5", ShuffleNet_V2_X1_5_Weights, 176, 352, 704, 1024)
shufflenet_v2_x2_0 = _network("2_0", ShuffleNet_V2_X2_0_Weights, 244, 488, 976, 2048)
