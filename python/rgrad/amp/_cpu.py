"""`torch.cpu.amp`: the names of mixed precision on the CPU before `torch.amp`."""

from __future__ import annotations

import warnings
from typing import Any

from rgrad.amp import grad_scaler
from rgrad.amp.autocast_mode import cpu_autocast as autocast

__all__ = ["GradScaler", "autocast"]


class GradScaler(grad_scaler.GradScaler):
    """`rgrad.amp.GradScaler("cpu")`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            "`torch.cpu.amp.GradScaler(args...)` is deprecated. Please use `torch.amp.GradScaler('cpu', args...)` "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cpu", *args, **kwargs)
