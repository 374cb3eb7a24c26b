"""`torch.sparse`: the setting that programs query. Tensors are strided, none is sparse: its functions refuse."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rgrad._absent import absent_function

__all__ = ["addmm", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags", "sum"]

_WHY = "tensors are strided, none is sparse"

addmm = absent_function("torch.sparse.addmm", _WHY)
log_softmax = absent_function("torch.sparse.log_softmax", _WHY)
mm = absent_function("torch.sparse.mm", _WHY)
sampled_addmm = absent_function("torch.sparse.sampled_addmm", _WHY)
softmax = absent_function("torch.sparse.softmax", _WHY)
spdiags = absent_function("torch.sparse.spdiags", _WHY)
sum = absent_function("torch.sparse.sum", _WHY)


class check_sparse_tensor_invariants:  # noqa: N801 - PyTorch's name
    """Sets whether the parts of a sparse tensor are checked when it is made, in a `with` block or a function.

    The setting is kept, so that what sets it finds it again; there are no tensors that it is about.

    Args:
        enable: whether they are.

    Example:
        >>> import rgrad as torch
        >>> with torch.sparse.check_sparse_tensor_invariants():
        ...     torch.sparse.check_sparse_tensor_invariants.is_enabled()
        True
    """

    _on = False

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        """Whether parts are checked."""
        return check_sparse_tensor_invariants._on

    @staticmethod
    def enable() -> None:
        """Parts are checked from here on."""
        check_sparse_tensor_invariants._on = True

    @staticmethod
    def disable() -> None:
        """Parts are not checked from here on."""
        check_sparse_tensor_invariants._on = False

    def __enter__(self) -> None:
        if self.saved_state is not None:
            raise RuntimeError("This context manager instance is already activated: use another one.")
        self.saved_state = self.is_enabled()
        check_sparse_tensor_invariants._on = self.state

    def __exit__(self, *exc: object) -> None:
        check_sparse_tensor_invariants._on = bool(self.saved_state)
        self.saved_state = None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that runs with the setting."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return call
