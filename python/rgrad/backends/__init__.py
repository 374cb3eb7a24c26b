"""`torch.backends`: settings and queries of libraries."""

from __future__ import annotations

import warnings

from . import cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]

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
