"""The base class of image datasets."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from rgrad.utils.data import Dataset

Transform = Callable[[Any], Any]


class StandardTransform:
    """A transform of images and one of targets, as one transform of samples.

    Args:
        transform: applied to the image, if given.
        target_transform: applied to the target, if given.
    """

    def __init__(self, transform: Transform | None = None, target_transform: Transform | None = None) -> None:
        self.transform = transform
        self.target_transform = target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        def applied(transform: Transform | None, value: Any) -> Any:
            return value if transform is None else transform(value)

        return applied(self.transform, input), applied(self.target_transform, target)

    def __repr__(self) -> str:
        text = type(self).__name__
        for title, transform in (("Transform", self.transform), ("Target transform", self.target_transform)):
            if transform is not None:
                # Further lines are aligned with the first.
                text += f"\n{title}: " + repr(transform).replace("\n", "\n" + " " * (len(title) + 2))
        return text


class VisionDataset(Dataset[Any]):
    """A dataset of images in a folder.

    Args:
        root: the folder.
        transforms: applied to image and target together; excludes the others.
        transform: applied to each image.
        target_transform: applied to each target.

    Raises:
        ValueError: if both `transforms` and another transform are given.
    """

    _repr_indent = 4

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        transforms: Callable[[Any, Any], Any] | None = None,
        transform: Transform | None = None,
        target_transform: Transform | None = None,
    ) -> None:
        separate = transform is not None or target_transform is not None
        if separate and transforms is not None:
            raise ValueError("Only transforms or transform/target_transform can be passed as argument")
        self.root: Any = os.path.expanduser(root) if isinstance(root, str) else root
        self.transform = transform
        self.target_transform = target_transform
        self.transforms = StandardTransform(transform, target_transform) if separate else transforms

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} defines no __len__")

    def _transformed(self, image: Any, target: Any) -> tuple[Any, Any]:
        """A sample after the transforms; the attributes are read again, since programs replace them."""
        return StandardTransform(self.transform, self.target_transform)(image, target)

    def extra_repr(self) -> str:
        """Further lines for `repr`."""
        return ""

    def __repr__(self) -> str:
        lines = [f"Number of datapoints: {len(self)}"]
        if self.root is not None:
            lines.append(f"Root location: {self.root}")
        lines += self.extra_repr().splitlines()
        if getattr(self, "transforms", None) is not None:
            lines.append(repr(self.transforms))
        indent = " " * self._repr_indent
        return "\n".join([f"Dataset {type(self).__name__}", *(indent + line for line in lines)])
