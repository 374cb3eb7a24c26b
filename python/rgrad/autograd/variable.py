"""`Variable`: the name of tensors before PyTorch 0.4, still used in older code."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from rgrad import _C

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Variable"]


class _TensorLike(type):
    """Makes tensors instances of `Variable`, which has no instances of its own."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _C.Tensor)


class _Engine:
    """The Python interface of PyTorch's engine."""

    @staticmethod
    def queue_callback(callback: Callable[[], Any]) -> None:
        """Calls ``callback`` when the current backward has run all its nodes."""
        _C._queue_callback(callback)


class Variable(metaclass=_TensorLike):
    """A tensor that shares the memory of another, outside its graph.

    Args:
        data: the other tensor; an empty one is made if None.
        requires_grad: whether the new tensor requires gradients.
        volatile: without effect since PyTorch 0.4.
        name: accepted, without effect.

    >>> import rgrad as torch
    >>> torch.autograd.Variable(torch.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """

    _execution_engine = _Engine()

    def __new__(
        cls,
        data: Any = None,
        requires_grad: bool = False,
        volatile: bool = False,
        _grad_fn: None = None,
        name: str | None = None,
    ) -> Any:
        if volatile:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.", stacklevel=2
            )
        if data is None:
            return _C.tensor([], requires_grad=requires_grad)
        if not isinstance(data, _C.Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)
