"""Random images that stand for a dataset."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad.vision.datasets.vision import Transform, VisionDataset


class FakeData(VisionDataset):
    """Random images and classes, the same ones at each visit.

    Args:
        size: the number of samples.
        image_size: the shape of an image, (C, H, W).
        num_classes: the number of classes.
        transform: applied to each image, a Pillow image.
        target_transform: applied to each class.
        random_offset: added to the index to give the seed of a sample.
    """

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(None, transform=transform, target_transform=target_transform)
        self.size = size
        self.num_classes = num_classes
        self.image_size = image_size
        self.random_offset = random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if not 0 <= index < self.size:
            raise IndexError(f"{type(self).__name__} index out of range")
        from rgrad.vision.transforms.functional import to_pil_image

        generator = rgrad.Generator().manual_seed(index + self.random_offset)
        image = to_pil_image(rgrad.randn(self.image_size, generator=generator))
        target = int(rgrad.randint(0, self.num_classes, (1,), generator=generator))
        return self._transformed(image, target)

    def __len__(self) -> int:
        return self.size
