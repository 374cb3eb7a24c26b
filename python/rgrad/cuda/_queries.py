"""What programs ask of a CUDA device: answers that are true of a GPU of any vendor, and refusals where none are."""

from __future__ import annotations

import os
from typing import Any

import rgrad
from rgrad import gpu
from rgrad._absent import absent_class, absent_function, refuse

_DRIVER = "drivers of GPUs of any vendor do not tell"
_ALLOCATOR = "the allocator of the GPU is rgrad's own"
_STREAMS = "a GPU has one stream"

CUDAPluggableAllocator = absent_class("torch.cuda.CUDAPluggableAllocator", _ALLOCATOR)
ExternalStream = absent_class("torch.cuda.ExternalStream", _STREAMS)
GreenContext = absent_class("torch.cuda.GreenContext", _STREAMS)
MemPool = absent_class("torch.cuda.MemPool", _ALLOCATOR)

# By what is lacking.
_ABSENT = {
    _DRIVER: (
        *("clock_rate", "device_memory_used", "list_gpu_processes", "memory_usage", "power_draw", "temperature"),
        "utilization",
    ),
    _ALLOCATOR: (
        *("caching_allocator_alloc", "caching_allocator_delete", "caching_allocator_enable", "memory_snapshot"),
        *("change_current_allocator", "use_mem_pool", "get_per_process_memory_fraction"),
    ),
    _STREAMS: ("get_stream_from_external",),
    "there is no CUDA library": ("cudart", "current_blas_handle", "current_solver_handle"),
    "the peak of reserved memory is not counted; max_memory_allocated is": ("max_memory_reserved",),
    "the environment variable RGRAD_GPU_MEM_LIMIT limits memory": ("set_per_process_memory_fraction",),
}
REFUSALS = {name: absent_function(f"torch.cuda.{name}", why) for why, names in _ABSENT.items() for name in names}
max_memory_cached = absent_function("torch.cuda.max_memory_cached", "the peak of reserved memory is not counted")

has_half = True
has_magma = False


class CudaError(RuntimeError):
    """An error of the CUDA library.

    Args:
        code: its number.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"CUDA error ({code})")


class DeferredCudaCallError(Exception):
    """An error of a call that waited for a device to be opened; never raised."""


def check_error(res: int) -> None:
    """Raises `CudaError` for a number other than 0."""
    if res != 0:
        raise CudaError(res)


def _expect_gpu() -> None:
    if not rgrad.cuda.is_available():
        raise RuntimeError("No CUDA GPUs are available")


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """(0, 0), less than any compute capability: a GPU is reached without CUDA.

    Args:
        device: which GPU.
    """
    _expect_gpu()
    return 0, 0


def get_arch_list() -> list[str]:
    """Empty: nothing is compiled for CUDA."""
    return []


def get_gencode_flags() -> str:
    """Empty: nothing is compiled for CUDA."""
    return ""


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """False: GPUs do not read each other's memory."""
    return False


def get_allocator_backend() -> str:
    """ "native": the allocator is rgrad's own."""
    return "native"


def is_tf32_supported() -> bool:
    """False: float32 is multiplied as such."""
    return False


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes that are free, and bytes in all: of the limit that the environment variable RGRAD_GPU_MEM_LIMIT sets.

    Args:
        device: which GPU.

    Raises:
        NotImplementedError: no limit is set, as drivers do not tell.
    """
    _expect_gpu()
    limit = os.environ.get("RGRAD_GPU_MEM_LIMIT")
    if not limit:
        refuse("torch.cuda.mem_get_info", f"{_DRIVER}; the environment variable RGRAD_GPU_MEM_LIMIT sets a limit")
    return max(int(limit) - gpu.memory_reserved(device), 0), int(limit)


def memory_cached(device: Any = None) -> int:
    """The older name of `memory_reserved`."""
    return gpu.memory_reserved(device)


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The memory counters, with a dict for each part of their names."""
    made = dict[str, Any]()
    for name, value in (gpu.memory_stats(device) if rgrad.cuda.is_available() else {}).items():
        place = made
        *outer, last = name.split(".")
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return made


def reset_max_memory_allocated(device: Any = None) -> None:
    """The older name of `reset_peak_memory_stats`."""
    gpu.reset_peak_memory_stats(device)


reset_max_memory_cached = reset_max_memory_allocated


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Has no effect: no counter grows for ever."""


def host_memory_stats() -> dict[str, Any]:
    """Empty: no memory of the CPU is pinned."""
    return {}


host_memory_stats_as_nested_dict = host_memory_stats


def reset_accumulated_host_memory_stats() -> None:
    """Has no effect: no memory of the CPU is pinned."""


reset_peak_host_memory_stats = reset_accumulated_host_memory_stats


def get_sync_debug_mode() -> int:
    """0: waiting for a GPU is not reported."""
    return 0


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Takes 0 or "default", which it is.

    Args:
        debug_mode: other modes, which report when a program waits for a GPU, are refused.
    """
    if debug_mode not in (0, "default"):
        refuse("torch.cuda.set_sync_debug_mode", "waiting for a GPU is not reported")


def set_stream(stream: Any) -> None:
    """Has no effect: a GPU has one stream, which all streams refer to."""


class device_of:  # noqa: N801 - PyTorch's name
    """A context in which "cuda" means the GPU of an object.

    Args:
        obj: a tensor or a storage; one of the CPU changes nothing.
    """

    def __init__(self, obj: Any) -> None:
        self._inner = gpu.device(obj.get_device()) if obj.is_cuda else None

    def __enter__(self) -> None:
        if self._inner is not None:
            self._inner.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._inner is not None:
            self._inner.__exit__(*error)
