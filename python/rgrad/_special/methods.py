"""Methods of Tensor whose arguments stand in another order than those of the functions."""

from __future__ import annotations

from rgrad import _C

from . import gamma

Tensor = _C.Tensor


def polygamma(self: Tensor, n: int) -> Tensor:
    """See `rgrad.polygamma`."""
    return gamma.polygamma(n, self)


def polygamma_(self: Tensor, n: int) -> Tensor:
    """See `rgrad.polygamma`; in place."""
    return self.copy_(gamma.polygamma(n, self.clone()))
