"""`torch.cuda`, for scripts that ask whether there is a GPU: this build has the CPU backend only."""

from __future__ import annotations


def is_available() -> bool:
    """False: no GPU backend in this build."""
    return False


def device_count() -> int:
    """0."""
    return 0


def is_initialized() -> bool:
    """False."""
    return False


def manual_seed(seed: int) -> None:
    """Accepted: there is no generator to seed."""


def manual_seed_all(seed: int) -> None:
    """Accepted: there is no generator to seed."""


def empty_cache() -> None:
    """Nothing to give back."""


def synchronize(device: object = None) -> None:
    """An error, as in a PyTorch without CUDA."""
    raise AssertionError("Torch not compiled with CUDA enabled")
