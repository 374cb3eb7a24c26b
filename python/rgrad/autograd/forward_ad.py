"""`torch.autograd.forward_ad`: derivatives in a direction, along with values.

See Note [Tangents by two backward passes] and Note [Levels of tangents] of `rgrad.autograd._tangent_levels`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import rgrad
from rgrad import _C
from rgrad._C import Tensor

from . import _dual
from ._dual import levels, thread
from ._tangent_levels import (
    _dual_ctx,
    _has_history,
    _leave,
    _left,
    _Level,
    _made,
    _node,
    _note,
    _Only,
    _severed,
    _switched,
    _tangents,
    _within,
    level_of_tangents,
)

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A value, and its derivative in a direction.

    Attributes:
        primal: the value.
        tangent: the derivative, of its shape and dtype, or None if there is none.
    """

    primal: Tensor
    tangent: Tensor | None


# The number of the level of `dual_level`, which is 0, or -1.
_current_level = -1


class _set_fwd_grad_enabled:
    """A block in which tensors have tangents or have none, as it says; in a derivative within it they have that one's.

    Args:
        mode: whether they have tangents.
    """

    def __init__(self, mode: bool) -> None:
        self._only = _Only(None if mode else ())
        self._severing: Any = None

    def __enter__(self) -> None:
        hidden = levels()
        self._only.__enter__()
        if hidden and not levels():
            self._severing = _sever_results(hidden)
            self._severing.__enter__()
        _switched()

    def __exit__(self, *exc: object) -> None:
        if self._severing is not None:
            _leave(self._severing)
            self._severing = None
        self._only.__exit__(*exc)
        _switched()


def _sever_results(hidden: tuple[_Level, ...]) -> Any:
    """A mode in which results have no tangents of these levels, unless forward mode is enabled within it."""
    from rgrad.overrides import TorchFunctionMode
    from rgrad.utils._pytree import tree_leaves, tree_map

    class SeverResults(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            if thread.visible != ():
                return made
            given = {id(x) for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
            return tree_map(lambda x: x if id(x) in given else severed(x), made)

    def severed(x: Any) -> Any:
        for level in hidden:
            if level.has_tangent(x):
                x = _severed(level, x)
        return x

    return SeverResults()


def _is_fwd_grad_enabled() -> bool:
    """Whether tensors may have tangents: not so in the forward of a custom function."""
    return thread.visible != ()


def enter_dual_level() -> int:
    """Enters a level, in which tensors may have tangents; there is one at a time.

    Returns:
        The number of the level, 0.

    Raises:
        RuntimeError: a level is entered already, or the call is in a function that `torch.func` differentiates in
            forward mode.
    """
    global _current_level
    if _dual.level is not None or thread.transforms:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _dual.level = _Level()
    _note(_dual.level, entered=True)
    _current_level = 0
    _switched()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Leaves the level: all tensors lose their tangents.

    Args:
        level: the number of the level, which is 0.

    Raises:
        RuntimeError: no level is entered, or it has another number.
    """
    global _current_level
    if _dual.level is None and level is None:
        raise RuntimeError("Dual level must be a positive number: no level is entered.")
    if _dual.level is None or level not in (None, 0):
        raise RuntimeError(f"Trying to exit a forward AD level that was not the last one: {level} is not entered")
    left, _dual.level = _dual.level, None
    _note(left, entered=False)
    _current_level = -1
    _switched()


class dual_level:
    """A context manager of a level, in which tensors may have tangents.

    >>> import rgrad as torch
    >>> import rgrad.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor(6.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor of a value that has a tangent, which operations pass on: see Note [Tangents by two backward passes].

    Args:
        tensor: the value, floating point.
        tangent: of the same shape and dtype. If it also has the same strides, `unpack_dual` returns this tensor, else
            a copy.
        level: the number of the level, which is 0.

    Returns:
        A tensor that shares the memory of the value. In inference mode it has no tangent.

    Raises:
        RuntimeError: no level is entered, one of the tensors has a tangent already, or the tangent has another shape
            or dtype than the value.
        ValueError: they are not floating point.
    """
    if not _entered():
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists: use `dual_level`")
    if level not in (None, 0):
        raise RuntimeError(f"Invalid level given to make_dual: {level} is not entered")
    for name, given in (("primal", tensor), ("tangent", tangent)):
        if not given.is_floating_point():
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {given.dtype}")
    current = next(reversed(levels()), None)
    if current is None or _C.is_inference_mode_enabled():
        return tensor.detach()
    for name, given in (("value", tensor), ("tangent", tangent)):
        if current.has_tangent(given):
            raise RuntimeError(f"The {name} given to make_dual has a forward gradient at the same level 0 already")
    if not _C.is_grad_enabled():
        outside = current.outside()
        tensor, tangent = (_within(x, outside) if x.requires_grad else x for x in (tensor, tangent))
    if tensor.shape == tangent.shape and not _same_layout(tensor, tangent):
        tangent = tangent.clone()
    return _made(current, tensor, tangent)


def _entered() -> bool:
    """Whether the thread is within a level, also where tensors have no tangents."""
    return _dual.level is not None or bool(thread.transforms)


def _same_layout(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of the same shape have their elements at the same places of memory of the same size."""
    if one.numel() == 0:
        return True
    strides = zip(one.shape, one.stride(), other.stride(), strict=True)
    same_strides = all(size == 1 or a == b for size, a, b in strides)
    # Those of slices are parts of other memory, whatever its size.
    batched = _C._is_batched(one) or _C._is_batched(other)
    return same_strides and (batched or one.untyped_storage().nbytes() == other.untyped_storage().nbytes())


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent of a tensor, which have no tangents.

    Args:
        tensor: any tensor.
        level: the number of the level, which is 0.

    Returns:
        Both; the tangent is None outside of a level, and for a tensor that follows from no dual tensor. In a function
        that `torch.func` differentiates in forward mode, they are those of the innermost derivative.

    Raises:
        NotImplementedError: an operation behind the tensor has a backward that cannot be differentiated.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"unpack_dual(): argument 'tensor' must be Tensor, not {type(tensor).__name__}")
    current = next(reversed(levels()), None)
    if current is not None and level not in (None, 0):
        raise RuntimeError(f"Invalid level given to unpack_dual: {level} is not entered")
    if current is None or not current.has_tangent(tensor):
        return UnpackedDualTensor(tensor, None)
    return _unpacked(current, tensor, _C.is_grad_enabled())


def _unpacked(level: _Level, tensor: Tensor, keep: bool) -> UnpackedDualTensor:
    (tangent,) = _tangents(level, [tensor], keep)
    dual = _dual_ctx(_node(tensor), level)
    primal = None if dual is None else dual.primal
    if primal is None or not keep or not _has_history(tensor, level=level):
        return UnpackedDualTensor(_left(level, tensor, keep), tangent)
    plain = primal.requires_grad and primal.grad_fn is None and not _C._is_batched(primal)
    return UnpackedDualTensor(primal.view_as(primal) if plain else _severed(level, primal), tangent)


def shown(x: Tensor, text: str) -> str:
    """The text of a tensor with that of its tangent at the innermost level that it has one of."""
    level = level_of_tangents([x])
    if level is None:
        return text
    primal, tangent = _unpacked(level, x, _C.is_grad_enabled())
    with _Only(level.outside()):
        start, second = repr(primal)[:-1] + ", ", f"tangent={tangent!r})"
    if len(start.rpartition("\n")[2]) + len(second.partition("\n")[0]) > rgrad.get_printoptions()["linewidth"]:
        start = start[:-1] + "\n" + " " * len("tensor(")
    return start + second
