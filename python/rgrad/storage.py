"""The memory of tensors: as bytes in `UntypedStorage`, as elements of a dtype in `TypedStorage`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

from rgrad import _C
from rgrad._C import Tensor, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage", "from_file", "storagetype"]

_WARNING = (
    "TypedStorage is deprecated. tensor.untyped_storage() gives the same memory as bytes, without a dtype."
)
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
    """

    def __init__(
        self, data: Any = None, *, wrap_storage: UntypedStorage | None = None, dtype: _C.dtype | None = None
    ) -> None:
        dtype = dtype or _C.get_default_dtype()
        if wrap_storage is None:
            elements = _C.empty(data or 0, dtype=dtype) if data is None or isinstance(data, int) else None
            wrap_storage = (elements if elements is not None else _C.tensor(data, dtype=dtype)).untyped_storage()
        elif data is not None:
            raise RuntimeError(
                "Legacy constructor was called with an argument and 'wrap_storage': only one of them is taken"
            )
        self._untyped_storage = wrap_storage
        self.dtype = dtype

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
        return self._elements().tolist()

    def fill_(self, value: Any) -> TypedStorage:
        """Sets every element."""
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
        return self

    def pickle_storage_type(self) -> str:
        """The name of the legacy class of storages of this dtype, such as `FloatStorage`."""
        return self._elements().type().removeprefix("torch.").replace("Tensor", "Storage")

    def type(self) -> str:
        """The full name of the legacy class of storages of this dtype."""
        return f"torch.{self.pickle_storage_type()}"

    def __len__(self) -> int:
        return self.nbytes() // self.element_size()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: int) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._elements()[index].item()

    def __setitem__(self, index: int | slice, value: Any) -> None:
        self._elements()[index] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self._untyped_storage == other._untyped_storage

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __copy__(self) -> TypedStorage:
        return TypedStorage(wrap_storage=self._untyped_storage, dtype=self.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        return memo.setdefault(id(self), self.clone())

    def __repr__(self) -> str:
        lines = "".join(f" {x}\n" for x in self.tolist())
        return f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"


def _cast(name: str) -> Any:
    def cast(self: TypedStorage) -> TypedStorage:
        changed = getattr(self._elements(), name)()
        return TypedStorage(wrap_storage=changed.untyped_storage(), dtype=changed.dtype)

    cast.__name__ = name
    cast.__doc__ = f"The elements cast to the dtype that `Tensor.{name}` names; the storage itself if they have it."
    return cast


for _name in _CASTS:
    setattr(TypedStorage, _name, _cast(_name))


class storagetype:
    """The type of `rgrad.FloatStorage` and similar names: creates storages of one dtype and checks for them.

    >>> import rgrad
    >>> rgrad.FloatStorage([1.0, 2.0]).dtype
    torch.float32
    """

    def __init__(self, name: str, dtype: _C.dtype) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = "rgrad"
        self.dtype = dtype

    def __call__(self, data: Any = None, *, wrap_storage: UntypedStorage | None = None) -> TypedStorage:
        return TypedStorage(data, wrap_storage=wrap_storage, dtype=self.dtype)

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

# Of the default dtype that PyTorch begins with.
Storage = FloatStorage

_warned = False


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
    if not _warned:
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
        mapped = mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
    return _C.frombuffer(mapped, dtype=_C.uint8).untyped_storage()
