"""Comparing tensors in tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad._C import Tensor

# (rtol, atol) by dtype, PyTorch's.
_TOLERANCE = {
    rgrad.float16: (1e-3, 1e-5),
    rgrad.bfloat16: (1.6e-2, 1e-5),
    rgrad.float32: (1.3e-6, 1e-5),
    rgrad.float64: (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_dtype: bool = True,
    check_device: bool = True,
    check_stride: bool = False,
    check_layout: bool = True,
    msg: str | None = None,
) -> None:
    """Raises AssertionError unless both are equal within the tolerance of their dtype.

    >>> import rgrad
    >>> rgrad.testing.assert_close(rgrad.ones(2), rgrad.ones(2) + 1e-7)
    """
    if isinstance(actual, Sequence) and isinstance(expected, Sequence):
        if len(actual) != len(expected):
            raise AssertionError(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        for a, e in zip(actual, expected, strict=True):
            assert_close(a, e, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype, msg=msg)
        return
    a, e = (x if isinstance(x, Tensor) else rgrad.as_tensor(x) for x in (actual, expected))
    if a.shape != e.shape:
        raise AssertionError(msg or f"The values for attribute 'shape' do not match: {a.shape} != {e.shape}.")
    if check_dtype and a.dtype != e.dtype:
        raise AssertionError(msg or f"The values for attribute 'dtype' do not match: {a.dtype} != {e.dtype}.")
    r, t = _TOLERANCE.get(a.dtype, (0.0, 0.0))
    rtol, atol = r if rtol is None else rtol, t if atol is None else atol
    with rgrad.no_grad():
        x, y = a.detach().to(rgrad.float64), e.detach().to(rgrad.float64)
        close = rgrad.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)
        if bool(close.all()):
            return
        wrong = int((~close).sum())
        worst = float((x - y).abs().max())
    raise AssertionError(
        msg
        or f"Tensor-likes are not close!\n\nMismatched elements: {wrong} / {a.numel()} "
        f"({100 * wrong / a.numel():.1f}%)\nGreatest absolute difference: {worst} (up to {atol} allowed, rtol {rtol})"
    )


def make_tensor(
    *shape: Any,
    dtype: Any = None,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of random values in [low, high)."""
    size = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    dtype = dtype or rgrad.float32
    if dtype == rgrad.bool:
        return rgrad.randint(0, 2, size).to(dtype)
    lo, hi = (-9.0 if low is None else low), (9.0 if high is None else high)
    if not dtype.is_floating_point:
        return rgrad.randint(int(max(lo, 0 if dtype == rgrad.uint8 else lo)), int(hi) + (low is None), size).to(dtype)
    t = (rgrad.rand(size, dtype=rgrad.float64) * (hi - lo) + lo).to(dtype)
    return t.requires_grad_(requires_grad)

