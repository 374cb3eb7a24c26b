"""`Stream` and `Event` of any device: a device does in order what it is asked to, so there is one stream of each."""

from __future__ import annotations

from rgrad import _C

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any


def _device(given: Any) -> Any:
    if given is not None:
        return _C.device(given)
    if _C._gpu_count() == 0:
        raise RuntimeError("there is no GPU to make a stream or an event of: pass device='cpu'")
    return _C.device("gpu")


# The kinds of devices by number, as streams have it.
_NUMBERS = {"cpu": 0, "cuda": 1, "xpu": 12, "mps": 13}


class Stream:
    """What a device is asked to do, in order.

    Args:
        device: the GPU if None.
        priority: accepted, without effect: there is one stream.
        stream_id: with the two after it, the numbers of a stream in place of a device. Such a stream can be passed on
            and compared; only stream 0 of a device that there is can be waited for.
        device_index: the number of the device.
        device_type: the number of the kind of device.
    """

    stream_id = 0

    def __init__(
        self,
        device: Any = None,
        *,
        priority: int = 0,
        stream_id: int | None = None,
        device_index: int | None = None,
        device_type: int | None = None,
    ) -> None:
        numbers = (stream_id, device_index, device_type)
        if numbers == (None, None, None):
            self.device = _device(device)
            self.device_index = -1 if self.device.type == "cpu" else self.device.index or 0
            self.device_type = _NUMBERS.get(self.device.type, 1)
            return
        if device is not None or None in numbers:
            raise TypeError("a stream is given by a device, or by stream_id, device_index and device_type")
        self.stream_id, self.device_index, self.device_type = (int(n or 0) for n in numbers)

    def __getattr__(self, name: str) -> Any:
        # A stream of numbers: its device may be none that there is.
        if name != "device":
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        kind = next((kind for kind, number in _NUMBERS.items() if number == self.device_type), None)
        if self.stream_id != 0 or kind is None:
            raise RuntimeError(
                f"stream {self.stream_id} of device type {self.device_type} is none of rgrad: a device has stream 0"
            )
        self.device = _C.device(kind) if kind == "cpu" else _C.device(kind, self.device_index)
        return self.device

    def synchronize(self) -> None:
        """Waits until all that was asked for is done."""
        if self.device.type != "cpu":
            _C._synchronize(self.device)

    def query(self) -> bool:
        """True: whoever asks waits until all is done."""
        self.synchronize()
        return True

    def wait_stream(self, stream: Stream) -> None:
        """Nothing to wait for: what was asked for before is done before."""

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for: what was asked for before is done before."""

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event, a new one where none is given."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self._numbers() == other._numbers()

    def __hash__(self) -> int:
        return hash(self._numbers())

    def _numbers(self) -> tuple[int, int, int]:
        return self.stream_id, self.device_index, self.device_type

    def __repr__(self) -> str:
        kind = next((kind for kind, n in _NUMBERS.items() if n == self.device_type), str(self.device_type))
        return f"torch.Stream device_type={kind}, device_index={self.device_index}, stream_id={self.stream_id}"


class Event:
    """A point in what a GPU does.

    Args:
        device: the GPU if None; the CPU has no events to record.
        enable_timing: whether `elapsed_time` will be asked for.
        blocking: accepted; who waits sleeps.
        interprocess: accepted; events stay in their process.
    """

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self.device = _device(device)
        self._timed = enable_timing
        self._inner: Any = None

    def record(self, stream: Any = None) -> None:
        """Marks the point that has been reached when all that was asked for so far is done."""
        if self.device.type == "cpu":
            raise RuntimeError("cpu backend doesn't support events.")
        from rgrad import cuda

        self._inner = cuda.Event(enable_timing=self._timed)
        self._inner.record()

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for: what is asked for later is done later."""

    def synchronize(self) -> None:
        """Waits until the GPU is there."""
        if self._inner is not None:
            self._inner.synchronize()

    def query(self) -> bool:
        """True: whoever asks waits until the GPU is there."""
        self.synchronize()
        return True

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this point to a later one."""
        if self._inner is None or end_event._inner is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return self._inner.elapsed_time(end_event._inner)

    def __repr__(self) -> str:
        return f"torch.Event device_type={self.device.type}"
