"""Networks, with torchvision's names, shapes and weights."""

from rgrad.vision.models._weights import Weights, WeightsEnum
from rgrad.vision.models.resnet import (
    BasicBlock,
    ResNet,
    ResNet18_Weights,
    ResNet34_Weights,
    resnet18,
    resnet34,
)

__all__ = [
    "BasicBlock",
    "ResNet",
    "ResNet18_Weights",
    "ResNet34_Weights",
    "Weights",
    "WeightsEnum",
    "resnet18",
    "resnet34",
]
