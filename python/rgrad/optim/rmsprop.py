"""RMSprop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import rgrad
from rgrad import _C
from rgrad.optim.optimizer import Optimizer, check_settings, number

if TYPE_CHECKING:
    from rgrad import Tensor


class RMSprop(Optimizer):
    """Steps divided by the root of a running average of the squared gradient.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: learning rate.
        alpha: decay rate of the average.
        eps: added to the denominator.
        weight_decay: L2 penalty.
        momentum: how much of the last update is kept.
        centered: divide by the gradient's standard deviation instead.
        capturable: accepted, without effect.
        foreach: accepted; every step is one call for all parameters anyway.
        maximize: go up the gradient.
        differentiable: must be False.
    """

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

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; see `Optimizer.step`."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads = self._with_grad(group)
            momentum, centered = group["momentum"], group["centered"]

            def init(
                param: Tensor, momentum: float = momentum, centered: bool = centered
            ) -> dict[str, Tensor]:
                state = {
                    "step": rgrad.tensor(0.0, dtype=rgrad.float32),
                    "square_avg": rgrad.zeros_like(param),
                }
                if momentum > 0:
                    state["momentum_buffer"] = rgrad.zeros_like(param)
                if centered:
                    state["grad_avg"] = rgrad.zeros_like(param)
                return state

            column = self._states(params, init)
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
        return loss
