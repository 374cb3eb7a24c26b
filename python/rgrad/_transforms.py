"""What runs around a call: derivatives and functionalizations of a function, as `torch.func` makes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from rgrad import _C

__all__ = ["mapping", "recording", "refuse_hooks", "running", "transforming"]


class _Mapping(threading.local):
    """How many calls of `vmap` by programs run; levels of batched gradients are none."""

    count = 0


_mapping = _Mapping()


@contextmanager
def mapping() -> Iterator[None]:
    """A block in which a function is called by `vmap`."""
    _mapping.count += 1
    try:
        yield
    finally:
        _mapping.count -= 1


class _Refusing(threading.local):
    """How many transforms run in which saved tensor hooks are an error."""

    count = 0


_refusing = _Refusing()


def refuse_hooks(transforms: int = 0) -> None:
    """Raises if hooks of saved tensors are used in a transform: they would see tensors of one of its calls.

    Args:
        transforms: how many begin.
    """
    if _refusing.count + transforms:
        raise RuntimeError(
            "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks: use torch.autograd.grad in "
            "their place"
        )


@contextmanager
def recording() -> Iterator[None]:
    """A block in which operations are recorded, also in inference mode."""
    from rgrad.autograd.grad_mode import enable_grad, inference_mode

    with inference_mode(False) if _C.is_inference_mode_enabled() else nullcontext(), enable_grad():
        yield


@contextmanager
def transforming(hooks: bool = False, derivative: bool = True) -> Iterator[int]:
    """A block in which a function is called to transform it; gives how many such blocks there are around it.

    Args:
        hooks: whether saved tensor hooks may be used. Those of checkpoints always may.
        derivative: whether its operations are recorded, also in inference mode, and it may not write to tensors that
            were made outside of the block.

    Raises:
        RuntimeError: if such hooks are used around the block, as they are by `saved_tensors_hooks` in it.
    """
    if not hooks:
        from rgrad.autograd.graph import hooks_of_programs

        if hooks_of_programs():
            refuse_hooks(1)
    _refusing.count += not hooks
    _C._enter_transform(derivative)
    try:
        with recording() if derivative else nullcontext():
            yield _C._transforms() - 1
    finally:
        _C._exit_transform(derivative)
        _refusing.count -= not hooks


def running() -> bool:
    """Whether a function is being transformed, by `vmap` or otherwise."""
    return _mapping.count > 0 or _C._transforms() > 0
