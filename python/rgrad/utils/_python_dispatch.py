"""`__torch_dispatch__`, which rgrad does not have: no class has it, and no mode is active."""

from __future__ import annotations

from typing import Any

from rgrad._absent import absent_class

__all__ = [
    "BaseTorchDispatchMode",
    "TorchDispatchMode",
    "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type",
]

_WHY = "there is no level below __torch_function__ at which operations could be seen"

TorchDispatchMode = absent_class("torch.utils._python_dispatch.TorchDispatchMode", _WHY)
BaseTorchDispatchMode = absent_class("torch.utils._python_dispatch.BaseTorchDispatchMode", _WHY)


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Whether a class of tensors tells by `__tensor_flatten__` and `__tensor_unflatten__` what tensors it wraps."""
    from rgrad import Tensor

    parts = hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
    return issubclass(t, Tensor) and t is not Tensor and parts


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether the class of a tensor tells what tensors it wraps; see `is_traceable_wrapper_subclass_type`."""
    return is_traceable_wrapper_subclass_type(type(t))


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """False."""
    return False


def _get_current_dispatch_mode() -> None:
    """None."""


def _get_current_dispatch_mode_stack() -> list[Any]:
    """No mode."""
    return []


def _disable_current_modes() -> Any:
    """A block without modes, which changes nothing."""
    import contextlib

    return contextlib.nullcontext()
