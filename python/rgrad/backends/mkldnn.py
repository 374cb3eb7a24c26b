"""`torch.backends.mkldnn`: a vendor's library of kernels, which this build does not use."""

from __future__ import annotations

# Set by programs; without effect here.
enabled = False
benchmark = False
deterministic = True
allow_tf32 = False


def is_available() -> bool:
    """False: this build does not have it."""
    return False


def is_built() -> bool:
    """False: nothing of it is in this build."""
    return False


def version() -> None:
    """None: this build does not have it."""
