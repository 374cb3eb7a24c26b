"""Resilient backpropagation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rgrad
from rgrad import Tensor
from rgrad.optim import _functional, _recorded
from rgrad.optim.optimizer import GroupOptimizer, arguments, check_settings, number


class Rprop(GroupOptimizer):
    """Updates with step sizes that depend on sign changes of each element's gradient, for full batches.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: the initial step size.
        etas: factors of the step size after a sign change, and after none.
        step_sizes: the smallest and the largest step size.
        capturable: accepted for parameters on a GPU, without effect.
        foreach: accepted, without effect.
        maximize: go up the gradient.
        differentiable: whether autograd records the step; see Note [Differentiable steps].
    """

    _formula = staticmethod(_recorded.rprop)

    _zeros = ("prev",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_settings(lr=lr, differentiable=differentiable)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, arguments(locals()))

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Tensor]:
        return super()._new_state(param, group) | {"step_size": rgrad.full_like(param, number(group["lr"]))}

    @rgrad.no_grad()
    def _update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        column = self._columns(group, params)
        _functional.rprop(
            params,
            grads,
            column("prev"),
            column("step_size"),
            column("step"),
            etas=group["etas"],
            step_sizes=group["step_sizes"],
            maximize=group["maximize"],
        )
