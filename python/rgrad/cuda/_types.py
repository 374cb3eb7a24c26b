"""`torch.cuda.FloatTensor` and similar: PyTorch's names for tensors and storages of one dtype on a GPU."""

from __future__ import annotations

from typing import Any

from rgrad import _C
from rgrad._absent import absent_class
from rgrad._tensor_types import TYPES, tensortype
from rgrad.storage import TypedStorage, storagetype


class gputensortype(tensortype):
    """A constructor of tensors of one dtype on the current GPU."""

    __module__ = "rgrad.cuda"
    is_cuda = True

    def __call__(self, *args: Any, **kwargs: Any) -> _C.Tensor:
        return super().__call__(*args, **kwargs).to("gpu")

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, _C.Tensor) and instance.is_cuda and instance.dtype == self.dtype

    def __repr__(self) -> str:
        return f"<class 'torch.cuda.{self.__name__}'>"

    def __reduce__(self) -> Any:
        return _of_name, (self.__name__,)


class gpustoragetype(storagetype):
    """A constructor of storages of one dtype on the current GPU."""

    def __call__(self, *data: Any, **kwargs: Any) -> TypedStorage:
        made = super().__call__(*data, **kwargs)
        return made if made.is_cuda else made.cuda()

    def from_buffer(self, *args: Any, **kwargs: Any) -> TypedStorage:
        """Raises: memory of a GPU is no buffer."""
        raise RuntimeError("from_buffer: Not available for CUDA storage")

    def from_file(self, *args: Any, **kwargs: Any) -> TypedStorage:
        """Raises: files are mapped to memory of the CPU."""
        raise RuntimeError("from_file: Not available for CUDA storage")

    def _new_with_weak_ptr(self, *args: Any, **kwargs: Any) -> TypedStorage:
        """Raises: other processes map memory of the CPU only."""
        raise RuntimeError("_new_with_weak_ptr: Not available for CUDA storage")

    def _new_shared_filename(self, *args: Any, **kwargs: Any) -> TypedStorage:
        """Raises: other processes map memory of the CPU only."""
        raise RuntimeError("_new_shared_filename: Not available for CUDA storage")

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype == self.dtype and instance.is_cuda

    def __repr__(self) -> str:
        return f"<class 'torch.cuda.{self.__name__}'>"

    def __reduce__(self) -> Any:
        return _of_name, (self.__name__,)


_TENSORS = {name: gputensortype(name, kind.dtype) for name, kind in TYPES.items()}
_STORAGES = {
    name.replace("Tensor", "Storage"): gpustoragetype(name.replace("Tensor", "Storage"), kind.dtype)
    for name, kind in TYPES.items()
}
_COMPLEX = {
    name: absent_class(f"torch.cuda.{name}", "there are no complex tensors")
    for name in ("ComplexFloatStorage", "ComplexDoubleStorage")
}
NAMES: dict[str, Any] = {**_TENSORS, **_STORAGES, **_COMPLEX}


def _of_name(name: str) -> Any:
    return NAMES[name]
