"""Adadelta."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rgrad import _C, Tensor
from rgrad.optim import _recorded
from rgrad.optim.optimizer import GroupOptimizer, check_settings, number


class Adadelta(GroupOptimizer):
    """Scales gradients by the ratio of two running averages: of past updates and of gradients.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: factor of the update.
        rho: decay rate of both averages.
        eps: added to the averages before the square root.
        weight_decay: L2 penalty.
        foreach: accepted; every step is one call for all parameters anyway.
        capturable: accepted for parameters on a GPU, without effect.
        maximize: go up the gradient.
        differentiable: whether autograd records the step; see Note [Differentiable steps].
    """

    _formula = staticmethod(_recorded.adadelta)

    _zeros = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_settings(lr=lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_settings(eps=eps, weight_decay=weight_decay, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        column = self._columns(group, params)
        _C._optim.adadelta(
            params,
            grads,
            column("square_avg"),
            column("acc_delta"),
            column("step"),
            lr=number(group["lr"]),
            rho=group["rho"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )
