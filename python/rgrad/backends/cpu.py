"""`torch.backends.cpu`."""

from __future__ import annotations

from rgrad import _C

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The instruction set that operations use: "DEFAULT", "AVX2" or "AVX512"."""
    return _C._get_cpu_capability()  # type: ignore[attr-defined]
