"""Images: datasets, transforms and models, with torchvision's names."""

from rgrad.vision import datasets, models, ops, transforms

__all__ = ["datasets", "models", "ops", "transforms"]
