"""`asarray`: a tensor from any object that contains numbers, sharing its memory if possible."""

from __future__ import annotations

import warnings
from typing import Any

from rgrad import _C
from rgrad._C import Tensor

from .storage import TypedStorage

# The dtypes of the format characters of Python's buffer protocol, in native byte order.
_FORMATS = {
    "?": _C.bool,
    "b": _C.int8,
    "B": _C.uint8,
    "h": _C.int16,
    "i": _C.int32,
    "l": _C.int64,
    "q": _C.int64,
    "e": _C.float16,
    "f": _C.float32,
    "d": _C.float64,
}


def _buffer_format(obj: Any) -> str | None:
    try:
        return memoryview(obj).format
    except TypeError:
        return None


def _shared(obj: Any, dtype: _C.dtype | None) -> Tensor | None:
    """A tensor that shares the memory of an object; None if it has none to share."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, TypedStorage):
        obj, dtype = obj.untyped(), dtype or obj.dtype
    if isinstance(obj, _C.UntypedStorage):
        dtype = dtype or _C.get_default_dtype()
        return _C.empty(0, dtype=dtype, device=obj.device).set_(obj)
    if hasattr(obj, "__array_interface__") and hasattr(obj, "flags") and hasattr(obj, "ndim") and hasattr(obj, "base"):
        return None if _is_scalar(obj) else _C.from_numpy(obj)
    if hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        return _C.from_dlpack(obj)
    format = _buffer_format(obj)
    if format is None:
        return None
    return _C.frombuffer(obj, dtype=dtype or _FORMATS.get(format.lstrip("@="), _C.uint8))


def _is_scalar(obj: Any) -> bool:
    """Whether a NumPy object is a scalar rather than an array."""
    return hasattr(obj, "__array_interface__") and not hasattr(obj, "__setitem__")


def _name(dtype: _C.dtype | None) -> str:
    """The name of a dtype as in its tensor type."""
    return _C.empty(0, dtype=dtype).type().removeprefix("torch.").removesuffix("Tensor")


_warned = False


def _warn_of_history() -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of False. Pass "
            "requires_grad=False explicitly to get the old behavior and silence this warning.",
            stacklevel=3,
        )


def asarray(
    obj: Any,
    *,
    dtype: _C.dtype | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """Converts `obj` to a tensor that shares its memory if `copy` allows it.

    Args:
        obj: a tensor, an array, a storage, an object with DLPack or the buffer protocol, a number or a sequence.
        dtype: of the tensor; that of `obj` if None.
        device: of the tensor; that of `obj` if None.
        copy: True for a copy, False for an error if the memory cannot be shared, None to copy only if necessary.
        requires_grad: of the tensor; that of `obj` if None.

    Returns:
        `obj` itself if it is a tensor with these properties.

    >>> import rgrad
    >>> rgrad.asarray([1.0, 2.0])
    tensor([1., 2.])
    """
    if _is_scalar(obj) and copy is False:
        raise RuntimeError(
            "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. "
        )
    found = _shared(obj, dtype)
    if found is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return _C.tensor(obj, dtype=dtype, device=device, requires_grad=bool(requires_grad))
    wanted = found.device if device is None else _C.device(device)
    if copy is False and wanted != found.device:
        raise ValueError(f"can't alias tensor from device '{found.device}' to '{wanted}'.")
    if copy is False and dtype not in (None, found.dtype):
        raise ValueError(f"can't alias tensor with dtype '{_name(found.dtype)}' into dtype '{_name(dtype)}'.")
    copied = bool(copy) or wanted != found.device or dtype not in (None, found.dtype)
    result = found.to(device=wanted, dtype=dtype or found.dtype, copy=True) if copied else found
    if requires_grad is None:
        if found.requires_grad:
            _warn_of_history()
        return result
    if not requires_grad and not result.is_leaf:
        return result.detach()
    return result if requires_grad == result.requires_grad else _C._require_grad(result, requires_grad)
