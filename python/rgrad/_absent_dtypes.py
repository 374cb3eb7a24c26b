"""PyTorch dtypes of which rgrad has no tensors. They exist for tables of dtypes; creating a tensor of one is an
error.
"""

from __future__ import annotations

from rgrad._absent import refuse

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any


class AbsentDtype:
    """The name of a dtype without tensors. It is not an `rgrad.dtype`, so functions that expect one reject it.

    Args:
        name: the name without the module.
        itemsize: the size of an element in bytes.
        float_limits: the result of `finfo`: the dtype to report, and bits, eps, largest, smallest normal and resolution
            if it is not a dtype that tensors have.
    """

    def __init__(self, name: str, itemsize: int, float_limits: tuple[Any, ...] | None = None) -> None:
        self.float_limits = float_limits
        self._name = name
        self.itemsize = itemsize
        self.is_complex = name.startswith("complex")
        self.is_floating_point = name.startswith("float")
        self.is_signed = not name.startswith(("uint", "quint"))

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> Any:
        return _by_name, (self._name,)

    def to_complex(self) -> Any:
        """Raises an error."""
        refuse(f"{self!r}.to_complex", "there are no tensors of this dtype")

    to_real = to_complex


complex32 = chalf = AbsentDtype("complex32", 4, ("float16",))
complex64 = cfloat = AbsentDtype("complex64", 8, ("float32",))
complex128 = cdouble = AbsentDtype("complex128", 16, ("float64",))
uint16 = AbsentDtype("uint16", 2)
uint32 = AbsentDtype("uint32", 4)
uint64 = AbsentDtype("uint64", 8)
float8_e4m3fn = AbsentDtype("float8_e4m3fn", 1, ("float8_e4m3fn", 8, 2.0**-3, 448.0, 2.0**-6, 1.0))
float8_e4m3fnuz = AbsentDtype("float8_e4m3fnuz", 1, ("float8_e4m3fnuz", 8, 2.0**-3, 240.0, 2.0**-7, 1.0))
float8_e5m2 = AbsentDtype("float8_e5m2", 1, ("float8_e5m2", 8, 2.0**-2, 57344.0, 2.0**-14, 1.0))
float8_e5m2fnuz = AbsentDtype("float8_e5m2fnuz", 1, ("float8_e5m2fnuz", 8, 2.0**-2, 57344.0, 2.0**-15, 1.0))
float8_e8m0fnu = AbsentDtype("float8_e8m0fnu", 1)
float4_e2m1fn_x2 = AbsentDtype("float4_e2m1fn_x2", 1)
qint8 = AbsentDtype("qint8", 1)
quint8 = AbsentDtype("quint8", 1)
qint32 = AbsentDtype("qint32", 4)

NAMES = tuple(name for name, value in list(globals().items()) if isinstance(value, AbsentDtype))


def _by_name(name: str) -> AbsentDtype:
    return globals()[name]
