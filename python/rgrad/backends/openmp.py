"""`torch.backends.openmp`: threads of another runtime, which this build does not use."""

from __future__ import annotations


def is_available() -> bool:
    """False: this build does not have it."""
    return False


def is_built() -> bool:
    """False: nothing of it is in this build."""
    return False


def version() -> None:
    """None: this build does not have it."""
