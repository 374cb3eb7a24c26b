"""`torch.mps` for scripts written for it: the GPU (see `rgrad.gpu`) of a machine of Apple's."""

from __future__ import annotations

import sys


def is_available() -> bool:
    """Whether the name "mps" means a GPU, and the machine is one where scripts expect it to."""
    from rgrad import cuda

    return sys.platform == "darwin" and cuda.is_available()


def device_count() -> int:
    """1 where the name "mps" means a GPU, else 0."""
    return int(is_available())


def manual_seed(seed: int) -> None:
    """Seeds the generator, which all devices share."""
    import rgrad

    rgrad.manual_seed(seed)


def current_allocated_memory() -> int:
    """Bytes held by tensors."""
    from rgrad import accelerator

    return accelerator.memory_allocated()


def driver_allocated_memory() -> int:
    """Bytes held by tensors and kept for reuse."""
    from rgrad import accelerator

    return accelerator.memory_reserved()


def empty_cache() -> None:
    """Gives memory kept for reuse back to the driver."""
    from rgrad import cuda

    cuda.empty_cache()


def synchronize() -> None:
    """Waits for the GPU."""
    from rgrad import cuda

    cuda.synchronize()
