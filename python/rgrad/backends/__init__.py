"""`torch.backends`: settings and queries of libraries."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from . import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum, quantized, winograd, xnnpack

__all__ = [
    "cpu",
    "cuda",
    "cudnn",
    "mkl",
    "mkldnn",
    "mps",
    "openmp",
    "opt_einsum",
    "quantized",
    "winograd",
    "xnnpack",
]

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


def flags_frozen() -> bool:
    """Whether `disable_global_flags` was called.

    >>> rgrad.backends.flags_frozen()
    False
    """
    return getattr(sys.modules[__name__].__class__, "_frozen", False)


def disable_global_flags() -> None:
    """Makes assignments to the settings of `torch.backends`, `cudnn` and `mkldnn` errors, for the rest of the process.

    The contexts `flags()` of these modules change settings as before.
    """
    if flags_frozen():
        return
    _freeze(sys.modules[__name__], "torch.backends", ("fp32_precision",))
    _freeze(cudnn, "torch.backends.cudnn", cudnn._SETTINGS)
    _freeze(mkldnn, "torch.backends.mkldnn", mkldnn._SETTINGS)


def _freeze(module: ModuleType, name: str, settings: tuple[str, ...]) -> None:
    """Gives a module a class that refuses assignments to some of its names."""

    class Frozen(type(module)):
        _frozen = True

        def __setattr__(self, key: str, value: Any) -> None:
            if key in settings:
                raise RuntimeError(
                    f"not allowed to set {name} flags: disable_global_flags() was called, so that {name}.flags() sets "
                    "them, for a block"
                )
            super().__setattr__(key, value)

    module.__class__ = Frozen
