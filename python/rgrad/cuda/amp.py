"""`torch.cuda.amp`: the names of mixed precision before `torch.amp`."""

from __future__ import annotations

import warnings
from typing import Any

import rgrad
from rgrad._C import dtype as _dtype
from rgrad.amp import autocast_mode, grad_scaler

__all__ = ["GradScaler", "autocast"]


def _warn(name: str) -> None:
    warnings.warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('cuda', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


def amp_definitely_not_available() -> bool:
    """Whether there is no GPU."""
    return not rgrad.cuda.is_available()


class autocast(autocast_mode.autocast):  # noqa: N801 - PyTorch's name
    """`rgrad.autocast("cuda")`."""

    def __init__(self, enabled: bool = True, dtype: _dtype | None = None, cache_enabled: bool = True) -> None:
        _warn("autocast")
        super().__init__("cuda", dtype=dtype or rgrad.float16, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """`rgrad.amp.GradScaler("cuda")`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _warn("GradScaler")
        super().__init__("cuda", *args, **kwargs)
