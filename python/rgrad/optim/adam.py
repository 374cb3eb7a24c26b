"""Adam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import rgrad
from rgrad import _C, Tensor
from rgrad.optim import _recorded
from rgrad.optim.optimizer import GroupOptimizer, check_fused, check_settings, number


class Adam(GroupOptimizer):
    """Adam: steps scaled by running averages of the gradient and of its square.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: learning rate.
        betas: decay rates of the two averages.
        eps: added to the denominator.
        weight_decay: L2 penalty.
        amsgrad: use the largest average of squares so far.
        foreach: accepted; every step is one call for all parameters anyway.
        maximize: go up the gradient.
        capturable: accepted for parameters on a GPU, without effect.
        differentiable: whether autograd records the step; see Note [Differentiable steps].
        fused: accepted, like `foreach`.
        decoupled_weight_decay: decay the parameters themselves, as AdamW does.
    """

    _formula = staticmethod(_recorded.adam)

    _zeros = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if isinstance(lr, rgrad.Tensor) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        check_settings(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay, differentiable=differentiable)
        if not (
            (isinstance(betas[0], float) and isinstance(betas[1], float))
            or (isinstance(betas[0], rgrad.Tensor) and isinstance(betas[1], rgrad.Tensor))
        ):
            raise ValueError("betas must be either both floats or both Tensors")
        if isinstance(betas[0], rgrad.Tensor) and foreach and not capturable:
            raise ValueError("betas[0] as a Tensor is not supported for capturable=False and foreach=True")
        check_fused(fused, foreach)
        defaults = {
            "lr": lr,
            "betas": tuple(betas) if differentiable else (number(betas[0]), number(betas[1])),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("amsgrad", False)
            group.setdefault("maximize", False)
            group.setdefault("decoupled_weight_decay", False)

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Tensor]:
        state = super()._new_state(param, group)
        return state | {"max_exp_avg_sq": rgrad.zeros_like(param)} if group["amsgrad"] else state

    def _update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        amsgrad = group["amsgrad"]
        beta1, beta2 = group["betas"]
        column = self._columns(group, params)
        _C._optim.adam(
            params,
            grads,
            column("exp_avg"),
            column("exp_avg_sq"),
            column("max_exp_avg_sq") if amsgrad else [],
            column("step"),
            lr=number(group["lr"]),
            beta1=beta1,
            beta2=beta2,
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            amsgrad=amsgrad,
            maximize=group["maximize"],
            decoupled=group["decoupled_weight_decay"],
        )
