"""GoogLeNet, a network of Inception modules (Szegedy et al., 2014)."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import nn
from rgrad.vision.models._api import builder
from rgrad.vision.models._inception import BasicConv2d, begin, loaded_with_branches, renormalized
from rgrad.vision.models._published import published

__all__ = ["GoogLeNet", "GoogLeNetOutputs", "GoogLeNet_Weights", "_GoogLeNetOutputs", "googlenet"]

GoogLeNetOutputs = namedtuple("GoogLeNetOutputs", ["logits", "aux_logits2", "aux_logits1"])
_GoogLeNetOutputs = GoogLeNetOutputs

# Channels of the branches (table 1 of the paper): 1x1, before 3x3, 3x3, before 5x5, 5x5, after the pooling. Where
# torchvision's weights have a 3x3 convolution in place of the 5x5 one, so has the module here.
_MODULES = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
_POOLED = {"3a": (2, 3), "4a": (3, 3), "5a": (4, 2)}  # number and kernel of the pooling before a module
_BRANCHED = {"4b": "aux1", "4e": "aux2"}  # the branch that leaves before a module


class Inception(nn.Module):
    """Four branches side by side.

    Args:
        in_channels: channels of the input.
        ch1x1: channels of the first branch.
        ch3x3red: channels before the convolution of the second.
        ch3x3: channels of the second.
        ch5x5red: channels before the convolution of the third.
        ch5x5: channels of the third.
        pool_proj: channels of the fourth, after a pooling.
        conv_block: makes a convolution; `BasicConv2d` by default.
    """

    def __init__(
        self,
        in_channels: int,
        ch1x1: int,
        ch3x3red: int,
        ch3x3: int,
        ch5x5red: int,
        ch5x5: int,
        pool_proj: int,
        conv_block: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch1 = conv(in_channels, ch1x1, kernel_size=1)
        for place, few, many in ((2, ch3x3red, ch3x3), (3, ch5x5red, ch5x5)):
            wide = conv(few, many, kernel_size=3, padding=1)
            self.add_module(f"branch{place}", nn.Sequential(conv(in_channels, few, kernel_size=1), wide))
        pool = nn.MaxPool2d(kernel_size=3, stride=1, padding=1, ceil_mode=True)
        self.branch4 = nn.Sequential(pool, conv(in_channels, pool_proj, kernel_size=1))

    def forward(self, x: Any) -> Any:
        """Maps (N, in_channels, H, W) to the channels of all branches."""
        return rgrad.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class InceptionAux(nn.Module):
    """A branch that classifies in the middle of the network, for training.

    Args:
        in_channels: channels of the input.
        num_classes: number of outputs.
        conv_block: makes a convolution; `BasicConv2d` by default.
        dropout: the probability of dropping before the last layer.
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        conv_block: Callable[..., nn.Module] | None = None,
        dropout: float = 0.7,
    ) -> None:
        super().__init__()
        self.conv = (conv_block or BasicConv2d)(in_channels, 128, kernel_size=1)
        self.fc1, self.fc2 = nn.Linear(128 * 4 * 4, 1024), nn.Linear(1024, num_classes)
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, x: Any) -> Any:
        """Maps (N, in_channels, H, W) to (N, num_classes)."""
        x = rgrad.flatten(self.conv(nn.functional.adaptive_avg_pool2d(x, (4, 4))), 1)
        return self.fc2(self.dropout(nn.functional.relu(self.fc1(x), inplace=True)))


class GoogLeNet(nn.Module):
    """GoogLeNet, with batch normalization.

    Args:
        num_classes: number of outputs.
        aux_logits: whether two branches classify too, in training: then a `GoogLeNetOutputs` is returned.
        transform_input: whether inputs were normalized with ImageNet's mean, which is then undone.
        init_weights: whether weights are set to a truncated normal distribution; yes by default.
        blocks: what makes a convolution, an Inception module, and a branch.
        dropout: the probability of dropping before the last layer.
        dropout_aux: that of the branches.
    """

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        init_weights: bool | None = None,
        blocks: list[Callable[..., nn.Module]] | None = None,
        dropout: float = 0.2,
        dropout_aux: float = 0.7,
    ) -> None:
        super().__init__()
        conv, module, branch = blocks or (BasicConv2d, Inception, InceptionAux)
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.conv1 = conv(3, 64, kernel_size=7, stride=2, padding=3)
        self.maxpool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.conv2, self.conv3 = conv(64, 64, kernel_size=1), conv(64, 192, kernel_size=3, padding=1)
        width, branches = 192, {}
        for name, channels in _MODULES.items():
            if name in _POOLED:
                place, kernel = _POOLED[name]
                self.add_module(f"maxpool{place}", nn.MaxPool2d(kernel, stride=2, ceil_mode=True))
            if name in _BRANCHED:
                branches[_BRANCHED[name]] = width
            self.add_module(f"inception{name}", module(width, *channels))
            width = channels[0] + channels[2] + channels[4] + channels[5]
        for name, channels in branches.items():
            self.add_module(name, branch(channels, num_classes, dropout=dropout_aux) if aux_logits else None)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(p=dropout)
        self.fc = nn.Linear(width, num_classes)
        if init_weights is None or init_weights:
            begin(self, 0.01)

    def forward(self, x: Any) -> Any:
        """Maps shape (N, 3, H, W) to (N, num_classes)."""
        x = renormalized(x) if self.transform_input else x
        x = self.conv3(self.conv2(self.maxpool1(self.conv1(x))))
        classified: dict[str, Any] = {"aux1": None, "aux2": None}
        for name in _MODULES:
            if name in _POOLED:
                x = getattr(self, f"maxpool{_POOLED[name][0]}")(x)
            branch = getattr(self, _BRANCHED[name]) if name in _BRANCHED else None
            if branch is not None and self.training:
                classified[_BRANCHED[name]] = branch(x)
            x = getattr(self, f"inception{name}")(x)
        x = self.fc(self.dropout(rgrad.flatten(self.avgpool(x), 1)))
        return GoogLeNetOutputs(x, classified["aux2"], classified["aux1"]) if self.training and self.aux_logits else x


def _finish(model: Any, given: dict[str, Any]) -> None:
    if not given.get("aux_logits", False):
        model.aux_logits, model.aux1, model.aux2 = False, None, None


GoogLeNet_Weights = published("GoogLeNet", __name__)
googlenet = builder(
    "googlenet", GoogLeNet_Weights, GoogLeNet, "GoogLeNet.", loaded=loaded_with_branches, finish=_finish
)
