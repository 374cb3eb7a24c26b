"""The shape of a tensor: a tuple of integers with the method `numel`."""

from __future__ import annotations

import math
from collections.abc import Iterable

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any


def _integer(position: int, size: Any) -> int:
    """Converts a size to an integer."""
    try:
        return size.__index__()
    except (AttributeError, TypeError):
        raise TypeError(
            f"torch.Size() takes an iterable of 'int' (item {position} is '{type(size).__name__}')"
        ) from None


class Size(tuple[int, ...]):
    """A shape, as `Tensor.shape` gives it.

    >>> rgrad.Size([2, 3]).numel()
    6
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        """A shape of the given sizes, which are integers or tensors with one integer."""
        return tuple.__new__(cls, (_integer(i, size) for i, size in enumerate(sizes)))

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __add__(self, other):
        if not isinstance(other, tuple):
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")
        return Size(tuple.__add__(self, other))

    def __radd__(self, other):
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, n):
        product = tuple.__mul__(self, n)
        return product if product is NotImplemented else Size(product)

    __rmul__ = __mul__

    def __getitem__(self, i):
        got = tuple.__getitem__(self, i)
        return Size(got) if isinstance(i, slice) else got

    def __reduce__(self):
        return Size, (tuple(self),)
