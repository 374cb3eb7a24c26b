"""`FloatTensor`, `LongTensor` and their kin: PyTorch's names for a tensor of one dtype on the CPU.

They are no classes, though they pass for them: a constructor with a dtype, which knows its tensors by `isinstance`.
"""

from __future__ import annotations

from typing import Any

from rgrad import _C

from ._top import layout, strided


class tensortype:
    """A constructor of tensors of one dtype.

    >>> import rgrad
    >>> rgrad.LongTensor([1, 2])
    tensor([1, 2])
    >>> isinstance(rgrad.ones(2), rgrad.LongTensor)
    False
    """

    __module__ = "rgrad"
    is_cuda = False
    is_sparse = False

    def __init__(self, name: str, dtype: _C.dtype) -> None:
        self.__name__ = self.__qualname__ = name
        self.dtype = dtype

    @property
    def layout(self) -> layout:
        return strided

    def __call__(self, *args: Any, **kwargs: Any) -> _C.Tensor:
        return _C._typed_tensor(self.dtype, args, kwargs)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, _C.Tensor) and instance.is_cpu and instance.dtype == self.dtype

    def __repr__(self) -> str:
        return f"<class 'torch.{self.__name__}'>"

    def __reduce__(self) -> str:
        return self.__name__


_DTYPES = {
    "BFloat16Tensor": _C.bfloat16,
    "BoolTensor": _C.bool,
    "ByteTensor": _C.uint8,
    "CharTensor": _C.int8,
    "DoubleTensor": _C.float64,
    "FloatTensor": _C.float32,
    "HalfTensor": _C.float16,
    "IntTensor": _C.int32,
    "LongTensor": _C.int64,
    "ShortTensor": _C.int16,
}

TYPES = {name: tensortype(name, dtype) for name, dtype in _DTYPES.items()}
globals().update(TYPES)
