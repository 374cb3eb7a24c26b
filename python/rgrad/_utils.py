"""Copying, pickling and joining of tensors; `Tensor.__copy__`, `__deepcopy__` and `__reduce_ex__` call this module."""

from __future__ import annotations

import copy
import copyreg
import pickle
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad import _C
from rgrad._exception_wrapper import ExceptionWrapper as ExceptionWrapper


def _element_size(dtype: Any) -> int:
    """The number of bytes of an element."""
    if not isinstance(dtype, _C.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _is_privateuse1_backend_available() -> bool:
    """False: no backend of a program's own can be registered."""
    return False


def dtype_name(dtype: Any) -> str:
    """The bare name of a dtype, such as "float32"."""
    return str(dtype).rpartition(".")[2]


def reduce_tensor(tensor: Any, protocol: int) -> tuple[Any, ...]:
    """The pickled form of a tensor: its memory from the first to the last element, dtype, shape and strides.

    Args:
        tensor: any tensor; its history is not pickled, so it is loaded as a leaf.
        protocol: the pickle protocol. From 5 on, the elements are out-of-band if the pickler requests that.

    Returns:
        A callable and its arguments, as `__reduce_ex__` returns them.
    """
    if is_wrapper(tensor):
        return reduce_wrapper(tensor)
    if tensor.requires_grad:
        rgrad.utils.hooks.warn_if_has_hooks(tensor)
    plain = tensor.detach()
    data: Any = b""
    if not tensor.is_meta:
        plain = plain.cpu()
        if min(plain.stride(), default=0) < 0:
            plain = plain.contiguous()
        start = plain.storage_offset() * plain.dtype.itemsize
        elements = _C._storage_bytes(plain)[start : start + _span(plain.shape, plain.stride()) * plain.dtype.itemsize]
        data = pickle.PickleBuffer(elements) if protocol >= 5 else bytes(elements)
    arguments = (
        data,
        dtype_name(tensor.dtype),
        tuple(tensor.shape),
        plain.stride(),
        str(tensor.device),
        tensor.requires_grad,
    )
    if isinstance(tensor, rgrad.nn.Parameter):
        return _rebuild_parameter, arguments
    if type(tensor) is not rgrad.Tensor:
        return _rebuild_subclass, (type(tensor), *arguments)
    return _rebuild_tensor, arguments


def _span(shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """The number of elements in memory from the first element of a tensor to its last."""
    return 0 if 0 in shape else 1 + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))


def _rebuild_tensor(
    data: Any, dtype: str, shape: tuple[int, ...], stride: tuple[int, ...], device: str, requires_grad: bool
) -> Any:
    """The inverse of `reduce_tensor`."""
    if device == "meta":
        made = rgrad.empty_strided(shape, stride, dtype=getattr(rgrad, dtype), device=device)
        return made.requires_grad_(requires_grad)
    memory = rgrad.empty(_span(shape, stride), dtype=getattr(rgrad, dtype))
    view = memoryview(data).cast("B")
    if view.nbytes != memory.nbytes:
        raise pickle.UnpicklingError(f"{view.nbytes} bytes for a tensor of shape {tuple(shape)} and dtype {dtype}")
    if view.nbytes:
        _C._storage_bytes(memory)[: view.nbytes] = view
    memory = memory.to(device)
    return memory.set_(memory.untyped_storage(), 0, shape, stride).requires_grad_(requires_grad)


def _rebuild_parameter(*arguments: Any) -> Any:
    """The inverse of `reduce_tensor` for a `Parameter`."""
    tensor = _rebuild_tensor(*arguments)
    return rgrad.nn.Parameter(tensor.detach(), tensor.requires_grad)


def _rebuild_subclass(cls: Any, *arguments: Any) -> Any:
    """The inverse of `reduce_tensor` for a subclass of Tensor."""
    tensor = _rebuild_tensor(*arguments)
    return _C._make_subclass(cls, tensor.detach(), tensor.requires_grad)


def copy_tensor(tensor: Any) -> Any:
    """A shallow copy: another tensor on the same storage."""
    requires_grad = tensor.requires_grad
    view = tensor.detach()
    if isinstance(tensor, rgrad.nn.Parameter):
        return rgrad.nn.Parameter(view, requires_grad)
    return _C._require_grad(view) if requires_grad else view


def _deepcopy_wrapper(tensor: Any, memo: dict[int, Any]) -> Any:
    """A copy of a tensor whose class keeps its numbers elsewhere, by the `clone` of the class, with its attributes."""
    result = tensor.clone()
    if type(result) is not type(tensor):
        raise RuntimeError(
            f"`clone` of {type(tensor).__name__} returned {type(result).__name__}: a class of tensors that have no "
            "numbers of their own is copied by its `clone`, which has to return the class itself"
        )
    memo[id(tensor)] = result
    state = dict(vars(tensor)) if hasattr(tensor, "__dict__") else {}
    for name in copyreg._slotnames(type(tensor)):  # type: ignore[attr-defined]
        if hasattr(tensor, name):
            state[name] = getattr(tensor, name)
    for name, value in state.items():
        setattr(result, name, copy.deepcopy(value, memo))
    return result


def _attributes(tensor: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The attributes in the dictionary of an object, and those in slots of its class."""
    names = copyreg._slotnames(type(tensor))  # type: ignore[attr-defined]
    return dict(vars(tensor)), {name: getattr(tensor, name) for name in names if hasattr(tensor, name)}


def state_of(tensor: Any) -> Any:
    """What pickles keep of a tensor besides its numbers: what its class says, or its attributes; None without any."""
    of_class = getattr(type(tensor), "__getstate__", None)
    if of_class is not getattr(object, "__getstate__", None):
        return tensor.__getstate__()
    in_dict, in_slots = _attributes(tensor)
    return (in_dict or None, in_slots) if in_slots else in_dict or None


def set_state(tensor: Any, state: Any) -> None:
    """The inverse of `state_of`, without a call of what the attributes of the class may call."""
    in_dict, in_slots = state if isinstance(state, tuple) else (state, {})
    vars(tensor).update(in_dict or {})
    for name in copyreg._slotnames(type(tensor)):  # type: ignore[attr-defined]
        if name in in_slots:
            setattr(tensor, name, in_slots[name])


def _rebuild_wrapper_subclass(
    cls: Any,
    dtype: Any,
    size: Any,
    stride: Any,
    storage_offset: int,
    layout: Any,
    device: Any,
    requires_grad: bool,
) -> Any:
    """A tensor without memory whose class computes its operations."""
    return rgrad.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
        cls,
        size,
        strides=stride,
        storage_offset=storage_offset,
        layout=layout,
        device=device,
        dtype=dtype,
        requires_grad=requires_grad,
    )


def _rebuild_parameter_with_state(data: Any, requires_grad: bool, backward_hooks: Any, state: Any) -> Any:
    """A parameter of a tensor's numbers, with attributes; the third argument is always empty."""
    result = rgrad.nn.Parameter(data, requires_grad)
    set_state(result, state)
    return result


def _rebuild_from_type_v2(func: Any, new_type: type, args: tuple[Any, ...], state: Any) -> Any:
    """The tensor that `func` makes, as an object of a class with attributes."""
    result = func(*args)
    if type(result) is not new_type:
        result = result.as_subclass(new_type)
    if hasattr(new_type, "__setstate__") and new_type.__setstate__ is not getattr(rgrad.Tensor, "__setstate__", None):
        result.__setstate__(state)
        return result
    in_dict, in_slots = state if isinstance(state, tuple) else (state, None)
    for name, value in {**(in_dict or {}), **(in_slots or {})}.items():
        setattr(result, name, value)
    return result


def reduce_wrapper(tensor: Any) -> tuple[Any, ...]:
    """The pickled form of a tensor without memory: its class, what it reports, and its attributes."""
    reported = (tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())
    arguments = (type(tensor), *reported, None, tensor.device, tensor.requires_grad)
    return _rebuild_from_type_v2, (_rebuild_wrapper_subclass, type(tensor), arguments, _attributes(tensor))


def is_wrapper(tensor: Any) -> bool:
    """Whether the class of a tensor computes its operations from other tensors, so that it has no memory of its own."""
    return getattr(type(tensor), "_dispatches", False) and _C._is_wrapper(tensor)


def _deepcopy_by_class(tensor: Any, memo: dict[int, Any]) -> Any:
    """Copies a tensor whose class has a `__torch_dispatch__`, which makes the copy."""
    with rgrad.no_grad():
        result = tensor.clone()
    if type(result) is not type(tensor):
        raise RuntimeError(
            f"copy.deepcopy of a {type(tensor).__name__} calls the clone() of its class. It is for classes for which "
            f"cloning returns another instance of the same subclass; here it returned a {type(result).__name__}."
        )
    memo[id(tensor)] = result
    _C._require_grad(result, tensor.requires_grad)
    if tensor.grad is not None:
        result.grad = copy.deepcopy(tensor.grad, memo)
    return result


def deepcopy_tensor(tensor: Any, memo: dict[int, Any]) -> Any:
    """A copy with a storage of its own. Tensors that share a storage and are copied together share the copy.

    Args:
        tensor: A leaf.
        memo: as passed by `copy.deepcopy`.

    Returns:
        The copy; for a plain tensor the gradient is copied too.
    """
    if id(tensor) in memo:
        return memo[id(tensor)]
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment; "
            f"this one is a result of {type(tensor.grad_fn).__name__}. Its detach() can be copied. In a module it may "
            "be what torch.nn.utils.weight_norm computed."
        )
    if getattr(type(tensor), "_dispatches", False):
        return _deepcopy_by_class(tensor, memo)
    if tensor.is_meta and type(tensor) not in (rgrad.Tensor, rgrad.nn.Parameter):
        return _deepcopy_wrapper(tensor, memo)
    source = tensor.detach()
    storage = source.untyped_storage()
    key = ("rgrad storage", storage.data_ptr(), dtype_name(source.dtype), str(source.device))
    bases: dict[Any, Any] = memo.setdefault(id(deepcopy_tensor), {})  # type: ignore[assignment]
    if key not in bases:
        whole = source.as_strided((storage.nbytes() // source.dtype.itemsize,), (1,), 0)
        # The source stays referenced, so that its address is not reused for another storage meanwhile.
        bases[key] = (whole.clone(), source)
    result = bases[key][0].as_strided(tuple(source.shape), source.stride(), source.storage_offset())
    if isinstance(tensor, rgrad.nn.Parameter):
        # As in PyTorch, the copy of a parameter has no gradient.
        result = memo[id(tensor)] = rgrad.nn.Parameter(result, tensor.requires_grad)
        return result
    memo[id(tensor)] = _C._require_grad(result, tensor.requires_grad)
    if tensor.grad is not None:
        result.grad = copy.deepcopy(tensor.grad, memo)
    return result


def _flatten_dense_tensors(tensors: Sequence[Any]) -> Any:
    """Joins the elements of tensors in one dimension; a single contiguous tensor is viewed instead.

    Args:
        tensors: of any shapes.

    Returns:
        A tensor of one dimension.

    Raises:
        ValueError: there is no tensor.
    """
    flat = [tensor.reshape(-1) for tensor in tensors]
    return flat[0] if len(flat) == 1 else rgrad.cat(flat)


def _unflatten_dense_tensors(flat: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Undoes :func:`_flatten_dense_tensors`.

    Args:
        flat: a tensor of one dimension.
        tensors: those whose shapes the results have.

    Returns:
        Views of `flat`; a new tensor for one without elements.

    Raises:
        RuntimeError: `flat` has fewer elements than the tensors.
    """
    found, start = [], 0
    for tensor in tensors:
        count = tensor.numel()
        part = flat.narrow(0, start, count).view(tensor.shape) if count else flat.new_empty(tensor.shape)
        found.append(part)
        start += count
    return tuple(found)
