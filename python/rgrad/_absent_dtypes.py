"""PyTorch dtypes of which rgrad has no tensors. They exist for tables of dtypes; creating a tensor of one is an
error.
"""

from __future__ import annotations

from rgrad import _C

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any


class AbsentDtype:
    """The name of a dtype without tensors. `isinstance(d, rgrad.dtype)` is true, as tables of dtypes check it, but its
    type is another, so operations reject it.

    Args:
        name: the name without the module.
        itemsize: the size of an element in bytes.
        real: for complex numbers, the name of the dtype of their parts.
    """

    def __new__(cls, name: str, *args: Any, **kwargs: Any) -> AbsentDtype:
        # What rejects the dtype names its class, which is then to say why.
        return object.__new__(type(f"{name}, of which rgrad has no tensors", (cls,), {"__module__": "torch"}))

    def __init__(self, name: str, itemsize: int, real: str | None = None) -> None:
        self.real = real
        self._name = name
        self.itemsize = itemsize
        self.is_complex = real is not None
        self.is_floating_point = name.startswith("float")
        self.is_signed = not name.startswith(("uint", "quint"))

    @property
    def __class__(self) -> type[_C.dtype]:
        return _C.dtype

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> Any:
        return _by_name, (self._name,)

    def to_complex(self) -> AbsentDtype:
        """The complex dtype with parts of this one: a complex dtype is its own."""
        if not self.is_complex:
            raise RuntimeError(f"Unknown Complex ScalarType for {self._name}")
        return self

    def to_real(self) -> Any:
        """The dtype of the real part."""
        if not self.is_complex:
            return self
        assert self.real is not None
        return getattr(_C, self.real)


complex32 = chalf = AbsentDtype("complex32", 4, "float16")
complex64 = cfloat = AbsentDtype("complex64", 8, "float32")
complex128 = cdouble = AbsentDtype("complex128", 16, "float64")
float4_e2m1fn_x2 = AbsentDtype("float4_e2m1fn_x2", 1)
qint8 = AbsentDtype("qint8", 1)
quint8 = AbsentDtype("quint8", 1)
qint32 = AbsentDtype("qint32", 4)
quint4x2 = AbsentDtype("quint4x2", 1)
quint2x4 = AbsentDtype("quint2x4", 1)
bcomplex32 = AbsentDtype("bcomplex32", 4, "bfloat16")
bits1x8 = AbsentDtype("bits1x8", 1)
bits2x4 = AbsentDtype("bits2x4", 1)
bits4x2 = AbsentDtype("bits4x2", 1)
bits8 = AbsentDtype("bits8", 1)
bits16 = AbsentDtype("bits16", 2)
int1 = AbsentDtype("int1", 1)
int2 = AbsentDtype("int2", 1)
int3 = AbsentDtype("int3", 1)
int4 = AbsentDtype("int4", 1)
int5 = AbsentDtype("int5", 1)
int6 = AbsentDtype("int6", 1)
int7 = AbsentDtype("int7", 1)
uint1 = bit = AbsentDtype("uint1", 1)
uint2 = AbsentDtype("uint2", 1)
uint3 = AbsentDtype("uint3", 1)
uint4 = AbsentDtype("uint4", 1)
uint5 = AbsentDtype("uint5", 1)
uint6 = AbsentDtype("uint6", 1)
uint7 = AbsentDtype("uint7", 1)

NAMES = tuple(name for name, value in list(globals().items()) if issubclass(type(value), AbsentDtype))


def _by_name(name: str) -> AbsentDtype:
    return globals()[name]
