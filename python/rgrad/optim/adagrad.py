"""Adagrad."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rgrad
from rgrad import _C, Tensor
from rgrad.optim import _recorded
from rgrad.optim.optimizer import GroupOptimizer, check_fused, check_settings, number


class Adagrad(GroupOptimizer):
    """Divides gradients by the square root of the sum of all squared gradients so far.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: learning rate.
        lr_decay: how fast the learning rate decreases with the step.
        weight_decay: L2 penalty.
        initial_accumulator_value: initial value of the sums.
        eps: added to the denominator.
        foreach: accepted; every step is one call for all parameters anyway.
        maximize: go up the gradient.
        differentiable: whether autograd records the step; see Note [Differentiable steps].
        fused: accepted, like `foreach`.
    """

    _formula = staticmethod(_recorded.adagrad)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_settings(
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
            differentiable=differentiable,
        )
        check_fused(fused, foreach)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        # Unlike in other optimizers, the state is created in the constructor, as in PyTorch.
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param] = self._new_state(param, group)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Tensor]:
        first = group["initial_accumulator_value"]
        return super()._new_state(param, group) | {"sum": rgrad.full_like(param, first)}

    def _update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        column = self._columns(group, params)
        _C._optim.adagrad(
            params,
            grads,
            column("sum"),
            column("step"),
            lr=number(group["lr"]),
            lr_decay=group["lr_decay"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )
