"""`torch.backends`: settings and queries of libraries."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

from . import cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum, xnnpack

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "xnnpack"]

# Set by programs; without effect here, as are those of the modules: products of float32 are always computed in float32.
fp32_precision = "none"

_matmul_precision = "highest"


def set_float32_matmul_precision(precision: str) -> None:
    """Sets the minimum precision of float32 matrix products; here they always have full precision."""
    global _matmul_precision
    if precision not in ("highest", "high", "medium"):
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current"
            "setFloat32MatmulPrecision call has no effect.",
            stacklevel=2,
        )
        return
    _matmul_precision = precision


def get_float32_matmul_precision() -> str:
    """The last argument of `set_float32_matmul_precision`."""
    return _matmul_precision


@contextlib.contextmanager
def flags(fp32_precision: str = "none") -> Iterator[None]:
    """A context with another setting of `torch.backends.fp32_precision`, which has no effect here.

    Args:
        fp32_precision: the setting.

    >>> with rgrad.backends.flags(fp32_precision="ieee"):
    ...     rgrad.backends.fp32_precision
    'ieee'
    """
    settings = globals()
    before = settings["fp32_precision"]
    settings["fp32_precision"] = fp32_precision
    try:
        yield
    finally:
        settings["fp32_precision"] = before
