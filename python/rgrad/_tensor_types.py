"""`FloatTensor`, `LongTensor` and similar: PyTorch's names for tensors of one dtype on the CPU.

They are not classes, but behave like them: constructors with a dtype that support `isinstance`.
"""

from __future__ import annotations

from typing import Any

from rgrad import _C

from ._layout import layout, strided


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
    is_xpu = False

    def __new__(cls, name: str, *arguments: Any) -> tensortype:
        # A class statement calls the type of its base with the class's name, bases and namespace.
        if len(arguments) == 2:
            (base,) = arguments[0]
            raise TypeError(f"type 'torch.{base.__name__}' is not an acceptable base type")
        return super().__new__(cls)

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

    def __or__(self, other: Any) -> Any:
        # As for a class, in annotations.
        import typing

        return typing.Union[self, other]  # noqa: UP007 - the operator is what this defines

    def __ror__(self, other: Any) -> Any:
        import typing

        return typing.Union[other, self]  # noqa: UP007

    def __repr__(self) -> str:
        return f"<class 'torch.{self.__name__}'>"

    def __reduce__(self) -> str:
        return self.__name__


BFloat16Tensor = tensortype("BFloat16Tensor", _C.bfloat16)
BoolTensor = tensortype("BoolTensor", _C.bool)
ByteTensor = tensortype("ByteTensor", _C.uint8)
CharTensor = tensortype("CharTensor", _C.int8)
DoubleTensor = tensortype("DoubleTensor", _C.float64)
FloatTensor = tensortype("FloatTensor", _C.float32)
HalfTensor = tensortype("HalfTensor", _C.float16)
IntTensor = tensortype("IntTensor", _C.int32)
LongTensor = tensortype("LongTensor", _C.int64)
ShortTensor = tensortype("ShortTensor", _C.int16)

TYPES = {
    "BFloat16Tensor": BFloat16Tensor,
    "BoolTensor": BoolTensor,
    "ByteTensor": ByteTensor,
    "CharTensor": CharTensor,
    "DoubleTensor": DoubleTensor,
    "FloatTensor": FloatTensor,
    "HalfTensor": HalfTensor,
    "IntTensor": IntTensor,
    "LongTensor": LongTensor,
    "ShortTensor": ShortTensor,
}

# Those of a GPU are in `rgrad.cuda`.
_tensor_classes = set(TYPES.values())


def typename(obj: Any) -> str:
    """The qualified name of an object's class; a tensor's type."""
    if isinstance(obj, _C.Tensor):
        return obj.type()
    cls = obj if isinstance(obj, type) else type(obj)
    module = "" if cls.__module__ in ("builtins", "__builtin__") else cls.__module__ + "."
    return module + cls.__qualname__
