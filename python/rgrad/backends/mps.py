"""`torch.backends.mps`: the GPU of an Apple machine."""

from __future__ import annotations


def is_available() -> bool:
    """Whether the name "mps" means a GPU."""
    from rgrad import mps

    return mps.is_available()


def is_built() -> bool:
    """False: nothing of it is in this build."""
    return False
