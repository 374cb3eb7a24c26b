"""The transforms of `v2` as functions of one image: a Pillow image or a tensor of shape (..., C, H, W).

A `tv_tensors.Image` gives one. Where nothing else is said, arguments are those of `transforms.functional`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import rgrad
from rgrad.vision import tv_tensors
from rgrad.vision.transforms import functional as _v1
from rgrad.vision.transforms._kinds import bound, is_pil
from rgrad.vision.transforms.functional import (
    InterpolationMode,
    get_dimensions,
    get_image_num_channels,
    get_image_size,
    pil_to_tensor,
    to_pil_image,
    to_tensor,
)
from rgrad.vision.transforms.v2._transform import is_pure_tensor

__all__ = [
    "InterpolationMode",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "adjust_sharpness",
    "affine",
    "autocontrast",
    "center_crop",
    "convert_image_dtype",
    "crop",
    "elastic",
    "elastic_transform",
    "equalize",
    "erase",
    "five_crop",
    "gaussian_blur",
    "gaussian_noise",
    "get_dimensions",
    "get_image_num_channels",
    "get_image_size",
    "get_num_channels",
    "get_size",
    "grayscale_to_rgb",
    "hflip",
    "horizontal_flip",
    "invert",
    "is_pure_tensor",
    "normalize",
    "pad",
    "permute_channels",
    "perspective",
    "pil_to_tensor",
    "posterize",
    "resize",
    "resized_crop",
    "rgb_to_grayscale",
    "rotate",
    "solarize",
    "ten_crop",
    "to_dtype",
    "to_grayscale",
    "to_image",
    "to_pil_image",
    "to_tensor",
    "vertical_flip",
    "vflip",
]

_F = TypeVar("_F", bound=Callable[..., Any])


def plain(inpt: Any) -> Any:
    """An image as a plain tensor, if it is a tensor."""
    return inpt.as_subclass(rgrad.Tensor) if isinstance(inpt, tv_tensors.TVTensor) else inpt


def like(result: Any, inpt: Any) -> Any:
    """The tensors of a result as tensors of the class of what they were made of."""
    if isinstance(result, tuple):
        return tuple(like(part, inpt) for part in result)
    if isinstance(inpt, tv_tensors.TVTensor) and is_pure_tensor(result):
        return tv_tensors.wrap(result, like=inpt)
    return result


def _kept(function: _F) -> _F:
    """A function of images that keeps the class of tensors; editors show the parameters of the other."""

    @functools.wraps(function)
    def wrapper(inpt: Any, *args: Any, **kwargs: Any) -> Any:
        return like(function(plain(inpt), *args, **kwargs), inpt)

    wrapper.__module__ = __name__
    return cast(_F, wrapper)


adjust_brightness = _kept(_v1.adjust_brightness)
adjust_contrast = _kept(_v1.adjust_contrast)
adjust_gamma = _kept(_v1.adjust_gamma)
adjust_hue = _kept(_v1.adjust_hue)
adjust_saturation = _kept(_v1.adjust_saturation)
adjust_sharpness = _kept(_v1.adjust_sharpness)
affine = _kept(_v1.affine)
autocontrast = _kept(_v1.autocontrast)
center_crop = _kept(_v1.center_crop)
convert_image_dtype = _kept(_v1.convert_image_dtype)
crop = _kept(_v1.crop)
elastic = elastic_transform = _kept(_v1.elastic_transform)
equalize = _kept(_v1.equalize)
erase = _kept(_v1.erase)
five_crop = _kept(_v1.five_crop)
gaussian_blur = _kept(_v1.gaussian_blur)
horizontal_flip = hflip = _kept(_v1.hflip)
invert = _kept(_v1.invert)
normalize = _kept(_v1.normalize)
pad = _kept(_v1.pad)
perspective = _kept(_v1.perspective)
posterize = _kept(_v1.posterize)
resize = _kept(_v1.resize)
resized_crop = _kept(_v1.resized_crop)
rgb_to_grayscale = _kept(_v1.rgb_to_grayscale)
rotate = _kept(_v1.rotate)
solarize = _kept(_v1.solarize)
ten_crop = _kept(_v1.ten_crop)
to_grayscale = _v1.to_grayscale
vertical_flip = vflip = _kept(_v1.vflip)
get_num_channels = get_image_num_channels


def get_size(inpt: Any) -> list[int]:
    """Height and width."""
    return get_dimensions(inpt)[1:]


def to_image(inpt: Any) -> tv_tensors.Image:
    """An image as a `tv_tensors.Image` with its values.

    Args:
        inpt: a Pillow image, an array of shape (H, W[, C]) or a tensor.

    Raises:
        TypeError: it is none of these.
    """
    if _v1._is_numpy(inpt):
        inpt = rgrad.from_numpy(inpt if inpt.ndim > 2 else inpt[:, :, None]).permute(2, 0, 1).contiguous()
    elif not isinstance(inpt, rgrad.Tensor) and not is_pil(inpt):
        raise TypeError(f"Input can either be a pure Tensor, a numpy array, or a PIL image, but got {type(inpt)}.")
    return tv_tensors.Image(inpt)


def to_dtype(inpt: Any, dtype: Any = rgrad.float32, scale: bool = False) -> Any:
    """A tensor of another dtype, with its values or, if `scale`, with values scaled to the new dtype's range."""
    converted = _v1.convert_image_dtype(plain(inpt), dtype) if scale else plain(inpt).to(dtype)
    return like(converted, inpt)


def grayscale_to_rgb(inpt: Any) -> Any:
    """A gray image with three equal channels; another image as it is."""
    if is_pil(inpt):
        return inpt if inpt.mode == "RGB" else inpt.convert("RGB")
    if inpt.shape[-3] != 1:
        return inpt
    return like(rgrad.cat([plain(inpt)] * 3, -3), inpt)


def permute_channels(inpt: Any, permutation: list[int]) -> Any:
    """An image whose channel c is channel ``permutation[c]`` of another."""
    if is_pil(inpt):
        return to_pil_image(pil_to_tensor(inpt)[permutation])
    if len(permutation) != inpt.shape[-3]:
        raise ValueError(f"Length of permutation does not match number of channels: {len(permutation)}")
    return like(plain(inpt)[..., permutation, :, :], inpt)


def gaussian_noise(inpt: Any, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> Any:
    """Adds numbers of a normal distribution to the values of a tensor.

    Args:
        inpt: a float tensor of values from 0 to 1, or a uint8 tensor.
        mean: the mean, on the scale from 0 to 1.
        sigma: the standard deviation, on the same scale.
        clip: whether floats are clamped to that range.

    Raises:
        ValueError: `inpt` has another dtype, is a Pillow image, or `sigma` is negative.
    """
    if is_pil(inpt):
        raise ValueError("Gaussian Noise is not implemented for PIL images.")
    if sigma < 0:
        raise ValueError(f"sigma shouldn't be negative. Got {sigma}")
    values = plain(inpt)
    if not values.is_floating_point() and values.dtype != rgrad.uint8:
        raise ValueError(f"Input tensor is expected to be in uint8 or float dtype, got dtype={values.dtype}")
    white = bound(values.dtype)
    real = values if values.is_floating_point() else values.float()
    noisy = real + (mean + rgrad.randn_like(real) * sigma) * white
    if clip or not values.is_floating_point():
        noisy = noisy.clamp(0, white)
    return like(noisy.to(values.dtype), inpt)
