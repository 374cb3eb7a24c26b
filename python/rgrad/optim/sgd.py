"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rgrad import _C, Tensor
from rgrad.optim import _recorded
from rgrad.optim.optimizer import GroupOptimizer, arguments, check_fused, check_settings, number


class SGD(GroupOptimizer):
    """Stochastic gradient descent, optionally with momentum.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: learning rate.
        momentum: factor of the previous update.
        dampening: fraction of the gradient that is not added to the momentum.
        weight_decay: L2 penalty.
        nesterov: use Nesterov momentum.
        maximize: go up the gradient.
        foreach: accepted; every step is one call for all parameters anyway.
        differentiable: whether autograd records the step; see Note [Differentiable steps].
        fused: accepted, like `foreach`.

    Example:
        >>> import rgrad as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.SGD([w], lr=0.5)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0., 0.], requires_grad=True)
    """

    _formula = staticmethod(_recorded.sgd)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_settings(lr=lr, momentum=momentum, weight_decay=weight_decay, differentiable=differentiable)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        check_fused(fused, foreach)
        super().__init__(params, arguments(locals()))

    def _new_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Tensor]:
        return {}

    def _update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        momentum = group["momentum"]
        # Without momentum the parameters have no state entries at all.
        states = buffers = []
        if momentum != 0:
            states = list(map(self.state.__getitem__, params))
            buffers = [state.get("momentum_buffer") for state in states]
        new_buffers = _C._optim.sgd(
            params,
            grads,
            buffers,
            lr=number(group["lr"]),
            momentum=momentum,
            dampening=group["dampening"],
            weight_decay=group["weight_decay"],
            nesterov=group["nesterov"],
            maximize=group["maximize"],
        )
        if new_buffers is not None:
            for state, buffer in zip(states, new_buffers, strict=True):
                state["momentum_buffer"] = buffer
