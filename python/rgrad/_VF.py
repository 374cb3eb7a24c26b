"""The functions of the top namespace as the modules of PyTorch call them, and some that are found only here."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import Tensor


def _add_relu(input: Tensor, other: Any, *, alpha: float = 1, out: Tensor | None = None) -> Tensor:
    """`relu(input + alpha * other)`."""
    return rgrad.clamp_min(rgrad.add(input, other, alpha=alpha), 0, out=out)


def _add_relu_(input: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    """`_add_relu`, written to `input`."""
    return input.add_(other, alpha=alpha).relu_()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'rgrad._VF' has no attribute '{name}'")
    return getattr(rgrad, name)
