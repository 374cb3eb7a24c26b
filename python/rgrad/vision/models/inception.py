"""Inception-v3 (Szegedy et al., 2015)."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import nn
from rgrad.vision.models._api import builder
from rgrad.vision.models._inception import BasicConv2d, begin, loaded_with_branches, renormalized
from rgrad.vision.models._published import published

__all__ = ["Inception3", "InceptionOutputs", "Inception_V3_Weights", "_InceptionOutputs", "inception_v3"]

InceptionOutputs = namedtuple("InceptionOutputs", ["logits", "aux_logits"])
_InceptionOutputs = InceptionOutputs

# Note [Branches of an Inception module]
# A module runs branches side by side and joins their channels. A branch is a list of steps, each the name of a
# convolution or a pooling ("max", "avg"); a step that is a tuple runs its convolutions side by side. The shape of a
# convolution is (channels of its input, or 0 for those of the module, channels, kernel), and where they are not 1 and
# the padding that keeps the size, stride and padding.
_Shape = tuple[Any, ...]


class _Branches(nn.Module):
    """See Note [Branches of an Inception module]."""

    def __init__(
        self,
        in_channels: int,
        shapes: dict[str, _Shape],
        branches: list[list[Any]],
        conv_block: Callable[..., nn.Module] | None,
    ) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        for name, (before, after, kernel, *stride) in shapes.items():
            options: dict[str, Any] = {"kernel_size": kernel}
            if stride:
                options["stride"] = stride[0]
            elif kernel != 1:
                options["padding"] = kernel // 2 if isinstance(kernel, int) else (kernel[0] // 2, kernel[1] // 2)
            self.add_module(name, conv(before or in_channels, after, **options))
        self._branches = branches

    def _step(self, step: Any, x: Any) -> list[Any]:
        if step == "max":
            return [nn.functional.max_pool2d(x, kernel_size=3, stride=2)]
        if step == "avg":
            return [nn.functional.avg_pool2d(x, kernel_size=3, stride=1, padding=1)]
        names = step if isinstance(step, tuple) else (step,)
        return [getattr(self, name)(x) for name in names]

    def forward(self, x: Any) -> Any:
        """Maps (N, in_channels, H, W) to the channels of all branches."""
        results: list[Any] = []
        for branch in self._branches:
            parts = [x]
            for step in branch:
                parts = self._step(step, parts[0])
            results.extend(parts)
        return rgrad.cat(results, 1)


class InceptionA(_Branches):
    """The module of the first stage."""

    def __init__(self, in_channels: int, pool_features: int, conv_block: Any = None) -> None:
        shapes: dict[str, _Shape] = {
            "branch1x1": (0, 64, 1),
            "branch5x5_1": (0, 48, 1),
            "branch5x5_2": (48, 64, 5),
            "branch3x3dbl_1": (0, 64, 1),
            "branch3x3dbl_2": (64, 96, 3),
            "branch3x3dbl_3": (96, 96, 3),
            "branch_pool": (0, pool_features, 1),
        }
        double = [f"branch3x3dbl_{place}" for place in (1, 2, 3)]
        branches = [["branch1x1"], ["branch5x5_1", "branch5x5_2"], double, ["avg", "branch_pool"]]
        super().__init__(in_channels, shapes, branches, conv_block)


class InceptionB(_Branches):
    """The module between the first two stages, which halves the size."""

    def __init__(self, in_channels: int, conv_block: Any = None) -> None:
        shapes: dict[str, _Shape] = {
            "branch3x3": (0, 384, 3, 2),
            "branch3x3dbl_1": (0, 64, 1),
            "branch3x3dbl_2": (64, 96, 3),
            "branch3x3dbl_3": (96, 96, 3, 2),
        }
        double = [f"branch3x3dbl_{place}" for place in (1, 2, 3)]
        super().__init__(in_channels, shapes, [["branch3x3"], double, ["max"]], conv_block)


class InceptionC(_Branches):
    """The module of the second stage: 7x7 convolutions as 1x7 and 7x1."""

    def __init__(self, in_channels: int, channels_7x7: int, conv_block: Any = None) -> None:
        few, row, column = channels_7x7, (1, 7), (7, 1)
        shapes: dict[str, _Shape] = {
            "branch1x1": (0, 192, 1),
            "branch7x7_1": (0, few, 1),
            "branch7x7_2": (few, few, row),
            "branch7x7_3": (few, 192, column),
            "branch7x7dbl_1": (0, few, 1),
            "branch7x7dbl_2": (few, few, column),
            "branch7x7dbl_3": (few, few, row),
            "branch7x7dbl_4": (few, few, column),
            "branch7x7dbl_5": (few, 192, row),
            "branch_pool": (0, 192, 1),
        }
        single, double = ([n for n in shapes if n.startswith(kind)] for kind in ("branch7x7_", "branch7x7dbl_"))
        super().__init__(in_channels, shapes, [["branch1x1"], single, double, ["avg", "branch_pool"]], conv_block)


class InceptionD(_Branches):
    """The module between the last two stages, which halves the size."""

    def __init__(self, in_channels: int, conv_block: Any = None) -> None:
        shapes: dict[str, _Shape] = {
            "branch3x3_1": (0, 192, 1),
            "branch3x3_2": (192, 320, 3, 2),
            "branch7x7x3_1": (0, 192, 1),
            "branch7x7x3_2": (192, 192, (1, 7)),
            "branch7x7x3_3": (192, 192, (7, 1)),
            "branch7x7x3_4": (192, 192, 3, 2),
        }
        names = list(shapes)
        super().__init__(in_channels, shapes, [names[:2], names[2:], ["max"]], conv_block)


class InceptionE(_Branches):
    """The module of the last stage, whose branches fork."""

    def __init__(self, in_channels: int, conv_block: Any = None) -> None:
        row, column = (1, 3), (3, 1)
        shapes: dict[str, _Shape] = {
            "branch1x1": (0, 320, 1),
            "branch3x3_1": (0, 384, 1),
            "branch3x3_2a": (384, 384, row),
            "branch3x3_2b": (384, 384, column),
            "branch3x3dbl_1": (0, 448, 1),
            "branch3x3dbl_2": (448, 384, 3),
            "branch3x3dbl_3a": (384, 384, row),
            "branch3x3dbl_3b": (384, 384, column),
            "branch_pool": (0, 192, 1),
        }
        forked = ["branch3x3_1", ("branch3x3_2a", "branch3x3_2b")]
        double = ["branch3x3dbl_1", "branch3x3dbl_2", ("branch3x3dbl_3a", "branch3x3dbl_3b")]
        super().__init__(in_channels, shapes, [["branch1x1"], forked, double, ["avg", "branch_pool"]], conv_block)


class InceptionAux(nn.Module):
    """A branch that classifies in the middle of the network, for training.

    Args:
        in_channels: channels of the input.
        num_classes: number of outputs.
        conv_block: makes a convolution; `BasicConv2d` by default.
    """

    def __init__(self, in_channels: int, num_classes: int, conv_block: Any = None) -> None:
        super().__init__()
        conv = conv_block or BasicConv2d
        self.conv0, self.conv1 = conv(in_channels, 128, kernel_size=1), conv(128, 768, kernel_size=5)
        self.fc = nn.Linear(768, num_classes)
        self.conv1.stddev, self.fc.stddev = 0.01, 0.001

    def forward(self, x: Any) -> Any:
        """Maps (N, in_channels, 17, 17) to (N, num_classes)."""
        x = self.conv1(self.conv0(nn.functional.avg_pool2d(x, kernel_size=5, stride=3)))
        return self.fc(rgrad.flatten(nn.functional.adaptive_avg_pool2d(x, (1, 1)), 1))


class Inception3(nn.Module):
    """Inception-v3.

    Args:
        num_classes: number of outputs.
        aux_logits: whether a branch classifies too, in training: then an `InceptionOutputs` is returned.
        transform_input: whether inputs were normalized with ImageNet's mean, which is then undone.
        inception_blocks: what makes a convolution, the modules A to E, and the branch.
        init_weights: whether weights are set to a truncated normal distribution; yes by default.
        dropout: the probability of dropping before the last layer.
    """

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        inception_blocks: list[Callable[..., nn.Module]] | None = None,
        init_weights: bool | None = None,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        default = (BasicConv2d, InceptionA, InceptionB, InceptionC, InceptionD, InceptionE, InceptionAux)
        conv, first, halve, second, last_halve, third, branch = inception_blocks or default
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.Conv2d_1a_3x3 = conv(3, 32, kernel_size=3, stride=2)
        self.Conv2d_2a_3x3 = conv(32, 32, kernel_size=3)
        self.Conv2d_2b_3x3 = conv(32, 64, kernel_size=3, padding=1)
        self.maxpool1 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.Conv2d_3b_1x1 = conv(64, 80, kernel_size=1)
        self.Conv2d_4a_3x3 = conv(80, 192, kernel_size=3)
        self.maxpool2 = nn.MaxPool2d(kernel_size=3, stride=2)
        for letter, width, pooled in (("b", 192, 32), ("c", 256, 64), ("d", 288, 64)):
            self.add_module(f"Mixed_5{letter}", first(width, pool_features=pooled))
        self.Mixed_6a = halve(288)
        for letter, few in (("b", 128), ("c", 160), ("d", 160), ("e", 192)):
            self.add_module(f"Mixed_6{letter}", second(768, channels_7x7=few))
        self.AuxLogits = branch(768, num_classes) if aux_logits else None
        self.Mixed_7a = last_halve(768)
        self.Mixed_7b, self.Mixed_7c = third(1280), third(2048)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(p=dropout)
        self.fc = nn.Linear(2048, num_classes)
        if init_weights is None or init_weights:
            begin(self, 0.1)

    def forward(self, x: Any) -> Any:
        """Maps shape (N, 3, H, W) to (N, num_classes); H and W are at least 75."""
        x = renormalized(x) if self.transform_input else x
        classified = None
        for name, module in self.named_children():
            if name == "AuxLogits":
                classified = module(x) if self.training else None
            elif name == "fc":
                x = module(rgrad.flatten(x, 1))
            else:
                x = module(x)
        return InceptionOutputs(x, classified) if self.training and self.aux_logits else x


def _finish(model: Any, given: dict[str, Any]) -> None:
    if not given.get("aux_logits", True):
        model.aux_logits, model.AuxLogits = False, None


Inception_V3_Weights = published("Inception_V3", __name__)
inception_v3 = builder(
    "inception_v3", Inception_V3_Weights, Inception3, "Inception-v3.", loaded=loaded_with_branches, finish=_finish
)
