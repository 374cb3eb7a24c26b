"""How objects are pickled for a file that PyTorch reads: tensors by its names, their memory to records of its own."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import IO, Any

import rgrad
from rgrad._utils import dtype_name
from rgrad.storage import TypedStorage, UntypedStorage, elements_of

_STORAGE_NAMES = {
    "float64": "DoubleStorage",
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
}


class _TorchGlobal:
    """A name that PyTorch's side will import: written to the pickle as it is, since there is nothing here
    behind it.
    """

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self) -> None:
        """Pickle wants a callable in the place of the function that rebuilds an object."""


_REBUILD_TENSOR = _TorchGlobal("torch._utils", "_rebuild_tensor_v2")
_REBUILD_PARAMETER = _TorchGlobal("torch._utils", "_rebuild_parameter")
_SIZE = _TorchGlobal("torch", "Size")
_DEVICE = _TorchGlobal("torch", "device")
_STORAGE_GLOBALS = {dtype: _TorchGlobal("torch", name) for dtype, name in _STORAGE_NAMES.items()}
_DTYPE_GLOBALS = {dtype: _TorchGlobal("torch", dtype) for dtype in _STORAGE_NAMES}


class _StorageRef:
    """Stands in the pickled arguments for a storage that goes to a record of its own."""

    def __init__(self, persistent_id: tuple[Any, ...]) -> None:
        self.persistent_id = persistent_id


# Untyped: the standard stubs leave out the parts of Python's own pickler that subclasses build on.
_PythonPickler: Any = pickle._Pickler


class TensorPickler(_PythonPickler):
    """Writes tensors as PyTorch does and gathers their storages.

    It is Python's own pickler rather than the one in C because only that lets names through which can't be
    imported.
    """

    dispatch = _PythonPickler.dispatch.copy()

    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: list[Any] = []
        self._keys: dict[int, tuple[str, str]] = {}

    def persistent_id(self, obj: Any) -> tuple[Any, ...] | None:
        if isinstance(obj, (TypedStorage, UntypedStorage)):
            obj = self._storage(elements_of(obj))
        return obj.persistent_id if isinstance(obj, _StorageRef) else None

    def _save_torch_global(self, obj: _TorchGlobal) -> None:
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    dispatch[_TorchGlobal] = _save_torch_global

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, rgrad.nn.Parameter):
            return _REBUILD_PARAMETER, (obj.detach(), obj.requires_grad, OrderedDict())
        if isinstance(obj, rgrad.Tensor):
            if obj.requires_grad and not obj.is_leaf:
                obj = obj.detach().requires_grad_()
            layout = (obj.storage_offset(), tuple(obj.shape), tuple(obj.stride()), obj.requires_grad)
            return _REBUILD_TENSOR, (self._storage(obj), *layout, OrderedDict())
        if isinstance(obj, rgrad.Size):
            return _SIZE, (tuple(obj),)
        if isinstance(obj, rgrad.device):
            return _DEVICE, (str(obj),)
        if isinstance(obj, rgrad.dtype):
            # save_reduce has no form for a bare global, so that a dtype is written by `save` below.
            raise pickle.PicklingError(f"can't pickle {obj}")
        return NotImplemented

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if isinstance(obj, rgrad.dtype):
            obj = _DTYPE_GLOBALS[dtype_name(obj)]
            found = self.memo.get(id(obj))
            if found is None:
                self._save_torch_global(obj)
            else:
                self.write(self.get(found[0]))
            return
        super().save(obj, save_persistent_id)

    def _storage(self, tensor: Any) -> _StorageRef:
        storage = tensor.untyped_storage()
        dtype = dtype_name(tensor.dtype)
        address = storage.data_ptr()
        key, saved_dtype = (
            self._keys.get(address, (str(len(self.storages)), dtype)) if address else (None, dtype)
        )
        if saved_dtype != dtype:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different types"
            )
        if key is None or int(key) == len(self.storages):
            key = str(len(self.storages))
            self._keys[address] = (key, dtype)
            # The tensor stays referenced, so that its address can't be given to another storage meanwhile.
            self.storages.append(tensor.detach())
        count = storage.nbytes() // tensor.dtype.itemsize
        return _StorageRef(("storage", _STORAGE_GLOBALS[dtype], key, _location(tensor.device), count))


def _location(device: Any) -> str:
    """PyTorch's name of a device, which it can load from and remap."""
    return f"cuda:{device.index or 0}" if device.type != "cpu" else str(device)
