"""`torch.accelerator`: the GPU, when there is one."""

from __future__ import annotations

from rgrad._C import device


def is_available() -> bool:
    """Whether there is a GPU that this build can open."""
    return False


def device_count() -> int:
    """How many."""
    return 0


def current_accelerator(check_available: bool = False) -> device | None:
    """The GPU, or None."""
    return None


def synchronize(device: object = None) -> None:
    """Waits for the GPU."""
    raise RuntimeError("Cannot access accelerator device when none is available.")
