"""Pickling for files that PyTorch reads: tensors under PyTorch's names, their storages in separate records."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import IO, Any

import rgrad
from rgrad import _C
from rgrad._utils import dtype_name, is_wrapper, reduce_wrapper, state_of
from rgrad.serialization._weights_unpickler import BYTE_STORED
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
    """A global name that PyTorch will import. It is written to the pickle as is, because no object of that name
    exists here.
    """

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self) -> None:
        """Makes the instance callable: pickle requires a callable as the function that rebuilds an object."""


_REBUILD_TENSOR = _TorchGlobal("torch._utils", "_rebuild_tensor_v2")
# For dtypes that have no legacy type of storage: the storage is one of bytes, and the tensor names its dtype.
_REBUILD_TENSOR_OF_BYTES = _TorchGlobal("torch._utils", "_rebuild_tensor_v3")
_REBUILD_FROM_TYPE = _TorchGlobal("torch._tensor", "_rebuild_from_type_v2")
_REBUILD_WRAPPER = _TorchGlobal("torch._utils", "_rebuild_wrapper_subclass")
_REBUILD_PARAMETER = _TorchGlobal("torch._utils", "_rebuild_parameter")
_REBUILD_PARAMETER_WITH_STATE = _TorchGlobal("torch._utils", "_rebuild_parameter_with_state")
_TENSOR = _TorchGlobal("torch", "Tensor")
_REBUILD_META = _TorchGlobal("torch._utils", "_rebuild_meta_tensor_no_storage")
_SIZE = _TorchGlobal("torch", "Size")
_DEVICE = _TorchGlobal("torch", "device")
_STORAGE_GLOBALS = {dtype: _TorchGlobal("torch", name) for dtype, name in _STORAGE_NAMES.items()}
_UNTYPED_STORAGE = _TorchGlobal("torch.storage", "UntypedStorage")
_DTYPE_GLOBALS = {dtype: _TorchGlobal("torch", dtype) for dtype in (*_STORAGE_NAMES, *BYTE_STORED)}


class _StorageRef:
    """A reference, in the pickled arguments, to a storage that is written to its own record."""

    def __init__(self, persistent_id: tuple[Any, ...]) -> None:
        self.persistent_id = persistent_id


# Typed as Any: the standard stubs omit the members of Python's own pickler that subclasses need.
_PythonPickler: Any = pickle._Pickler


class TensorPickler(_PythonPickler):
    """Writes tensors in PyTorch's format and collects their storages.

    It derives from pickle's Python implementation rather than the C one, because only that can write names that
    cannot be imported.
    """

    dispatch = _PythonPickler.dispatch.copy()

    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: list[Any] = []
        self._keys: dict[int, tuple[str, str]] = {}

    def persistent_id(self, obj: Any) -> tuple[Any, ...] | None:
        if isinstance(obj, (TypedStorage, UntypedStorage)):
            elements = elements_of(obj)
            if dtype_name(elements.dtype) in BYTE_STORED:
                raise pickle.PicklingError(f"can't pickle a TypedStorage of {elements.dtype}")
            obj = self._storage(elements)
        return obj.persistent_id if isinstance(obj, _StorageRef) else None

    def _save_torch_global(self, obj: _TorchGlobal) -> None:
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    dispatch[_TorchGlobal] = _save_torch_global

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, rgrad.Tensor):
            # A class that pickles its objects itself is left to it. Methods may be wrapped, for `__torch_function__`.
            own = {_unwrapped(cls) for cls in (rgrad.Tensor, rgrad.nn.Parameter)}
            return self._reduced(obj) if _unwrapped(type(obj)) in own else NotImplemented
        if isinstance(obj, rgrad.Size):
            return _SIZE, (tuple(obj),)
        if isinstance(obj, rgrad.device):
            return _DEVICE, (str(obj),)
        if isinstance(obj, rgrad.dtype):
            # save_reduce cannot express a bare global, so `save` below handles dtypes at the top level.
            raise pickle.PicklingError(f"can't pickle {obj}")
        return NotImplemented

    def _reduced(self, obj: Any) -> tuple[Any, ...]:
        """A function and its arguments that rebuild a tensor with its class and its attributes."""
        cls = type(obj)
        if is_wrapper(obj):
            _, (_, _, arguments, state) = reduce_wrapper(obj)
            return _REBUILD_FROM_TYPE, (_REBUILD_WRAPPER, cls, arguments, state)
        state = state_of(obj)
        if issubclass(cls, rgrad.nn.Parameter):
            parts = (obj.detach(), obj.requires_grad, OrderedDict())
            return (_REBUILD_PARAMETER, parts) if state is None else (_REBUILD_PARAMETER_WITH_STATE, (*parts, state))
        with _C.DisableTorchFunctionSubclass():
            function, arguments = self._plain(obj)
        if cls is rgrad.Tensor and state is None:
            return function, arguments
        kind = _TENSOR if cls is rgrad.Tensor else cls
        return _REBUILD_FROM_TYPE, (function, kind, arguments, {} if state is None else state)

    def _plain(self, obj: Any) -> tuple[Any, tuple[Any, ...]]:
        """The function and the arguments that rebuild a tensor without its class and its attributes."""
        if obj.requires_grad and not obj.is_leaf:
            obj = obj.detach().requires_grad_()
        if obj.is_meta:
            return _REBUILD_META, (obj.dtype, tuple(obj.shape), tuple(obj.stride()), obj.requires_grad)
        layout = (obj.storage_offset(), tuple(obj.shape), tuple(obj.stride()), obj.requires_grad)
        if dtype_name(obj.dtype) in BYTE_STORED:
            storage = self._storage(elements_of(obj.untyped_storage()), _UNTYPED_STORAGE)
            return _REBUILD_TENSOR_OF_BYTES, (storage, *layout, OrderedDict(), obj.dtype)
        return _REBUILD_TENSOR, (self._storage(obj), *layout, OrderedDict())

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

    def _storage(self, tensor: Any, kind: _TorchGlobal | None = None) -> _StorageRef:
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
            # Keeps the tensor alive, so that no other storage can get its address during pickling.
            self.storages.append(tensor.detach())
        count = storage.nbytes() // tensor.dtype.itemsize
        return _StorageRef(("storage", kind or _STORAGE_GLOBALS[dtype], key, _location(tensor.device), count))


def _unwrapped(cls: Any) -> Any:
    """The method of a class that pickles its objects."""
    method = cls.__reduce_ex__
    return getattr(method, "__wrapped__", method)


def _location(device: Any) -> str:
    """The name of a device that PyTorch can load from and remap."""
    return f"cuda:{device.index or 0}" if device.type != "cpu" else str(device)
