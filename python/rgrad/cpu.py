"""`torch.cpu`, and memory statistics of the CPU allocator."""

from __future__ import annotations

from rgrad import _C


def is_available() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """ "cpu"."""
    return "cpu"


def synchronize(device: object = None) -> None:
    """Has no effect: operations have finished when they return."""


def memory_allocated() -> int:
    """Bytes of live tensors, not counting those smaller than a page."""
    return _C._memory_stats()[0]


def max_memory_allocated() -> int:
    """The highest `memory_allocated` since the start or the last reset."""
    return _C._memory_stats()[1]


def memory_reserved() -> int:
    """Bytes of live tensors and cached blocks."""
    live, _, cached = _C._memory_stats()
    return live + cached


def reset_peak_memory_stats() -> None:
    """Resets `max_memory_allocated`."""
    _C._reset_peak_memory()


def empty_cache() -> None:
    """Releases cached blocks to the system."""
    _C._empty_cache()


def memory_summary() -> str:
    """A table of the counters."""
    live, peak, cached = _C._memory_stats()
    rows = [("allocated", live), ("peak allocated", peak), ("cached", cached)]
    return "\n".join(f"{name:<16}{n / 2**20:>12.1f} MiB" for name, n in rows)


def get_cpu_capability() -> str:
    """The instruction set in use: "baseline", "avx2" or "avx512"."""
    return _C._set_cpu_isa()


class amp:
    """`torch.cpu.amp`."""

    @staticmethod
    def autocast(*args, **kwargs):
        """Autocast for the CPU."""
        from rgrad.amp.autocast_mode import cpu_autocast

        return cpu_autocast(*args, **kwargs)
