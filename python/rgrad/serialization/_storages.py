"""The storages that a pickle refers to, on the devices that `map_location` specifies."""

from __future__ import annotations

import pickle
from typing import Any

import rgrad
from rgrad import _C
from rgrad.serialization._weights_unpickler import StorageType
from rgrad.serialization._zip_file import Archive
from rgrad.storage import TypedStorage, part_of


def text(value: Any) -> Any:
    """A name that a file of Python 2 has as bytes, where `encoding="bytes"` leaves its strings as they are."""
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value


class Storages:
    """Creates the storages that a pickle refers to; each only once, so that tied tensors stay tied."""

    def __init__(self, archive: Archive, map_location: Any, mapped: bool, swapped: bool = False) -> None:
        self._archive = archive
        self._map_location = map_location
        # Elements of another byte order are copied, as a mapping would show them in the file's.
        self._mapped = mapped and not swapped
        self._swapped = swapped
        self._loaded: dict[str, tuple[Any, str]] = {}
        self._views: dict[Any, Any] = {}

    def __call__(self, persistent_id: Any) -> Any:
        """The storage for a `persistent_id`."""
        is_tuple = isinstance(persistent_id, tuple) and len(persistent_id) in (5, 6)
        persistent_id = tuple(map(text, persistent_id)) if is_tuple else persistent_id
        if not (is_tuple and persistent_id[0] == "storage"):
            raise pickle.UnpicklingError("Only persistent_load of storage is allowed")
        _, kind, key, location, count = persistent_id[:5]
        if not (
            isinstance(kind, StorageType)
            and isinstance(key, str)
            and isinstance(location, str)
            and type(count) is int
            and count >= 0
        ):
            raise pickle.UnpicklingError(f"malformed storage with {count!r} elements"[:200])
        if key not in self._loaded:
            self._loaded[key] = (self._load(kind, key, location, count), kind.dtype)
        tensor, dtype = self._loaded[key]
        if dtype != kind.dtype or tensor.numel() != count:
            raise pickle.UnpicklingError(f"storage {key} is referred to with different types or sizes")
        storage = tensor.untyped_storage()
        view = persistent_id[5] if len(persistent_id) == 6 else None
        if view is not None:
            storage = self._part(storage, tensor, view)
        return TypedStorage(wrap_storage=storage, dtype=tensor.dtype)

    def _part(self, storage: Any, tensor: Any, view: Any) -> Any:
        """A part of a storage, as files before PyTorch 0.4 have them: a key, where it begins, and its size."""
        valid = isinstance(view, tuple) and len(view) == 3 and all(type(n) is int and n >= 0 for n in view[1:])
        if not valid or sum(view[1:]) > tensor.numel():
            raise pickle.UnpicklingError(f"malformed view of a storage of {tensor.numel()} elements: {view!r}"[:200])
        key, begin, count = view
        if key not in self._views:
            size = tensor.dtype.itemsize
            self._views[key] = part_of(storage, slice(begin * size, (begin + count) * size))
        return self._views[key]

    def _load(self, kind: StorageType, key: str, location: str, count: int) -> Any:
        dtype = getattr(rgrad, kind.dtype)
        data = self._archive.record(f"data/{key}", check=not self._mapped)
        if data.nbytes != count * dtype.itemsize:
            raise pickle.UnpicklingError(
                f"storage {key} should have {count} elements of {dtype}, but its record has {data.nbytes} "
                "bytes"
            )
        if self._mapped and count > 0:
            tensor = _C._tensor_from_buffer(data, dtype, 0, count)
        else:
            tensor = rgrad.empty(count, dtype=dtype, device="cpu")
            if count > 0:
                _C._storage_bytes(tensor)[: data.nbytes] = data
                if self._swapped:
                    tensor.untyped_storage().byteswap(dtype)
        return self.place(tensor, location)

    def place(self, tensor: Any, location: str) -> Any:
        """Moves the tensor to the device that the file or `map_location` specifies."""
        chosen = self._map_location
        if callable(chosen):
            storage: Any = chosen(tensor.untyped_storage(), location)
            if storage is not None:
                return rgrad.empty(0, dtype=tensor.dtype, device=storage.device).set_(storage.untyped())
            target = location
        elif isinstance(chosen, dict):
            target = str(next((chosen[name] for name in (location, _other_name(location)) if name in chosen), location))
        else:
            target = location if chosen is None else str(chosen)
        if target == "cpu":
            return tensor
        try:
            return tensor.to(_other_name(target) if target.startswith("cuda") else target)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            name = target.partition(":")[0]
            if name not in ("cuda", "gpu", "xpu", "mps"):
                raise RuntimeError(
                    f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {target})"
                ) from None
            raise RuntimeError(
                f"Attempting to deserialize object on a {name.upper()} device but torch.{name}.is_available() is "
                f"False. map_location=torch.device('cpu') loads its tensors to the CPU. ({error})"
            ) from None


def _other_name(location: str) -> str:
    """The other name of a GPU location: PyTorch's files say "cuda", rgrad says "gpu" for any vendor."""
    kind, colon, index = location.partition(":")
    return {"cuda": "gpu", "gpu": "cuda"}.get(kind, kind) + colon + index
