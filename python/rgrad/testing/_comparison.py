"""Comparison of tensors in tests."""

from __future__ import annotations

import cmath
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import rgrad
from rgrad._C import Tensor

__all__ = ["assert_allclose", "assert_close", "default_tolerances", "get_tolerances"]

# (rtol, atol) by dtype; integers and bools must be equal.
_TOLERANCE = {
    rgrad.float16: (1e-3, 1e-5),
    rgrad.bfloat16: (1.6e-2, 1e-5),
    rgrad.float32: (1.3e-6, 1e-5),
    rgrad.float64: (1e-7, 1e-7),
}

_Message = str | Callable[[str], str] | None


def default_tolerances(
    *inputs: Tensor | rgrad.dtype, dtype_precisions: Mapping[rgrad.dtype, tuple[float, float]] | None = None
) -> tuple[float, float]:
    """The tolerances of `assert_close` for inputs: the widest of those of their dtypes.

    Args:
        inputs: tensors or dtypes.
        dtype_precisions: the relative and the absolute tolerance of dtypes; those without are compared exactly.

    Returns:
        The relative and the absolute tolerance.

    Raises:
        TypeError: an input is neither a tensor nor a dtype.

    >>> rgrad.testing._comparison.default_tolerances(rgrad.float16, rgrad.ones(2))
    (0.001, 1e-05)
    """
    known = _TOLERANCE if dtype_precisions is None else dtype_precisions
    pairs = []
    for value in inputs:
        if not isinstance(value, (Tensor, rgrad.dtype)):
            raise TypeError(f"Expected a torch.Tensor or a torch.dtype, but got {type(value)} instead.")
        pairs.append(known.get(value.dtype if isinstance(value, Tensor) else value, (0.0, 0.0)))
    return max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)


def get_tolerances(
    *inputs: Tensor | rgrad.dtype, rtol: float | None, atol: float | None, id: tuple[Any, ...] = ()
) -> tuple[float, float]:
    """The given tolerances, or the default ones of the inputs if both are None.

    Args:
        inputs: tensors or dtypes.
        rtol: relative tolerance.
        atol: absolute tolerance.
        id: the keys that lead to the inputs in containers, for the error.

    Returns:
        The relative and the absolute tolerance.

    Raises:
        ValueError: only one of them is given.

    >>> rgrad.testing._comparison.get_tolerances(rgrad.float32, rtol=0.1, atol=0)
    (0.1, 0)
    """
    if rtol is None and atol is None:
        return default_tolerances(*inputs)
    if rtol is None or atol is None:
        missing, where = "atol" if atol is None else "rtol", "".join(f"[{key!r}]" for key in id)
        raise ValueError(
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}"
            + (f" for item {where}." if where else ".")
        )
    return rtol, atol


class _Comparison:
    """The options of one comparison, and the current position in nested containers."""

    def __init__(self, tolerance: tuple[float, float] | None, msg: _Message, **checks: bool) -> None:
        self.tolerance, self.msg, self.checks = tolerance, msg, checks
        self.path: list[Any] = []

    def fail(self, text: str) -> NoReturn:
        if self.path:
            text += "\n\nThe failure occurred for item " + "".join(f"[{key!r}]" for key in self.path)
        if self.msg is not None:
            text = self.msg if isinstance(self.msg, str) else self.msg(text)
        raise AssertionError(text)

    def tolerances(self, *dtypes: Any) -> tuple[float, float]:
        return default_tolerances(*dtypes) if self.tolerance is None else self.tolerance

    def compare(self, actual: Any, expected: Any) -> None:
        if self._containers(actual, expected):
            return
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if actual is None or expected is None:
            if actual is not expected:
                self.fail(f"None mismatch: {actual} is not {expected}")
        elif _is(bool, actual, expected):
            if bool(actual) is not bool(expected):
                self.fail(f"Booleans mismatch: {bool(actual)} is not {bool(expected)}")
        elif _is((int, float, complex), actual, expected):
            self._numbers(actual, expected)
        elif _is((Tensor, "ndarray"), actual, expected) and related and self._subclasses(actual, expected):
            self._tensors(rgrad.as_tensor(actual), rgrad.as_tensor(expected))
        else:
            kinds = f"{type(actual)} and {type(expected)}"
            raise TypeError(f"No comparison pair was able to handle inputs of type {kinds}.")

    def _subclasses(self, actual: Any, expected: Any) -> bool:
        return self.checks["allow_subclasses"] or type(actual) is type(expected)

    def _containers(self, actual: Any, expected: Any) -> bool:
        pairs: list[tuple[Any, Any, Any]]
        if _is(Sequence, actual, expected) and not _is(str, actual) and not _is(str, expected):
            if len(actual) != len(expected):
                self.fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
            pairs = [(i, actual[i], expected[i]) for i in range(len(actual))]
        elif _is(Mapping, actual, expected):
            if set(actual) != set(expected):
                missing, extra = sorted(set(expected) - set(actual)), sorted(set(actual) - set(expected))
                self.fail(
                    "The keys of the mappings do not match:\n"
                    f"Missing keys in the actual mapping: {missing}\n"
                    f"Additional keys in the actual mapping: {extra}"
                )
            pairs = [(key, actual[key], expected[key]) for key in actual]
        else:
            return False
        for key, a, e in pairs:
            self.path.append(key)
            self.compare(a, e)
            self.path.pop()
        return True

    def _numbers(self, actual: Any, expected: Any) -> None:
        if self.checks["check_dtype"] and type(actual) is not type(expected):
            self.fail(f"The (d)types do not match: {type(actual)} != {type(expected)}.")
        is_int = isinstance(actual, int) and isinstance(expected, int)
        rtol, atol = self.tolerances(rgrad.int64 if is_int else rgrad.float64)
        both_nan = cmath.isnan(actual) and cmath.isnan(expected)
        difference = abs(actual - expected)
        if actual == expected or (both_nan and self.checks["equal_nan"]):
            return
        if cmath.isfinite(difference) and difference <= atol + rtol * abs(expected):
            return
        relative = difference / abs(expected) if expected != 0 else math.inf
        self._differ("Scalars", [f"Expected {expected} but got {actual}."], "", difference, relative, rtol, atol)

    def _differ(
        self, what: str, lines: list[str], prefix: str, absolute: Any, relative: Any, rtol: float, atol: float
    ) -> NoReturn:
        equality = rtol == 0 and atol == 0

        def line(kind: str, found: Any, allowed: float) -> str:
            value, at = found if isinstance(found, tuple) else (found, None)
            where = "" if at is None else f" at index {at}"
            bound = "" if equality else f" (up to {allowed} allowed)"
            text = f"{prefix}{kind} difference: {value}{where}{bound}"
            return text[0].upper() + text[1:]

        lines = [*lines, line("absolute", absolute, atol), line("relative", relative, rtol)]
        verdict = "equal" if equality else "close"
        self.fail(f"{what} are not {verdict}!\n\n" + "\n".join(lines))

    def _attributes(self, actual: Tensor, expected: Tensor) -> None:
        pairs: list[tuple[str, bool, Any, Any]] = [
            ("shape", True, actual.shape, expected.shape),
            ("layout", self.checks["check_layout"], actual.layout, expected.layout),
            ("device", self.checks["check_device"], actual.device, expected.device),
            ("dtype", self.checks["check_dtype"], actual.dtype, expected.dtype),
            ("stride()", self.checks["check_stride"], actual.stride(), expected.stride()),
        ]
        for name, checked, a, e in pairs:
            if checked and a != e:
                self.fail(f"The values for attribute '{name}' do not match: {a} != {e}.")

    def _tensors(self, actual: Tensor, expected: Tensor) -> None:
        self._attributes(actual, expected)
        rtol, atol = self.tolerances(actual.dtype, expected.dtype)
        with rgrad.no_grad():
            a, e = actual.detach().cpu(), expected.detach().cpu()
            common = rgrad.promote_types(a.dtype, e.dtype)
            if a.dtype != e.dtype:
                a, e = a.to(common), e.to(common)
            close = rgrad.isclose(a, e, rtol=rtol, atol=atol, equal_nan=self.checks["equal_nan"])
            if bool(close.all()):
                return
            if not common.is_floating_point:
                a, e = a.to(rgrad.int64), e.to(rgrad.int64)
            if a.dim() == 0:
                self._scalar(a.item(), e.item(), rtol, atol)
            wrong, total = int((~close).sum()), a.numel()
            # The difference of matching elements counts as 0, even for infinities.
            absolute = (a - e).abs().masked_fill(close, 0)
            relative = (absolute / e.abs()).masked_fill(close, 0)
            self._differ(
                "Tensor-likes",
                [f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})"],
                "greatest ",
                _largest(absolute),
                _largest(relative),
                rtol,
                atol,
            )

    def _scalar(self, actual: Any, expected: Any, rtol: float, atol: float) -> NoReturn:
        difference = abs(actual - expected)
        relative = difference / abs(expected) if expected != 0 else math.inf
        self._differ("Scalars", [f"Expected {expected} but got {actual}."], "", difference, relative, rtol, atol)


def _is(kind: Any, *values: Any) -> bool:
    """Whether all values are of a class; `"ndarray"` means NumPy's class, which need not be installed."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    classes = tuple(k for k in kinds if isinstance(k, type))
    names = {k for k in kinds if isinstance(k, str)}
    return all(isinstance(v, classes) or type(v).__name__ in names for v in values)


def _largest(difference: Tensor) -> tuple[Any, tuple[int, ...]]:
    """The largest element and its index."""
    at = int(difference.argmax())
    value = difference.flatten()[at].item()
    index = []
    for size in reversed(difference.shape):
        at, i = divmod(at, size)
        index.append(i)
    return value, tuple(reversed(index))


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: _Message = None,
) -> None:
    """Raises AssertionError unless `|actual - expected| <= atol + rtol * |expected|`, element by element.

    Args:
        actual: a tensor, an array, a number, or sequences and mappings of them.
        expected: the expected value, of the same structure.
        allow_subclasses: whether an object may be compared with one of a derived class.
        rtol: relative tolerance; that of the dtype if None. Must be given together with `atol`.
        atol: absolute tolerance.
        equal_nan: whether NaNs are equal.
        check_device: whether the devices must be the same.
        check_dtype: whether the dtypes must be the same.
        check_layout: whether the layouts must be the same.
        check_stride: whether the strides must be the same.
        msg: the error message, or a function that receives the default message and returns it.

    >>> import rgrad
    >>> rgrad.testing.assert_close(rgrad.ones(2), rgrad.ones(2) + 1e-7)
    """
    given = rtol is not None or atol is not None
    comparison = _Comparison(
        get_tolerances(rtol=rtol, atol=atol) if given else None,
        msg,
        allow_subclasses=allow_subclasses,
        equal_nan=equal_nan,
        check_device=check_device,
        check_dtype=check_dtype,
        check_layout=check_layout,
        check_stride=check_stride,
    )
    comparison.compare(actual, expected)


_OLDER_TOLERANCES = {rgrad.float16: (1e-3, 1e-3), rgrad.float32: (1e-4, 1e-5), rgrad.float64: (1e-5, 1e-8)}


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """`assert_close` under its older name: with wider tolerances, equal NaNs, and dtypes that are not compared.

    Args:
        actual: a tensor, or what makes one.
        expected: a tensor, or what makes one.
        rtol: relative tolerance; that of the dtype if None. Must be given together with `atol`.
        atol: absolute tolerance.
        equal_nan: whether NaNs are equal.
        msg: the error message, if not empty.
    """
    warnings.warn("torch.testing.assert_allclose() is deprecated: use assert_close().", FutureWarning, stacklevel=2)
    if not isinstance(actual, Tensor):
        actual = rgrad.tensor(actual)
    if not isinstance(expected, Tensor):
        expected = rgrad.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        default = (0.0, 0.0)
        pairs = [_OLDER_TOLERANCES.get(t.dtype, default) for t in (actual, expected)]
        rtol, atol = max(p[0] for p in pairs), max(p[1] for p in pairs)
    options: Any = {"check_device": True, "check_dtype": False, "check_stride": False}
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, msg=msg or None, **options)
