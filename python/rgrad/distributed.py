"""Training in several processes, which rgrad does not offer: scripts that ask learn so."""

from __future__ import annotations

__all__ = ["is_available", "is_initialized"]


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False: there is no group of processes."""
    return False
