"""Networks of 3x3 convolutions and poolings (Simonyan and Zisserman, 2014)."""

from __future__ import annotations

import functools
from typing import Any

import rgrad
from rgrad import nn
from rgrad.vision.models._weights import ImageClassification, Weights, WeightsEnum


def _layers_of(*counts: int) -> list[int | str]:
    """The channels of the convolutions of each of the five blocks, "M" for the pooling after them."""
    channels = (64, 128, 256, 512, 512)
    return [layer for width, n in zip(channels, counts, strict=True) for layer in [*[width] * n, "M"]]


# The letters are those of the columns of table 1 of the paper.
cfgs: dict[str, list[int | str]] = {
    "A": _layers_of(1, 1, 2, 2, 2),
    "B": _layers_of(2, 2, 2, 2, 2),
    "D": _layers_of(2, 2, 3, 3, 3),
    "E": _layers_of(2, 2, 4, 4, 4),
}
_LETTERS = {11: "A", 13: "B", 16: "D", 19: "E"}


class VGG(nn.Module):
    """Features and a classifier of three layers.

    Args:
        features: (N, 3, H, W) to (N, 512, h, w).
        num_classes: how many numbers come out.
        init_weights: whether weights get the values with which training begins.
        dropout: the share of the classifier's numbers that are dropped in training.
    """

    def __init__(
        self, features: nn.Module, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        layers: list[nn.Module] = []
        for width in (512 * 7 * 7, 4096):
            layers += [nn.Linear(width, 4096), nn.ReLU(True), nn.Dropout(p=dropout)]
        self.classifier = nn.Sequential(*layers, nn.Linear(4096, num_classes))
        if init_weights:
            self.apply(_initialise)

    def forward(self, x: Any) -> Any:
        """Shape (N, 3, H, W) to (N, num_classes)."""
        return self.classifier(rgrad.flatten(self.avgpool(self.features(x)), 1))


def _initialise(module: Any) -> None:
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    elif isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, 0, 0.01)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.ones_(module.weight)
    bias = getattr(module, "bias", None)
    if bias is not None and isinstance(bias, rgrad.Tensor):
        nn.init.zeros_(bias)


def make_layers(cfg: list[int | str], batch_norm: bool = False) -> nn.Sequential:
    """The features of a VGG.

    Args:
        cfg: the channels of each convolution of 3x3, or "M" for a pooling, in order.
        batch_norm: whether a batch normalization follows each convolution.
    """
    layers: list[nn.Module] = []
    width = 3
    for layer in cfg:
        if isinstance(layer, str):
            layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
            continue
        norm = [nn.BatchNorm2d(layer)] if batch_norm else []
        layers += [nn.Conv2d(width, layer, kernel_size=3, padding=1), *norm, nn.ReLU(inplace=True)]
        width = layer
    return nn.Sequential(*layers)


def _weights(file: str, parameters: int, ops: float, size: float, measured: Any, **about: Any) -> Weights:
    return Weights(
        url=f"https://download.pytorch.org/models/{file}.pth",
        transforms=functools.partial(ImageClassification, crop_size=224, **about),
        meta={
            "min_size": (32, 32),
            "num_classes": 1000,
            "num_params": parameters,
            "_metrics": {"ImageNet-1K": dict(zip(("acc@1", "acc@5"), measured, strict=True))},
            "_ops": ops,
            "_file_size": size,
        },
    )


class VGG11_Weights(WeightsEnum):  # noqa: N801 - torchvision's name, as those below
    """The published weights of `vgg11`."""

    IMAGENET1K_V1 = _weights("vgg11-8a719046", 132863336, 7.609, 506.84, (69.02, 88.628))
    DEFAULT = IMAGENET1K_V1


class VGG13_Weights(WeightsEnum):  # noqa: N801
    """The published weights of `vgg13`."""

    IMAGENET1K_V1 = _weights("vgg13-19584684", 133047848, 11.308, 507.545, (69.928, 89.246))
    DEFAULT = IMAGENET1K_V1


class VGG16_Weights(WeightsEnum):  # noqa: N801
    """The published weights of `vgg16`."""

    IMAGENET1K_V1 = _weights("vgg16-397923af", 138357544, 15.47, 527.796, (71.592, 90.382))
    IMAGENET1K_FEATURES = _weights(
        "vgg16_features-amdegroot-88682ab5",
        138357544,
        15.47,
        527.802,
        (float("nan"), float("nan")),
        mean=(0.48235, 0.45882, 0.40784),
        std=(1 / 255, 1 / 255, 1 / 255),
    )
    DEFAULT = IMAGENET1K_V1


class VGG19_Weights(WeightsEnum):  # noqa: N801
    """The published weights of `vgg19`."""

    IMAGENET1K_V1 = _weights("vgg19-dcbb9e9d", 143667240, 19.632, 548.051, (72.376, 90.876))
    DEFAULT = IMAGENET1K_V1


class VGG11_BN_Weights(WeightsEnum):  # noqa: N801
    """The published weights of `vgg11_bn`."""

    IMAGENET1K_V1 = _weights("vgg11_bn-6002323d", 132868840, 7.609, 506.881, (70.37, 89.81))
    DEFAULT = IMAGENET1K_V1


class VGG13_BN_Weights(WeightsEnum):  # noqa: N801
    """The published weights of `vgg13_bn`."""

    IMAGENET1K_V1 = _weights("vgg13_bn-abd245e5", 133053736, 11.308, 507.59, (71.586, 90.374))
    DEFAULT = IMAGENET1K_V1


class VGG16_BN_Weights(WeightsEnum):  # noqa: N801
    """The published weights of `vgg16_bn`."""

    IMAGENET1K_V1 = _weights("vgg16_bn-6c64b313", 138365992, 15.47, 527.866, (73.36, 91.516))
    DEFAULT = IMAGENET1K_V1


class VGG19_BN_Weights(WeightsEnum):  # noqa: N801
    """The published weights of `vgg19_bn`."""

    IMAGENET1K_V1 = _weights("vgg19_bn-c79401a0", 143678248, 19.632, 548.143, (74.218, 91.842))
    DEFAULT = IMAGENET1K_V1


def _network(depth: int, batch_norm: bool, enum: type[WeightsEnum]) -> Any:
    def make(*, weights: Any = None, progress: bool = True, weights_dir: Any = None, **kwargs: Any) -> VGG:
        del progress
        chosen = enum.verify(weights)
        if chosen is not None:
            kwargs.setdefault("num_classes", chosen.meta["num_classes"])
            kwargs["init_weights"] = False
        model = VGG(make_layers(cfgs[_LETTERS[depth]], batch_norm), **kwargs)
        if chosen is not None:
            model.load_state_dict(chosen.get_state_dict(weights_dir))
        return model

    make.__name__ = make.__qualname__ = f"vgg{depth}{'_bn' * batch_norm}"
    make.__doc__ = f"VGG-{depth}{' with batch normalization' * batch_norm}; takes what `resnet18` does."
    return make


vgg11, vgg11_bn = _network(11, False, VGG11_Weights), _network(11, True, VGG11_BN_Weights)
vgg13, vgg13_bn = _network(13, False, VGG13_Weights), _network(13, True, VGG13_BN_Weights)
vgg16, vgg16_bn = _network(16, False, VGG16_Weights), _network(16, True, VGG16_BN_Weights)
vgg19, vgg19_bn = _network(19, False, VGG19_Weights), _network(19, True, VGG19_BN_Weights)
