"""What PyTorch's core offers for autograd under private names that programs and test tools read: parts of `_C`."""

from __future__ import annotations

import types
import weakref

from rgrad import _C
from rgrad._C import Tensor

from .function import Function

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any


class _WeakTensorRef:
    """Tells whether a tensor still exists, without keeping it."""

    def __init__(self, tensor: Tensor) -> None:
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the tensor is gone."""
        return self._reference() is None


# Hooks of saved tensors.


def _disabled_message() -> str | None:
    """The message with which the use of saved tensor hooks fails, or None if they may be used."""
    message = _C._set_saved_tensors_hooks_error(None)
    _C._set_saved_tensors_hooks_error(message)
    return message


def _hooks_enabled() -> bool:
    return _disabled_message() is None


def _disable_hooks(message: str) -> None:
    _C._set_saved_tensors_hooks_error(message)


def _enable_hooks() -> None:
    _C._set_saved_tensors_hooks_error(None)


# Classes of nodes and functions.


class _Undefined(Function):
    """The identity; its backward returns no gradient."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> Any:
        made = tuple(t.view_as(t) for t in tensors)
        return made if len(made) != 1 else made[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[None, ...]:
        return tuple(None for _ in grads)


class _UndefinedGrad:
    """Called with tensors, returns them with a node that passes no gradients on."""

    def __call__(self, *tensors: Tensor) -> Any:
        return _Undefined.apply(*tensors)


class _DelayedError:
    """Called with tensors, returns them with a node whose backward raises.

    Args:
        message: the text of the RuntimeError.
        num_inputs: how many tensors it is called with.
    """

    def __init__(self, message: str, num_inputs: int) -> None:
        class Error(Function):
            @staticmethod
            def forward(ctx: Any, *tensors: Tensor) -> Any:
                made = tuple(t.detach() for t in tensors)
                return made if len(made) != 1 else made[0]

            @staticmethod
            def backward(ctx: Any, *grads: Tensor) -> Any:
                raise RuntimeError(message)

        Error._backward_cls.__name__ = "Error"
        self._function, self._count = Error, num_inputs

    def __call__(self, *tensors: Tensor) -> Any:
        if len(tensors) != self._count:
            raise RuntimeError(f"DelayedError was made for {self._count} tensors, got {len(tensors)}")
        return self._function.apply(*tensors)


class _Functions(types.SimpleNamespace):
    def __getattr__(self, name: str) -> Any:
        if name != "AccumulateGrad":
            raise AttributeError(f"module 'rgrad._C._functions' has no attribute '{name}'")
        # Classes of nodes are made with the first node of their name.
        self.AccumulateGrad = type(_C._gradient_edge(_C.zeros(()).requires_grad_())[0])
        return self.AccumulateGrad


def install() -> None:
    """Adds the names to `_C`."""
    core: Any = _C
    core._WeakTensorRef = _WeakTensorRef
    core._functions = _Functions(UndefinedGrad=_UndefinedGrad, DelayedError=_DelayedError)
    core._autograd = types.SimpleNamespace(
        SavedTensor=_C.SavedTensor,
        Node=_C.Node,
        _get_current_graph_task_keep_graph=_C._get_current_graph_task_keep_graph,
        _pop_saved_tensors_default_hooks=_C._pop_saved_tensors_hooks,
        _push_saved_tensors_default_hooks=_C._push_saved_tensors_hooks,
        _saved_tensors_hooks_disable=_disable_hooks,
        _saved_tensors_hooks_enable=_enable_hooks,
        _saved_tensors_hooks_get_disabled_error_message=_disabled_message,
        _saved_tensors_hooks_is_enabled=_hooks_enabled,
    )
