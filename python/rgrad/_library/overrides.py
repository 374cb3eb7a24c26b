"""Implementations that a `Library` of the namespace "aten" gives to the library's own operations.

Note [Overridden operations]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
While there are any, a mode lies below all other modes of the thread that registered the first of them. It gets the
operations that are left when autograd, `vmap` and the other modes have done their part, as a kernel does, and calls
the registered function in place of the operation. The mode is off meanwhile, so that the function can call the
operation itself.
Operations on tensors of a class with a `__torch_dispatch__` are those of the class.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rgrad import _C
from rgrad._absent import refuse
from rgrad._C import Tensor
from rgrad._library import aten
from rgrad._library.operation import device_kind
from rgrad._library.registration import fallthrough_kernel
from rgrad.utils._pytree import tree_leaves

# By the full name of an operation ("sum", or "sum.dim_IntList" for one form) and the kind of device.
_functions: dict[tuple[str, str], Callable[..., Any]] = {}


class _Overridden:
    """The mode that calls the registered functions."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not types:
            found = _found(func, (args, kwargs))
            if found is not None:
                return found(*args, **kwargs)
        return func(*args, **kwargs)


_mode: _Overridden | None = None


def _found(func: Any, values: Any) -> Callable[..., Any] | None:
    if not isinstance(func, aten.OpOverload):
        return None
    leaves = tree_leaves(values)
    device = next(
        (v if isinstance(v, _C.device) else v.device for v in leaves if isinstance(v, Tensor | _C.device)), None
    )
    kind = "cpu" if device is None else device_kind(device.type)
    packet = func.overloadpacket.__name__
    names = (f"{packet}.{func._overloadname}", packet)
    return next((_functions[name, kind] for name in names if (name, kind) in _functions), None)


def _place(present: bool) -> None:
    """Puts the mode below all others of the thread, or takes it away."""
    global _mode
    modes = [_C._pop_torch_dispatch_stack() for _ in _C._torch_dispatch_stack()]
    others = [mode for mode in modes[::-1] if mode is not _mode]
    _mode = _Overridden() if present else None
    for mode in ([] if _mode is None else [_mode]) + others:
        _C._push_on_torch_dispatch_stack(mode)


def _cast(of: tuple[str, str]) -> tuple[str, str]:
    """The operation and the device of a key such as "AutocastCPU"; "Autocast" alone is that of GPUs."""
    return of[0], "cpu" if of[1] == "AutocastCPU" else "cuda"


def override(name: str, key: str, function: Callable[..., Any]) -> tuple[str, str]:
    """Registers a function for an operation on the tensors of a kind of device.

    Args:
        name: of the operation, or of one form: "sum.dim_IntList".
        key: the dispatch key of a device, such as "CPU", or of its autocast, such as "AutocastCPU".
        function: called with the arguments of the operation; `fallthrough_kernel` for autocast.

    Returns:
        What `restore` takes.
    """
    packet = aten.packet(name.partition(".")[0])
    if packet is None:
        raise RuntimeError(f"Could not find the operator aten::{name}")
    if key.startswith("Autocast"):
        if function is not fallthrough_kernel:
            refuse(f"an implementation of aten::{name} for {key}", "only a fallthrough_kernel can be")
        of = (packet.__name__, key)
        _C._set_autocast_fallthrough(*_cast(of), True)
        return of
    try:
        kind = device_kind(key)
    except ValueError:
        refuse(
            f"Library('aten', 'IMPL').impl with the dispatch key {key!r}",
            "the library's own operations are overridden for a device: CPU, CUDA",
        )
    if _mode is not None and _mode.thread != threading.get_ident():
        raise RuntimeError("implementations of the library's own operations belong to the thread of the first of them")
    of = (name.removesuffix(".default"), kind)
    _functions[of] = function
    if _mode is None:
        _place(True)
    return of


def restore(of: tuple[str, str]) -> None:
    """Ends an override. In another thread, as of the garbage collector, the mode stays and calls no function."""
    if of[1].startswith("Autocast"):
        _C._set_autocast_fallthrough(*_cast(of), False)
        return
    _functions.pop(of, None)
    if not _functions and _mode is not None and _mode.thread == threading.get_ident():
        _place(False)
