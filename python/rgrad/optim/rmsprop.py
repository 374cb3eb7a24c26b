"""RMSprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rgrad
from rgrad import _C, Tensor
from rgrad.optim import _recorded
from rgrad.optim.optimizer import GroupOptimizer, check_settings, number


class RMSprop(GroupOptimizer):
    """Divides gradients by the square root of a running average of their squares.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: learning rate.
        alpha: decay rate of the average.
        eps: added to the denominator.
        weight_decay: L2 penalty.
        momentum: factor of the previous update.
        centered: divide by the gradient's standard deviation instead.
        capturable: accepted for parameters on a GPU, without effect.
        foreach: accepted; every step is one call for all parameters anyway.
        maximize: go up the gradient.
        differentiable: whether autograd records the step; see Note [Differentiable steps].
    """

    _formula = staticmethod(_recorded.rmsprop)

    _zeros = ("square_avg",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_settings(
            lr=lr,
            eps=eps,
            momentum=momentum,
            weight_decay=weight_decay,
            alpha=alpha,
            differentiable=differentiable,
        )
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Tensor]:
        state = super()._new_state(param, group)
        optional = {"momentum_buffer": group["momentum"] > 0, "grad_avg": group["centered"]}
        state.update((name, rgrad.zeros_like(param)) for name, kept in optional.items() if kept)
        return state

    def _update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        momentum, centered = group["momentum"], group["centered"]
        column = self._columns(group, params)
        _C._optim.rmsprop(
            params,
            grads,
            column("square_avg"),
            column("grad_avg") if centered else [],
            column("momentum_buffer") if momentum > 0 else [],
            column("step"),
            lr=number(group["lr"]),
            alpha=group["alpha"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            momentum=momentum,
            centered=centered,
            maximize=group["maximize"],
        )
