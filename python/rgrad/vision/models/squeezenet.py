"""Networks of few parameters (Iandola et al., 2016)."""

from __future__ import annotations

import functools
from typing import Any

import rgrad
from rgrad import nn
from rgrad.vision.models._api import builder
from rgrad.vision.models._published import published
from rgrad.vision.models._utils import initialize

__all__ = [
    "SqueezeNet",
    "SqueezeNet1_0_Weights",
    "SqueezeNet1_1_Weights",
    "squeezenet1_0",
    "squeezenet1_1",
]

# The layers after the stem: "M" is a pooling, a pair the channels of a `Fire` before and after it expands.
_LAYERS: dict[str, tuple[Any, ...]] = {
    "1_0": ("M", (16, 64), (16, 64), (32, 128), "M", (32, 128), (48, 192), (48, 192), (64, 256), "M", (64, 256)),
    "1_1": ("M", (16, 64), (16, 64), "M", (32, 128), (32, 128), "M", (48, 192), (48, 192), (64, 256), (64, 256)),
}
_STEMS = {"1_0": (96, 7), "1_1": (64, 3)}  # channels and kernel


class Fire(nn.Module):
    """A 1x1 convolution to few channels, from which a 1x1 and a 3x3 convolution make many.

    Args:
        inplanes: channels of the input.
        squeeze_planes: the few channels.
        expand1x1_planes: channels of the result from the 1x1 convolution.
        expand3x3_planes: those from the 3x3 convolution.
    """

    def __init__(self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int) -> None:
        super().__init__()
        self.inplanes = inplanes
        shapes = {
            "squeeze": (inplanes, squeeze_planes, 1, 1, 0),
            "expand1x1": (squeeze_planes, expand1x1_planes, 1, 1, 0),
            "expand3x3": (squeeze_planes, expand3x3_planes, 3, 1, 1),
        }
        for name, shape in shapes.items():
            self.add_module(name, nn.Conv2d(*shape))
            self.add_module(f"{name}_activation", nn.ReLU(inplace=True))

    def forward(self, x: Any) -> Any:
        """Maps (N, inplanes, H, W) to (N, expand1x1_planes + expand3x3_planes, H, W)."""
        x = self.squeeze_activation(self.squeeze(x))
        wide = (self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x)))
        return rgrad.cat(wide, 1)


class SqueezeNet(nn.Module):
    """Eight `Fire` modules.

    Args:
        version: "1_0" or "1_1"; the second does less work.
        num_classes: number of outputs.
        dropout: the probability of dropping before the last convolution.
    """

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        if version not in _LAYERS:
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")
        self.num_classes = num_classes
        width, kernel = _STEMS[version]
        layers: list[nn.Module] = [nn.Conv2d(3, width, kernel_size=kernel, stride=2), nn.ReLU(inplace=True)]
        for layer in _LAYERS[version]:
            if layer == "M":
                layers.append(nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True))
                continue
            few, half = layer
            layers.append(Fire(width, few, half, half))
            width = 2 * half
        self.features = nn.Sequential(*layers)
        last = nn.Conv2d(width, num_classes, kernel_size=1)
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout), last, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1))
        )

        def begin(weight: Any) -> None:
            if weight is last.weight:
                nn.init.normal_(weight, mean=0.0, std=0.01)
            else:
                nn.init.kaiming_uniform_(weight)

        initialize(self, conv=begin)

    def forward(self, x: Any) -> Any:
        """Maps shape (N, 3, H, W) to (N, num_classes)."""
        return rgrad.flatten(self.classifier(self.features(x)), 1)


SqueezeNet1_0_Weights = published("SqueezeNet1_0", __name__)
SqueezeNet1_1_Weights = published("SqueezeNet1_1", __name__)
squeezenet1_0 = builder("squeezenet1_0", SqueezeNet1_0_Weights, functools.partial(SqueezeNet, "1_0"), "SqueezeNet 1.0.")
squeezenet1_1 = builder("squeezenet1_1", SqueezeNet1_1_Weights, functools.partial(SqueezeNet, "1_1"), "SqueezeNet 1.1.")
