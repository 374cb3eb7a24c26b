"""Numeric arrays of MATLAB's files of level 5.

The format is described in "MAT-File Format" by The MathWorks: after a header of 128 bytes come data elements. Each has
a tag (its type and number of bytes), is padded to 8 bytes, and may hold others: a matrix those for its class, sizes,
name and numbers; a compressed element another element, deflated by zlib.
"""

from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MATRIX, _COMPRESSED = 14, 15
# NumPy's names of the types of elements, and of the classes of matrices.
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_MAX_BYTES = 1 << 33


def read_mat(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads the numeric arrays of a file.

    Args:
        path: the file.

    Returns:
        NumPy arrays by their names. Variables of other kinds are left out.

    Raises:
        RuntimeError: the file is not of this format, or is damaged.
    """
    data = memoryview(Path(path).read_bytes())
    order = {b"IM": "<", b"MI": ">"}.get(bytes(data[126:128]))
    if order is None:
        raise RuntimeError(f"{path} is not a MATLAB file of level 5")
    found: dict[str, Any] = {}
    try:
        for kind, content in _elements(data[128:], order):
            if kind == _COMPRESSED:
                kind, content = next(_elements(_inflated(content), order))
            if kind != _MATRIX:
                raise ValueError(f"an element of type {kind} stands where a variable should")
            found.update(_matrix(content, order))
    except (struct.error, zlib.error, ValueError, StopIteration) as error:
        raise RuntimeError(f"{path} is corrupt: {error}") from None
    return found


def _inflated(content: memoryview) -> memoryview:
    stream = zlib.decompressobj()
    data = stream.decompress(content, _MAX_BYTES)
    if not stream.eof:
        raise ValueError("a compressed variable is incomplete or too large")
    return memoryview(data)


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """The type and the content of each element."""
    start = 0
    while start < len(data):
        kind, count = struct.unpack_from(order + "II", data, start)
        if kind >> 16:  # A short element: its length and type share a word, and its content is in the other.
            kind, count, begin, end = kind & 0xFFFF, kind >> 16, start + 4, start + 8
        else:
            begin = start + 8
            end = begin + count + (0 if kind == _COMPRESSED else -count % 8)
        content = data[begin : begin + count]
        if len(content) != count:
            raise ValueError(f"{count} bytes are promised where {len(content)} remain")
        yield kind, content
        start = end


def _matrix(content: memoryview, order: str) -> dict[str, Any]:
    """A matrix by its name, if it is one of real numbers."""
    import numpy as np

    parts = _elements(content, order)
    (flags,) = struct.unpack_from(order + "I", next(parts)[1])
    numeric, imaginary = _CLASSES.get(flags & 0xFF), flags & 0x800
    if numeric is None or imaginary:
        return {}
    sizes = next(parts)[1]
    shape = struct.unpack(f"{order}{len(sizes) // 4}i", sizes)
    name = bytes(next(parts)[1]).decode("ascii")
    kind, numbers = next(parts)
    if kind not in _TYPES or min(shape) < 0:
        raise ValueError(f"variable {name} has elements of the unknown type {kind}")
    # A writer may store numbers in a smaller type than that of the matrix.
    stored = np.frombuffer(numbers, order + _TYPES[kind])
    if len(stored) != math.prod(shape):
        raise ValueError(f"variable {name} has {len(stored)} elements for a shape of {shape}")
    return {name: stored.astype(numeric).reshape(shape, order="F")}
