"""`torch.backends`: what scripts query before they choose a device."""

from __future__ import annotations

import warnings

from . import cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]

_matmul_precision = "highest"


def set_float32_matmul_precision(precision: str) -> None:
    """How little precision products of float32 matrices may have; all here have the full one."""
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
    """What `set_float32_matmul_precision` was last given."""
    return _matmul_precision
