"""Files of the safetensors format: named tensors, nothing else.

A file is the length of its header as eight bytes, the header as JSON (`{"name": {"dtype": "F32", "shape": [2,
3], "data_offsets": [0, 24]}, ...}`), and the tensors' bytes without gaps.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
from typing import TYPE_CHECKING, Any

import rgrad
from rgrad import _C
from rgrad._utils import dtype_name

if TYPE_CHECKING:
    from rgrad import Tensor

__all__ = ["SafetensorError", "load", "load_file", "save", "save_file"]

_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_MAX_HEADER = 100_000_000


class SafetensorError(Exception):
    """A file that is not what the format allows."""


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a file of tensors; see `save_file`."""
    return b"".join(bytes(part) for part in _parts(tensors, metadata))


def save_file(
    tensors: dict[str, Tensor], filename: str | os.PathLike[str], metadata: dict[str, str] | None = None
) -> None:
    """Write tensors to a file.

    Args:
        tensors: contiguous tensors by name, none of which shares its storage with another.
        filename: where to.
        metadata: texts to store with them.
    """
    parts = _parts(tensors, metadata)
    with open(filename, "wb") as file:
        for part in parts:
            file.write(part)


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors in the bytes of a file; see `load_file`."""
    return _load(memoryview(data), copy=True)


def load_file(filename: str | os.PathLike[str], device: Any = "cpu") -> dict[str, Tensor]:
    """Read tensors from a file, mapped into memory: what is not used is not read.

    Args:
        filename: where from.
        device: where to put them.

    Returns:
        The tensors by name.

    Example:
        >>> import os, tempfile
        >>> import rgrad as torch
        >>> from rgrad.safetensors import load_file, save_file
        >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
        >>> save_file({"weight": torch.ones(2)}, path)
        >>> load_file(path)
        {'weight': tensor([1., 1.])}
    """
    with open(filename, "rb") as file:
        if os.fstat(file.fileno()).st_size < 8:
            raise SafetensorError("Error while deserializing header: header too small")
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    tensors = _load(mapped, copy=False)
    if str(device) == "cpu":
        return tensors
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def _parts(tensors: dict[str, Tensor], metadata: dict[str, str] | None) -> list[Any]:
    """The pieces of a file: lengths, header, and a view of each tensor's bytes."""
    owners: dict[int, str] = {}
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, rgrad.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected str to Tensor but received {type(tensor)}")
        if not tensor.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It either "
                "means you "
                "are trying to save tensors which are reference of each other in which case it's "
                "recommended to save "
                "only the full tensors, and reslice at load time, or simply call `.contiguous()` on your "
                "tensor to "
                "pack it before saving."
            )
        address = tensor.untyped_storage().data_ptr()
        if address and tensor.numel():
            other = owners.setdefault(address, name)
            if other != name:
                raise RuntimeError(f"Some tensors share memory: {[other, name]}; save one of them, or clones")
    # Wide dtypes first: every tensor begins at a multiple of its element size.
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    views, place = [], 0
    for name in order:
        tensor = tensors[name].detach().cpu()
        start = tensor.storage_offset() * tensor.dtype.itemsize
        size = tensor.numel() * tensor.dtype.itemsize
        views.append(_C._storage_bytes(tensor)[start : start + size])
        header[name] = {
            "dtype": _NAMES[dtype_name(tensor.dtype)],
            "shape": list(tensor.shape),
            "data_offsets": [place, place + size],
        }
        place += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [struct.pack("<Q", len(text)), text, *views]


def _fail(reason: str) -> SafetensorError:
    return SafetensorError(f"Error while deserializing header: {reason}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    items = dict(pairs)
    if len(items) != len(pairs):
        raise _fail("duplicate keys")
    return items


def _load(view: memoryview, copy: bool) -> dict[str, Tensor]:
    """The tensors of a file, after its whole header has been checked against its size."""
    if len(view) < 8:
        raise _fail("header too small")
    (length,) = struct.unpack_from("<Q", view)
    if length > _MAX_HEADER:
        raise _fail("header too large")
    if 8 + length > len(view):
        raise _fail("invalid header length")
    try:
        header = json.loads(bytes(view[8 : 8 + length]).decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _fail(f"invalid JSON in header: {error}") from None
    if not isinstance(header, dict):
        raise _fail("invalid JSON in header: not an object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _fail("metadata must be texts")
    data = view[8 + length :]
    entries = sorted(
        ((name, *_checked(name, entry)) for name, entry in header.items()), key=lambda item: item[3:]
    )
    place = 0
    for name, _, _, begin, end in entries:
        if begin != place:
            raise _fail(f"invalid offset for tensor `{name}`")
        place = end
    if place != len(data):
        raise _fail("incomplete metadata, file not fully covered")
    tensors = {}
    for name, dtype, shape, begin, end in entries:
        count = (end - begin) // dtype.itemsize
        if copy or count == 0:
            tensor = rgrad.empty(count, dtype=dtype)
            if count:
                _C._storage_bytes(tensor)[: end - begin] = data[begin:end]
        else:
            tensor = _C._tensor_from_buffer(data, dtype, begin, count)
        tensors[name] = tensor.view(shape)
    return {name: tensors[name] for name in header}


def _checked(name: str, entry: Any) -> tuple[Any, list[int], int, int]:
    """An entry's dtype, shape and place, if they are what they should be and fit each other."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _fail(f"malformed entry of tensor `{name}`")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in _DTYPES:
        raise _fail(f"unknown dtype of tensor `{name}`")
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or not all(type(n) is int and 0 <= n < 2**62 for n in numbers):
            raise _fail(f"malformed entry of tensor `{name}`")
    if len(shape) > 64 or len(offsets) != 2:
        raise _fail(f"malformed entry of tensor `{name}`")
    dtype = getattr(rgrad, _DTYPES[kind])
    if math.prod(n for n in shape if n) >= 2**62:
        raise _fail(f"shape of tensor `{name}` overflows")
    if offsets[1] - offsets[0] != math.prod(shape) * dtype.itemsize:
        raise _fail(f"info for tensor `{name}` does not match its shape and dtype")
    return dtype, shape, offsets[0], offsets[1]
