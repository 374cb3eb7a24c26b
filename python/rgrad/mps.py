"""`torch.mps`, for scripts that ask: this build has the CPU backend only."""

from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False


def empty_cache() -> None:
    """Nothing to give back."""
