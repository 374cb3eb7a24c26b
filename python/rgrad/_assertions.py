"""Checks of values: `_assert` and `_assert_async`."""

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
