"""Reverse-mode differentiation: `backward`, `grad`, user functions, modes."""

from __future__ import annotations

import types

from rgrad import _C

from . import functional, graph
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

# Where PyTorch keeps the class of `node._raw_saved_self`.
_C._autograd = types.SimpleNamespace(SavedTensor=_C.SavedTensor, Node=_C.Node)


def __getattr__(name: str) -> Any:
    if name == "forward_ad":
        raise AttributeError(
            "there is no autograd.forward_ad: derivatives are computed backward only. autograd.functional.jvp gives "
            "the product of a Jacobian with a vector."
        )
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
