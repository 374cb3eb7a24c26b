"""Image datasets."""

from rgrad._absent import absent_class
from rgrad.vision.datasets.cifar import CIFAR10, CIFAR100
from rgrad.vision.datasets.fakedata import FakeData
from rgrad.vision.datasets.folder import DatasetFolder, ImageFolder
from rgrad.vision.datasets.mnist import KMNIST, MNIST, FashionMNIST
from rgrad.vision.datasets.vision import VisionDataset

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "EMNIST",
    "KMNIST",
    "MNIST",
    "SVHN",
    "DatasetFolder",
    "FakeData",
    "FashionMNIST",
    "ImageFolder",
    "VisionDataset",
]

_WHY = "of the datasets there are CIFAR, folders of images, random images and the MNIST family without EMNIST"
EMNIST = absent_class("torchvision.datasets.EMNIST", _WHY)
SVHN = absent_class("torchvision.datasets.SVHN", _WHY)
