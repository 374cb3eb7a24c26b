"""Functions that change the colors of Pillow images and of tensors of shape (..., C, H, W)."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import nn
from rgrad.vision.transforms._kinds import bound, is_pil, rounded

_GRAY = (0.2989, 0.587, 0.114)  # the weights of red, green and blue in ITU-R 601 luma


def _channels(picture: Any) -> int:
    return picture.shape[-3] if picture.dim() > 2 else 1


def _require(picture: Any, *allowed: int) -> None:
    if not isinstance(picture, rgrad.Tensor) or picture.dim() < 2:
        raise TypeError("Tensor is not a torch image.")
    if _channels(picture) not in allowed:
        raise TypeError(
            f"Input image tensor permitted channel values are {list(allowed)}, but found {_channels(picture)}"
        )


def _enhanced(picture: Any, kind: str, factor: float) -> Any:
    from PIL import ImageEnhance

    return getattr(ImageEnhance, kind)(picture).enhance(factor)


def _mixed(picture: Any, other: Any, factor: float) -> Any:
    """`factor` of a picture and the rest of another one, clamped."""
    factor = float(factor)
    return (factor * picture + (1.0 - factor) * other).clamp(0, bound(picture.dtype)).to(picture.dtype)


def _gray(picture: Any) -> Any:
    red, green, blue = picture.unbind(-3)
    return (_GRAY[0] * red + _GRAY[1] * green + _GRAY[2] * blue).to(picture.dtype).unsqueeze(-3)


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """The brightness of an image, as one channel or three equal ones."""
    if is_pil(img):
        return to_grayscale(img, num_output_channels)
    _require(img, 1, 3)
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    if _channels(img) == 1:
        return img.clone()
    gray = _gray(img)
    return gray.expand(img.shape[:-3] + (3,) + img.shape[-2:]) if num_output_channels == 3 else gray


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """The brightness of a Pillow image, as one channel or three equal ones."""
    if not is_pil(img):
        raise TypeError("Input should be PIL Image")
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    gray = img.convert("L")
    if num_output_channels == 1:
        return gray
    from PIL import Image

    return Image.merge("RGB", [gray] * 3)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """Multiplies the brightness: 0 is black, 1 the image."""
    if is_pil(img):
        return _enhanced(img, "Brightness", brightness_factor)
    if brightness_factor < 0:
        raise ValueError(f"brightness_factor ({brightness_factor}) is not non-negative.")
    _require(img, 1, 3)
    return _mixed(img, rgrad.zeros_like(img), brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """Multiplies the contrast: 0 is one gray, 1 the image."""
    if is_pil(img):
        return _enhanced(img, "Contrast", contrast_factor)
    if contrast_factor < 0:
        raise ValueError(f"contrast_factor ({contrast_factor}) is not non-negative.")
    _require(img, 1, 3)
    gray = _gray(img) if _channels(img) == 3 else img
    real = gray if gray.is_floating_point() else gray.to(rgrad.float32)
    return _mixed(img, real.mean((-3, -2, -1), keepdim=True), contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """Multiplies the saturation: 0 is gray, 1 the image."""
    if is_pil(img):
        return _enhanced(img, "Color", saturation_factor)
    if saturation_factor < 0:
        raise ValueError(f"saturation_factor ({saturation_factor}) is not non-negative.")
    _require(img, 1, 3)
    return img if _channels(img) == 1 else _mixed(img, _gray(img), saturation_factor)


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """Changes the sharpness: 0 is blurred, 1 the image, 2 sharper."""
    if is_pil(img):
        return _enhanced(img, "Sharpness", sharpness_factor)
    if sharpness_factor < 0:
        raise ValueError(f"sharpness_factor ({sharpness_factor}) is not non-negative.")
    _require(img, 1, 3)
    if min(img.shape[-2:]) <= 2:
        return img
    real = img if img.is_floating_point() else img.to(rgrad.float32)
    kernel = rgrad.ones((1, 1, 3, 3), dtype=real.dtype, device=real.device)
    kernel[..., 1, 1] = 5.0
    planes = real.reshape(-1, 1, *img.shape[-2:])
    inner = nn.functional.conv2d(planes, kernel / kernel.sum())
    blurred = img.clone()
    blurred[..., 1:-1, 1:-1] = rounded(inner, img.dtype).reshape(blurred[..., 1:-1, 1:-1].shape)
    return _mixed(img, blurred, sharpness_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Turns the hues by a share of the circle, -0.5 to 0.5."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if is_pil(img):
        if img.mode in ("L", "1", "I", "F"):
            return img
        from PIL import Image

        hue, saturation, value = img.convert("HSV").split()
        # Modulo 256, as the bytes of the hue are.
        turned = hue.point([(level + int(hue_factor * 255)) % 256 for level in range(256)])
        return Image.merge("HSV", (turned, saturation, value)).convert(img.mode)
    _require(img, 1, 3)
    if _channels(img) == 1:
        return img
    from rgrad.vision.transforms.functional import convert_image_dtype

    hue, saturation, value = _hsv(convert_image_dtype(img, rgrad.float32))
    return convert_image_dtype(_rgb((hue + hue_factor) % 1.0, saturation, value), img.dtype)


# Note [Hue]
# Of a color whose largest and smallest channels are `most` and `least`, the value is `most`, the saturation
# (most - least) / most, and the hue the place on a circle of six arcs: red at 0, green at 1/3, blue at 2/3. See A. R.
# Smith, "Color gamut transform pairs" (1978).


def _hsv(picture: Any) -> tuple[Any, Any, Any]:
    red, green, blue = picture.unbind(-3)
    most, least = picture.amax(-3), picture.amin(-3)
    spread = most - least
    gray = spread == 0
    one = rgrad.ones_like(most)
    saturation = spread / rgrad.where(gray, one, most)
    away = [(most - channel) / rgrad.where(gray, one, spread) for channel in (red, green, blue)]
    arc = rgrad.where(
        most == red,
        away[2] - away[1],
        rgrad.where(most == green, 2.0 + away[0] - away[2], 4.0 + away[1] - away[0]),
    )
    return (arc / 6.0 + 1.0) % 1.0, saturation, most


def _rgb(hue: Any, saturation: Any, value: Any) -> Any:
    arc = hue * 6.0
    # Each channel is full on two of the six arcs, empty on two, and changes linearly between.
    channels = []
    for start in (5.0, 3.0, 1.0):
        place = (arc + start) % 6.0
        channels.append(value - value * saturation * rgrad.minimum(place, 4.0 - place).clamp(0, 1))
    return rgrad.stack(channels, dim=-3).clamp(0.0, 1.0)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """Raises values from 0 to 1 to a power and multiplies them: gain · value^gamma."""
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
    if is_pil(img):
        table = [int((255 + 1 - 1e-3) * gain * (level / 255.0) ** gamma) for level in range(256)]
        return img.convert("RGB").point([min(level, 255) for level in table] * 3).convert(img.mode)
    _require(img, 1, 3)
    from rgrad.vision.transforms.functional import convert_image_dtype

    real = img if img.is_floating_point() else convert_image_dtype(img, rgrad.float32)
    return convert_image_dtype((gain * real**gamma).clamp(0, 1), img.dtype)


def invert(img: Any) -> Any:
    """The negative of an image."""
    if is_pil(img):
        from PIL import ImageOps

        return ImageOps.invert(img)
    _require(img, 1, 3)
    return bound(img.dtype) - img


def _require_bytes(img: Any) -> None:
    if img.dtype != rgrad.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")


def posterize(img: Any, bits: int) -> Any:
    """Keeps the highest bits of each byte."""
    if not 0 <= bits <= 8:
        raise ValueError(f"The number if bits should be between 0 and 8. Got {bits}")
    if is_pil(img):
        from PIL import ImageOps

        return ImageOps.posterize(img, bits)
    _require(img, 1, 3)
    _require_bytes(img)
    return img & (256 - 2 ** (8 - bits))


def solarize(img: Any, threshold: float) -> Any:
    """Inverts the values that are not below a threshold."""
    if is_pil(img):
        from PIL import ImageOps

        return ImageOps.solarize(img, int(threshold))
    _require(img, 1, 3)
    if threshold > bound(img.dtype):
        raise TypeError("Threshold should be less than bound of img.")
    return rgrad.where(img >= threshold, invert(img), img)


def autocontrast(img: Any) -> Any:
    """Stretches the values of each channel to the whole range."""
    if is_pil(img):
        from PIL import ImageOps

        return ImageOps.autocontrast(img)
    _require(img, 1, 3)
    most = bound(img.dtype)
    real = img if img.is_floating_point() else img.to(rgrad.float32)
    low, high = real.amin((-2, -1), keepdim=True), real.amax((-2, -1), keepdim=True)
    scale = most / (high - low)
    flat = ~scale.isfinite()
    low, scale = low.masked_fill(flat, 0), scale.masked_fill(flat, 1)
    return ((real - low) * scale).clamp(0, most).to(img.dtype)


def equalize(img: Any) -> Any:
    """Makes all values of each channel equally frequent."""
    if is_pil(img):
        from PIL import ImageOps

        return ImageOps.equalize(img)
    _require(img, 1, 3)
    _require_bytes(img)
    planes = img.reshape(-1, img.shape[-2] * img.shape[-1])
    done = [_equalized(plane) for plane in planes]
    return rgrad.stack(done).reshape(img.shape)


def _equalized(plane: Any) -> Any:
    index = plane.to(rgrad.int64)
    counts = rgrad.bincount(index, minlength=256)
    last = int(counts[counts != 0][-1])
    step = (len(plane) - last) // 255
    if step == 0:
        return plane
    below = counts.cumsum(0) - counts
    table = ((below + step // 2) // step).clamp(0, 255).to(rgrad.uint8)
    # Pillow's table begins with zero whatever the first count is.
    table[0] = 0
    return table[index]
