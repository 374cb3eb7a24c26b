"""The IDX format: two zero bytes, a type, the number of dimensions, the sizes as big-endian words, and the
elements.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from typing import Any

import rgrad
from rgrad import _C

_UINT8 = 0x08
_MAX_BYTES = 1 << 30


def read_idx(path: str | os.PathLike[str], dimensions: int) -> Any:
    """Reads a file of bytes, gzipped if its name says so.

    Args:
        path: the file.
        dimensions: the required number of dimensions.

    Returns:
        A uint8 tensor of the file's shape. Raises RuntimeError for an invalid file.
    """
    opener = gzip.open if os.fspath(path).endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            header = file.read(4 + 4 * dimensions)
            if len(header) < 4 or header[:2] != b"\0\0":
                raise RuntimeError(f"{path} is not an IDX file: it does not begin with two zero bytes")
            if header[2] != _UINT8 or header[3] != dimensions:
                raise RuntimeError(
                    f"{path} should hold unsigned bytes in {dimensions} dimensions, but its header says type "
                    f"0x{header[2]:02x} in {header[3]} dimensions"
                )
            if len(header) < 4 + 4 * dimensions:
                raise RuntimeError(f"{path} is truncated within its header")
            shape = struct.unpack(f">{dimensions}I", header[4:])
            count = math.prod(shape)
            if count > _MAX_BYTES:
                raise RuntimeError(f"{path} claims a shape of {shape}, which is too large to be true")
            # Reading one extra byte detects a file that is too long without unpacking all of it.
            data = file.read(count + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RuntimeError(f"{path} is corrupt: {error}") from None
    if len(data) != count:
        kind = "truncated" if len(data) < count else "too long"
        raise RuntimeError(f"{path} is {kind}: its header promises {count} bytes of shape {shape}")
    if count == 0:
        return rgrad.empty(shape, dtype=rgrad.uint8)
    return _C._tensor_from_buffer(bytearray(data), rgrad.uint8, 0, count).view(shape)
