"""Image datasets."""

from rgrad._absent import absent_class
from rgrad.vision.datasets.mnist import MNIST, FashionMNIST

__all__ = ["CIFAR10", "CIFAR100", "ImageFolder", "KMNIST", "MNIST", "FashionMNIST"]

_WHY = "of the datasets there are MNIST and FashionMNIST"
CIFAR10 = absent_class("torchvision.datasets.CIFAR10", _WHY)
CIFAR100 = absent_class("torchvision.datasets.CIFAR100", _WHY)
ImageFolder = absent_class("torchvision.datasets.ImageFolder", _WHY)
KMNIST = absent_class("torchvision.datasets.KMNIST", _WHY)
