"""Transforms of Pillow images, NumPy arrays and tensors of shape (..., C, H, W)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import rgrad
from rgrad.vision.transforms import _draw, functional
from rgrad.vision.transforms import functional as F  # noqa: N812
from rgrad.vision.transforms._more import (
    ColorJitter,
    FiveCrop,
    GaussianBlur,
    Grayscale,
    LinearTransformation,
    Pad,
    RandomAdjustSharpness,
    RandomAffine,
    RandomApply,
    RandomAutocontrast,
    RandomChoice,
    RandomEqualize,
    RandomErasing,
    RandomGrayscale,
    RandomInvert,
    RandomOrder,
    RandomPerspective,
    RandomPosterize,
    RandomRotation,
    RandomSolarize,
    RandomVerticalFlip,
    TenCrop,
    ToPILImage,
    _Simple,
)
from rgrad.vision.transforms.functional import InterpolationMode

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ConvertImageDtype",
    "FiveCrop",
    "GaussianBlur",
    "Grayscale",
    "InterpolationMode",
    "Lambda",
    "LinearTransformation",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomOrder",
    "RandomPerspective",
    "RandomPosterize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSolarize",
    "RandomVerticalFlip",
    "Resize",
    "TenCrop",
    "ToPILImage",
    "ToTensor",
    "functional",
]


def _pair(size: Any, message: str) -> tuple[int, int]:
    """Height and width, given as one number or two."""
    if isinstance(size, int):
        return size, size
    if isinstance(size, Sequence) and len(size) == 1:
        return size[0], size[0]
    if not isinstance(size, Sequence) or len(size) != 2:
        raise ValueError(message)
    return size[0], size[1]


_TWO = "Please provide only two dimensions (h, w) for size."


class Compose:
    """Applies transforms one after the other.

    Args:
        transforms: the transforms.
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, picture: Any) -> Any:
        """Returns the transformed image."""
        for transform in self.transforms:
            picture = transform(picture)
        return picture

    def __repr__(self) -> str:
        return "\n".join([f"{type(self).__name__}(", *(f"    {transform}" for transform in self.transforms), ")"])


class ToTensor:
    """Converts a Pillow image or an array of shape (H, W[, C]) to a float tensor of shape (C, H, W) in [0, 1]."""

    def __call__(self, picture: Any) -> Any:
        """Returns the transformed image."""
        return F.to_tensor(picture)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class PILToTensor:
    """Converts a Pillow image to a uint8 tensor of shape (C, H, W)."""

    def __call__(self, picture: Any) -> Any:
        """Returns the transformed image."""
        return F.pil_to_tensor(picture)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ConvertImageDtype(_Simple):
    """Converts a tensor's dtype and scales its values to the new dtype's range.

    Args:
        dtype: the new dtype.
    """

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, picture: Any) -> Any:
        """Returns the transformed image."""
        return F.convert_image_dtype(picture, self.dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Normalize(_Simple):
    """Subtracts a mean and divides by a standard deviation, per channel.

    Args:
        mean: a number for each channel.
        std: a number for each channel.
        inplace: whether to overwrite the input.

    Example:
        >>> import rgrad as torch
        >>> from rgrad.vision.transforms import Normalize
        >>> Normalize([0.5], [0.5])(torch.tensor([[[0.0, 1.0]]]))
        tensor([[[-1.,  1.]]])
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        self.mean = mean
        self.std = std
        self.inplace = inplace

    def forward(self, picture: Any) -> Any:
        """Returns the transformed image."""
        return F.normalize(picture, self.mean, self.std, self.inplace)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mean={self.mean}, std={self.std})"


class Lambda:
    """Applies a function.

    Args:
        lambd: the function.
    """

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, picture: Any) -> Any:
        """Returns the transformed image."""
        return self.lambd(picture)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Resize(_Simple):
    """Resizes an image.

    Args:
        size: height and width, or the length of the shorter edge.
        interpolation: the interpolation.
        max_size: upper bound of the longer edge.
        antialias: whether to average when a tensor is reduced in size; Pillow always does.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        if not isinstance(size, (int, Sequence)):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        if isinstance(size, Sequence) and len(size) not in (1, 2):
            raise ValueError("If size is a sequence, it should have 1 or 2 values")
        self.size = size
        self.interpolation = interpolation
        self.max_size = max_size
        self.antialias = antialias

    def forward(self, picture: Any) -> Any:
        """Returns the transformed image."""
        return F.resize(picture, self.size, self.interpolation, self.max_size, bool(self.antialias))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(size={self.size}, interpolation={self.interpolation.value}, "
            f"max_size={self.max_size}, antialias={self.antialias})"
        )


class CenterCrop(_Simple):
    """Cuts out the center of an image, padded with black if the image is too small.

    Args:
        size: height and width, or both in one number.
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__()
        self.size = _pair(size, _TWO)

    def forward(self, picture: Any) -> Any:
        """Returns the transformed image."""
        return F.center_crop(picture, self.size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size})"


class RandomHorizontalFlip(_Simple):
    """Flips an image left to right at random.

    Args:
        p: probability of the flip.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, picture: Any) -> Any:
        """Returns the transformed image."""
        return F.hflip(picture) if _draw.chance() < self.p else picture

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class RandomCrop(_Simple):
    """Cuts out a random rectangle of an image.

    Args:
        size: height and width, or both in one number.
        padding: width of the black border added first: one number, two (left and right, top and
            bottom), or four (left, top, right, bottom).
        pad_if_needed: pad an image that is too small.
        fill: value of the padding.
        padding_mode: as for `functional.pad`.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size = _pair(size, _TWO)
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Draws the rectangle: top, left, height and width.

        Args:
            img: the image that it is cut out of.
            output_size: height and width.

        Raises:
            ValueError: the image is smaller.
        """
        (height, width), (rows, columns) = F.height_and_width(img), output_size
        if height < rows or width < columns:
            raise ValueError(f"Required crop size {(rows, columns)} is larger than input image size {(height, width)}")
        if (height, width) == (rows, columns):
            return 0, 0, rows, columns
        return _draw.integer(0, height - rows + 1), _draw.integer(0, width - columns + 1), rows, columns

    def forward(self, picture: Any) -> Any:
        """Returns the transformed image."""
        if self.padding is not None:
            picture = F.pad(picture, self.padding, self.fill, self.padding_mode)
        height, width = F.height_and_width(picture)
        rows, columns = self.size
        if self.pad_if_needed:
            for missing in ((max(columns - width, 0), 0), (0, max(rows - height, 0))):
                if any(missing):
                    picture = F.pad(picture, missing, self.fill, self.padding_mode)
            height, width = F.height_and_width(picture)
        top, left, rows, columns = self.get_params(picture, (rows, columns))
        return picture if (height, width) == (rows, columns) else F.crop(picture, top, left, rows, columns)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, padding={self.padding})"


class RandomResizedCrop(_Simple):
    """Cuts out a rectangle of random size and shape and resizes it.

    Args:
        size: height and width of the result, or both in one number.
        scale: smallest and largest fraction of the image's area.
        ratio: smallest and largest ratio of width to height.
        interpolation: the interpolation of the resize.
        antialias: as for `Resize`.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size = _pair(size, _TWO)
        self.scale = scale
        self.ratio = ratio
        self.interpolation = interpolation
        self.antialias = antialias

    @staticmethod
    def get_params(img: Any, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int, int, int]:
        """Draws the rectangle: top, left, height and width.

        Args:
            img: the image that it is cut out of.
            scale: smallest and largest fraction of the image's area.
            ratio: smallest and largest ratio of width to height.
        """
        height, width = F.height_and_width(img)
        low, high = ratio
        for _ in range(10):
            area = height * width * _draw.uniform(scale[0], scale[1])
            proportion = rgrad.tensor(_draw.uniform(math.log(low), math.log(high))).exp().item()
            columns, rows = round((area * proportion) ** 0.5), round((area / proportion) ** 0.5)
            if 0 < columns <= width and 0 < rows <= height:
                return _draw.integer(0, height - rows + 1), _draw.integer(0, width - columns + 1), rows, columns
        # No random rectangle fitted: use the largest centered one with an allowed ratio.
        rows, columns = height, width
        if width / height < low:
            rows = round(width / low)
        elif width / height > high:
            columns = round(height * high)
        return (height - rows) // 2, (width - columns) // 2, rows, columns

    def forward(self, picture: Any) -> Any:
        """Returns the transformed image."""
        picture = F.crop(picture, *self.get_params(picture, self.scale, self.ratio))
        return F.resize(picture, self.size, self.interpolation, None, bool(self.antialias))

    def __repr__(self) -> str:
        scale = tuple(round(bound, 4) for bound in self.scale)
        ratio = tuple(round(bound, 4) for bound in self.ratio)
        return (
            f"{type(self).__name__}(size={self.size}, scale={scale}, ratio={ratio}, "
            f"interpolation={self.interpolation.value}, antialias={self.antialias})"
        )


def on_batch(transform: Any, pictures: Any, rows: Any) -> Any:
    """Transforms a batch of images at once; equivalent to stacking the transformed images.

    Args:
        transform: the transform of single images.
        pictures: the images, uint8 of shape (N, H, W).
        rows: indices of the images to transform.

    Returns:
        A tensor of shape (len(rows), 1, H, W), or None if the transform must be applied to single images.
    """
    steps = list(transform.transforms) if type(transform) is Compose else [transform]
    if type(steps[0]) is not ToTensor or any(type(step) is not Normalize for step in steps[1:]):
        return None
    batch = pictures.index_select(0, rows).unsqueeze(1).to(rgrad.get_default_dtype()).div_(255)
    for step in steps[1:]:
        batch = step(batch)
    return batch
