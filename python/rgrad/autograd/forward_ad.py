"""`torch.autograd.forward_ad`: derivatives in a direction, along with values.

Note [Tangents by two backward passes]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Functions here have backward derivatives only. The backward pass of ``y = f(x)`` is a linear function of the gradient
v of y, ``v -> J^T v``, and the derivative of a linear function is the function itself, transposed by the pass: so the
gradient of ``J^T v`` with respect to v, for a gradient t of its own, is ``J t``. A dual tensor therefore is a
differentiable function of a zero tensor that is added to its value, and its tangent is computed when it is asked for.
What is recorded for it must be differentiable twice, and no tangent passes operations under `no_grad`.
"""

from __future__ import annotations

from typing import NamedTuple

import rgrad
from rgrad._C import Tensor

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A value, and its derivative in a direction.

    Attributes:
        primal: the value.
        tangent: the derivative, of its shape and dtype, or None if there is none.
    """

    primal: Tensor
    tangent: Tensor | None


# Of the level that is entered, the tensors that were added to values, with their tangents; None outside of levels.
_shifts: list[tuple[Tensor, Tensor]] | None = None


def enter_dual_level() -> int:
    """Enters a level, in which tensors may have tangents; there is one at a time.

    Returns:
        The number of the level, 0.

    Raises:
        RuntimeError: a level is entered already.
    """
    global _shifts
    if _shifts is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _shifts = []
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Leaves the level: all tensors lose their tangents.

    Args:
        level: the number of the level, which is 0.
    """
    global _shifts
    if _shifts is None or level not in (None, 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one: none of this number is entered"
        )
    _shifts = None


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
        tangent: of the same shape and dtype.
        level: the number of the level, which is 0.

    Returns:
        A tensor of its own memory.

    Raises:
        RuntimeError: no level is entered, or the tangent has another shape or dtype than the value.
        ValueError: they are not floating point.
    """
    if _shifts is None or level not in (None, 0):
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists: use `dual_level`")
    for name, given in (("primal", tensor), ("tangent", tangent)):
        if not given.is_floating_point():
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {given.dtype}")
    if tensor.shape != tangent.shape or tensor.dtype != tangent.dtype:
        raise RuntimeError(
            f"Expected a tangent of the shape and dtype of the value, {tuple(tensor.shape)} and {tensor.dtype}, got "
            f"{tuple(tangent.shape)} and {tangent.dtype}"
        )
    shift = rgrad.zeros_like(tensor).requires_grad_()
    _shifts.append((shift, tangent.detach()))
    with rgrad.enable_grad():
        return tensor + shift


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent of a tensor; neither has a history.

    Args:
        tensor: any tensor.
        level: the number of the level, which is 0.

    Returns:
        Both; the tangent is None outside of a level, and for a tensor that follows from no dual tensor.
    """
    if not _shifts or level not in (None, 0) or not tensor.requires_grad:
        return UnpackedDualTensor(tensor, None)
    inputs = [shift for shift, _ in _shifts]
    with rgrad.enable_grad():
        v = rgrad.zeros_like(tensor).requires_grad_()
        grads = rgrad.autograd.grad(tensor, inputs, v, create_graph=True, allow_unused=True)
    reached = [(grad, tangent) for grad, (_, tangent) in zip(grads, _shifts, strict=True) if grad is not None]
    if not reached:
        return UnpackedDualTensor(tensor, None)
    varying = [(grad, tangent) for grad, tangent in reached if grad.requires_grad]
    found: Tensor | None = None
    if varying:
        outputs, tangents = (list(part) for part in zip(*varying, strict=True))
        (found,) = rgrad.autograd.grad(outputs, [v], tangents, allow_unused=True)
    return UnpackedDualTensor(tensor.detach(), rgrad.zeros_like(tensor) if found is None else found.detach())
