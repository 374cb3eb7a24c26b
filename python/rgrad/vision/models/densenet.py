"""Networks in which each layer sees the results of all layers before it (Huang et al., 2016)."""

from __future__ import annotations

import functools
import re
from typing import Any

import rgrad
from rgrad import nn
from rgrad.utils.checkpoint import checkpoint
from rgrad.vision.models._api import builder
from rgrad.vision.models._published import published
from rgrad.vision.models._utils import initialize

__all__ = [
    "DenseNet",
    "DenseNet121_Weights",
    "DenseNet161_Weights",
    "DenseNet169_Weights",
    "DenseNet201_Weights",
    "densenet121",
    "densenet161",
    "densenet169",
    "densenet201",
]


class _DenseLayer(nn.Module):
    """Normalization, activation and convolution, twice: 1x1 to few channels, then 3x3.

    Args:
        num_input_features: channels of all results before.
        growth_rate: channels of the result.
        bn_size: channels between, as a multiple of those.
        drop_rate: the probability of dropping from the result.
        memory_efficient: whether backward computes the first half again.
    """

    def __init__(
        self, num_input_features: int, growth_rate: int, bn_size: int, drop_rate: float, memory_efficient: bool = False
    ) -> None:
        super().__init__()
        between = bn_size * growth_rate
        for place, shape in enumerate(((num_input_features, between, 1), (between, growth_rate, 3)), 1):
            self.add_module(f"norm{place}", nn.BatchNorm2d(shape[0]))
            self.add_module(f"relu{place}", nn.ReLU(inplace=True))
            self.add_module(f"conv{place}", nn.Conv2d(*shape, stride=1, padding=shape[2] // 2, bias=False))
        self.drop_rate = float(drop_rate)
        self.memory_efficient = memory_efficient

    def _few_channels(self, *inputs: Any) -> Any:
        return self.conv1(self.relu1(self.norm1(rgrad.cat(inputs, 1))))

    def forward(self, input: Any) -> Any:
        """Maps a tensor, or the list of all results before, to (N, growth_rate, H, W)."""
        inputs = input if isinstance(input, (list, tuple)) else [input]
        if self.memory_efficient and any(part.requires_grad for part in inputs):
            few = checkpoint(self._few_channels, *inputs, use_reentrant=False)
        else:
            few = self._few_channels(*inputs)
        result = self.conv2(self.relu2(self.norm2(few)))
        if self.drop_rate > 0:
            result = nn.functional.dropout(result, p=self.drop_rate, training=self.training)
        return result


class _DenseBlock(nn.ModuleDict):
    """Layers that each get the results of all before."""

    def __init__(
        self,
        num_layers: int,
        num_input_features: int,
        bn_size: int,
        growth_rate: int,
        drop_rate: float,
        memory_efficient: bool = False,
    ) -> None:
        widths = range(num_input_features, num_input_features + num_layers * growth_rate, growth_rate)
        super().__init__(
            {
                f"denselayer{place}": _DenseLayer(width, growth_rate, bn_size, drop_rate, memory_efficient)
                for place, width in enumerate(widths, 1)
            }
        )

    def forward(self, init_features: Any) -> Any:
        results = [init_features]
        for layer in self.values():
            results.append(layer(results))
        return rgrad.cat(results, 1)


class _Transition(nn.Sequential):
    """Half as many channels of half the size."""

    def __init__(self, num_input_features: int, num_output_features: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(num_input_features)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(num_input_features, num_output_features, kernel_size=1, bias=False)
        self.pool = nn.AvgPool2d(kernel_size=2, stride=2)


class DenseNet(nn.Module):
    """A densely connected network.

    Args:
        growth_rate: channels that each layer adds.
        block_config: layers of each of the four blocks.
        num_init_features: channels of the first convolution.
        bn_size: channels within a layer, as a multiple of `growth_rate`.
        drop_rate: the probability of dropping after each layer.
        num_classes: number of outputs.
        memory_efficient: whether backward computes a part of each layer again rather than to keep it.
    """

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: tuple[int, int, int, int] = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0,
        num_classes: int = 1000,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__()
        width = num_init_features
        self.features = features = nn.Sequential()
        features.add_module("conv0", nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3, bias=False))
        features.add_module("norm0", nn.BatchNorm2d(width))
        features.add_module("relu0", nn.ReLU(inplace=True))
        features.add_module("pool0", nn.MaxPool2d(kernel_size=3, stride=2, padding=1))
        for place, layers in enumerate(block_config, 1):
            if place > 1:
                features.add_module(f"transition{place - 1}", _Transition(width, width // 2))
                width //= 2
            block = _DenseBlock(layers, width, bn_size, growth_rate, drop_rate, memory_efficient)
            features.add_module(f"denseblock{place}", block)
            width += layers * growth_rate
        features.add_module("norm5", nn.BatchNorm2d(width))
        self.classifier = nn.Linear(width, num_classes)
        initialize(self, conv=nn.init.kaiming_normal_)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, x: Any) -> Any:
        """Maps shape (N, 3, H, W) to (N, num_classes)."""
        x = nn.functional.relu(self.features(x), inplace=True)
        return self.classifier(rgrad.flatten(nn.functional.adaptive_avg_pool2d(x, (1, 1)), 1))


_OLD_KEY = re.compile(r"(.*denselayer\d+\.(?:norm|relu|conv))\.([12]\..*)")


def _renamed(state: dict[str, Any]) -> dict[str, Any]:
    """The published files are of a time when a module's name could have a dot in it."""
    return {_OLD_KEY.sub(r"\1\2", key): value for key, value in state.items()}


def _network(depth: int, enum: Any, growth: int, layers: tuple[int, int, int, int], first: int) -> Any:
    make = functools.partial(DenseNet, growth, layers, first)
    return builder(f"densenet{depth}", enum, make, f"DenseNet-{depth}.", convert=_renamed)


DenseNet121_Weights, DenseNet161_Weights = published("DenseNet121", __name__), published("DenseNet161", __name__)
DenseNet169_Weights, DenseNet201_Weights = published("DenseNet169", __name__), published("DenseNet201", __name__)
densenet121 = _network(121, DenseNet121_Weights, 32, (6, 12, 24, 16), 64)
densenet161 = _network(161, DenseNet161_Weights, 48, (6, 12, 36, 24), 96)
densenet169 = _network(169, DenseNet169_Weights, 32, (6, 12, 32, 32), 64)
densenet201 = _network(201, DenseNet201_Weights, 32, (6, 12, 48, 32), 64)
