"""Images: datasets, transforms and models, with torchvision's names."""

from rgrad.vision import datasets, io, models, ops, transforms, utils

__all__ = ["datasets", "io", "models", "ops", "transforms", "utils"]
