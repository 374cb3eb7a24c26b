"""Transforms between kinds of images and their dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad.utils import _pytree
from rgrad.vision import tv_tensors
from rgrad.vision.transforms import functional as v1
from rgrad.vision.transforms._kinds import is_pil
from rgrad.vision.transforms.v2 import functional as F  # noqa: N812
from rgrad.vision.transforms.v2._transform import Transform, leaves_of


class ToImage(Transform):
    """Converts Pillow images, arrays of shape (H, W[, C]) and plain tensors to `tv_tensors.Image`.

    Values stay as they are.
    """

    def forward(self, *inputs: Any) -> Any:
        """Transforms a sample, whose arrays are images too."""
        parts, structure = leaves_of(inputs)
        if not any(v1._is_numpy(part) for part in parts):
            return super().forward(*inputs)
        converted = [F.to_image(part) if v1._is_numpy(part) or is_pil(part) else part for part in parts]
        return _pytree.tree_unflatten(converted, structure)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.to_image(inpt)


class ToPureTensor(Transform):
    """Converts each `tv_tensors.TVTensor` to a plain tensor."""

    def forward(self, *inputs: Any) -> Any:
        """Transforms a sample."""
        parts, structure = leaves_of(inputs)
        tensors = [x.as_subclass(rgrad.Tensor) if isinstance(x, tv_tensors.TVTensor) else x for x in parts]
        return _pytree.tree_unflatten(tensors, structure)


class ToTensor(Transform):
    """Converts Pillow images and arrays to float tensors from 0 to 1; see `ToImage` and `ToDtype`, which replace it."""

    def forward(self, *inputs: Any) -> Any:
        """Transforms a sample."""
        parts, structure = leaves_of(inputs)
        results = [v1.to_tensor(part) if is_pil(part) or v1._is_numpy(part) else part for part in parts]
        return _pytree.tree_unflatten(results, structure)


class PILToTensor(Transform):
    """Converts Pillow images to plain uint8 tensors of shape (C, H, W)."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return v1.pil_to_tensor(inpt) if is_pil(inpt) else inpt


class ToPILImage(Transform):
    """Converts tensors and arrays to Pillow images.

    Args:
        mode: Pillow's name of the kind of image; by default it follows from channels and dtype.
    """

    def __init__(self, mode: str | None = None) -> None:
        super().__init__()
        self.mode = mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return inpt if is_pil(inpt) else v1.to_pil_image(F.plain(inpt), self.mode)


class ToDtype(Transform):
    """Converts images to another dtype. Pillow images are returned as they are.

    Args:
        dtype: the dtype, or for each class of tensors its dtype (None to keep it), with "others" for the rest.
        scale: whether values are scaled to the new dtype's range, which for floats is from 0 to 1.
    """

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        super().__init__()
        if not isinstance(dtype, (dict, rgrad.dtype)):
            raise ValueError(f"dtype must be a dict or a torch.dtype, got {type(dtype)} instead")
        self.dtype, self.scale = dtype, scale

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if is_pil(inpt):
            return inpt
        dtype = self.dtype
        if isinstance(dtype, dict):
            if type(inpt) not in dtype and "others" not in dtype:
                raise ValueError(f"No dtype was specified for type {type(inpt)}, and none for the others.")
            dtype = dtype[type(inpt)] if type(inpt) in dtype else dtype["others"]
        return inpt if dtype is None else F.to_dtype(inpt, dtype, self.scale)


class ConvertImageDtype(Transform):
    """Converts images to another dtype and scales their values; `ToDtype(dtype, scale=True)` replaces it.

    Args:
        dtype: the dtype.
    """

    def __init__(self, dtype: Any = rgrad.float32) -> None:
        super().__init__()
        self.dtype = dtype

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return inpt if is_pil(inpt) else F.to_dtype(inpt, self.dtype, scale=True)


class Normalize(Transform):
    """Subtracts a mean and divides by a standard deviation, per channel.

    Args:
        mean: a number for each channel.
        std: a number for each channel.
        inplace: whether to overwrite the input.

    Raises:
        TypeError: the sample has Pillow images.
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        self.mean, self.std, self.inplace = list(mean), list(std), inplace

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        if any(map(is_pil, flat_inputs)):
            raise TypeError("Normalize() does not support PIL images.")

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.normalize(inpt, self.mean, self.std, self.inplace)


class RGB(Transform):
    """Converts gray images to three equal channels."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.grayscale_to_rgb(inpt)
