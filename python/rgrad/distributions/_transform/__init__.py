"""Transforms that are made of others; `transforms` offers them."""

from .base import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    _expect_dims,
    _InverseTransform,
    identity_transform,
)
from .parts import CatTransform, CumulativeDistributionTransform, StackTransform

__all__ = [
    "CatTransform",
    "ComposeTransform",
    "CumulativeDistributionTransform",
    "IndependentTransform",
    "ReshapeTransform",
    "StackTransform",
    "Transform",
    "_InverseTransform",
    "_expect_dims",
    "identity_transform",
]
