"""The transforms as functions of images: Pillow images, NumPy arrays, and tensors of shape (..., C, H, W)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import Any

import rgrad
from rgrad import _C


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


def _is_pil(picture: Any) -> bool:
    return any(cls.__module__.startswith("PIL.") and cls.__name__ == "Image" for cls in type(picture).__mro__)


def _is_numpy(picture: Any) -> bool:
    return type(picture).__module__ == "numpy" and type(picture).__name__ == "ndarray"


def height_and_width(picture: Any) -> tuple[int, int]:
    """The size of an image."""
    if _is_pil(picture):
        return picture.height, picture.width
    return picture.shape[-2], picture.shape[-1]


def pil_to_tensor(picture: Any) -> Any:
    """A tensor of shape (C, H, W) with the values of a Pillow image."""
    if not _is_pil(picture):
        raise TypeError(f"pic should be PIL Image. Got {type(picture)}")
    if picture.mode == "1":
        picture = picture.convert("L")
    dtype = getattr(rgrad, _PIL_DTYPES.get(picture.mode, "uint8"))
    data = bytearray(picture.tobytes())
    channels = len(picture.getbands())
    shape = (picture.height, picture.width, channels)
    return _C._tensor_from_buffer(data, dtype, 0, math.prod(shape)).view(shape).permute(2, 0, 1).contiguous()


def to_tensor(picture: Any) -> Any:
    """A tensor of shape (C, H, W), scaled to [0, 1] if the image's values are bytes."""
    if _is_pil(picture):
        tensor = pil_to_tensor(picture)
    elif _is_numpy(picture):
        if picture.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {picture.ndim} dimensions.")
        # Copied: the array may be read-only or have negative strides, and a transform must not return its input's
        # memory.
        array = picture[:, :, None] if picture.ndim == 2 else picture
        tensor = rgrad.from_numpy(array.transpose(2, 0, 1).copy())
    elif isinstance(picture, rgrad.Tensor) and picture.dtype == rgrad.uint8 and picture.dim() in (2, 3):
        # Datasets return tensors if Pillow is not installed.
        tensor = picture.unsqueeze(0) if picture.dim() == 2 else picture
    else:
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(picture)}")
    if tensor.dtype == rgrad.uint8:
        return tensor.to(rgrad.get_default_dtype()).div_(255)
    return tensor


_MAX = {"uint8": 255, "int8": 127, "int16": 2**15 - 1, "int32": 2**31 - 1, "int64": 2**63 - 1}


def convert_image_dtype(picture: Any, dtype: Any) -> Any:
    """Converts a tensor to another dtype and scales its values to that dtype's range (0 to 1 for floats)."""
    if not isinstance(picture, rgrad.Tensor):
        raise TypeError("Input img should be Tensor Image")
    if picture.dtype == dtype:
        return picture
    to_max = _MAX.get(str(dtype).rpartition(".")[2])
    from_max = _MAX.get(str(picture.dtype).rpartition(".")[2])
    if from_max is None:
        if to_max is None:
            return picture.to(dtype)
        if (to_max >= 2**31 - 1 and picture.dtype == rgrad.float32) or to_max == 2**63 - 1:
            raise RuntimeError(f"The cast from {picture.dtype} to {dtype} cannot be performed safely.")
        # The factor is almost max + 1, so that every integer value gets an equally wide share of [0, 1].
        return picture.mul(to_max + 1 - 1e-3).to(dtype)
    if to_max is None:
        return picture.to(dtype) / from_max
    if from_max > to_max:
        return rgrad.div(picture, (from_max + 1) // (to_max + 1), rounding_mode="trunc").to(dtype)
    return picture.to(dtype) * ((to_max + 1) // (from_max + 1))


def normalize(picture: Any, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Any:
    """Subtracts the mean of each channel of a float tensor and divides by its standard deviation."""
    if not isinstance(picture, rgrad.Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(picture)}")
    if not picture.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {picture.dtype}.")
    if picture.dim() < 3:
        raise ValueError(
            f"Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = {tuple(picture.shape)}"
        )
    means = rgrad.as_tensor(mean, dtype=picture.dtype, device=picture.device)
    stds = rgrad.as_tensor(std, dtype=picture.dtype, device=picture.device)
    if not all(stds.flatten().tolist()):
        raise ValueError(f"std evaluated to zero after conversion to {picture.dtype}, leading to division by zero.")
    if means.dim() == 1:
        means = means.view(-1, 1, 1)
    if stds.dim() == 1:
        stds = stds.view(-1, 1, 1)
    return (picture if inplace else picture.clone()).sub_(means).div_(stds)


def hflip(picture: Any) -> Any:
    """An image flipped left to right."""
    return picture.transpose(0) if _is_pil(picture) else picture.flip(-1)


def crop(picture: Any, top: int, left: int, height: int, width: int) -> Any:
    """A rectangle of an image; black where it extends past the edges."""
    if _is_pil(picture):
        return picture.crop((left, top, left + width, top + height))
    rows, columns = height_and_width(picture)
    right, bottom = left + width, top + height
    inner = picture[..., max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    if left < 0 or top < 0 or right > columns or bottom > rows:
        edges = [max(-left, 0), max(-top, 0), max(right - columns, 0), max(bottom - rows, 0)]
        return pad(inner, edges, 0)
    return inner


def pad(picture: Any, padding: int | Sequence[int], fill: float = 0) -> Any:
    """Adds a border to an image: one width, or (left and right, top and bottom), or (left, top, right, bottom)."""
    edges = [padding] if isinstance(padding, int) else list(padding)
    if len(edges) not in (1, 2, 4):
        raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(edges)} element tuple")
    left, top, right, bottom = edges * (4 // len(edges))
    if _is_pil(picture):
        from PIL import ImageOps

        # Images of mode F accept a float, which Pillow's annotations omit.
        return ImageOps.expand(picture, border=(left, top, right, bottom), fill=fill)  # pyright: ignore[reportArgumentType]
    rows, columns = height_and_width(picture)
    shape = (*picture.shape[:-2], top + rows + bottom, left + columns + right)
    result = rgrad.full(shape, fill, dtype=picture.dtype, device=picture.device)
    result[..., top : top + rows, left : left + columns] = picture
    return result


def center_crop(picture: Any, size: tuple[int, int]) -> Any:
    """The central rectangle of an image."""
    height, width = size
    rows, columns = height_and_width(picture)
    if width > columns or height > rows:
        left, top = max((width - columns) // 2, 0), max((height - rows) // 2, 0)
        right, bottom = max((width - columns + 1) // 2, 0), max((height - rows + 1) // 2, 0)
        picture = pad(picture, (left, top, right, bottom))
        rows, columns = height_and_width(picture)
    top, left = round((rows - height) / 2.0), round((columns - width) / 2.0)
    return crop(picture, top, left, height, width)


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
    picture: Any,
    size: int | Sequence[int],
    interpolation: InterpolationMode = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool = True,
) -> Any:
    """Resizes an image; `size` is (height, width) or the length of the shorter edge."""
    if not isinstance(interpolation, InterpolationMode):
        raise TypeError(f"Argument interpolation should be a InterpolationMode, but got {type(interpolation).__name__}")
    rows, columns = height_and_width(picture)
    height, width = _target_size(rows, columns, size, max_size)
    if (height, width) == (rows, columns):
        return picture
    if _is_pil(picture):
        return picture.resize((width, height), _PIL_FILTERS[interpolation])
    if interpolation not in _TENSOR_MODES:
        raise ValueError(f"Interpolation mode '{interpolation.value}' is unsupported with Tensor input")
    if interpolation is InterpolationMode.NEAREST:
        picture = picture.index_select(-2, rgrad.tensor([row * rows // height for row in range(height)]))
        return picture.index_select(-1, rgrad.tensor([column * columns // width for column in range(width)]))
    real = picture if picture.is_floating_point() else picture.to(rgrad.float32)
    across = _weights(columns, width, interpolation, antialias, real)
    down = _weights(rows, height, interpolation, antialias, real)
    result = down @ (real @ across.t())
    if picture.is_floating_point():
        return result
    return result.round().clamp(0, _MAX[str(picture.dtype).rpartition(".")[2]]).to(picture.dtype)


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
