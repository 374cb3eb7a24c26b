"""Transforms of batches that mix each image, and its label, with the one before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import rgrad
from rgrad.utils import _pytree
from rgrad.vision.transforms import _draw
from rgrad.vision.transforms._kinds import is_pil
from rgrad.vision.transforms.v2 import functional as F  # noqa: N812
from rgrad.vision.transforms.v2._transform import Transform, images_among, leaves_of, sample_of


def _labels_of(sample: Any) -> Any:
    """The labels of a batch: the second of a pair, or what a dictionary has under a name with "label" or "target"."""
    if isinstance(sample, Mapping):
        return next((sample[key] for word in ("label", "target") for key in sample if word in str(key).lower()), None)
    return sample[1] if isinstance(sample, (tuple, list)) and len(sample) > 1 else None


class _Mix(Transform):
    """Mixes images and labels.

    Args:
        alpha: both parameters of the beta distribution from which the share of an image is drawn.
        num_classes: how many classes there are, if labels are indices.
        labels_getter: a function of a batch that returns its labels. By default they are the second of a pair, or
            what a dictionary has under a name with "label" or "target".

    Raises:
        ValueError: the batch is none of shape (B, C, H, W), or its labels have neither the shape (B,) nor
            (B, num_classes).
    """

    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None, labels_getter: Any = "default") -> None:
        super().__init__()
        self.alpha, self.num_classes = float(alpha), num_classes
        self._labels_getter: Callable[[Any], Any] = _labels_of if labels_getter == "default" else labels_getter

    def forward(self, *inputs: Any) -> Any:
        """Mixes a batch, given as one argument or several."""
        sample = sample_of(inputs)
        parts, structure = leaves_of(inputs)
        if any(map(is_pil, parts)):
            raise ValueError(f"{type(self).__name__}() does not support PIL images: it mixes batches of tensors.")
        labels = self._labels_getter(sample)
        if not isinstance(labels, rgrad.Tensor):
            raise ValueError(f"The labels must be a tensor, but got {type(labels)} instead.")
        images = images_among(parts)
        batch = next((part for part, is_image in zip(parts, images, strict=True) if is_image), labels)
        self._check(batch, labels)
        share, paste = self._drawn(batch)
        mixed = [
            self._labels(part, share) if part is labels else (F.like(paste(F.plain(part)), part) if is_image else part)
            for part, is_image in zip(parts, images, strict=True)
        ]
        return _pytree.tree_unflatten(mixed, structure)

    def _check(self, batch: Any, labels: Any) -> None:
        if labels.dim() not in (1, 2) or batch is labels:
            raise ValueError(
                "labels should be index based, of shape (B,), or probabilities of shape (B, num_classes), but they are "
                f"a tensor of shape {labels.shape}"
            )
        if labels.dim() == 1 and self.num_classes is None:
            raise ValueError("num_classes must be passed if the labels are index-based (1D)")
        if labels.dim() == 2 and self.num_classes not in (None, labels.shape[1]):
            raise ValueError(f"labels of {labels.shape[1]} classes do not fit num_classes={self.num_classes}")
        if batch.dim() != 4:
            raise ValueError(f"Expected a batched input with 4 dims, but got {batch.dim()} dimensions instead.")
        if len(batch) != len(labels):
            raise ValueError(f"The batch has {len(batch)} images, but {len(labels)} labels.")

    def _share(self) -> float:
        return rgrad.distributions.Beta(self.alpha, self.alpha).sample(()).item()

    def _drawn(self, batch: Any) -> tuple[float, Callable[[Any], Any]]:
        """The share of an image in its mixture, and the function that mixes a batch."""
        raise NotImplementedError

    def _labels(self, labels: Any, share: float) -> Any:
        if labels.dim() == 1:
            labels = rgrad.nn.functional.one_hot(labels, num_classes=self.num_classes or 0)
        if not labels.is_floating_point():
            labels = labels.float()
        return labels.roll(1, 0).mul_(1.0 - share).add_(labels.mul(share))


class MixUp(_Mix):
    """Averages each image with the one before it in the batch: ``share * x[i] + (1 - share) * x[i - 1]``.

    After Zhang, Cisse, Dauphin and Lopez-Paz, "mixup: Beyond Empirical Risk Minimization". The arguments:
    `alpha` (1.0), both parameters of the beta distribution of the share; `num_classes`, needed for labels that are
    indices; `labels_getter`, a function that finds the labels in a batch.
    """

    def _drawn(self, batch: Any) -> tuple[float, Callable[[Any], Any]]:
        share = self._share()
        return share, lambda images: images.roll(1, 0).mul_(1.0 - share).add_(images.mul(share))


class CutMix(_Mix):
    """Puts a rectangle of the image before it in the batch into each image.

    After Yun and others, "CutMix: Regularization Strategy to Train Strong Classifiers with Localizable Features". The
    arguments are those of `MixUp`; the share of an image is that of the area which it keeps.
    """

    def _drawn(self, batch: Any) -> tuple[float, Callable[[Any], Any]]:
        height, width = batch.shape[-2:]
        side = 0.5 * math.sqrt(1.0 - self._share())
        across, down = _draw.integer(0, width), _draw.integer(0, height)
        reach = int(side * width), int(side * height)
        left, right = max(across - reach[0], 0), min(across + reach[0], width)
        top, bottom = max(down - reach[1], 0), min(down + reach[1], height)
        share = 1.0 - (right - left) * (bottom - top) / (width * height)

        def paste(images: Any) -> Any:
            result = images.clone()
            result[..., top:bottom, left:right] = images.roll(1, 0)[..., top:bottom, left:right]
            return result

        return share, paste
