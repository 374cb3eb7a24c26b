"""The network that won ImageNet in 2012, in its later form for one device (Krizhevsky, 2014)."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import nn
from rgrad.vision.models._api import builder
from rgrad.vision.models._published import published

__all__ = [
    "AlexNet",
    "AlexNet_Weights",
    "alexnet",
]

# Channels, kernel, stride and padding of the convolutions; a pooling follows those that are marked.
_CONVOLUTIONS = (
    (64, 11, 4, 2, True),
    (192, 5, 1, 2, True),
    (384, 3, 1, 1, False),
    (256, 3, 1, 1, False),
    (256, 3, 1, 1, True),
)


class AlexNet(nn.Module):
    """Five convolutions and three linear layers.

    Args:
        num_classes: number of outputs.
        dropout: the probability of dropping before the first two linear layers.
    """

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        features: list[nn.Module] = []
        width = 3
        for channels, kernel, stride, padding, pooled in _CONVOLUTIONS:
            features += [nn.Conv2d(width, channels, kernel, stride, padding), nn.ReLU(inplace=True)]
            features += [nn.MaxPool2d(kernel_size=3, stride=2)] if pooled else []
            width = channels
        self.features = nn.Sequential(*features)
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        classifier: list[nn.Module] = []
        for size in (width * 6 * 6, 4096):
            classifier += [nn.Dropout(p=dropout), nn.Linear(size, 4096), nn.ReLU(inplace=True)]
        self.classifier = nn.Sequential(*classifier, nn.Linear(4096, num_classes))

    def forward(self, x: Any) -> Any:
        """Maps shape (N, 3, H, W) to (N, num_classes); H and W are at least 63."""
        return self.classifier(rgrad.flatten(self.avgpool(self.features(x)), 1))


AlexNet_Weights = published("AlexNet", __name__)
alexnet = builder("alexnet", AlexNet_Weights, AlexNet, "AlexNet.")
