"""Queries about `__torch_dispatch__`, which rgrad lacks: no class has it, and no mode is active."""

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
    """Whether a tensor class defines the tensors that it wraps, by `__tensor_flatten__` and
    `__tensor_unflatten__`.
    """
    from rgrad import Tensor

    parts = hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
    return issubclass(t, Tensor) and t is not Tensor and parts


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Like `is_traceable_wrapper_subclass_type`, for the class of an object."""
    return is_traceable_wrapper_subclass_type(type(t))


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Always False."""
    return False


def _get_current_dispatch_mode() -> None:
    """Always None."""


def _get_current_dispatch_mode_stack() -> list[Any]:
    """Always empty."""
    return []


def _disable_current_modes() -> Any:
    """A context manager without effect, as there are no modes."""
    import contextlib

    return contextlib.nullcontext()
