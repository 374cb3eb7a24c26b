"""Adafactor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import rgrad
from rgrad.optim import _functional
from rgrad.optim.optimizer import Optimizer, number

if TYPE_CHECKING:
    from rgrad import Tensor


class Adafactor(Optimizer):
    """Adaptive steps whose second moment of a matrix is kept as its rows' and columns' means.

    Args:
        params: parameters, or dicts that describe groups of them.
        lr: the largest step relative to the parameters' size.
        beta2_decay: power of the step count that sets how fast the second moment forgets.
        eps: the least second moment (None for the dtype's epsilon), and the least size of parameters.
        d: the size at which updates are clipped.
        weight_decay: decoupled weight decay.
        foreach: accepted, without effect.
        maximize: go up the gradient.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, rgrad.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; see `Optimizer.step`."""
        loss = self._evaluate(closure)
        with rgrad.no_grad():
            for group in self.param_groups:
                params, grads = self._with_grad(group)
                self._states(params, _init)
                _functional.adafactor(
                    params,
                    grads,
                    [self.state[param] for param in params],
                    lr=number(group["lr"]),
                    beta2_decay=group["beta2_decay"],
                    eps=group["eps"],
                    d=group["d"],
                    weight_decay=group["weight_decay"],
                    maximize=group["maximize"],
                )
        return loss


def _init(param: Tensor) -> dict[str, Tensor]:
    state = {"step": rgrad.tensor(0.0, dtype=rgrad.float32)}
    if param.dim() > 1:
        *outer, rows, columns = param.shape
        state["row_var"] = param.new_zeros((*outer, rows, 1))
        state["col_var"] = param.new_zeros((*outer, 1, columns))
    else:
        state["variance"] = rgrad.zeros_like(param)
    return state
