"""Files in the safetensors format: named tensors and nothing else."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Any

import rgrad
from rgrad import _C

if TYPE_CHECKING:
    from rgrad import Tensor

__all__ = ["SafetensorError", "load", "load_file", "save", "save_file"]


class SafetensorError(Exception):
    """A file that violates the format."""


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Returns the contents of a safetensors file as bytes; see `save_file`."""
    return _C._safetensors_save(_checked(tensors), metadata, None)


def save_file(
    tensors: dict[str, Tensor], filename: str | os.PathLike[str], metadata: dict[str, str] | None = None
) -> None:
    """Writes tensors to a file.

    Args:
        tensors: contiguous tensors by name, none of which shares its storage with another.
        filename: the path.
        metadata: strings to store with them.
    """
    _C._safetensors_save(_checked(tensors), metadata, os.fspath(filename))


def load(data: bytes) -> dict[str, Tensor]:
    """Reads tensors from the contents of a safetensors file; see `load_file`."""
    return _load(memoryview(data), copy=True)


def load_file(filename: str | os.PathLike[str], device: Any = "cpu") -> dict[str, Tensor]:
    """Reads tensors from a file. The file is mapped into memory, so unused parts are not read.

    Args:
        filename: the path.
        device: the device of the tensors.

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


def _checked(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, detached and on the CPU; raises if they cannot be stored."""
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
    return {name: tensor.detach().cpu() for name, tensor in tensors.items()}


def _load(view: memoryview, copy: bool) -> dict[str, Tensor]:
    """The tensors of a file; first checks its whole header against its size."""
    if not len(view):
        raise SafetensorError("Error while deserializing header: header too small")
    try:
        index = _C._safetensors_index(_C._tensor_from_buffer(view, rgrad.uint8, 0, len(view)))
    except ValueError as error:
        raise SafetensorError(str(error)) from None
    tensors = {}
    for name, (dtype, shape, begin, end) in index.items():
        count = (end - begin) // dtype.itemsize
        if copy or count == 0:
            tensor = rgrad.empty(count, dtype=dtype)
            if count:
                _C._storage_bytes(tensor)[: end - begin] = view[begin:end]
        else:
            tensor = _C._tensor_from_buffer(view, dtype, begin, count)
        tensors[name] = tensor.view(shape)
    return tensors
