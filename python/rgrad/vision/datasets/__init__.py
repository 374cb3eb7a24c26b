"""Picture datasets."""

from rgrad.vision.datasets.mnist import MNIST, FashionMNIST

__all__ = ["MNIST", "FashionMNIST"]
