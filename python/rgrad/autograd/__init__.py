"""Reverse-mode differentiation: `backward`, `grad`, user functions, modes."""

from __future__ import annotations

from rgrad import _C

from . import _core_names, functional, graph
from ._backward import backward, grad
from .function import Function
from .grad_mode import (
    _unsafe_preserve_version_counter,  # noqa: F401 - PyTorch's own place for it
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_multithreading_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .gradcheck import gradcheck, gradgradcheck  # the function takes the name of its module, as in PyTorch
from .variable import Variable

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "functional",
    "graph",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_multithreading_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


backward.__module__ = grad.__module__ = __name__

_core_names.install()

SavedTensor = _C.SavedTensor

# Names that other modules have, which are loaded when one is looked up.
_FROM = {
    "forward_ad": "",
    "profiler": "",
    "profiler_util": "",
    "DeviceType": "profiler",
    "ProfilerActivity": "profiler",
    "kineto_available": "profiler",
    "handle_torch_function": "overrides",
    "has_torch_function": "overrides",
    "is_tensor_like": "overrides",
}


def is_view_replay_enabled() -> bool:
    """False: gradients of views that were written to in place are found without replaying the views."""
    return False


def _profiler_enabled() -> bool:
    """Whether a profile is being recorded."""
    import sys

    profiler = sys.modules.get("rgrad.profiler")
    return profiler is not None and bool(profiler._active)


def __getattr__(name: str) -> Any:
    import importlib

    if name == "NestedIOFunction":
        from rgrad._absent import absent_class

        return absent_class("torch.autograd.NestedIOFunction", "Function takes tensors, not nests of them")
    if name in _FROM:
        where = _FROM[name]
        if not where:
            return importlib.import_module(f"rgrad.autograd.{name}")
        return getattr(importlib.import_module(f"rgrad.{where}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
