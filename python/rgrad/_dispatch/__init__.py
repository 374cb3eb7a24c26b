"""`__torch_dispatch__`: classes of tensors and modes that compute operations below autograd."""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import _C
from rgrad._C import Tensor
from rgrad._dispatch.operations import begin, decomposition, end, operation, overload
from rgrad._library import aten

__all__ = [
    "answer_for",
    "begin",
    "call",
    "decomposition",
    "detach",
    "end",
    "getitem",
    "install_class",
    "item",
    "make_wrapper_subclass",
    "move_attributes",
    "ones_like",
    "operation",
    "overload",
    "setitem",
]


def move_attributes(old: Tensor, new: Tensor) -> None:
    """Moves the attributes of an object, those of slots as well, to another one of its class."""
    for name in copyreg._slotnames(type(old)):  # type: ignore[attr-defined]
        if hasattr(old, name):
            object.__setattr__(new, name, getattr(old, name))
    vars(new).update(vars(old))


def install_class(cls: Any) -> None:
    """Prepares a class that has a `__torch_dispatch__`."""
    cls._dispatches = True
    _C._meet_dispatch()
    own, ending = getattr(cls, "__del__", None), sys.is_finalizing
    if getattr(own, "_keeps", False):
        return

    def finalize(self: Tensor) -> None:
        if own is not None:
            own(self)
        # At the interpreter's end nothing can be imported, and nobody asks for the object.
        if not ending():
            _C._keep_object(self)

    finalize._keeps = True  # type: ignore[attr-defined]
    cls.__del__ = finalize


def make_wrapper_subclass(
    cls: Any,
    size: Any,
    strides: Any = None,
    storage_offset: int | None = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    _extra_dispatch_keys: Any = None,
    storage_size: int | None = None,
) -> Any:
    """A tensor of a class, without memory: the `__torch_dispatch__` of the class computes its operations.

    Args:
        cls: a subclass of Tensor with a `__torch_dispatch__`.
        size: the shape that the tensor reports, as are the following.
        strides: strides; by default those of a contiguous tensor.
        storage_offset: the offset of the first element.
        memory_format: the memory format, in place of strides.
        dtype: the dtype; by default the default dtype.
        layout: only `torch.strided`.
        device: the device; by default the default device.
        pin_memory: ignored, as there is no memory.
        requires_grad: whether operations on it are recorded.
        dispatch_sizes_strides_policy: "sizes" if the class answers for sizes and strides, "strides" if for these only.
        dispatch_device: whether the class answers for the device.
        dispatch_layout: whether the class answers for the layout.

    Returns:
        The object, whose attributes hold what the class computes with.

    Raises:
        TypeError: if the class has no `__torch_dispatch__`.
    """
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your "
            "class inherits from Tensor."
        )
    if not getattr(cls, "_dispatches", False):
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    if layout is not None and str(layout) != "torch.strided":
        raise NotImplementedError(f"tensors are strided: there are none of layout {layout}")
    dtype = rgrad.get_default_dtype() if dtype is None else dtype
    device = rgrad.get_default_device() if device is None else _C.device(device)
    if memory_format is not None and strides is None:
        strides = rgrad.empty(tuple(size), device="meta", memory_format=memory_format).stride()
    sizes = [int(n) for n in size]
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {sizes}")
    strides = None if strides is None else [int(n) for n in strides]
    made = _C._make_wrapper(cls, sizes, strides, int(storage_offset or 0), dtype, device, requires_grad)
    answer_for(made, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)
    return made


def answer_for(t: Any, sizes_strides: str | None, device: bool, layout: bool) -> None:
    """As `policies.ask_for`, which is loaded for the classes that answer."""
    if sizes_strides is not None or device or layout:
        from rgrad._dispatch.policies import ask_for

        ask_for(t, sizes_strides, device, layout)


def call(full_name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Calls a function that is not in the table as an operation that `__torch_dispatch__` sees."""
    return _C._call_torch_dispatch(overload(full_name), function, tuple(args), dict(kwargs))


def detach(t: Tensor) -> Tensor:
    """The tensor of the same class without history."""
    made = call("detach.default", Tensor.detach, (t,), {})
    if not isinstance(made, Tensor) and not _C._torch_dispatch_stack():
        raise RuntimeError(f"Unable to cast {made} to Tensor")
    return made


def ones_like(t: Tensor) -> Tensor:
    """Ones of the same class."""
    return rgrad.ones_like(t, memory_format=_C.preserve_format)


def item(t: Tensor) -> Any:
    """The value of a tensor of one element."""
    if t.numel() != 1:
        raise RuntimeError(f"a Tensor with {t.numel()} elements cannot be converted to Scalar")
    return call("_local_scalar_dense.default", Tensor.item, (t,), {})


def _as_index(key: Any) -> Any:
    """An index as a number, a slice, None, an ellipsis or a tensor."""
    if key is None or key is Ellipsis or isinstance(key, slice | Tensor):
        return key
    if isinstance(key, bool | list | range) or hasattr(key, "__array__"):
        return rgrad.as_tensor(key)
    return key.__index__()


def _viewed(t: Tensor, key: Any) -> tuple[Tensor, list[Any] | None]:
    """What the numbers and slices of an index select, and the tensors of the index by dimension."""
    keys = [_as_index(k) for k in (key if isinstance(key, tuple) else (key,))]
    taken = sum(k.dim() if isinstance(k, Tensor) and k.dtype == _C.bool else 1 for k in keys if k not in _FREE)
    if taken > t.dim():
        raise IndexError(f"too many indices for tensor of dimension {t.dim()}")
    if not any(k is Ellipsis for k in keys):
        keys.append(Ellipsis)
    dim, found = 0, False
    tensors: list[Any] = []
    for k in keys:
        if k is Ellipsis:
            skipped = t.dim() - dim - sum(_width(other) for other in keys[_position(keys, Ellipsis) + 1 :])
            tensors += [None] * skipped
            dim += skipped
        elif k is None:
            t = t.unsqueeze(dim)
            tensors.append(None)
            dim += 1
        elif isinstance(k, Tensor):
            tensors.append(k)
            dim += _width(k)
            found = True
        elif isinstance(k, slice):
            if k != slice(None):
                t = _sliced(t, dim, k)
            tensors.append(None)
            dim += 1
        else:
            t = t.select(dim, k)
    return t, tensors if found else None


class _Free(list):
    """Compares by identity, as tensors compare by element."""

    def __contains__(self, key: object) -> bool:
        return key is None or key is Ellipsis


_FREE = _Free()


def _position(keys: list[Any], wanted: Any) -> int:
    return next(i for i, k in enumerate(keys) if k is wanted)


def _width(key: Any) -> int:
    """The number of dimensions that an index takes of the tensor that it is applied to."""
    if key is None or key is Ellipsis:
        return 0
    return key.dim() if isinstance(key, Tensor) and key.dtype in (_C.bool, _C.uint8) else 1


def _sliced(t: Tensor, dim: int, key: slice) -> Tensor:
    step = 1 if key.step is None else key.step.__index__()
    if step < 1:
        raise ValueError("step must be greater than zero")
    start = 0 if key.start is None else key.start.__index__()
    stop = 2**63 - 1 if key.stop is None else key.stop.__index__()
    args = (t, dim, start, stop) if step == 1 else (t, dim, start, stop, step)
    return call("slice.Tensor", aten.shown("slice"), args, {})


def getitem(t: Tensor, key: Any) -> Tensor:
    """`t[key]` by the operations that it consists of."""
    view, tensors = _viewed(t, key)
    if tensors is not None:
        while tensors and tensors[-1] is None:
            tensors.pop()
        return call("index.Tensor", aten.shown("index"), (view, tensors), {})
    return call("alias.default", aten.shown("alias"), (view,), {}) if view is t else view


def setitem(t: Tensor, key: Any, value: Any) -> None:
    """`t[key] = value` by the operations that it consists of."""
    recorded = rgrad.is_grad_enabled() and (t.requires_grad or getattr(value, "requires_grad", False))
    if recorded:
        if t.requires_grad and t.is_leaf:
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
        with rgrad.no_grad():
            setitem(t, key, value)
        _C._record_written(Tensor.__setitem__, (t, key, value))
        return
    view, tensors = _viewed(t, key)
    if tensors is not None:
        while tensors and tensors[-1] is None:
            tensors.pop()
        whole = len(tensors) == 1 and tensors[0].dtype == _C.bool and tensors[0].dim() == view.dim()
        if whole and not isinstance(value, Tensor):
            view.masked_fill_(tensors[0], value)
            return
        value = value if isinstance(value, Tensor) else rgrad.tensor(value, dtype=t.dtype, device=t.device)
        view.index_put_(tuple(tensors), value)
    elif isinstance(value, Tensor):
        view.copy_(value)
    else:
        view.fill_(value)
