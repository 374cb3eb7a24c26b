"""Residual networks (He et al., 2015), of basic blocks and of bottlenecks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import nn
from rgrad.vision.models._weights import ImageClassification, Weights, WeightsEnum


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


def _weights(name: str, file: str, ops: float, parameters: int, measured: Any, sizes: Any, **about: Any) -> Weights:
    return Weights(
        url=f"https://download.pytorch.org/models/{name}-{file}.pth",
        transforms=functools.partial(ImageClassification, crop_size=224, **about),
        meta={
            **_META,
            "num_params": parameters,
            "_metrics": {"ImageNet-1K": dict(zip(("acc@1", "acc@5"), measured, strict=True))},
            "_ops": ops,
            "_file_size": sizes,
        },
    )


class ResNet50_Weights(WeightsEnum):  # noqa: N801 - torchvision's name
    """The published weights of `resnet50`."""

    IMAGENET1K_V1 = _weights("resnet50", "0676ba61", 4.089, 25557032, (76.13, 92.862), 97.781)
    IMAGENET1K_V2 = _weights("resnet50", "11ad3fa6", 4.089, 25557032, (80.858, 95.434), 97.79, resize_size=232)
    DEFAULT = IMAGENET1K_V2


class ResNet101_Weights(WeightsEnum):  # noqa: N801 - torchvision's name
    """The published weights of `resnet101`."""

    IMAGENET1K_V1 = _weights("resnet101", "63fe2227", 7.801, 44549160, (77.374, 93.546), 170.511)
    IMAGENET1K_V2 = _weights("resnet101", "cd907fc2", 7.801, 44549160, (81.886, 95.78), 170.53, resize_size=232)
    DEFAULT = IMAGENET1K_V2


class ResNet152_Weights(WeightsEnum):  # noqa: N801 - torchvision's name
    """The published weights of `resnet152`."""

    IMAGENET1K_V1 = _weights("resnet152", "394f9c45", 11.514, 60192808, (78.312, 94.046), 230.434)
    IMAGENET1K_V2 = _weights("resnet152", "f82ba261", 11.514, 60192808, (82.284, 96.002), 230.474, resize_size=232)
    DEFAULT = IMAGENET1K_V2


def _resnet(
    layers: list[int],
    weights: WeightsEnum | None,
    weights_dir: Any,
    options: dict[str, Any],
    block: type[BasicBlock | Bottleneck] = BasicBlock,
) -> ResNet:
    if weights is not None:
        classes = weights.meta["num_classes"]
        if options.setdefault("num_classes", classes) != classes:
            raise ValueError(
                f"The parameter 'num_classes' expected value {classes} but got {options['num_classes']} instead."
            )
    model = ResNet(block, layers, **options)
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


def resnet50(
    *,
    weights: ResNet50_Weights | str | None = None,
    progress: bool = True,
    weights_dir: Any = None,
    **kwargs: Any,
) -> ResNet:
    """ResNet-50; as `resnet18`."""
    del progress
    return _resnet([3, 4, 6, 3], ResNet50_Weights.verify(weights), weights_dir, kwargs, Bottleneck)


def resnet101(
    *,
    weights: ResNet101_Weights | str | None = None,
    progress: bool = True,
    weights_dir: Any = None,
    **kwargs: Any,
) -> ResNet:
    """ResNet-101; as `resnet18`."""
    del progress
    return _resnet([3, 4, 23, 3], ResNet101_Weights.verify(weights), weights_dir, kwargs, Bottleneck)


def resnet152(
    *,
    weights: ResNet152_Weights | str | None = None,
    progress: bool = True,
    weights_dir: Any = None,
    **kwargs: Any,
) -> ResNet:
    """ResNet-152; as `resnet18`."""
    del progress
    return _resnet([3, 8, 36, 3], ResNet152_Weights.verify(weights), weights_dir, kwargs, Bottleneck)
