"""`torch.mps` for scripts written for it: the GPU (see `rgrad.gpu`) of an Apple machine."""

from __future__ import annotations

import sys


def is_available() -> bool:
    """Whether the name "mps" refers to a GPU on a machine where scripts expect it."""
    from rgrad import cuda

    return sys.platform == "darwin" and cuda.is_available()


def device_count() -> int:
    """1 if the name "mps" refers to a GPU, else 0."""
    return int(is_available())


def manual_seed(seed: int) -> None:
    """Seeds the generator, which is shared by all devices."""
    import rgrad

    rgrad.manual_seed(seed)


def current_allocated_memory() -> int:
    """Bytes in use by tensors."""
    from rgrad import accelerator

    return accelerator.memory_allocated()


def driver_allocated_memory() -> int:
    """Bytes in use by tensors or cached."""
    from rgrad import accelerator

    return accelerator.memory_reserved()


def empty_cache() -> None:
    """Releases cached memory to the driver."""
    from rgrad import cuda

    cuda.empty_cache()


def synchronize() -> None:
    """Waits for the GPU."""
    from rgrad import cuda

    cuda.synchronize()
