"""Functions of dtypes and shapes: promotion, conversion, limits, broadcasting."""

from __future__ import annotations

from rgrad import _C

from ._size import Size

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any


def _check_dtype(function: str, argument: str, position: int, value: Any) -> None:
    if type(value) is not _C.dtype:  # not isinstance, which a dtype without tensors passes
        raise TypeError(
            f"{function}(): argument '{argument}' (position {position}) must be torch.dtype, not {type(value).__name__}"
        )


def promote_types(type1: _C.dtype, type2: _C.dtype) -> _C.dtype:
    """The smallest dtype to which both convert."""
    _check_dtype("promote_types", "type1", 1, type1)
    _check_dtype("promote_types", "type2", 2, type2)
    return _C._promote_types(type1, type2)


def result_type(tensor1: Any, tensor2: Any) -> _C.dtype:
    """The promoted dtype of two tensors or numbers."""
    if isinstance(tensor1, complex) or isinstance(tensor2, complex):
        from . import _absent_dtypes

        parts = [1.0 if isinstance(t, complex) else t for t in (tensor1, tensor2)]
        wide = _C._result_type(*parts) == _C.float64
        return getattr(_absent_dtypes, "complex128" if wide else "complex64")
    return _C._result_type(tensor1, tensor2)


def can_cast(from_: _C.dtype, to: _C.dtype) -> bool:
    """Whether a result of one dtype may be stored in another: not from floating point to integer, and not to bool."""
    _check_dtype("can_cast", "from_", 1, from_)
    _check_dtype("can_cast", "to", 2, to)
    if from_.is_floating_point:
        return to.is_floating_point
    return from_ == _C.bool or to != _C.bool


def broadcast_shapes(*shapes: Any) -> Size:
    """The broadcast shape of the given shapes.

    >>> import rgrad
    >>> rgrad.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    result: list[int] = []
    for number, shape in enumerate(shapes):
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(n < 0 for n in shape):
            raise ValueError("Attempting to broadcast a dimension with negative length!")
        result = [1] * (len(shape) - len(result)) + result
        for i in range(-1, -len(shape) - 1, -1):
            if result[i] == 1:
                result[i] = shape[i]
            elif shape[i] not in (1, result[i]):
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {shape[i]} at {i}! Mismatching argument at index "
                    f"{number} had {shape}; but expected shape should be broadcastable to {result}"
                )
    return Size(result)


_UNSET = object()


def _is_absent(d: Any) -> bool:
    """Whether an object is a dtype that has a name only."""
    if type(d) is _C.dtype:
        return False
    from ._absent_dtypes import AbsentDtype

    return issubclass(type(d), AbsentDtype)


class _Limits:
    """The common base of `finfo` and `iinfo`: equal for equal dtypes."""

    dtype: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


# bits, eps, largest, smallest normal, resolution
_FLOATS = {
    "float16": (16, 2.0**-10, 65504.0, 2.0**-14, 0.001),
    "bfloat16": (16, 2.0**-7, 3.3895313892515355e38, 2.0**-126, 0.01),
    "float32": (32, 2.0**-23, 3.4028234663852886e38, 2.0**-126, 1e-06),
    "float64": (64, 2.0**-52, 1.7976931348623157e308, 2.0**-1022, 1e-15),
    "float8_e4m3fn": (8, 2.0**-3, 448.0, 2.0**-6, 1.0),
    "float8_e4m3fnuz": (8, 2.0**-3, 240.0, 2.0**-7, 1.0),
    "float8_e5m2": (8, 2.0**-2, 57344.0, 2.0**-14, 1.0),
    "float8_e5m2fnuz": (8, 2.0**-2, 57344.0, 2.0**-15, 1.0),
    "float8_e8m0fnu": (8, 1.0, 2.0**127, 2.0**-127, 1.0),
}


class finfo(_Limits):
    """Limits of a floating point dtype, the default one if none is given.

    >>> import rgrad
    >>> rgrad.finfo(rgrad.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: Any = _UNSET) -> None:
        d: Any = _C.get_default_dtype() if type is _UNSET else type
        if not _is_absent(d):
            _check_dtype("finfo", "type", 1, d)
        # The limits of a complex dtype are those of its parts.
        self.dtype = repr(d.to_real()).removeprefix("torch.")
        limits = _FLOATS.get(self.dtype)
        if limits is None:
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'"
            )
        self.bits, self.eps, self.max, self.tiny, self.resolution = limits
        # A dtype without a sign has powers of two only, and no 0.
        self.min = -self.max if d.is_signed else self.tiny
        self.smallest_normal = self.tiny

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.tiny:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo(_Limits):
    """Limits of an integer dtype."""

    def __init__(self, type: Any = _UNSET) -> None:
        if type is _UNSET:
            raise TypeError('iinfo() missing 1 required positional arguments: "type"')
        d = type
        if not _is_absent(d):
            _check_dtype("iinfo", "type", 1, d)
        if d.is_floating_point or d.is_complex:
            raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
        if d == _C.bool:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        self.dtype = repr(d).removeprefix("torch.")
        if _is_absent(d):
            raise NotImplementedError(f"torch.iinfo: rgrad knows no limits of {d!r}")
        self.bits = d.itemsize * 8
        self.min = -(2 ** (self.bits - 1)) if d.is_signed else 0
        self.max = 2 ** (self.bits - (1 if d.is_signed else 0)) - 1

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
