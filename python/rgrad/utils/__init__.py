"""Utilities for training; `utils.data` loads data in batches."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any

    from rgrad import Tensor

_MODULES = (
    *("_import_utils", "_mode_utils", "_python_dispatch", "_pytree", "benchmark", "checkpoint", "collect_env", "data"),
    *("deterministic", "dlpack", "flop_counter", "hooks", "tensorboard"),
)


def __getattr__(name: str) -> Any:
    # Loaded at first use, so that `rgrad.utils.data` works after a plain `import rgrad`.
    if name in _MODULES:
        return importlib.import_module(f"rgrad.utils.{name}")
    raise AttributeError(f"module 'rgrad.utils' has no attribute '{name}'")


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchanges two tensors, with class, attributes, gradient and history; names keep referring to the same objects.

    Raises `RuntimeError` if one of them has weak references, which would then refer to the other, or if their classes
    have different `__slots__`. A graph that was recorded before follows the data: its gradients are accumulated in the
    object that has the data at that time.

    >>> import rgrad as torch
    >>> a, b = torch.zeros(2), torch.nn.Parameter(torch.ones(3))
    >>> torch.utils.swap_tensors(a, b)
    >>> a.shape, b.shape
    (torch.Size([3]), torch.Size([2]))
    """
    import weakref  # imported here, so that importing the package stays fast

    from rgrad import _C

    for name, t in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    # Tensors get these numbers when they are asked for them: only numbers that exist are exchanged.
    _ = t1._cdata, t2._cdata
    slots, others = ({s: getattr(t, s) for s in _slots(type(t)) if hasattr(t, s)} for t in (t1, t2))
    if _slots(type(t1)) != _slots(type(t2)):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for t, old, new in ((t1, slots, others), (t2, others, slots)):
        for name in old.keys() - new.keys():
            delattr(t, name)
        for name, value in new.items():
            setattr(t, name, value)
    _C._swap_tensor_impl(t1, t2)


def _slots(cls: type) -> set[str]:
    """The names in `__slots__` of a class and its base classes."""
    declared = (vars(base).get("__slots__", ()) for base in cls.__mro__)
    names = {name for some in declared for name in ((some,) if isinstance(some, str) else some)}
    return names - {"__dict__", "__weakref__"}
