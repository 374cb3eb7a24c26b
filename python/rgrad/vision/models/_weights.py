"""Published weights: what they are called, where they come from, and where their files are looked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import rgrad
from rgrad.vision.transforms import functional as F  # noqa: N812


class ImageClassification:
    """What a picture has to go through before a network trained on ImageNet sees it.

    Args:
        crop_size: the edge of the middle that is kept.
        resize_size: the length the shorter edge is brought to first.
        mean: taken off each channel.
        std: each channel is divided by it.
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
        url: where its file was published.
        transforms: makes the transform that its pictures need.
        meta: facts about it.
    """

    url: str
    transforms: Callable[..., Any]
    meta: dict[str, Any] = field(default_factory=dict)


def weights_folders() -> list[str]:
    """Where files of weights are looked for: `RGRAD_WEIGHTS_DIR`, then PyTorch's cache."""
    cache = os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache"))
    home = os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))
    folders = [os.environ.get("RGRAD_WEIGHTS_DIR", ""), os.path.join(home, "hub", "checkpoints")]
    return [os.path.expanduser(folder) for folder in folders if folder]


class WeightsEnum(Enum):
    """The sets of weights of one network; `DEFAULT` is the best of them."""

    @classmethod
    def verify(cls, weights: Any) -> WeightsEnum | None:
        """The member that `weights` is, or names; None stays None."""
        if weights is None:
            return None
        if isinstance(weights, str):
            return cls[weights.removeprefix(cls.__name__ + ".")]
        if not isinstance(weights, cls):
            raise TypeError(
                f"Invalid Weight class provided; expected {cls.__name__} but received "
                f"{type(weights).__name__}."
            )
        return weights

    @property
    def url(self) -> str:
        """Where the file was published."""
        return self.value.url

    @property
    def transforms(self) -> Callable[..., Any]:
        """Makes the transform that its pictures need."""
        return self.value.transforms

    @property
    def meta(self) -> dict[str, Any]:
        """Facts about the weights."""
        return self.value.meta

    def get_state_dict(self, weights_dir: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """Read the weights from a local file.

        Args:
            weights_dir: the folder it is in, before those that are always looked through.

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
