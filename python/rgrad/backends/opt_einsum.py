"""`torch.backends.opt_einsum`: orders of contraction, which `einsum` here chooses without another package."""

from __future__ import annotations

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """False: `einsum` asks no package for the order."""
    return False


def get_opt_einsum() -> None:
    """None: the package is not used."""
