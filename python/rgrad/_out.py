"""How functions written in Python write their results to the tensors of `out=`."""

from __future__ import annotations

import rgrad
from rgrad import _C

Tensor = _C.Tensor

# The types of elements by their names in C++, as errors give them.
_NAMES = {
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short int",
    "int32": "int",
    "int64": "long int",
}


def kind_of(t: Tensor) -> str:
    """The word for a dtype in errors: Float, Long and so on."""
    return t.type().rpartition(".")[2].removesuffix("Tensor")


def element_type(t: Tensor) -> str:
    """The name in C++ of the type of a tensor's elements, as errors give it."""
    name = str(t.dtype).removeprefix("torch.")
    return _NAMES.get(name, name)


def write_out(name: str, value: Tensor, out: Tensor, recorded: bool = False) -> Tensor:
    """Writes a result to `out`, which is resized (with a warning unless it is empty) and returned.

    Args:
        name: of the operation, for the error.
        value: the result.
        out: of the device of `value`, and of a dtype to which that of `value` can be cast.
        recorded: whether the gradient of `out` is passed on to `value`.

    Raises:
        RuntimeError: another device or dtype, or `value` requires grad and is not `recorded`.
    """
    if value.requires_grad and not recorded:
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    if out.device != value.device:
        raise RuntimeError(f"Expected out tensor to have device {value.device}, but got {out.device} instead")
    rgrad.alias_copy(value.detach(), out=out)
    return out.copy_(value) if value.requires_grad else out


def write_exactly(name: str, value: Tensor, out: Tensor) -> Tensor:
    """As `write_out`, for operations that want the dtype of the result."""
    if out.dtype != value.dtype:
        raise RuntimeError(
            f"Expected out tensor to have dtype {element_type(value)}, but got {element_type(out)} instead"
        )
    return write_out(name, value, out)
