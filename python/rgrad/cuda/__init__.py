"""`torch.cuda` for scripts written for it: the GPU of any vendor (see `rgrad.gpu`), if there is one."""

from __future__ import annotations

import importlib
import os
import time
from typing import Any

from rgrad import gpu
from rgrad._C import Tensor
from rgrad._constants import AcceleratorError
from rgrad.cuda import amp
from rgrad.cuda._queries import (
    REFUSALS,
    CudaError,
    CUDAPluggableAllocator,
    DeferredCudaCallError,
    ExternalStream,
    GreenContext,
    MemPool,
    can_device_access_peer,
    check_error,
    device_of,
    get_allocator_backend,
    get_arch_list,
    get_device_capability,
    get_gencode_flags,
    get_sync_debug_mode,
    has_half,
    has_magma,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    is_tf32_supported,
    max_memory_cached,
    mem_get_info,
    memory_cached,
    memory_stats_as_nested_dict,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_host_memory_stats,
    set_stream,
    set_sync_debug_mode,
)
from rgrad.cuda.graphs import (
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from rgrad.gpu import (
    OutOfMemoryError,
    current_device,
    device,
    get_device_name,
    get_device_properties,
    max_memory_allocated,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_peak_memory_stats,
)
from rgrad.random import get_rng_state as _state
from rgrad.random import initial_seed, seed
from rgrad.random import set_rng_state as _set_state

__all__ = [
    "AcceleratorError",
    "CUDAGraph",
    "CUDAPluggableAllocator",
    "CudaError",
    "DeferredCudaCallError",
    "Event",
    "ExternalStream",
    "GreenContext",
    "MemPool",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "check_error",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_allocator_backend",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_rng_state",
    "get_rng_state_all",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "has_half",
    "has_magma",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """Whether the name "cuda" refers to a GPU: there is one, and the name was not disabled."""
    return os.environ.get("RGRAD_GPU_ALIASES") != "0" and gpu.is_available()


def device_count() -> int:
    """The number of GPUs that the name "cuda" refers to."""
    return gpu.device_count() if is_available() else 0


def is_initialized() -> bool:
    """Whether there is a GPU; it is opened on first use."""
    return is_available()


def init() -> None:
    """Has no effect: a GPU is opened on first use."""


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 tensors are supported: always, computed in float32."""
    return is_available() and including_emulation


def set_device(device: Any) -> None:
    """Sets the GPU meant by "cuda"."""
    if str(device).startswith("cpu"):
        raise ValueError(f"Expected a cuda device, but got: {device}")
    gpu.set_device(device)


# ---- random numbers: there is a single generator for all devices


def manual_seed(seed: int) -> None:
    """Seeds the generator, which is shared by all devices."""
    import rgrad

    rgrad.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the generator, which is shared by all devices."""
    manual_seed(seed)


def seed_all() -> None:
    """Seeds the generator, which is shared by all devices, with a random number."""
    seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of the generator, which is shared by all devices."""
    return _state()


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Sets the state of the generator, which is shared by all devices."""
    _set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """The state of the generator, once for each GPU."""
    return [_state() for _ in range(device_count())]


def set_rng_state_all(new_states: list[Tensor]) -> None:
    """Sets the state of the generator, which is shared by all devices."""
    for state in new_states:
        _set_state(state)


# ---- memory and time


def empty_cache() -> None:
    """Releases cached memory to the driver."""
    gpu.empty_cache()


def ipc_collect() -> None:
    """Has no effect: GPU memory is not shared between processes."""


def synchronize(device: Any = None) -> None:
    """Waits for the GPU; an error if there is none, as in a PyTorch without CUDA."""
    if not is_available():
        raise AssertionError("Torch not compiled with CUDA enabled")
    gpu.synchronize(device)


class Event:
    """A point in the command stream of a GPU. Recording an event with timing waits until the GPU has reached it.

    Args:
        enable_timing: Whether `elapsed_time` will be called.
        blocking: Accepted, but ignored; waiting threads always sleep.
        interprocess: Accepted, but ignored; events belong to their process.

    Example:
        >>> import rgrad as torch
        >>> if torch.cuda.is_available():
        ...     start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        ...     start.record()
        ...     y = torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")
        ...     end.record()
        ...     assert start.elapsed_time(end) > 0
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._timed = enable_timing
        self._at: float | None = None

    def record(self, stream: Any = None) -> None:
        """Records the event after all commands so far."""
        if self._timed:
            synchronize()
        self._at = time.perf_counter()

    def synchronize(self) -> None:
        """Waits until the GPU has reached the event."""
        if self._at is not None:
            synchronize()

    wait = synchronize

    def query(self) -> bool:
        """Waits until the GPU has reached the event, and returns True."""
        self.synchronize()
        return True

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to a later one."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._at is None or end_event._at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return 1e3 * (end_event._at - self._at)


class Stream:
    """A command stream of a GPU. There is only one per GPU, which all streams refer to."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self._device = device

    def synchronize(self) -> None:
        """Waits until all commands so far have finished."""
        synchronize(self._device)

    def query(self) -> bool:
        """Waits until all commands so far have finished, and returns True."""
        self.synchronize()
        return True

    def wait_stream(self, stream: Stream) -> None:
        """Has no effect: there is only one stream, which runs in order."""

    def wait_event(self, event: Event) -> None:
        """Has no effect: there is only one stream, which runs in order."""

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event, by default a new one."""
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class StreamContext:
    """A context in which operations use a stream, of which there is only one."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def current_stream(device: Any = None) -> Stream:
    """The stream of a GPU."""
    return Stream(device)


def default_stream(device: Any = None) -> Stream:
    """The stream of a GPU."""
    return Stream(device)


def stream(stream: Stream | None) -> Stream:
    """A context in which operations use a stream, of which there is only one."""
    return stream or Stream()


globals().update(REFUSALS)


def __getattr__(name: str) -> Any:
    if name in ("nvtx", "graphs", "jiterator"):
        return importlib.import_module(f"rgrad.cuda.{name}")
    if name == "default_generators":
        from rgrad import default_generator

        return (default_generator,) * device_count()
    if name.endswith(("Tensor", "Storage")):
        from ._types import NAMES

        if name in NAMES:
            return NAMES[name]
    raise AttributeError(f"module 'rgrad.cuda' has no attribute '{name}'")
