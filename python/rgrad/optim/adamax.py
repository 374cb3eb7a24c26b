"""Adamax."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rgrad
from rgrad import Tensor
from rgrad.optim import _functional, _recorded
from rgrad.optim.optimizer import GroupOptimizer, arguments, check_settings, number


class Adamax(GroupOptimizer):
    """Adam with the infinity norm of past gradients instead of the second moment.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: learning rate.
        betas: decay rates of the average and of the norm.
        eps: added to the absolute value of each gradient.
        weight_decay: L2 penalty.
        foreach: accepted, without effect.
        maximize: go up the gradient.
        differentiable: whether autograd records the step; see Note [Differentiable steps].
        capturable: accepted for parameters on a GPU, without effect.
    """

    _formula = staticmethod(_recorded.adamax)

    _zeros = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_settings(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay, differentiable=differentiable)
        super().__init__(params, arguments(locals()))

    @rgrad.no_grad()
    def _update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        column = self._columns(group, params)
        beta1, beta2 = group["betas"]
        _functional.adamax(
            params,
            grads,
            column("exp_avg"),
            column("exp_inf"),
            column("step"),
            lr=number(group["lr"]),
            beta1=beta1,
            beta2=beta2,
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )
