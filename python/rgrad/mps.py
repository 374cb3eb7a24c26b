"""`torch.mps` for scripts written for it: the GPU (see `rgrad.gpu`) of a machine of Apple's."""

from __future__ import annotations

import sys


def is_available() -> bool:
    """Whether the name "mps" means a GPU, and the machine is one where scripts expect it to."""
    from rgrad import cuda

    return sys.platform == "darwin" and cuda.is_available()


def empty_cache() -> None:
    """Gives memory kept for reuse back to the driver."""
    from rgrad import cuda

    cuda.empty_cache()


def synchronize() -> None:
    """Waits for the GPU."""
    from rgrad import cuda

    cuda.synchronize()
