"""Comparison of tensors in tests."""

from __future__ import annotations

import warnings
from typing import Any

import rgrad
from rgrad._C import Tensor
from rgrad.testing._pairs import (
    BooleanPair,
    ErrorMeta,
    NonePair,
    NumberPair,
    ObjectPair,
    Pair,
    TensorLikePair,
    UnsupportedInputs,
    _Message,
    _unwrap_dtensor_for_comparison,
    not_close_error_metas,
    originate_pairs,
)
from rgrad.testing._tolerances import default_tolerances, get_tolerances

__all__ = [
    "BooleanPair",
    "ErrorMeta",
    "NonePair",
    "NumberPair",
    "ObjectPair",
    "Pair",
    "TensorLikePair",
    "UnsupportedInputs",
    "_unwrap_dtensor_for_comparison",
    "assert_allclose",
    "assert_close",
    "default_tolerances",
    "get_tolerances",
    "not_close_error_metas",
    "originate_pairs",
]


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
    metas = not_close_error_metas(
        actual,
        expected,
        pair_types=(NonePair, BooleanPair, NumberPair, TensorLikePair),
        allow_subclasses=allow_subclasses,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=check_device,
        check_dtype=check_dtype,
        check_layout=check_layout,
        check_stride=check_stride,
        msg=msg,
    )
    if metas:
        raise metas[0].to_error(msg)


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
