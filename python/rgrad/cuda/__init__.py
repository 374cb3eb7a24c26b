"""`torch.cuda` for scripts written for it: the GPU of any vendor (see `rgrad.gpu`), where there is one."""

from __future__ import annotations

import os
import time
from typing import Any

from rgrad import gpu
from rgrad._C import Tensor
from rgrad.cuda import amp
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
    "Event",
    "OutOfMemoryError",
    "Stream",
    "amp",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """Whether the name "cuda" means a GPU: there is one, and the name was not taken away."""
    return os.environ.get("RGRAD_GPU_ALIASES") != "0" and gpu.is_available()


def device_count() -> int:
    """How many GPUs the name "cuda" reaches."""
    return gpu.device_count() if is_available() else 0


def is_initialized() -> bool:
    """Whether there is a GPU: it is opened by its first use."""
    return is_available()


def init() -> None:
    """Nothing to do: a GPU is opened by its first use."""


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether tensors may be of bfloat16: they may everywhere, computed in float32."""
    return is_available() and including_emulation


def set_device(device: Any) -> None:
    """Makes another GPU the one that "cuda" means."""
    if str(device).startswith("cpu"):
        raise ValueError(f"Expected a cuda device, but got: {device}")
    gpu.set_device(device)


# ---- random numbers: there is one generator, which all devices share


def manual_seed(seed: int) -> None:
    """Seeds the generator, which all devices share."""
    import rgrad

    rgrad.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the generator, which all devices share."""
    manual_seed(seed)


def seed_all() -> None:
    """Seeds the generator, which all devices share, with a number that nobody chose."""
    seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of the generator, which all devices share."""
    return _state()


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Sets the state of the generator, which all devices share."""
    _set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """The state of the generator, once for each GPU."""
    return [_state() for _ in range(device_count())]


def set_rng_state_all(new_states: list[Tensor]) -> None:
    """Sets the state of the generator, which all devices share."""
    for state in new_states:
        _set_state(state)


# ---- memory and time


def empty_cache() -> None:
    """Gives memory kept for reuse back to the driver."""
    gpu.empty_cache()


def ipc_collect() -> None:
    """Nothing to do: memory of a GPU is not shared between processes."""


def synchronize(device: Any = None) -> None:
    """Waits for the GPU; an error, as in a PyTorch without CUDA, where there is none."""
    if not is_available():
        raise AssertionError("Torch not compiled with CUDA enabled")
    gpu.synchronize(device)


class Event:
    """A point in what a GPU does. To record one that takes the time waits until the GPU is there.

    Args:
        enable_timing: Whether `elapsed_time` will be asked for.
        blocking: Accepted; who waits sleeps.
        interprocess: Accepted; events stay in their process.

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
        """Marks the point that has been reached when all that was asked for so far is done."""
        if self._timed:
            synchronize()
        self._at = time.perf_counter()

    def synchronize(self) -> None:
        """Waits until the GPU is there."""
        if self._at is not None:
            synchronize()

    wait = synchronize

    def query(self) -> bool:
        """True: whoever asks waits until the GPU is there."""
        self.synchronize()
        return True

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this point to a later one."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._at is None or end_event._at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return 1e3 * (end_event._at - self._at)


class Stream:
    """What a GPU is asked to do, in order: it has one such queue, which every stream stands for."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self._device = device

    def synchronize(self) -> None:
        """Waits until all that was asked for is done."""
        synchronize(self._device)

    def query(self) -> bool:
        """True: whoever asks waits until all is done."""
        self.synchronize()
        return True

    def wait_stream(self, stream: Stream) -> None:
        """Nothing to wait for: what was asked for before is done before."""

    def wait_event(self, event: Event) -> None:
        """Nothing to wait for: what was asked for before is done before."""

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event, a new one where none is given."""
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def current_stream(device: Any = None) -> Stream:
    """The queue of a GPU."""
    return Stream(device)


def default_stream(device: Any = None) -> Stream:
    """The queue of a GPU."""
    return Stream(device)


def stream(stream: Stream | None) -> Stream:
    """A block whose operations go to a stream: to the one queue that there is."""
    return stream or Stream()
