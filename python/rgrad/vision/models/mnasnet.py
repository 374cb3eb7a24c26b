"""Networks found by a search for speed on mobile devices (Tan et al., 2018)."""

from __future__ import annotations

import functools
from typing import Any

from rgrad import nn
from rgrad.vision.models._api import builder
from rgrad.vision.models._published import published
from rgrad.vision.models._utils import initialize

__all__ = [
    "MNASNet",
    "MNASNet0_5_Weights",
    "MNASNet0_75_Weights",
    "MNASNet1_0_Weights",
    "MNASNet1_3_Weights",
    "mnasnet0_5",
    "mnasnet0_75",
    "mnasnet1_0",
    "mnasnet1_3",
]

# The momentum of TensorFlow's moving averages is one minus this one.
_MOMENTUM = 1 - 0.9997
_WIDTHS = (32, 16, 24, 40, 80, 96, 192, 320)
# Kernel, stride, factor of expansion and blocks of each stage.
_STAGES = ((3, 2, 3, 3), (5, 2, 3, 3), (5, 2, 6, 3), (3, 1, 6, 2), (5, 2, 6, 4), (3, 1, 6, 1))


def _layers(before: int, after: int, active: bool = True, **conv: Any) -> list[nn.Module]:
    """A convolution, a normalization, and an activation if `active`."""
    norm = nn.BatchNorm2d(after, momentum=_MOMENTUM)
    return [nn.Conv2d(before, after, bias=False, **conv), norm, *([nn.ReLU(inplace=True)] if active else [])]


class _InvertedResidual(nn.Module):
    """An inverted bottleneck, with a way around it where the shapes are equal."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, factor: int) -> None:
        super().__init__()
        wide = before * factor
        self.apply_residual = before == after and stride == 1
        self.layers = nn.Sequential(
            *_layers(before, wide, kernel_size=1),
            *_layers(wide, wide, kernel_size=kernel, padding=kernel // 2, stride=stride, groups=wide),
            *_layers(wide, after, active=False, kernel_size=1),
        )

    def forward(self, input: Any) -> Any:
        result = self.layers(input)
        return result + input if self.apply_residual else result


def _width(channels: int, alpha: float) -> int:
    """A number of channels times alpha, as a multiple of 8; it may be 10 % less than that but not more."""
    wanted = channels * alpha
    nearest = max(8, int(wanted + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * wanted else nearest + 8


class MNASNet(nn.Module):
    """MNASNet-B1.

    Args:
        alpha: multiplies all numbers of channels.
        num_classes: number of outputs.
        dropout: the probability of dropping before the last layer.
    """

    _version = 2

    def __init__(self, alpha: float, num_classes: int = 1000, dropout: float = 0.2) -> None:
        super().__init__()
        if alpha <= 0.0:
            raise ValueError(f"alpha should be greater than 0.0 instead of {alpha}")
        self.alpha, self.num_classes = alpha, num_classes
        first, width, *widths = (_width(channels, alpha) for channels in _WIDTHS)
        layers: list[nn.Module] = [
            *_layers(3, first, kernel_size=3, padding=1, stride=2),
            *_layers(first, first, kernel_size=3, padding=1, stride=1, groups=first),
            *_layers(first, width, active=False, kernel_size=1),
        ]
        for (kernel, stride, factor, count), channels in zip(_STAGES, widths, strict=True):
            stage = [_InvertedResidual(width, channels, kernel, stride, factor)]
            stage += [_InvertedResidual(channels, channels, kernel, 1, factor) for _ in range(count - 1)]
            layers.append(nn.Sequential(*stage))
            width = channels
        self.layers = nn.Sequential(*layers, *_layers(width, 1280, kernel_size=1))
        self.classifier = nn.Sequential(nn.Dropout(p=dropout, inplace=True), nn.Linear(1280, num_classes))
        initialize(
            self,
            conv=functools.partial(nn.init.kaiming_normal_, mode="fan_out", nonlinearity="relu"),
            linear=functools.partial(nn.init.kaiming_uniform_, mode="fan_out", nonlinearity="sigmoid"),
        )

    def forward(self, x: Any) -> Any:
        """Maps shape (N, 3, H, W) to (N, num_classes)."""
        return self.classifier(self.layers(x).mean([2, 3]))


def _network(alpha: float, enum: Any) -> Any:
    name = f"mnasnet{str(alpha).replace('.', '_')}"
    return builder(name, enum, functools.partial(MNASNet, alpha), f"MNASNet of {alpha} times the width.")


MNASNet0_5_Weights, MNASNet0_75_Weights = published("MNASNet0_5", __name__), published("MNASNet0_75", __name__)
MNASNet1_0_Weights, MNASNet1_3_Weights = published("MNASNet1_0", __name__), published("MNASNet1_3", __name__)
mnasnet0_5, mnasnet0_75 = _network(0.5, MNASNet0_5_Weights), _network(0.75, MNASNet0_75_Weights)
mnasnet1_0, mnasnet1_3 = _network(1.0, MNASNet1_0_Weights), _network(1.3, MNASNet1_3_Weights)
