"""Checks of values and of what tensors are."""

from __future__ import annotations

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any


def _assert(condition: Any, message: str) -> None:
    """Raises AssertionError with `message` unless `condition` holds.

    Args:
        condition: anything with a truth value; a symbol of `rgrad.fx` records the check.
        message: the error message.
    """
    from rgrad import fx

    symbol: Any = next((x for x in (condition, message) if isinstance(x, fx.Proxy)), None)
    if symbol is not None:
        symbol.tracer.create_proxy("call_function", _assert, (condition, message), {})
        return
    assert condition, message


def _assert_async(input: Any, assert_msg: str | None = None) -> None:
    """Raises RuntimeError unless the element of a one-element tensor is non-zero. On a GPU, it waits for the tensor.

    Args:
        input: a tensor of one element.
        assert_msg: the error message.
    """
    if not bool(input):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _assert_tensor_metadata(
    a: Any,
    size: Any = None,
    stride: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
    layout: Any = None,
) -> None:
    """Raises RuntimeError unless a tensor is what is expected; what is None is not compared.

    Args:
        a: the tensor.
        size: its shape.
        stride: its strides.
        dtype: its dtype.
        device: its device.
        layout: its layout.
    """
    from rgrad import Tensor, empty
    from rgrad import device as as_device

    from ._out import element_type, kind_of

    if not isinstance(a, Tensor):
        raise TypeError(f"_assert_tensor_metadata(): argument 'a' (position 1) must be Tensor, not {type(a).__name__}")
    for name, expected, found in (("sizes", size, a.shape), ("strides", stride, a.stride())):
        if expected is not None and list(expected) != list(found):
            raise RuntimeError(f"Tensor {name} mismatch! Expected: {list(expected)}, Got: {list(found)}")
    if dtype is not None and dtype != a.dtype:
        raise RuntimeError(f"Tensor dtype mismatch! Expected: {kind_of(empty(0, dtype=dtype))}, Got: {element_type(a)}")
    if device is not None and as_device(device) != a.device:
        raise RuntimeError(f"Tensor device mismatch! Expected: {device}, Got: {a.device}")
    if layout is not None and layout != a.layout:
        names = (str(which).removeprefix("torch.").capitalize() for which in (layout, a.layout))
        raise RuntimeError("Tensor layout mismatch! Expected: {}, Got: {}".format(*names))
