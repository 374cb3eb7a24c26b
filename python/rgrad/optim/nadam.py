"""NAdam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rgrad
from rgrad import Tensor
from rgrad.optim import _functional, _recorded
from rgrad.optim.optimizer import GroupOptimizer, check_settings, number


class NAdam(GroupOptimizer):
    """Adam with Nesterov momentum.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: learning rate.
        betas: decay rates of the two averages.
        eps: added to the denominator.
        weight_decay: L2 penalty.
        momentum_decay: how fast the momentum approaches its full value.
        decoupled_weight_decay: decay the parameters themselves, as AdamW does.
        foreach: accepted, without effect.
        maximize: go up the gradient.
        capturable: accepted for parameters on a GPU, without effect.
        differentiable: whether autograd records the step; see Note [Differentiable steps].
    """

    _formula = staticmethod(_recorded.nadam)

    _zeros = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_settings(
            lr=lr,
            eps=eps,
            betas=betas,
            weight_decay=weight_decay,
            momentum_decay=momentum_decay,
            differentiable=differentiable,
        )
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Tensor]:
        state = super()._new_state(param, group)
        return {"step": state["step"], "mu_product": rgrad.ones((), dtype=rgrad.float32)} | state

    @rgrad.no_grad()
    def _update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        column = self._columns(group, params)
        beta1, beta2 = group["betas"]
        _functional.nadam(
            params,
            grads,
            column("exp_avg"),
            column("exp_avg_sq"),
            column("mu_product"),
            column("step"),
            lr=number(group["lr"]),
            beta1=beta1,
            beta2=beta2,
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            momentum_decay=group["momentum_decay"],
            decoupled=group["decoupled_weight_decay"],
            maximize=group["maximize"],
        )
