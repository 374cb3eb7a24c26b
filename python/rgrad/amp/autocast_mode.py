"""The autocast context. Its state lives in the core, where operations look it up; this module only
switches it.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import _C


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast exists for a type of device."""
    return device_type == "cpu"


class autocast:  # noqa: N801 - PyTorch's name
    """Lets matrix products and convolutions compute in a half type inside a `with` block or a decorated
    function.

    Args:
        device_type: "cpu".
        dtype: bfloat16 by default, or float16.
        enabled: whether to autocast at all; False switches it off inside an autocast block.
        cache_enabled: accepted; casts of weights are cheap enough not to be kept.

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
        self.fast_dtype = rgrad.bfloat16 if dtype is None else dtype
        self._cache_enabled = True if cache_enabled is None else cache_enabled
        self._previous: list[tuple[bool, Any]] = []
        if device_type == "cuda":
            if enabled:
                warnings.warn(
                    "User provided device_type of 'cuda', but CUDA is not available. Disabling", stacklevel=2
                )
            enabled = False
        elif not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        elif enabled and self.fast_dtype not in (rgrad.bfloat16, rgrad.float16):
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                "CPU Autocast only supports dtype of torch.bfloat16, torch.float16 currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled

    def __enter__(self) -> autocast:
        # A context for another device leaves the CPU's state as it is. One object may be entered again inside
        # itself.
        self._previous.append(
            _C._set_autocast(self._enabled, self.fast_dtype) if self.device == "cpu" else _C._get_autocast()
        )
        return self

    def __exit__(self, *exc: object) -> None:
        _C._set_autocast(*self._previous.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, run inside this context whenever it is called."""
        if not callable(function):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(function).__name__}. Did you mean to "
                "use "
                "autocast as a context manager? For example:\n    with torch.autocast(device_type=...):\n"
                "        output = model(input)"
            )

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            # A context of its own for every call: the function may run in several threads at once.
            with autocast(self.device, self.fast_dtype, self._enabled, self._cache_enabled):
                return function(*args, **kwargs)

        return wrapper


class cpu_autocast(autocast):  # noqa: N801 - what `rgrad.cpu.amp.autocast` is
    """`autocast` for the CPU, in the old form without a device type."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)
