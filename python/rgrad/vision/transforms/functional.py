"""The transforms as functions of images: Pillow images, NumPy arrays, and tensors of shape (..., C, H, W)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import rgrad
from rgrad import _C, _transforms
from rgrad.vision.transforms._color import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    adjust_sharpness,
    autocontrast,
    equalize,
    invert,
    posterize,
    rgb_to_grayscale,
    solarize,
    to_grayscale,
)
from rgrad.vision.transforms._geometry import (
    affine,
    elastic_transform,
    gaussian_blur,
    perspective,
    rotate,
)
from rgrad.vision.transforms._kinds import _MAX, is_pil

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
    "elastic_transform",
    "equalize",
    "erase",
    "five_crop",
    "gaussian_blur",
    "get_dimensions",
    "get_image_num_channels",
    "get_image_size",
    "hflip",
    "invert",
    "normalize",
    "pad",
    "perspective",
    "pil_to_tensor",
    "posterize",
    "resize",
    "resized_crop",
    "rgb_to_grayscale",
    "rotate",
    "solarize",
    "ten_crop",
    "to_grayscale",
    "to_pil_image",
    "to_tensor",
    "vflip",
]


class InterpolationMode(Enum):
    """The interpolation of a resize; the last three are only for Pillow images, the second only for tensors."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


_PIL_FILTERS = {
    InterpolationMode.NEAREST: 0,
    InterpolationMode.LANCZOS: 1,
    InterpolationMode.BILINEAR: 2,
    InterpolationMode.BICUBIC: 3,
    InterpolationMode.BOX: 4,
    InterpolationMode.HAMMING: 5,
}
_TENSOR_MODES = (InterpolationMode.NEAREST, InterpolationMode.BILINEAR, InterpolationMode.BICUBIC)
_PIL_DTYPES = {"I": "int32", "I;16": "int16", "F": "float32"}


def _is_numpy(img: Any) -> bool:
    return type(img).__module__ == "numpy" and type(img).__name__ == "ndarray"


def height_and_width(img: Any) -> tuple[int, int]:
    """The size of an image."""
    if is_pil(img):
        return img.height, img.width
    return img.shape[-2], img.shape[-1]


def pil_to_tensor(img: Any) -> Any:
    """A tensor of shape (C, H, W) with the values of a Pillow image."""
    if not is_pil(img):
        raise TypeError(f"pic should be PIL Image. Got {type(img)}")
    return _planes_of(img, bytearray)


def _planes_of(img: Any, held: Callable[[bytes], Any]) -> Any:
    """The values of a Pillow image as a tensor of shape (C, H, W).

    Args:
        img: the image.
        held: makes of its bytes what a tensor with one channel reads.
    """
    if img.mode == "1":
        img = img.convert("L")
    dtype = getattr(rgrad, _PIL_DTYPES.get(img.mode, "uint8"))
    (width, height), channels = img.size, 1 if img.mode == "L" else len(img.getbands())
    tensor = _C._tensor_from_buffer(held(img.tobytes()), dtype, 0, height * width * channels)
    if channels == 1:
        return tensor.view(1, height, width)
    return tensor.view(height, width, channels).permute(2, 0, 1).contiguous()


def to_tensor(img: Any) -> Any:
    """A tensor of shape (C, H, W), scaled to [0, 1] if the image's values are bytes."""
    if is_pil(img):
        # Bytes are converted below, and others may be written by the caller.
        tensor = _planes_of(img, bytearray if img.mode in _PIL_DTYPES else bytes)
    elif _is_numpy(img):
        if img.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {img.ndim} dimensions.")
        # Copied: the array may be read-only or have negative strides, and a transform must not return its input's
        # memory.
        array = img[:, :, None] if img.ndim == 2 else img
        tensor = rgrad.from_numpy(array.transpose(2, 0, 1).copy())
    elif isinstance(img, rgrad.Tensor) and img.dtype == rgrad.uint8 and img.dim() in (2, 3):
        # Datasets return tensors if Pillow is not installed.
        tensor = img.unsqueeze(0) if img.dim() == 2 else img
    else:
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(img)}")
    if tensor.dtype == rgrad.uint8:
        return tensor.to(rgrad.get_default_dtype()).div_(255)
    return tensor


def convert_image_dtype(image: Any, dtype: Any = rgrad.float32) -> Any:
    """Converts a tensor to another dtype and scales its values to that dtype's range (0 to 1 for floats)."""
    if not isinstance(image, rgrad.Tensor):
        raise TypeError("Input img should be Tensor Image")
    if image.dtype == dtype:
        return image
    to_max = _MAX.get(str(dtype).rpartition(".")[2])
    from_max = _MAX.get(str(image.dtype).rpartition(".")[2])
    if from_max is None:
        if to_max is None:
            return image.to(dtype)
        if (to_max >= 2**31 - 1 and image.dtype == rgrad.float32) or to_max == 2**63 - 1:
            raise RuntimeError(f"The cast from {image.dtype} to {dtype} cannot be performed safely.")
        # The factor is almost max + 1, so that every integer value gets an equally wide share of [0, 1].
        return image.mul(to_max + 1 - 1e-3).to(dtype)
    if to_max is None:
        return image.to(dtype) / from_max
    if from_max > to_max:
        return rgrad.div(image, (from_max + 1) // (to_max + 1), rounding_mode="trunc").to(dtype)
    return image.to(dtype) * ((to_max + 1) // (from_max + 1))


def normalize(img: Any, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Any:
    """Subtracts the mean of each channel of a float tensor and divides by its standard deviation."""
    if not isinstance(img, rgrad.Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(img)}")
    if not img.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {img.dtype}.")
    if img.dim() < 3:
        raise ValueError(
            f"Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = {tuple(img.shape)}"
        )
    means, stds = _per_channel(mean, img), _per_channel(std, img, divides=True)
    return (img.sub_(means) if inplace else img.sub(means)).div_(stds)


def _per_channel(values: Any, img: Any, divides: bool = False) -> Any:
    """Numbers that broadcast with the planes of an image.

    Args:
        values: a number for each channel, or for all.
        img: the image.
        divides: whether none may be zero.
    """
    of_numbers = type(values) in (list, tuple) and {*map(type, values)} <= {int, float}
    if of_numbers and not (_C._torch_dispatch_stack() or _transforms.running()):
        return _kept_per_channel(tuple(values), img.dtype, img.device, divides)
    return _made_per_channel(values, img.dtype, img.device, divides)


def _made_per_channel(values: Any, dtype: Any, device: Any, divides: bool) -> Any:
    tensor = rgrad.as_tensor(values, dtype=dtype, device=device)
    if divides and not all(tensor.flatten().tolist()):
        raise ValueError(f"std evaluated to zero after conversion to {dtype}, leading to division by zero.")
    return tensor.view(-1, 1, 1) if tensor.dim() == 1 else tensor


@functools.lru_cache(maxsize=64)
def _kept_per_channel(values: tuple[float, ...], dtype: Any, device: Any, divides: bool) -> Any:
    """As `_made_per_channel`, once for all images. A tensor of inference mode would be of no use outside of it."""
    with rgrad.inference_mode(False):
        return _made_per_channel(values, dtype, device, divides)


def hflip(img: Any) -> Any:
    """An image flipped left to right."""
    return img.transpose(0) if is_pil(img) else img.flip(-1)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """A rectangle of an image; black where it extends past the edges."""
    if is_pil(img):
        return img.crop((left, top, left + width, top + height))
    rows, columns = height_and_width(img)
    right, bottom = left + width, top + height
    inner = img[..., max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    if left < 0 or top < 0 or right > columns or bottom > rows:
        edges = [max(-left, 0), max(-top, 0), max(right - columns, 0), max(bottom - rows, 0)]
        return pad(inner, edges, 0)
    return inner


_PADDINGS = ("constant", "edge", "reflect", "symmetric")


def pad(img: Any, padding: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant") -> Any:
    """Adds a border to an image.

    Args:
        img: a Pillow image, or a tensor of shape (..., C, H, W).
        padding: one width, or (left and right, top and bottom), or (left, top, right, bottom).
        fill: the value of the border.
        padding_mode: "constant", "edge" (the nearest pixel), "reflect" or "symmetric" (the image mirrored, without and
            with the pixels at its edge).
    """
    if not isinstance(padding, (int, tuple, list)):
        raise TypeError("Got inappropriate padding arg")
    edges = [padding] if isinstance(padding, int) else list(padding)
    if len(edges) not in (1, 2, 4):
        raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(edges)} element tuple")
    if padding_mode not in _PADDINGS:
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    left, top, right, bottom = edges * (4 // len(edges))
    if is_pil(img):
        return _pad_pil(img, (left, top, right, bottom), fill, padding_mode)
    rows, columns = height_and_width(img)
    if padding_mode == "constant":
        shape = (*img.shape[:-2], top + rows + bottom, left + columns + right)
        # A negative width crops, which is done first.
        inner = img[..., max(-top, 0) : rows - max(-bottom, 0), max(-left, 0) : columns - max(-right, 0)]
        result = rgrad.full(shape, fill, dtype=img.dtype, device=img.device)
        down, across = max(top, 0), max(left, 0)
        result[..., down : down + inner.shape[-2], across : across + inner.shape[-1]] = inner
        return result
    for dim, count, sides in ((-2, rows, (top, bottom)), (-1, columns, (left, right))):
        places = [_source(place, count, padding_mode) for place in range(-sides[0], count + sides[1])]
        img = img.index_select(dim, rgrad.tensor(places, device=img.device))
    return img


def _source(place: int, count: int, padding_mode: str) -> int:
    """The pixel that a border shows at a place before 0 or after the last of `count` pixels."""
    if padding_mode == "edge":
        return min(max(place, 0), count - 1)
    twice = padding_mode == "symmetric"
    period = 2 * count if twice else max(2 * count - 2, 1)
    place %= period
    return place if place < count else period - place - (1 if twice else 0)


def _pad_pil(img: Any, edges: tuple[int, int, int, int], fill: Any, padding_mode: str) -> Any:
    from PIL import Image, ImageOps

    from rgrad.vision.transforms._geometry import _pil_fill

    if padding_mode == "constant":
        color: Any = _pil_fill(fill, img)
        if img.mode != "P":
            return ImageOps.expand(img, border=edges, fill=color)
    palette = img.getpalette() if img.mode == "P" else None
    import numpy as np

    values: Any = np.asarray(img)
    left, top, right, bottom = edges
    widths: Any = ((top, bottom), (left, right), (0, 0))[: values.ndim]
    how: Any = {"constant_values": fill} if padding_mode == "constant" else {}
    kind: Any = padding_mode
    padded = Image.fromarray(np.pad(values, widths, mode=kind, **how))
    if palette is not None:
        padded.putpalette(palette)
    return padded


def vflip(img: Any) -> Any:
    """An image flipped top to bottom."""
    return img.transpose(1) if is_pil(img) else img.flip(-2)


def get_dimensions(img: Any) -> list[int]:
    """Channels, height and width."""
    rows, columns = height_and_width(img)
    return [get_image_num_channels(img), rows, columns]


def get_image_size(img: Any) -> list[int]:
    """Width and height."""
    return list(reversed(height_and_width(img)))


def get_image_num_channels(img: Any) -> int:
    """The number of channels."""
    if is_pil(img):
        return len(img.getbands())
    return img.shape[-3] if img.dim() > 2 else 1


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A Pillow image with the values of a tensor or an array.

    Args:
        pic: a tensor of shape (C, H, W) or (H, W), or an array of shape (H, W, C) or (H, W). Floats are from 0 to 1.
        mode: Pillow's name of the kind of image; by default it follows from channels and dtype.
    """
    from PIL import Image

    if isinstance(pic, rgrad.Tensor):
        if pic.dim() not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.dim()} dimensions.")
        if pic.dim() == 3 and len(pic) > 4:
            raise ValueError(f"pic should not have > 4 channels. Got {pic.shape[0]} channels.")
        tensor = pic if pic.dim() == 3 else pic.unsqueeze(0)
        if tensor.is_floating_point() and mode != "F":
            tensor = tensor.mul(255).to(rgrad.uint8)
        array: Any = tensor.cpu().permute(1, 2, 0).contiguous().numpy()
    elif _is_numpy(pic):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        if pic.ndim == 3 and pic.shape[-1] > 4:
            raise ValueError(f"pic should not have > 4 channels. Got {pic.shape[-1]} channels.")
        array = pic if pic.ndim == 3 else pic[:, :, None]
        if array.dtype.kind == "f" and mode != "F":
            array = (array * 255).astype("uint8")
    else:
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    channels, dtype = array.shape[2], str(array.dtype)
    if channels == 1:
        natural = {"uint8": "L", "int16": "I;16", "int32": "I", "float32": "F"}.get(dtype)
        if mode is not None and mode != natural:
            raise ValueError(f"Incorrect mode ({mode}) supplied for input type {array.dtype.type}. Should be {natural}")
        array, allowed = array[:, :, 0], (natural,)
    else:
        allowed = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}[channels]
        if mode is not None and mode not in allowed:
            raise ValueError(f"Only modes {list(allowed)} are supported for {channels}D inputs")
        natural = allowed[0] if dtype == "uint8" else None
    if natural is None:
        raise TypeError(f"Input type {array.dtype} is not supported")
    chosen = mode or natural
    if chosen == "I;16":
        return Image.frombytes("I;16", (array.shape[1], array.shape[0]), array.tobytes())
    if chosen in ("L", "I", "F", "LA", "RGB", "RGBA"):
        return Image.fromarray(array)
    return Image.frombytes(chosen, (array.shape[1], array.shape[0]), array.tobytes())


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Any:
    """Sets a rectangle of a tensor, with the corner (i, j), height h and width w, to v."""
    if not isinstance(img, rgrad.Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(img)}")
    result = img if inplace else img.clone()
    result[..., i : i + h, j : j + w] = v
    return result


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: InterpolationMode = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """A rectangle of an image, resized."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def _two(size: Any) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    if len(size) not in (1, 2):
        raise ValueError("Please provide only two dimensions (h, w) for size.")
    return size[0], size[-1]


def five_crop(img: Any, size: Any) -> tuple[Any, Any, Any, Any, Any]:
    """The corners, top left, top right, bottom left and bottom right, and the center of an image."""
    height, width = _two(size)
    rows, columns = height_and_width(img)
    if width > columns or height > rows:
        raise ValueError(f"Requested crop size {(height, width)} is bigger than input size {(rows, columns)}")
    tops, lefts = (0, rows - height), (0, columns - width)
    top_left, top_right, bottom_left, bottom_right = (
        crop(img, top, left, height, width) for top in tops for left in lefts
    )
    return top_left, top_right, bottom_left, bottom_right, center_crop(img, (height, width))


def ten_crop(img: Any, size: Any, vertical_flip: bool = False) -> tuple[Any, ...]:
    """`five_crop` of an image and of its mirror image, left to right or top to bottom."""
    return five_crop(img, size) + five_crop(vflip(img) if vertical_flip else hflip(img), size)


def center_crop(img: Any, output_size: Any) -> Any:
    """The central rectangle of an image, padded with black if the image is too small."""
    height, width = _two(output_size)
    rows, columns = height_and_width(img)
    if width > columns or height > rows:
        left, top = max((width - columns) // 2, 0), max((height - rows) // 2, 0)
        right, bottom = max((width - columns + 1) // 2, 0), max((height - rows + 1) // 2, 0)
        img = pad(img, (left, top, right, bottom))
        rows, columns = height_and_width(img)
    top, left = round((rows - height) / 2.0), round((columns - width) / 2.0)
    return crop(img, top, left, height, width)


def _target_size(rows: int, columns: int, size: int | Sequence[int], max_size: int | None) -> tuple[int, int]:
    if not isinstance(size, int) and len(size) == 2:
        if max_size is not None:
            raise ValueError(
                f"max_size should only be passed if size specifies the length of the smaller edge, not both as {size}"
            )
        return size[0], size[1]
    shorter = size if isinstance(size, int) else size[0]
    longer = int(shorter * max(rows, columns) / min(rows, columns))
    if max_size is not None:
        if max_size <= shorter:
            raise ValueError(
                f"max_size = {max_size} must be strictly greater than the requested size for the smaller edge "
                f"size = {size}"
            )
        if longer > max_size:
            shorter, longer = int(max_size * shorter / longer), max_size
    return (shorter, longer) if rows <= columns else (longer, shorter)


def resize(
    img: Any,
    size: int | Sequence[int],
    interpolation: InterpolationMode = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """Resizes an image; `size` is (height, width) or the length of the shorter edge."""
    if not isinstance(interpolation, InterpolationMode):
        raise TypeError(f"Argument interpolation should be a InterpolationMode, but got {type(interpolation).__name__}")
    rows, columns = height_and_width(img)
    height, width = _target_size(rows, columns, size, max_size)
    if (height, width) == (rows, columns):
        return img
    if is_pil(img):
        return img.resize((width, height), _PIL_FILTERS[interpolation])
    if interpolation not in _TENSOR_MODES:
        raise ValueError(f"Interpolation mode '{interpolation.value}' is unsupported with Tensor input")
    if interpolation is InterpolationMode.NEAREST:
        img = img.index_select(-2, rgrad.tensor([row * rows // height for row in range(height)]))
        return img.index_select(-1, rgrad.tensor([column * columns // width for column in range(width)]))
    real = img if img.is_floating_point() else img.to(rgrad.float32)
    across = _weights(columns, width, interpolation, bool(antialias), real)
    down = _weights(rows, height, interpolation, bool(antialias), real)
    result = down @ (real @ across.t())
    if img.is_floating_point():
        return result
    return result.round().clamp(0, _MAX[str(img.dtype).rpartition(".")[2]]).to(img.dtype)


def _weights(old: int, new: int, interpolation: InterpolationMode, antialias: bool, like: Any) -> Any:
    """The matrix of shape (new, old) that resizes one dimension: each row has the weights of the old pixels in a
    new pixel.
    """
    step = old / new
    stretch = max(step, 1.0) if antialias else 1.0
    bilinear = interpolation is InterpolationMode.BILINEAR
    radius = (1 if bilinear else 2) * stretch
    # Pillow's bicubic interpolation and the one without antialiasing differ in this coefficient.
    a = -0.5 if antialias else -0.75
    matrix = []
    for index in range(new):
        center = (index + 0.5) * step
        row = [0.0] * old
        for place in range(math.floor(center - radius - 0.5), math.ceil(center + radius + 0.5) + 1):
            distance = abs(place + 0.5 - center) / stretch
            weight = max(0.0, 1.0 - distance) if bilinear else _cubic(distance, a)
            if antialias:
                if 0 <= place < old:
                    row[place] += weight
            else:
                # Positions past the edge use the pixel at the edge.
                row[min(max(place, 0), old - 1)] += weight
        total = sum(row)
        matrix.append([weight / total for weight in row])
    return rgrad.tensor(matrix, dtype=like.dtype, device=like.device)


def _cubic(x: float, a: float) -> float:
    if x < 1.0:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    return (((x - 5.0) * x + 8.0) * x - 4.0) * a if x < 2.0 else 0.0
