"""Residual networks (He et al., 2015) of basic blocks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import nn
from rgrad.vision.models._weights import ImageClassification, Weights, WeightsEnum


def _conv3x3(channels_in: int, channels_out: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels_out, kernel_size=3, stride=stride, padding=1, bias=False)


def _conv1x1(channels_in: int, channels_out: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels_out, kernel_size=1, stride=stride, bias=False)


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
        self.conv1 = _conv3x3(inplanes, planes, stride)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = _conv3x3(planes, planes)
        self.bn2 = norm(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Any) -> Any:
        """Maps shape (N, inplanes, H, W) to (N, planes, H / stride, W / stride)."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    """A residual network.

    Args:
        block: the block that the four stages consist of.
        layers: number of blocks in each stage.
        num_classes: number of outputs.
        zero_init_residual: initialize every block as the identity.
        norm_layer: the normalization; `BatchNorm2d` by default.
    """

    def __init__(
        self,
        block: type[BasicBlock],
        layers: list[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes = 64
        self.conv1 = nn.Conv2d(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0], 1)
        self.layer2 = self._make_layer(block, 128, layers[1], 2)
        self.layer3 = self._make_layer(block, 256, layers[2], 2)
        self.layer4 = self._make_layer(block, 512, layers[3], 2)
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
                if isinstance(module, BasicBlock):
                    nn.init.constant_(module.bn2.weight, 0)

    def _make_layer(self, block: type[BasicBlock], planes: int, blocks: int, stride: int) -> nn.Sequential:
        norm = self._norm_layer
        downsample = None
        if stride != 1 or self.inplanes != planes * block.expansion:
            downsample = nn.Sequential(
                _conv1x1(self.inplanes, planes * block.expansion, stride), norm(planes * block.expansion)
            )
        stage = [block(self.inplanes, planes, stride, downsample, norm_layer=norm)]
        self.inplanes = planes * block.expansion
        stage.extend(block(self.inplanes, planes, norm_layer=norm) for _ in range(1, blocks))
        return nn.Sequential(*stage)

    def forward(self, x: Any) -> Any:
        """Maps shape (N, 3, H, W) to (N, num_classes)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(rgrad.flatten(self.avgpool(x), 1))


_META = {
    "min_size": (1, 1),
    "num_classes": 1000,
    "recipe": "https://github.com/pytorch/vision/tree/main/references/classification#resnet",
}
_TRANSFORMS = functools.partial(ImageClassification, crop_size=224)


class ResNet18_Weights(WeightsEnum):  # noqa: N801 - torchvision's name
    """The published weights of `resnet18`."""

    IMAGENET1K_V1 = Weights(
        url="https://download.pytorch.org/models/resnet18-f37072fd.pth",
        transforms=_TRANSFORMS,
        meta={
            **_META,
            "num_params": 11689512,
            "_metrics": {"ImageNet-1K": {"acc@1": 69.758, "acc@5": 89.078}},
            "_ops": 1.814,
            "_file_size": 44.661,
        },
    )
    DEFAULT = IMAGENET1K_V1


class ResNet34_Weights(WeightsEnum):  # noqa: N801 - torchvision's name
    """The published weights of `resnet34`."""

    IMAGENET1K_V1 = Weights(
        url="https://download.pytorch.org/models/resnet34-b627a593.pth",
        transforms=_TRANSFORMS,
        meta={
            **_META,
            "num_params": 21797672,
            "_metrics": {"ImageNet-1K": {"acc@1": 73.314, "acc@5": 91.42}},
            "_ops": 3.664,
            "_file_size": 83.275,
        },
    )
    DEFAULT = IMAGENET1K_V1


def _resnet(
    layers: list[int], weights: WeightsEnum | None, weights_dir: Any, options: dict[str, Any]
) -> ResNet:
    if weights is not None:
        classes = weights.meta["num_classes"]
        if options.setdefault("num_classes", classes) != classes:
            raise ValueError(
                f"The parameter 'num_classes' expected value {classes} but got {options['num_classes']} "
                "instead."
            )
    model = ResNet(BasicBlock, layers, **options)
    if weights is not None:
        model.load_state_dict(weights.get_state_dict(weights_dir))
    return model


def resnet18(
    *,
    weights: ResNet18_Weights | str | None = None,
    progress: bool = True,
    weights_dir: Any = None,
    **kwargs: Any,
) -> ResNet:
    """ResNet-18.

    Args:
        weights: published weights, read from a local file; None for random initialization.
        progress: accepted; nothing is downloaded.
        weights_dir: a folder to search for that file first.
        **kwargs: arguments of `ResNet`, such as `num_classes`.

    Returns:
        The network, which maps (N, 3, H, W) to (N, num_classes).
    """
    del progress
    return _resnet([2, 2, 2, 2], ResNet18_Weights.verify(weights), weights_dir, kwargs)


def resnet34(
    *,
    weights: ResNet34_Weights | str | None = None,
    progress: bool = True,
    weights_dir: Any = None,
    **kwargs: Any,
) -> ResNet:
    """ResNet-34; the arguments are those of `resnet18`."""
    del progress
    return _resnet([3, 4, 6, 3], ResNet34_Weights.verify(weights), weights_dir, kwargs)
