"""The format of PyTorch before 1.6: several pickles, followed by the bytes of the storages.

The pickles are a magic number, a version, the sizes of C's integers, the object, and the keys of the storages. For
each storage, the number of its elements and the elements follow.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import IO, Any

import rgrad
from rgrad import _C
from rgrad.serialization._pickler import TensorPickler
from rgrad.serialization._storages import Storages, text
from rgrad.serialization._weights_unpickler import StorageType, WeightsUnpickler, full_unpickler
from rgrad.serialization._zip_file import ByteReader

_MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001
_SIZES = {"protocol_version": _VERSION, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}


class _LegacyPickler(TensorPickler):
    """Writes persistent ids with an additional field that older versions used for views of storages; it is None."""

    def persistent_id(self, obj: Any) -> tuple[Any, ...] | None:
        found = super().persistent_id(obj)
        return None if found is None else (*found, None)


def save_legacy(obj: Any, file: IO[bytes], protocol: int) -> None:
    """Saves an object to an open file.

    Args:
        obj: as for `rgrad.save`.
        file: a binary file open for writing.
        protocol: the pickle protocol.
    """
    for value in (_MAGIC, _VERSION, _SIZES):
        pickle.dump(value, file, protocol)
    pickler = _LegacyPickler(file, protocol)
    pickler.dump(obj)
    storages = {str(key): tensor for key, tensor in enumerate(pickler.storages)}
    pickle.dump(sorted(storages), file, protocol)
    for key in sorted(storages):
        tensor = storages[key]
        data = _C._storage_bytes(tensor if str(tensor.device) == "cpu" else tensor.cpu())
        file.write(struct.pack("<q", data.nbytes // tensor.dtype.itemsize))
        file.write(data)


class _LegacyStorages(Storages):
    """The storages of a file in which the bytes follow the pickle that refers to them.

    Args:
        view: the whole file.
        map_location: as for `rgrad.load`.
    """

    def __init__(self, view: memoryview, map_location: Any) -> None:
        self._view = view
        self._map_location = map_location
        self._loaded = {}
        self._views = {}
        self._size = 0

    def _load(self, kind: StorageType, key: str, location: str, count: int) -> Any:
        dtype = getattr(rgrad, kind.dtype)
        self._size += count * dtype.itemsize
        if self._size > len(self._view):
            raise pickle.UnpicklingError("storages are larger than the file")
        return self.place(rgrad.empty(count, dtype=dtype, device="cpu"), location)

    def fill(self, keys: Any, start: int) -> int:
        """Reads the bytes of the storages, stored consecutively from `start`; returns the end offset."""
        names = [text(key) for key in keys] if isinstance(keys, list) else keys
        if not isinstance(names, list) or sorted(map(str, names)) != sorted(self._loaded):
            raise pickle.UnpicklingError("the storages of the file are not those that it refers to")
        for key in names:
            tensor, _ = self._loaded[key]
            size = tensor.numel() * tensor.dtype.itemsize
            if start + 8 + size > len(self._view):
                raise RuntimeError(
                    f"unexpected EOF, expected {start + 8 + size - len(self._view)} more bytes. "
                    "The file might be corrupted."
                )
            if struct.unpack_from("<q", self._view, start) != (tensor.numel(),):
                raise pickle.UnpicklingError(f"storage {key} has another size than it should")
            here = tensor.device.type == "cpu"
            host = tensor if here else rgrad.empty(tensor.numel(), dtype=tensor.dtype, device="cpu")
            if size:
                _C._storage_bytes(host)[:size] = self._view[start + 8 : start + 8 + size]
            if not here:
                tensor.copy_(host)
            start += 8 + size
        return start


def load_legacy(
    view: memoryview, map_location: Any, unrestricted: tuple[Any, dict[str, Any]] | None, encoding: str = "utf-8"
) -> tuple[Any, int]:
    """Loads the object at the beginning of a file.

    Args:
        view: the whole file.
        map_location: as for `rgrad.load`.
        unrestricted: for trusted files, the module that provides the unpickler, and its options.
        encoding: of strings of Python 2.

    Returns:
        The object, and its end offset in the file.
    """
    if len(view) == 0:
        raise EOFError("Ran out of input")
    storages = _LegacyStorages(view, map_location)
    place = 0

    def next_value() -> Any:
        nonlocal place
        if unrestricted is None:
            reader = WeightsUnpickler(view, storages, place, encoding)
            value = reader.load()
            place = reader.end
            return value
        module, options = unrestricted
        file = io.BufferedReader(ByteReader(view))
        file.seek(place)
        value = full_unpickler(module, file, storages, options).load()
        place = file.tell()
        return value

    if next_value() != _MAGIC:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = next_value()
    if version != _VERSION:
        raise RuntimeError(f"Invalid protocol version: {version}")
    next_value()
    result = next_value()
    keys = next_value()
    return result, storages.fill(keys, place)
