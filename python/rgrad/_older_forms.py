"""Calls in which a factor precedes the tensors, as in `x.add(2, y)` for `x.add(y, alpha=2)`.

They are tried after no signature of an operation matched, so they cost other calls nothing.
"""

from __future__ import annotations

import warnings
from typing import Any

from rgrad import _C
from rgrad._C import Tensor

# The factors and the tensors behind them. Of `addmm` and its like, `alpha` may be left out.
_FORMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "add": (("alpha",), ("other",)),
    "sub": (("alpha",), ("other",)),
    "addcmul": (("value",), ("tensor1", "tensor2")),
    "addcdiv": (("value",), ("tensor1", "tensor2")),
    "addmm": (("beta", "alpha"), ("mat1", "mat2")),
    "addmv": (("beta", "alpha"), ("mat", "vec")),
    "addr": (("beta", "alpha"), ("vec1", "vec2")),
    "addbmm": (("beta", "alpha"), ("batch1", "batch2")),
    "baddbmm": (("beta", "alpha"), ("batch1", "batch2")),
}
_warned = False


def _orders(factors: tuple[str, ...], tensors: tuple[str, ...], method: bool) -> list[tuple[str, ...]]:
    """The orders of the parameters; `input` is the object of a method."""
    if factors[0] != "beta":
        return [("input", *factors, *tensors)]
    if method:
        return [("input", "beta", *tensors), ("input", "beta", "alpha", *tensors)]
    return [("beta", "input", *tensors), ("beta", "input", "alpha", *tensors)]


def _is_factor(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.dim() == 0 and not value.requires_grad
    return isinstance(value, (int, float))


def _bound(
    order: tuple[str, ...], factors: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any] | None:
    """The arguments by name; None if they are not of this form."""
    if len(args) + len(kwargs) != len(order):
        return None
    given = dict(zip(order, args, strict=False))
    for name, value in kwargs.items():
        if name not in order or name in given:
            return None
        given[name] = value
    for name, value in given.items():
        # A number may be what is added, but not what is multiplied.
        number = name in factors or (name == "other" and isinstance(value, (int, float)))
        if not (_is_factor(value) if number else isinstance(value, Tensor)):
            return None
    return given


def _text(name: str, factors: tuple[str, ...], order: tuple[str, ...], tensors: tuple[str, ...], method: bool) -> str:
    def parameter(p: str) -> str:
        return f"{'Number' if p in factors else 'Tensor'} {p}"

    shown = [parameter(p) for p in order if not (method and p == "input")]
    tail = "" if method else ", *, Tensor out = None"
    first = [] if method else ["Tensor input"]
    numbers = ", ".join(f"Number {p} = 1" for p in factors)
    last = "" if method else ", Tensor out = None"
    return (
        f"This overload of {name} is deprecated:\n\t{name}({', '.join(shown)}{tail})\n"
        "Consider using one of the following signatures instead:\n\t"
        f"{name}({', '.join([*first, *(f'Tensor {t}' for t in tensors)])}, *, {numbers}{last})"
    )


def call(name: str, method: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call of this form; NotImplemented if it is none.

    Args:
        name: the name of the operation, with `_` if it works in place.
        method: whether a method was called, of which the first argument is the object.
        args: the positional arguments.
        kwargs: the others.
    """
    global _warned
    stem = name.removesuffix("_")
    if stem not in _FORMS:
        return NotImplemented
    factors, tensors = _FORMS[stem]
    rest = {key: value for key, value in kwargs.items() if method or key != "out"}
    for order in _orders(factors, tensors, method):
        given = _bound(order, factors, args, rest)
        if given is None:
            continue
        if not _warned or _C.is_warn_always_enabled():
            _warned = True
            warnings.warn(_text(name, factors, order, tensors, method), UserWarning, stacklevel=2)
        numbers = {f: given[f].item() if isinstance(given[f], Tensor) else given[f] for f in factors if f in given}
        function = getattr(Tensor if method else _C, name)
        out = {"out": kwargs["out"]} if not method and kwargs.get("out") is not None else {}
        return function(given["input"], *(given[t] for t in tensors), **numbers, **out)
    return NotImplemented
