"""Convolutional networks built as transformers are (Liu et al., 2022)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import rgrad
from rgrad import nn
from rgrad.vision.models._api import builder
from rgrad.vision.models._published import published
from rgrad.vision.models._utils import initialize
from rgrad.vision.ops.misc import Conv2dNormActivation, Permute
from rgrad.vision.ops.stochastic_depth import StochasticDepth

__all__ = [
    "ConvNeXt",
    "ConvNeXt_Base_Weights",
    "ConvNeXt_Large_Weights",
    "ConvNeXt_Small_Weights",
    "ConvNeXt_Tiny_Weights",
    "convnext_base",
    "convnext_large",
    "convnext_small",
    "convnext_tiny",
]


class LayerNorm2d(nn.LayerNorm):
    """Normalizes the channels of each pixel of (N, C, H, W)."""

    def forward(self, input: Any) -> Any:
        """Returns the input's shape."""
        last = super().forward(input.permute(0, 2, 3, 1))
        return last.permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    """A 7x7 convolution of each channel and two linear layers of each pixel, with a way around them.

    Args:
        dim: channels.
        layer_scale: what the result is first multiplied by.
        stochastic_depth_prob: the probability that the block is left out in training.
        norm_layer: makes a normalization.
    """

    def __init__(
        self,
        dim: int,
        layer_scale: float,
        stochastic_depth_prob: float,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or functools.partial(nn.LayerNorm, eps=1e-6)
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim, bias=True),
            Permute([0, 2, 3, 1]),
            norm(dim),
            nn.Linear(dim, 4 * dim, bias=True),
            nn.GELU(),
            nn.Linear(4 * dim, dim, bias=True),
            Permute([0, 3, 1, 2]),
        )
        self.layer_scale = nn.Parameter(rgrad.full((dim, 1, 1), layer_scale))
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Any) -> Any:
        """Maps (N, dim, H, W) to the same shape."""
        return input + self.stochastic_depth(self.layer_scale * self.block(input))


class CNBlockConfig:
    """A stage of blocks.

    Args:
        input_channels: channels of the blocks.
        out_channels: channels of the next stage, at half the size; None after the last one.
        num_layers: number of blocks.
    """

    def __init__(self, input_channels: int, out_channels: int | None, num_layers: int) -> None:
        self.input_channels, self.out_channels, self.num_layers = input_channels, out_channels, num_layers

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


class ConvNeXt(nn.Module):
    """ConvNeXt.

    Args:
        block_setting: the stages.
        stochastic_depth_prob: the probability of leaving out the last block; it rises linearly from 0 at the first.
        layer_scale: what results of blocks are first multiplied by.
        num_classes: number of outputs.
        block: makes a block; `CNBlock` by default.
        norm_layer: makes a normalization; `LayerNorm2d` by default.
    """

    def __init__(
        self,
        block_setting: list[CNBlockConfig],
        stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6,
        num_classes: int = 1000,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if not block_setting:
            raise ValueError("The block_setting should not be empty")
        if not isinstance(block_setting, Sequence) or not all(isinstance(row, CNBlockConfig) for row in block_setting):
            raise TypeError("The block_setting should be List[CNBlockConfig]")
        make, norm = block or CNBlock, norm_layer or functools.partial(LayerNorm2d, eps=1e-6)
        first = block_setting[0].input_channels
        stem = Conv2dNormActivation(
            3, first, kernel_size=4, stride=4, padding=0, norm_layer=norm, activation_layer=None, bias=True
        )
        layers: list[nn.Module] = [stem]
        last = sum(row.num_layers for row in block_setting) - 1
        done = 0
        for row in block_setting:
            chances = [stochastic_depth_prob * place / last for place in range(done, done + row.num_layers)]
            layers.append(nn.Sequential(*(make(row.input_channels, layer_scale, chance) for chance in chances)))
            done += row.num_layers
            if row.out_channels is not None:
                halve = nn.Conv2d(row.input_channels, row.out_channels, kernel_size=2, stride=2)
                layers.append(nn.Sequential(norm(row.input_channels), halve))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        width = block_setting[-1].out_channels or block_setting[-1].input_channels
        self.classifier = nn.Sequential(norm(width), nn.Flatten(1), nn.Linear(width, num_classes))
        begin = functools.partial(nn.init.trunc_normal_, std=0.02)
        initialize(self, conv=begin, linear=begin, norm=False)

    def forward(self, x: Any) -> Any:
        """Maps shape (N, 3, H, W) to (N, num_classes)."""
        return self.classifier(self.avgpool(self.features(x)))


def _make(widths: tuple[int, ...], deep: int, drop: float, **kwargs: Any) -> ConvNeXt:
    counts = (3, 3, deep, 3)
    after = (*widths[1:], None)
    stages = [CNBlockConfig(*row) for row in zip(widths, after, counts, strict=True)]
    return ConvNeXt(stages, kwargs.pop("stochastic_depth_prob", drop), **kwargs)


def _network(name: str, enum: Any, width: int, deep: int, drop: float) -> Any:
    make = functools.partial(_make, tuple(width << place for place in range(4)), deep, drop)
    return builder(name, enum, make, f"ConvNeXt, the {name.rpartition('_')[2]} one.")


ConvNeXt_Tiny_Weights, ConvNeXt_Small_Weights = (
    published("ConvNeXt_Tiny", __name__),
    published("ConvNeXt_Small", __name__),
)
ConvNeXt_Base_Weights, ConvNeXt_Large_Weights = (
    published("ConvNeXt_Base", __name__),
    published("ConvNeXt_Large", __name__),
)
convnext_tiny = _network("convnext_tiny", ConvNeXt_Tiny_Weights, 96, 9, 0.1)
convnext_small = _network("convnext_small", ConvNeXt_Small_Weights, 96, 27, 0.4)
convnext_base = _network("convnext_base", ConvNeXt_Base_Weights, 128, 27, 0.5)
convnext_large = _network("convnext_large", ConvNeXt_Large_Weights, 192, 27, 0.5)
