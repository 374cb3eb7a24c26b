"""Averaged stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rgrad
from rgrad import Tensor
from rgrad.optim import _functional, _recorded
from rgrad.optim.optimizer import GroupOptimizer, arguments, check_settings, number


class ASGD(GroupOptimizer):
    """Stochastic gradient descent with a decreasing rate; also averages the parameters (state ``ax``).

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: the initial learning rate.
        lambd: decay of the parameters, and speed of the rate's decay.
        alpha: exponent of the rate's decay.
        t0: the step from which parameters are averaged.
        weight_decay: L2 penalty.
        foreach: accepted, without effect.
        maximize: go up the gradient.
        differentiable: whether autograd records the step; see Note [Differentiable steps].
        capturable: accepted for parameters on a GPU, without effect.
    """

    _formula = staticmethod(_recorded.asgd)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_settings(lr=lr, lambd=lambd, alpha=alpha, weight_decay=weight_decay, differentiable=differentiable)
        super().__init__(params, arguments(locals()))

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Tensor]:
        begin = {"eta": number(group["lr"]), "mu": 1.0}
        state = super()._new_state(param, group)
        state.update((name, rgrad.tensor(value, dtype=rgrad.float32)) for name, value in begin.items())
        state["ax"] = rgrad.zeros_like(param)
        return state

    @rgrad.no_grad()
    def _update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        column = self._columns(group, params)
        _functional.asgd(
            params,
            grads,
            column("ax"),
            column("mu"),
            column("eta"),
            column("step"),
            lr=number(group["lr"]),
            lambd=group["lambd"],
            alpha=group["alpha"],
            t0=group["t0"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )
