"""The autocast context. Its state is stored in the core, where operations look it up; this module only switches it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import _C

# Names of the GPU if there is one (see `rgrad.cuda`).
_ALIASES = ("cuda", "mps")


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast exists for a type of device."""
    return device_type in ("cpu", "gpu", *_ALIASES)


class autocast:  # noqa: N801 - PyTorch's name
    """Within a `with` block or decorated function, computes matrix products and convolutions in a half type, and
    losses and other operations for which a half type is too inaccurate in float32.

    Args:
        device_type: "cpu", or "gpu" under any of its names.
        dtype: bfloat16 or float16; by default bfloat16 on the CPU and float16 on a GPU.
        enabled: whether to autocast; False disables it within an autocast block.
        cache_enabled: accepted, but ignored; casts of weights are not cached.

    Example:
        >>> import rgrad as torch
        >>> with torch.autocast("cpu"):
        ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
        torch.bfloat16
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = device_type
        usual = rgrad.bfloat16 if device_type == "cpu" else rgrad.float16
        self.fast_dtype = usual if dtype is None else dtype
        self._cache_enabled = True if cache_enabled is None else cache_enabled
        self._previous: list[tuple[bool, Any]] = []
        self._kind = "cpu" if device_type == "cpu" else "gpu"
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        if device_type in _ALIASES and not rgrad.cuda.is_available():
            if enabled:
                warnings.warn(
                    f"User provided device_type of '{device_type}', but {device_type.upper()} is not available. "
                    "Disabling",
                    stacklevel=2,
                )
            enabled = False
        elif enabled and self.fast_dtype not in (rgrad.bfloat16, rgrad.float16):
            warnings.warn(
                f"In {device_type.upper()} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{device_type.upper()} Autocast only supports dtype of torch.bfloat16, torch.float16 currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled

    def __enter__(self) -> autocast:
        # The same object may be entered again within itself.
        self._previous.append(_C._set_autocast(self._enabled, self.fast_dtype, self._kind))
        return self

    def __exit__(self, *exc: object) -> None:
        _C._set_autocast(*self._previous.pop(), self._kind)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a function to run within this context."""
        if not callable(function):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(function).__name__}. Did you mean to "
                "use "
                "autocast as a context manager? For example:\n    with torch.autocast(device_type=...):\n"
                "        output = model(input)"
            )

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            # Each call needs its own context: the function may run in several threads at once.
            with autocast(self.device, self.fast_dtype, self._enabled, self._cache_enabled):
                return function(*args, **kwargs)

        return wrapper


def _cast(value: Any, device_type: str, dtype: Any) -> Any:
    """Casts floating point tensors on a device to `dtype`, also within containers."""
    if isinstance(value, rgrad.Tensor):
        there = (value.device.type == "cpu") == (device_type == "cpu")
        eligible = there and value.is_floating_point() and value.dtype != rgrad.float64
        return value.to(dtype) if eligible else value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, device_type, dtype) for item in value)
    return value


def in_float32(*kinds: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a function that needs float32: under autocast on some device types it receives the tensors there as
    float32, and autocast is off within it.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            for kind in kinds:
                if _C._get_autocast(kind)[0]:
                    with autocast(kind, enabled=False):
                        args, kwargs = _cast(args, kind, rgrad.float32), _cast(kwargs, kind, rgrad.float32)
                        return wrapper(*args, **kwargs)
            return function(*args, **kwargs)

        return wrapper

    return decorate


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorates the `forward` of a `Function` for use under autocast; use together with `custom_bwd`.

    Args:
        fwd: the method.
        device_type: the device type whose autocast applies.
        cast_inputs: the dtype to which tensors are cast under autocast, which is then off within the method.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def wrapper(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        enabled = rgrad.is_autocast_enabled(device_type)
        ctx._dtype = rgrad.get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return wrapper


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorates the `backward` of a `Function` to run with the autocast state of its `forward`.

    Args:
        bwd: the method.
        device_type: the device type whose autocast applies.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        with autocast(device_type, dtype=ctx._dtype, enabled=ctx._fwd_used_autocast):
            return bwd(ctx, *grads)

    return wrapper


class cpu_autocast(autocast):  # noqa: N801 - what `rgrad.cpu.amp.autocast` is
    """`autocast` for the CPU, in the old form without a device type."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a type of device, in this thread."""
    return _C._get_autocast(device_type)[0]


def get_autocast_dtype(device_type: str) -> _C.dtype:
    """The dtype that autocast computes in."""
    return _C._get_autocast(device_type)[1]


# The state as older programs, and such as write programs, set it.


def set_autocast_enabled(*args: Any) -> None:
    """Switches autocast on or off for good, in this thread: of a type of device, "cuda" if none is given."""
    device_type, enabled = args if len(args) == 2 else ("cuda", *args)
    _C._set_autocast(enabled, get_autocast_dtype(device_type), _kind(device_type))


def set_autocast_dtype(device_type: str, dtype: _C.dtype) -> None:
    """Sets the dtype that autocast computes in, in this thread."""
    _C._set_autocast(is_autocast_enabled(device_type), dtype, _kind(device_type))


def _kind(device_type: str) -> str:
    if not is_autocast_available(device_type):
        raise RuntimeError(f"unknown device type for autocast: {device_type}")
    return "cpu" if device_type == "cpu" else "gpu"


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on for the CPU, in this thread."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switches autocast for the CPU on or off, in this thread."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> _C.dtype:
    """The dtype that autocast computes in on the CPU."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> _C.dtype:
    """The dtype that autocast computes in on a GPU."""
    return get_autocast_dtype("cuda")


def set_autocast_cpu_dtype(dtype: _C.dtype) -> None:
    """Sets the dtype that autocast computes in on the CPU, in this thread."""
    set_autocast_dtype("cpu", dtype)


def set_autocast_gpu_dtype(dtype: _C.dtype) -> None:
    """Sets the dtype that autocast computes in on a GPU, in this thread."""
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """False: casts of weights are not kept."""
    return False


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Has no effect: casts of weights are not kept."""


def clear_autocast_cache() -> None:
    """Has no effect: casts of weights are not kept."""
