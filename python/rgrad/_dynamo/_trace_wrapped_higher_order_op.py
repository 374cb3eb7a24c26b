"""A context that packages enter around `vmap`."""

from __future__ import annotations

from typing import Any

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex:
    """A context in which tensors may be indexed with the tensors that `vmap` passes.

    It changes nothing: `vmap` here passes ordinary tensors, which are indices everywhere.

    >>> import rgrad
    >>> from rgrad._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    >>> table = rgrad.tensor([5, 6, 7])
    >>> with TransformGetItemToIndex():
    ...     rgrad.vmap(lambda i: table[i])(rgrad.tensor([2, 0]))
    tensor([7, 5])
    """

    def __enter__(self) -> TransformGetItemToIndex:
        return self

    def __exit__(self, *exc: Any) -> None:
        return None
