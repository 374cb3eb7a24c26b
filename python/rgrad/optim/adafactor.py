"""Adafactor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rgrad
from rgrad import Tensor
from rgrad.optim import _functional
from rgrad.optim.optimizer import GroupOptimizer, arguments, number


class Adafactor(GroupOptimizer):
    """Adaptive updates that store the second moment of a matrix as the means of its rows and columns.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: the largest step, relative to the parameters' size.
        beta2_decay: exponent of the step count in the decay rate of the second moment.
        eps: lower bounds of the second moment (None for the dtype's epsilon) and of the parameters' size.
        d: threshold at which updates are clipped.
        weight_decay: decoupled weight decay.
        foreach: accepted, without effect.
        maximize: go up the gradient.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, rgrad.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(params, arguments(locals()))

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Tensor]:
        state = super()._new_state(param, group)
        if param.dim() > 1:
            *outer, rows, columns = param.shape
            state["row_var"] = param.new_zeros((*outer, rows, 1))
            state["col_var"] = param.new_zeros((*outer, 1, columns))
        else:
            state["variance"] = rgrad.zeros_like(param)
        return state

    @rgrad.no_grad()
    def _update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        _functional.adafactor(
            params,
            grads,
            self._states(group, params),
            lr=number(group["lr"]),
            beta2_decay=group["beta2_decay"],
            eps=group["eps"],
            d=group["d"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )
