"""Published weights: their names, URLs, and the folders in which their files are searched."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import rgrad
from rgrad.vision.transforms import functional as F  # noqa: N812


class ImageClassification:
    """The preprocessing of an image for a network trained on ImageNet.

    Args:
        crop_size: edge length of the central crop.
        resize_size: length to which the shorter edge is resized first.
        mean: subtracted from each channel.
        std: divides each channel.
    """

    def __init__(
        self,
        *,
        crop_size: int,
        resize_size: int = 256,
        mean: tuple[float, ...] = (0.485, 0.456, 0.406),
        std: tuple[float, ...] = (0.229, 0.224, 0.225),
    ) -> None:
        self.crop_size = [crop_size]
        self.resize_size = [resize_size]
        self.mean = list(mean)
        self.std = list(std)
        self.interpolation = F.InterpolationMode.BILINEAR

    def __call__(self, picture: Any) -> Any:
        picture = F.resize(picture, self.resize_size, self.interpolation)
        picture = F.center_crop(picture, (self.crop_size[0], self.crop_size[0]))
        if not isinstance(picture, rgrad.Tensor):
            picture = F.pil_to_tensor(picture)
        return F.normalize(F.convert_image_dtype(picture, rgrad.float32), self.mean, self.std)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(\n    crop_size={self.crop_size}\n    resize_size={self.resize_size}\n"
            f"    mean={self.mean}\n    std={self.std}\n    interpolation={self.interpolation}\n)"
        )


@dataclass
class Weights:
    """One set of published weights.

    Attributes:
        url: the URL at which the file was published.
        transforms: returns the preprocessing of its images.
        meta: metadata.
    """

    url: str
    transforms: Callable[..., Any]
    meta: dict[str, Any] = field(default_factory=dict)


def weights_folders() -> list[str]:
    """The folders in which weights are searched: `RGRAD_WEIGHTS_DIR`, then PyTorch's cache."""
    cache = os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache"))
    home = os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))
    folders = [os.environ.get("RGRAD_WEIGHTS_DIR", ""), os.path.join(home, "hub", "checkpoints")]
    return [os.path.expanduser(folder) for folder in folders if folder]


class WeightsEnum(Enum):
    """The published weights of one network; `DEFAULT` is the best of them."""

    @classmethod
    def verify(cls, weights: Any) -> WeightsEnum | None:
        """Returns the member given by `weights`, itself or its name; None is returned as None."""
        if weights is None:
            return None
        if isinstance(weights, str):
            return cls[weights.removeprefix(cls.__name__ + ".")]
        if not isinstance(weights, cls):
            raise TypeError(
                f"Invalid Weight class provided; expected {cls.__name__} but received {type(weights).__name__}."
            )
        return weights

    @property
    def url(self) -> str:
        """The URL at which the file was published."""
        return self.value.url

    @property
    def transforms(self) -> Callable[..., Any]:
        """Returns the preprocessing of its images."""
        return self.value.transforms

    @property
    def meta(self) -> dict[str, Any]:
        """Metadata of the weights."""
        return self.value.meta

    def get_state_dict(self, weights_dir: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """Reads the weights from a local file.

        Args:
            weights_dir: a folder to search before the default ones.

        Returns:
            The state dict.
        """
        name = self.url.rpartition("/")[2]
        folders = ([os.fspath(weights_dir)] if weights_dir is not None else []) + weights_folders()
        for folder in folders:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                return rgrad.load(path, map_location="cpu", weights_only=True)
        raise FileNotFoundError(
            f"the weights {self} are not on this machine: put {name} from {self.url} into one of {folders}, "
            "or set "
            "RGRAD_WEIGHTS_DIR to the folder that has it"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return repr(self)
