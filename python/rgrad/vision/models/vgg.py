"""Networks of 3x3 convolutions and poolings (Simonyan and Zisserman, 2014)."""

from __future__ import annotations

import functools
from typing import Any

import rgrad
from rgrad import nn
from rgrad.vision.models._api import builder
from rgrad.vision.models._published import published

__all__ = [
    "VGG",
    "VGG11_BN_Weights",
    "VGG11_Weights",
    "VGG13_BN_Weights",
    "VGG13_Weights",
    "VGG16_BN_Weights",
    "VGG16_Weights",
    "VGG19_BN_Weights",
    "VGG19_Weights",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
]


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


def _make(letter: str, batch_norm: bool, **kwargs: Any) -> VGG:
    return VGG(make_layers(cfgs[letter], batch_norm), **kwargs)


def _loaded(weights: Any, options: dict[str, Any]) -> None:
    options["init_weights"] = False


def _network(depth: int, batch_norm: bool, enum: Any) -> Any:
    make = functools.partial(_make, _LETTERS[depth], batch_norm)
    title = f"VGG-{depth}{' with batch normalization' * batch_norm}."
    return builder(f"vgg{depth}{'_bn' * batch_norm}", enum, make, title, _loaded)


VGG11_Weights, VGG11_BN_Weights = published("VGG11", __name__), published("VGG11_BN", __name__)
VGG13_Weights, VGG13_BN_Weights = published("VGG13", __name__), published("VGG13_BN", __name__)
VGG16_Weights, VGG16_BN_Weights = published("VGG16", __name__), published("VGG16_BN", __name__)
VGG19_Weights, VGG19_BN_Weights = published("VGG19", __name__), published("VGG19_BN", __name__)

vgg11, vgg11_bn = _network(11, False, VGG11_Weights), _network(11, True, VGG11_BN_Weights)
vgg13, vgg13_bn = _network(13, False, VGG13_Weights), _network(13, True, VGG13_BN_Weights)
vgg16, vgg16_bn = _network(16, False, VGG16_Weights), _network(16, True, VGG16_BN_Weights)
vgg19, vgg19_bn = _network(19, False, VGG19_Weights), _network(19, True, VGG19_BN_Weights)
