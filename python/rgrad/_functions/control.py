"""Choices and loops as functions, and numbers that a compiler would take for symbols: here everything simply runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rgrad import _C

Tensor = _C.Tensor


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """Calls one of two functions.

    Args:
        pred: a bool, or a tensor of one element.
        true_fn: is called if it is true.
        false_fn: is called otherwise.
        operands: the arguments.

    >>> import rgrad
    >>> rgrad.cond(rgrad.tensor(True), lambda x: x + 1, lambda x: x - 1, (rgrad.zeros(2),))
    tensor([1., 1.])
    """
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not (callable(true_fn) and callable(false_fn)):
        raise RuntimeError("Expect both branches to be callable.")
    return (true_fn if bool(pred) else false_fn)(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]) -> Any:
    """Calls a function on its own results as long as a condition holds.

    Args:
        cond_fn: gives a bool or a tensor of one element for the current values.
        body_fn: gives the next values, as many as it takes.
        carried_inputs: the first values.

    Returns:
        The last values.
    """
    values = tuple(carried_inputs)
    while bool(cond_fn(*values)):
        made = body_fn(*values)
        made = made if isinstance(made, (tuple, list)) else (made,)
        if len(made) != len(values):
            raise RuntimeError(f"body_fn should return {len(values)} values, but got {len(made)}")
        values = tuple(made)
    return values if len(values) != 1 else values[0]


def sym_float(a: Any) -> float:
    """The number as a float."""
    return float(a)


def sym_int(a: Any) -> int:
    """The number as an int, rounded towards 0."""
    return int(a)


def _like(a: Any, b: Any, chosen: Any) -> Any:
    return float(chosen) if isinstance(a, float) or isinstance(b, float) else chosen


def sym_max(a: Any, b: Any) -> Any:
    """The greater number, a float if one of them is."""
    return _like(a, b, max(a, b))


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number, a float if one of them is."""
    return _like(a, b, min(a, b))


def sym_not(a: Any) -> bool:
    """The opposite of a truth value."""
    return not a


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """One of two values."""
    return t if b else f


def sym_sqrt(a: Any) -> float:
    """The square root of a number."""
    return math.sqrt(a)


def sym_sum(args: Iterable[Any]) -> Any:
    """The sum of numbers."""
    return sum(args)


def set_flush_denormal(mode: bool) -> bool:
    """Leaves subnormal numbers as they are, and returns False, which says so."""
    return False


def get_num_interop_threads() -> int:
    """1: operations follow one another in the thread that calls them."""
    return 1


def set_num_interop_threads(num: int) -> None:
    """Has no effect: operations follow one another in the thread that calls them."""
    if num <= 0:
        raise RuntimeError("Expected num_threads > 0")


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switches `rgrad.autograd.detect_anomaly` on or off for good."""
    _C._set_anomaly_enabled(mode, check_nan)
