"""Adam for sparse gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rgrad
from rgrad import Tensor
from rgrad.optim.optimizer import GroupOptimizer, arguments


class SparseAdam(GroupOptimizer):
    """Adam that updates only the elements that a sparse gradient has.

    There are no sparse tensors, so gradients are dense and refused: the class is for checks and settings. :class:`Adam`
    takes dense gradients.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: learning rate, above 0.
        betas: decay rates of the two averages.
        eps: added to the denominator, above 0.
        maximize: go up the gradient.

    Raises:
        ValueError: a setting is out of its range.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        defaults = arguments(locals())
        if isinstance(lr, rgrad.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for index, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        if grads:
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
