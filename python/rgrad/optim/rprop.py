"""Resilient backpropagation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import rgrad
from rgrad.optim import _functional
from rgrad.optim.optimizer import Optimizer, arguments, check_settings, number

if TYPE_CHECKING:
    from rgrad import Tensor


class Rprop(Optimizer):
    """Steps whose size follows from how the signs of an element's gradients change, for full batches.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: the first step's size.
        etas: factors of the step's size after a change of sign and after none.
        step_sizes: the smallest and the largest step.
        capturable: accepted, without effect.
        foreach: accepted, without effect.
        maximize: go up the gradient.
        differentiable: must be False.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_settings(lr=lr, differentiable=differentiable)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, arguments(locals()))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; see `Optimizer.step`."""
        loss = self._evaluate(closure)
        with rgrad.no_grad():
            for group in self.param_groups:
                params, grads = self._with_grad(group)
                lr = number(group["lr"])
                column = self._states(params, lambda param, lr=lr: _init(param, lr))
                _functional.rprop(
                    params,
                    grads,
                    column("prev"),
                    column("step_size"),
                    column("step"),
                    etas=group["etas"],
                    step_sizes=group["step_sizes"],
                    maximize=group["maximize"],
                )
        return loss


def _init(param: Tensor, lr: float) -> dict[str, Tensor]:
    return {
        "step": rgrad.tensor(0.0, dtype=rgrad.float32),
        "prev": rgrad.zeros_like(param),
        "step_size": rgrad.full_like(param, lr),
    }
