"""Image files as uint8 tensors of shape (channels, height, width), read and written by Pillow."""

from __future__ import annotations

import io
import os
from enum import Enum
from typing import Any

import rgrad
from rgrad.vision.transforms.functional import pil_to_tensor

__all__ = [
    "ImageReadMode",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "encode_jpeg",
    "encode_png",
    "read_file",
    "read_image",
    "write_file",
    "write_jpeg",
    "write_png",
]


class ImageReadMode(Enum):
    """The channels of a decoded image."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4


_PIL_MODES = {"GRAY": "L", "GRAY_ALPHA": "LA", "RGB": "RGB", "RGB_ALPHA": "RGBA"}


def read_file(path: str | os.PathLike[str]) -> rgrad.Tensor:
    """The bytes of a file."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    return rgrad.frombuffer(data, dtype=rgrad.uint8) if data else rgrad.empty(0, dtype=rgrad.uint8)


def write_file(filename: str | os.PathLike[str], data: rgrad.Tensor) -> None:
    """Writes a vector of bytes to a file."""
    with open(filename, "wb") as file:
        file.write(data.cpu().contiguous().numpy().tobytes())


def decode_image(
    input: Any, mode: ImageReadMode | str = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False
) -> rgrad.Tensor:
    """Decodes an image from a file or its bytes.

    Args:
        input: a path, or the bytes of a file as a tensor.
        mode: the channels, as a member or its name.
        apply_exif_orientation: whether to rotate the image as its EXIF data specifies.
    """
    from PIL import Image, ImageOps

    mode = ImageReadMode[mode.upper()] if isinstance(mode, str) else mode
    source: Any = io.BytesIO(input.cpu().numpy().tobytes()) if isinstance(input, rgrad.Tensor) else input
    with Image.open(source) as picture:
        picture = ImageOps.exif_transpose(picture) if apply_exif_orientation else picture
        if mode is not ImageReadMode.UNCHANGED:
            picture = picture.convert(_PIL_MODES[mode.name])
        elif picture.mode not in ("L", "LA", "RGB", "RGBA"):
            picture = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
        return pil_to_tensor(picture)


read_image = decode_jpeg = decode_png = decode_image


def _encoded(input: rgrad.Tensor, form: str, **options: Any) -> rgrad.Tensor:
    from PIL import Image

    if input.dtype != rgrad.uint8 or input.dim() != 3 or input.shape[0] not in (1, 3):
        raise RuntimeError(
            f"a picture to be written is of uint8 and shape (1 or 3, height, width), not {input.dtype} and "
            f"{tuple(input.shape)}"
        )
    pixels = input.cpu().permute(1, 2, 0).contiguous().numpy()
    picture = Image.fromarray(pixels[:, :, 0] if input.shape[0] == 1 else pixels)
    buffer = io.BytesIO()
    picture.save(buffer, form, **options)
    return rgrad.frombuffer(bytearray(buffer.getvalue()), dtype=rgrad.uint8)


def encode_png(input: rgrad.Tensor, compression_level: int = 6) -> rgrad.Tensor:
    """Encodes an image as PNG; the compression level is 0 to 9."""
    return _encoded(input, "PNG", compress_level=compression_level)


def encode_jpeg(input: rgrad.Tensor, quality: int = 75) -> rgrad.Tensor:
    """Encodes an image as JPEG; the quality is 1 to 100."""
    return _encoded(input, "JPEG", quality=quality)


def write_png(input: rgrad.Tensor, filename: str | os.PathLike[str], compression_level: int = 6) -> None:
    """Writes an image to a PNG file; see `encode_png`."""
    write_file(filename, encode_png(input, compression_level))


def write_jpeg(input: rgrad.Tensor, filename: str | os.PathLike[str], quality: int = 75) -> None:
    """Writes an image to a JPEG file; see `encode_jpeg`."""
    write_file(filename, encode_jpeg(input, quality))
