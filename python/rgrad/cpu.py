"""`torch.cpu`, and memory statistics of the CPU allocator."""

from __future__ import annotations

import functools
import os
import platform
import types
from collections.abc import Mapping
from typing import Any

from rgrad import _C

# What Linux calls the extensions of x86 in /proc/cpuinfo, where that is not their name here.
_X86_NAMES = {
    "sse3": "pni",
    "lzcnt": "abm",
    "bmi": "bmi1",
    "fma3": "fma",
    "sha": "sha_ni",
    **{f"avx512_{name}": f"avx512{name}" for name in ("f", "bw", "cd", "dq", "vl", "ifma", "vbmi")},
    **{f"avx10_{i}": f"avx10_{i}" for i in (1, 2)},
}
_X86 = (
    *("sse", "sse2", "sse3", "ssse3", "sse4_1", "sse4_2", "sse4a", "avx", "avx2", "avx_vnni", "avx_vnni_int8"),
    *("avx_vnni_int16", "avx_ne_convert", "avx10_1", "avx10_2", "f16c", "fma3", "fma4", "bmi", "bmi2", "lzcnt"),
    *("popcnt", "aes", "sha", "clflush", "clflushopt", "clwb", "amx_tile", "amx_bf16", "amx_int8", "amx_fp16"),
    *(f"avx512_{name}" for name in ("f", "bw", "cd", "dq", "vl", "ifma", "vbmi", "vbmi2", "vnni", "bitalg", "bf16")),
    *(f"avx512_{name}" for name in ("fp16", "vpopcntdq", "vp2intersect", "4vnniw", "4fmaps")),
)


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


@functools.cache
def get_capabilities() -> Mapping[str, Any]:
    """What the processor has.

    Returns:
        `architecture` and `num_logical_cores`. On Linux also, as far as the system tells: `cpu_name`,
        `num_physical_cores`, `num_sockets`, sizes of caches in bytes (`l1d_cache_size`, `l2_cache_size`), and for each
        extension of the instruction set of x86, as `avx2` and `avx512_bf16`, whether the processor has it.

    >>> rgrad.cpu.get_capabilities()["num_logical_cores"] >= 1
    True
    """
    found: dict[str, Any] = {"architecture": platform.machine(), "num_logical_cores": os.cpu_count() or 1}
    cores = [_fields(block) for block in _text("/proc/cpuinfo").split("\n\n") if block.strip()]
    if cores and "flags" in cores[0]:
        flags = set(cores[0]["flags"].split())
        found.update((name, _X86_NAMES.get(name, name) in flags) for name in _X86)
        found["cpu_name"] = cores[0].get("model name", "")
        found["num_sockets"] = len({core.get("physical id") for core in cores})
        found["num_physical_cores"] = len({(core.get("physical id"), core.get("core id")) for core in cores})
    caches = "/sys/devices/system/cpu/cpu0/cache"
    for i in range(4):
        level, kind, size = (_text(f"{caches}/index{i}/{name}").strip() for name in ("level", "type", "size"))
        name = {("1", "Data"): "l1d_cache_size", ("2", "Unified"): "l2_cache_size"}.get((level, kind))
        if name and size.endswith("K"):
            found[name] = int(size[:-1]) * 1024
    return types.MappingProxyType(found)


def _text(path: str) -> str:
    """The text of a file; nothing if it can't be read."""
    try:
        with open(path, encoding="utf8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _fields(block: str) -> dict[str, str]:
    """The lines "name: value" of a text."""
    pairs = (line.split(":", 1) for line in block.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def __getattr__(name: str) -> Any:
    # Loaded at first use, so that importing this module stays fast.
    if name == "amp":
        from rgrad.amp import _cpu

        return _cpu
    raise AttributeError(f"module 'rgrad.cpu' has no attribute {name!r}")


def _supports(*extensions: str) -> Any:
    """A function that tells whether the processor has some extensions."""

    def supported() -> bool:
        found = get_capabilities()
        return all(found.get(name, False) for name in extensions)

    supported.__doc__ = f"Whether the processor has {' and '.join(extensions)}."
    return supported


_is_avx2_supported = _supports("avx2")
_is_avx512_supported = _supports("avx512_f", "avx512_vl", "avx512_bw", "avx512_dq")
_is_avx512_bf16_supported = _supports("avx512_bf16")
_is_vnni_supported = _supports("avx512_vnni")
_is_amx_tile_supported = _supports("amx_tile")
_is_amx_fp16_supported = _supports("amx_fp16")
