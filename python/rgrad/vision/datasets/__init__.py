"""Image datasets."""

from rgrad.vision.datasets.cifar import CIFAR10, CIFAR100
from rgrad.vision.datasets.emnist import EMNIST
from rgrad.vision.datasets.fakedata import FakeData
from rgrad.vision.datasets.folder import DatasetFolder, ImageFolder
from rgrad.vision.datasets.mnist import KMNIST, MNIST, FashionMNIST
from rgrad.vision.datasets.svhn import SVHN
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
