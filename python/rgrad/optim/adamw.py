"""AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rgrad import Tensor
from rgrad.optim.adam import Adam


class AdamW(Adam):
    """Adam with decoupled weight decay: it is applied to the parameters, not added to the gradient.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: learning rate.
        betas: decay rates of the two averages.
        eps: added to the denominator.
        weight_decay: fraction of a parameter that is subtracted, times `lr`.
        amsgrad: use the largest average of squares so far.
        maximize: go up the gradient.
        foreach: accepted; every step is one call for all parameters anyway.
        capturable: accepted for parameters on a GPU, without effect.
        differentiable: whether autograd records the step; see Note [Differentiable steps].
        fused: accepted, like `foreach`.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
