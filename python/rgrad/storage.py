"""The memory of tensors: as bytes in `UntypedStorage`, as elements of a dtype in `TypedStorage`."""

from __future__ import annotations

import copy
import functools
import operator
import os
import sys
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

from rgrad import _C
from rgrad._C import Tensor, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage", "from_file", "storagetype"]

_WARNING = "TypedStorage is deprecated. tensor.untyped_storage() gives the same memory as bytes, without a dtype."
_CASTS = ("float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool")


class TypedStorage:
    """The memory of tensors as a sequence of elements.

    >>> import rgrad
    >>> rgrad.TypedStorage([1.0, 2.0]).size()
    2

    Args:
        data: the number of elements to allocate, or the elements.
        wrap_storage: an `UntypedStorage` to use instead.
        dtype: dtype of the elements; the default dtype if None.
        device: where elements are allocated; the CPU if None.
    """

    def __init__(
        self,
        *data: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: _C.dtype | None = None,
        device: Any = None,
        _internal: bool = False,
    ) -> None:
        if wrap_storage is None:
            if len(data) > 1:
                raise _wrong_arguments("TypedStorage.__init__", RuntimeError, "Too many positional arguments")
            storage = _allocated("TypedStorage.__init__", data, dtype or _C.get_default_dtype(), device)
        elif data:
            raise _wrong_arguments(
                "TypedStorage.__init__", RuntimeError, "No positional arguments are taken with 'wrap_storage'"
            )
        elif dtype is None:
            raise _wrong_arguments("TypedStorage.__init__", RuntimeError, "Argument 'dtype' must be specified")
        elif type(dtype) is not _C.dtype:
            raise _wrong_arguments(
                "TypedStorage.__init__", TypeError, f"Argument 'dtype' must be torch.dtype, not {type(dtype)}"
            )
        elif device is not None:
            raise _wrong_arguments(
                "TypedStorage.__init__", RuntimeError, "Argument 'device' should not be specified with 'wrap_storage'"
            )
        else:
            storage = _checked_untyped("TypedStorage.__init__", wrap_storage)
        self._untyped_storage = storage
        self.dtype = dtype or _C.get_default_dtype()

    @property
    def _dtype(self) -> _C.dtype:
        return self.dtype

    def _elements(self) -> Tensor:
        return _C.empty(0, dtype=self.dtype, device=self.device).set_(self._untyped_storage)

    @property
    def device(self) -> Any:
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        return self._untyped_storage.is_cuda

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return self._untyped_storage

    def data_ptr(self) -> int:
        """Address of the first element; 0 if there is none."""
        return self._untyped_storage.data_ptr()

    def size(self) -> int:
        """The number of elements."""
        return len(self)

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """The number of bytes per element."""
        return self.dtype.itemsize

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        return self._elements().tolist()

    def fill_(self, value: Any) -> TypedStorage:
        """Sets every element."""
        _refuse_storage(value)
        self._elements().fill_(value)
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool = False) -> TypedStorage:
        """Sets the elements to those of a storage of the same size."""
        self._elements().copy_(source._elements(), non_blocking)
        return self

    def clone(self) -> TypedStorage:
        """A copy with its own memory."""
        return TypedStorage(wrap_storage=self._elements().clone().untyped_storage(), dtype=self.dtype)

    def cpu(self) -> TypedStorage:
        """The storage on the CPU; the storage itself if it is already there."""
        return self if self.device.type == "cpu" else self._elements().cpu().storage()

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """The storage on a GPU; the same memory if it is already there."""
        return TypedStorage(wrap_storage=self._untyped_storage.cuda(device, non_blocking), dtype=self.dtype)

    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        """The storage on a device; the same memory if it is already there."""
        return self.cuda(device, non_blocking)

    def is_shared(self) -> bool:
        """Whether other processes can map the memory."""
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> TypedStorage:
        """Returns the storage itself, whose memory stays private: tensors are shared, by `Tensor.share_memory_`."""
        self._untyped_storage.share_memory_()
        return self

    def resizable(self) -> bool:
        """Whether the memory can be replaced by a larger one."""
        return self._untyped_storage.resizable()

    def resize_(self, size: int) -> None:
        """Changes the number of elements; the first ones stay. See `UntypedStorage.resize_`."""
        self._untyped_storage.resize_(size * self.element_size())

    def is_pinned(self, device: Any = "cuda") -> bool:
        """Whether the memory is locked for transfers to a GPU: never, they go through buffers of their own."""
        return False

    def pin_memory(self, device: Any = "cuda") -> TypedStorage:
        """The storage itself: memory need not be locked for transfers."""
        self._untyped_storage.pin_memory(device)
        return self

    def get_device(self) -> int:
        """The number of the GPU; -1 on the CPU."""
        return self._untyped_storage.get_device()

    def _share_fd_cpu_(self) -> tuple[int, int]:
        fd, _ = self._untyped_storage._share_fd_cpu_()
        return fd, self.size()

    def _share_filename_cpu_(self) -> Any:
        return self._untyped_storage._share_filename_cpu_()

    def _write_file(self, *args: Any) -> None:
        self._untyped_storage._write_file(*args)

    def pickle_storage_type(self) -> str:
        """The name of the legacy class of storages of this dtype, such as `FloatStorage`."""
        return self._elements().type().removeprefix("torch.").replace("Tensor", "Storage")

    def type(self) -> str:
        """The full name of the legacy class of storages of this dtype, or of this class if there is none."""
        if self.dtype not in _dtype_to_storage_type_map():
            return "torch.storage.TypedStorage"
        return f"torch.{self.pickle_storage_type()}"

    def __len__(self) -> int:
        return self.nbytes() // self.element_size()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: int) -> Any:
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._elements()[index].item()

    def __setitem__(self, index: int | slice, value: Any) -> None:
        _refuse_storage(value)
        self._elements()[index] = value

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self._untyped_storage == other._untyped_storage

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __copy__(self) -> TypedStorage:
        return TypedStorage(wrap_storage=self._untyped_storage, dtype=self.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        # By way of a tensor, as tensors that share a storage share its copy.
        elements = copy.deepcopy(self._elements(), memo)
        return TypedStorage(wrap_storage=elements.untyped_storage(), dtype=self.dtype)

    def __repr__(self) -> str:
        lines = "".join(f" {x}\n" for x in self.tolist())
        return f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"


def _wrong_arguments(function: str, kind: type[Exception], why: str) -> Exception:
    return kind(f"{function} received an invalid combination of arguments: {why}")


def _checked_untyped(function: str, storage: Any) -> UntypedStorage:
    if not isinstance(storage, UntypedStorage):
        raise _wrong_arguments(
            function, TypeError, f"Argument 'wrap_storage' must be UntypedStorage, but got {type(storage)}"
        )
    return storage


def _refuse_storage(value: Any) -> None:
    """Raises PyTorch's error for a storage where an element is expected."""
    if isinstance(value, (TypedStorage, UntypedStorage)):
        raise RuntimeError(f"cannot set item with value type {type(value)}")


_DEVICES = ("cpu", "cuda", "gpu", "meta", "mps")


def _allocated(function: str, data: tuple[Any, ...], dtype: _C.dtype, device: Any) -> UntypedStorage:
    """New memory for no elements, a number of them, or those of a sequence."""
    if type(dtype) is not _C.dtype:
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    kind = "cpu" if device is None else str(device).partition(":")[0]
    if kind not in _DEVICES and not kind.isdigit():
        raise RuntimeError(f"torch.UntypedStorage(): Storage device not recognized: {kind}")
    content = data[0] if data else 0
    if hasattr(content, "__index__") and not hasattr(content, "__len__"):
        # A number, also one of NumPy.
        return _C.empty(operator.index(content), dtype=dtype, device=device or "cpu").untyped_storage()
    if isinstance(content, (Tensor, TypedStorage, UntypedStorage)) or not hasattr(content, "__len__"):
        raise _wrong_arguments(function, TypeError, f"Argument type not recognized: {type(content)}")
    return _C.tensor(content, dtype=dtype, device=device or "cpu").untyped_storage()


def _cast(name: str) -> Any:
    def cast(self: TypedStorage) -> TypedStorage:
        changed = getattr(self._elements(), name)()
        return TypedStorage(wrap_storage=changed.untyped_storage(), dtype=changed.dtype)

    cast.__name__ = name
    cast.__doc__ = f"The elements cast to the dtype that `Tensor.{name}` names; the storage itself if they have it."
    return cast


for _name in _CASTS:
    setattr(TypedStorage, _name, _cast(_name))


# The names by which programs avoid the warning that PyTorch's public ones give.
for _name, _public in {
    **{f"_{name}": name for name in ("data_ptr", "element_size", "is_shared", "nbytes", "pickle_storage_type")},
    **{f"_{name}": name for name in ("resize_", "share_memory_", "size")},
    **{f"_{name}": f"__{name}__" for name in ("deepcopy", "getitem", "setitem")},
}.items():
    setattr(TypedStorage, _name, getattr(TypedStorage, _public))


class storagetype:
    """The type of `rgrad.FloatStorage` and similar names: creates storages of one dtype and checks for them.

    >>> import rgrad
    >>> rgrad.FloatStorage([1.0, 2.0]).dtype
    torch.float32
    """

    def __init__(self, name: str, dtype: _C.dtype) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = "rgrad"
        self.dtype = self._dtype = dtype

    def __call__(
        self, *data: Any, wrap_storage: UntypedStorage | None = None, _internal: bool = False, **others: Any
    ) -> TypedStorage:
        function = f"{self!r}.__new__"
        for name in others:
            if name in ("device", "dtype"):
                raise _wrong_arguments(function, RuntimeError, f"Keyword argument '{name}' cannot be specified")
            raise TypeError(f"{self.__name__}.__new__() got an unexpected keyword argument '{name}'")
        if wrap_storage is None:
            if len(data) > 1:
                raise _wrong_arguments(function, RuntimeError, "Too many positional arguments")
            wrap_storage = _allocated(function, data, self.dtype, None)
        elif data:
            raise _wrong_arguments(function, RuntimeError, "No positional arguments are taken with 'wrap_storage'")
        storage = _checked_untyped(function, wrap_storage)
        return TypedStorage(wrap_storage=storage, dtype=self.dtype)

    def from_buffer(self, *args: Any, **kwargs: Any) -> TypedStorage:
        """A storage with a copy of the elements of a buffer.

        Args:
            args: see `from_buffer` of this module, of which `dtype` is that of the storage.
            kwargs: likewise.
        """
        return TypedStorage(wrap_storage=from_buffer(*args, dtype=self.dtype, **kwargs), dtype=self.dtype)

    def from_file(self, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """A storage on the first `size` elements of a file; see `from_file` of this module."""
        storage = from_file(filename, shared, size * self.dtype.itemsize)
        return TypedStorage(wrap_storage=storage, dtype=self.dtype)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype == self.dtype and not instance.is_cuda

    def __repr__(self) -> str:
        return f"<class 'torch.{self.__name__}'>"

    def __reduce__(self) -> str:
        return self.__name__


FloatStorage = storagetype("FloatStorage", _C.float32)
DoubleStorage = storagetype("DoubleStorage", _C.float64)
HalfStorage = storagetype("HalfStorage", _C.float16)
BFloat16Storage = storagetype("BFloat16Storage", _C.bfloat16)
LongStorage = storagetype("LongStorage", _C.int64)
IntStorage = storagetype("IntStorage", _C.int32)
ShortStorage = storagetype("ShortStorage", _C.int16)
CharStorage = storagetype("CharStorage", _C.int8)
ByteStorage = storagetype("ByteStorage", _C.uint8)
BoolStorage = storagetype("BoolStorage", _C.bool)


def _get_always_warn_typed_storage_removal() -> bool:
    """Whether every use of a storage with a dtype warns, rather than only the first."""
    return _always_warn


def _set_always_warn_typed_storage_removal(always_warn: bool) -> None:
    """Sets whether every use of a storage with a dtype warns."""
    global _always_warn
    if not isinstance(always_warn, bool):
        raise AssertionError(f"always_warn must be bool, got {type(always_warn)}")
    _always_warn = always_warn


def __getattr__(name: str) -> Any:
    if name == "Storage":
        return globals()[_dtype_to_storage_type_map()[_C.get_default_dtype()]]
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


class _LegacyStorage:
    """The name of what the legacy storage types have in common."""

    def __new__(cls, *args: Any, **kwargs: Any) -> _LegacyStorage:
        raise RuntimeError("Only child classes of _LegacyStorage can be instantiated")


_TYPES = (
    *(BFloat16Storage, BoolStorage, ByteStorage, CharStorage, DoubleStorage, FloatStorage, HalfStorage, IntStorage),
    *(LongStorage, ShortStorage),
)


_storage_classes = {UntypedStorage, TypedStorage, *_TYPES}


def _dtype_to_storage_type_map() -> dict[_C.dtype, str]:
    """The names of the legacy storage types by dtype."""
    return {kind.dtype: kind.__name__ for kind in _TYPES}


def type_of(self: Tensor) -> Any:
    """The legacy type of the storage of a tensor, such as `rgrad.FloatStorage`; TypedStorage if there is none."""
    name = _dtype_to_storage_type_map().get(self.dtype, "TypedStorage")
    if not self.is_cuda:
        return globals()[name]
    import rgrad

    return getattr(rgrad.cuda, name)


_BYTE_ORDERS = ("big", "little", "native")


def from_buffer(
    buffer: Any, byte_order: str | None = None, count: int = -1, offset: int = 0, *, dtype: _C.dtype
) -> UntypedStorage:
    """A storage with a copy of the elements of a buffer.

    Args:
        buffer: an object with the buffer protocol.
        byte_order: the order of the bytes of an element: "big", "little" or "native".
        count: the number of elements; all that follow `offset` if negative.
        offset: the number of bytes to leave out.
        dtype: the dtype of the elements.
    """
    size = dtype.itemsize
    if byte_order is None and dtype not in (_C.uint8, _C.int8):
        raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
    if byte_order is not None and byte_order not in _BYTE_ORDERS:
        raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')")
    given = memoryview(buffer).cast("B")
    left = given.nbytes - offset
    if offset < 0 or left < 0:
        raise ValueError(
            f"offset must be non-negative and no greater than buffer length ({given.nbytes}), got {offset}"
        )
    if count < 0:
        if left % size:
            raise ValueError(f"buffer size ({left}) must be a multiple of element size ({size})")
        count = left // size
    elif count * size > left:
        raise ValueError(f"buffer has only {left // size} elements after offset {offset}, but {count} were requested")
    if count == 0:
        return _C.empty(0, dtype=_C.uint8).untyped_storage()
    content = _C.frombuffer(bytearray(given[offset : offset + count * size]), dtype=_C.uint8)
    if byte_order not in (None, "native", sys.byteorder):
        content = content.view(count, size).flip(1).reshape(-1)
    if dtype is _C.bool:
        content = content.ne(0).view(_C.uint8)
    return content.clone().untyped_storage()


_warned = _always_warn = False


def elements_of(storage: TypedStorage | UntypedStorage) -> Tensor:
    """The memory as a vector of elements, or of bytes if the storage has no dtype."""
    if isinstance(storage, UntypedStorage):
        storage = TypedStorage(wrap_storage=storage, dtype=_C.uint8)
    return storage._elements()


def part_of(storage: UntypedStorage, which: slice) -> UntypedStorage:
    """A storage over some of the bytes of another, which it keeps.

    Args:
        storage: of the CPU.
        which: a slice with a step of 1.
    """
    begin, end, step = which.indices(storage.nbytes())
    if step != 1:
        raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
    if storage.device.type != "cpu":
        raise NotImplementedError(f"a storage on {storage.device} has no slices: move it by .cpu()")
    if end <= begin:
        return _C.empty(0, dtype=_C.uint8).untyped_storage()
    memory = _C._storage_bytes(elements_of(storage))
    return _C.frombuffer(memory[begin:end], dtype=_C.uint8).untyped_storage()


def of_tensor(self: Tensor) -> TypedStorage:
    """The memory that this tensor shares with its views, as elements of its dtype."""
    global _warned
    if not _warned or _always_warn:
        _warned = True
        warnings.warn(_WARNING, UserWarning, stacklevel=2)
    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


def from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
    """A storage on the first bytes of a file. The file is mapped: its pages are read on use.

    Args:
        filename: the path.
        shared: whether writes to the storage change the file, which is extended to `nbytes`; else they stay in memory.
        nbytes: the number of bytes.
    """
    import mmap

    size = os.path.getsize(filename) if os.path.exists(filename) else None
    if shared and (size is None or size < nbytes):
        with open(filename, "ab") as file:
            file.truncate(nbytes)
    elif size is not None and size < nbytes:
        raise RuntimeError(f"file <{filename}> is smaller ({size} bytes) than the storage of {nbytes} bytes")
    with open(filename, "r+b" if shared else "rb") as file:
        if nbytes == 0:
            return _C.empty(0, dtype=_C.uint8).untyped_storage()
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        mapped = _mapping_type()(file.fileno(), nbytes, access=access)
    storage = _C.frombuffer(mapped, dtype=_C.uint8).untyped_storage()
    if shared:
        mapped.path = os.fspath(filename)
        _mapped[storage.data_ptr()] = mapped
    return storage


# The mappings of files whose writes others see, by address. A mapping lives as long as its storage.
_mapped: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


@functools.cache
def _mapping_type() -> Any:
    """A class of mappings with attributes."""
    import mmap

    class FileMapping(mmap.mmap):
        path: Any

    return FileMapping


def filename_of(storage: UntypedStorage) -> Any:
    """The path of the file that writes to a storage change, or None if there is none."""
    mapped = _mapped.get(storage.data_ptr()) if _mapped and storage.device.type == "cpu" else None
    return mapped.path if mapped is not None else None
