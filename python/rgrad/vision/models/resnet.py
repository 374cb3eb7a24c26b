"""Residual networks (He et al., 2015), of basic blocks and of bottlenecks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import nn
from rgrad.vision.models._api import builder
from rgrad.vision.models._published import published

__all__ = [
    "BasicBlock",
    "Bottleneck",
    "ResNeXt101_32X8D_Weights",
    "ResNeXt101_64X4D_Weights",
    "ResNeXt50_32X4D_Weights",
    "ResNet",
    "ResNet101_Weights",
    "ResNet152_Weights",
    "ResNet18_Weights",
    "ResNet34_Weights",
    "ResNet50_Weights",
    "Wide_ResNet101_2_Weights",
    "Wide_ResNet50_2_Weights",
    "resnet101",
    "resnet152",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnext101_32x8d",
    "resnext101_64x4d",
    "resnext50_32x4d",
    "wide_resnet101_2",
    "wide_resnet50_2",
]


def conv3x3(in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    """A 3x3 convolution without bias, which keeps the size for a stride of 1."""
    around: Any = {"padding": dilation, "dilation": dilation, "groups": groups, "bias": False}
    return nn.Conv2d(in_planes, out_planes, 3, stride, **around)


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """A 1x1 convolution without bias."""
    return nn.Conv2d(in_planes, out_planes, kernel_size=1, stride=stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a residual connection.

    Args:
        inplanes: number of input channels.
        planes: number of output channels.
        stride: stride of the first convolution.
        downsample: converts the input to the output's shape if they differ.
        groups: must be 1.
        base_width: must be 64.
        dilation: must be 1.
        norm_layer: the normalization; `BatchNorm2d` by default.
    """

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        self.conv1, self.bn1 = conv3x3(inplanes, planes, stride), norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = conv3x3(planes, planes), norm(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Any) -> Any:
        """Maps shape (N, inplanes, H, W) to (N, planes, H / stride, W / stride)."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(nn.Module):
    """A 1x1 convolution to fewer channels, a 3x3 one that may have a stride, a 1x1 one to four times as many, and a
    way around them.

    Args:
        inplanes: channels in.
        planes: channels in the middle, for a `base_width` of 64 and one group; a quarter of those that come out.
        stride: of the second convolution.
        downsample: brings the input to the output's shape where they differ.
        groups: of the second convolution.
        base_width: channels of a group in the middle, for 64 planes.
        dilation: of the second convolution.
        norm_layer: what normalises; `BatchNorm2d` by default.
    """

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        middle = planes * base_width // 64 * groups
        self.conv1, self.bn1 = conv1x1(inplanes, middle), norm(middle)
        self.conv2, self.bn2 = conv3x3(middle, middle, stride, groups, dilation), norm(middle)
        self.conv3, self.bn3 = conv1x1(middle, planes * self.expansion), norm(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Any) -> Any:
        """Shape (N, inplanes, H, W) to (N, 4 planes, H / stride, W / stride)."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    """A residual network.

    Args:
        block: the block that the four stages consist of.
        layers: number of blocks in each stage.
        num_classes: number of outputs.
        zero_init_residual: initialize every block as the identity.
        groups: of the 3x3 convolutions of bottlenecks.
        width_per_group: their channels in each group, for the first stage.
        replace_stride_with_dilation: for each of the last three stages, whether its pictures keep their size and its
            convolutions are dilated instead.
        norm_layer: what normalises; `BatchNorm2d` by default.
    """

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        layers: list[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: list[bool] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        dilated = [False] * 3 if replace_stride_with_dilation is None else replace_stride_with_dilation
        if len(dilated) != 3:
            raise ValueError(
                f"replace_stride_with_dilation should be None or a 3-element tuple, got {replace_stride_with_dilation}"
            )
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.groups, self.base_width, self.dilation = groups, width_per_group, 1
        self.inplanes = 64
        self.conv1 = nn.Conv2d(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0], 1)
        self.layer2 = self._make_layer(block, 128, layers[1], 2, dilated[0])
        self.layer3 = self._make_layer(block, 256, layers[2], 2, dilated[1])
        self.layer4 = self._make_layer(block, 512, layers[3], 2, dilated[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)

        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(module.weight, 1)
                nn.init.constant_(module.bias, 0)
        if zero_init_residual:
            for module in self.modules():
                last = {BasicBlock: "bn2", Bottleneck: "bn3"}.get(type(module))
                if last is not None:
                    nn.init.constant_(getattr(module, last).weight, 0)

    def _make_layer(
        self, block: type[BasicBlock | Bottleneck], planes: int, blocks: int, stride: int, dilate: bool = False
    ) -> nn.Sequential:
        norm, width = self._norm_layer, planes * block.expansion
        before = self.dilation
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        downsample = None
        if stride != 1 or self.inplanes != width:
            downsample = nn.Sequential(conv1x1(self.inplanes, width, stride), norm(width))
        more: Any = {"groups": self.groups, "base_width": self.base_width, "norm_layer": norm}
        stage = [block(self.inplanes, planes, stride, downsample, dilation=before, **more)]
        self.inplanes = width
        stage.extend(block(width, planes, dilation=self.dilation, **more) for _ in range(1, blocks))
        return nn.Sequential(*stage)

    def forward(self, x: Any) -> Any:
        """Maps shape (N, 3, H, W) to (N, num_classes)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(rgrad.flatten(self.avgpool(x), 1))


def _network(name: str, enum: Any, block: Any, layers: list[int], **options: Any) -> Any:
    return builder(name, enum, functools.partial(ResNet, block, layers, **options), f"The network {name}.")


ResNet18_Weights, ResNet34_Weights = published("ResNet18", __name__), published("ResNet34", __name__)
ResNet50_Weights, ResNet101_Weights = published("ResNet50", __name__), published("ResNet101", __name__)
ResNet152_Weights = published("ResNet152", __name__)
ResNeXt50_32X4D_Weights = published("ResNeXt50_32X4D", __name__)
ResNeXt101_32X8D_Weights = published("ResNeXt101_32X8D", __name__)
ResNeXt101_64X4D_Weights = published("ResNeXt101_64X4D", __name__)
Wide_ResNet50_2_Weights = published("Wide_ResNet50_2", __name__)
Wide_ResNet101_2_Weights = published("Wide_ResNet101_2", __name__)

_50, _101, _152 = [3, 4, 6, 3], [3, 4, 23, 3], [3, 8, 36, 3]
resnet18 = _network("resnet18", ResNet18_Weights, BasicBlock, [2, 2, 2, 2])
resnet34 = _network("resnet34", ResNet34_Weights, BasicBlock, _50)
resnet50 = _network("resnet50", ResNet50_Weights, Bottleneck, _50)
resnet101 = _network("resnet101", ResNet101_Weights, Bottleneck, _101)
resnet152 = _network("resnet152", ResNet152_Weights, Bottleneck, _152)
resnext50_32x4d = _network("resnext50_32x4d", ResNeXt50_32X4D_Weights, Bottleneck, _50, groups=32, width_per_group=4)
resnext101_32x8d = _network(
    "resnext101_32x8d", ResNeXt101_32X8D_Weights, Bottleneck, _101, groups=32, width_per_group=8
)
resnext101_64x4d = _network(
    "resnext101_64x4d", ResNeXt101_64X4D_Weights, Bottleneck, _101, groups=64, width_per_group=4
)
wide_resnet50_2 = _network("wide_resnet50_2", Wide_ResNet50_2_Weights, Bottleneck, _50, width_per_group=128)
wide_resnet101_2 = _network("wide_resnet101_2", Wide_ResNet101_2_Weights, Bottleneck, _101, width_per_group=128)
