"""Handles of hooks."""

from __future__ import annotations

import copyreg
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable

from rgrad import _C

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


class _HandleMeta(type):
    """Makes ``isinstance`` accept the handles that the core creates, for hooks of tensors and nodes."""

    def __instancecheck__(cls, instance: object) -> bool:
        return super().__instancecheck__(instance) or type(instance) is _C.RemovableHandle


class RemovableHandle(metaclass=_HandleMeta):
    """Removes a hook: call ``remove()``, or leave the ``with`` block that the handle opened.

    Args:
        hooks_dict: the dictionary that holds the hook; it is referenced weakly.
        extra_dict: further dictionaries that contain the hook's id.
    """

    id: int
    next_id: int = 0
    hooks_dict_ref: weakref.ref[OrderedDict[int, Any]]
    extra_dict_ref: tuple[weakref.ref[Any], ...]

    def __init__(
        self, hooks_dict: OrderedDict[int, Any], *, extra_dict: OrderedDict[int, Any] | Iterable[Any] | None = None
    ) -> None:
        extra = [] if extra_dict is None else [extra_dict] if isinstance(extra_dict, dict) else extra_dict
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.extra_dict_ref = tuple(weakref.ref(place) for place in extra)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1

    def remove(self) -> None:
        """Removes the hook; a second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            place = reference()
            if place is not None:
                place.pop(self.id, None)

    def __getstate__(self) -> tuple[tuple[Any, ...], int]:
        return tuple(reference() for reference in (self.hooks_dict_ref, *self.extra_dict_ref)), self.id

    def __setstate__(self, state: tuple[tuple[Any, ...], int]) -> None:
        # A dictionary that was not pickled elsewhere dies with the state, and the handle then has no effect.
        (hooks_dict, *extra), self.id = state
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks_dict is None else hooks_dict)
        self.extra_dict_ref = tuple(weakref.ref(place) for place in extra if place is not None)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


def _reduce_core_handle(handle: Any) -> tuple[Any, ...]:
    """Pickles the handle of a tensor or node hook. Such hooks are not pickled, so the unpickled handle has no
    effect.
    """
    return RemovableHandle, (OrderedDict(),)


copyreg.pickle(_C.RemovableHandle, _reduce_core_handle)


def unserializable_hook(f: F) -> F:
    """Marks a hook whose loss needs no warning when its tensor is pickled."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warns about hooks of a tensor that pickling would drop."""
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  Nothing is said of a function that "
                "torch.utils.hooks.unserializable_hook decorates.",
                stacklevel=2,
            )
