"""The schedule that depends on a metric."""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal

from rgrad.optim.lr_scheduler.base import (
    EPOCH_IS_DEPRECATED,
    LRScheduler,
    check_optimizer,
    group_values,
    set_lr,
)
from rgrad.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rate by `factor` when a metric has not improved for `patience` epochs.

    Args:
        optimizer: whose groups' `lr` is set.
        mode: ``"min"`` if a smaller metric is better, ``"max"`` if a larger one is.
        factor: the factor, below 1.
        patience: number of consecutive epochs without an improvement that are tolerated.
        threshold: the smallest change that counts as an improvement.
        threshold_mode: ``"rel"``, relative to the best value so far, or ``"abs"``.
        cooldown: number of epochs after a reduction in which bad epochs are not counted.
        min_lr: lower bound of the rate, for all groups or for each.
        eps: smaller changes of the rate are not made.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        check_optimizer(optimizer)
        if mode not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        self.factor = factor
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * groups
        if len(self.min_lrs) != groups:
            raise ValueError(f"expected {groups} min_lrs, got {len(self.min_lrs)}")
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = group_values(optimizer, "lr")
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Records this epoch's metric and reduces the rates if necessary.

        Args:
            metrics: a number or a one-element tensor.
            epoch: deprecated; the number of the epoch.
        """
        current = float(metrics)
        if epoch is not None:
            warnings.warn(EPOCH_IS_DEPRECATED, UserWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._count(current)
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.num_bad_epochs, self.cooldown_counter = 0, self.cooldown
        self._last_lr = group_values(self.optimizer, "lr")

    def _count(self, metric: float) -> None:
        """Updates the number of bad epochs, which an improvement or a cooldown resets."""
        cooling = self.in_cooldown
        if cooling:
            self.cooldown_counter -= 1
        improved = self._is_better(metric, self.best)
        if improved:
            self.best = metric
        self.num_bad_epochs = 0 if improved or cooling else self.num_bad_epochs + 1

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), which got a bound for each. "
                    "Append those of the new groups to `min_lrs`."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, min_lr in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, min_lr)
            if old - new > self.eps:
                set_lr(group, new)

    @property
    def in_cooldown(self) -> bool:
        """Whether bad epochs are not counted at the moment."""
        return self.cooldown_counter > 0

    def _is_better(self, current: float, best: float) -> bool:
        sign = 1.0 if self.mode == "max" else -1.0
        bound = best * (1.0 + sign * self.threshold) if self.threshold_mode == "rel" else best + sign * self.threshold
        return current > bound if self.mode == "max" else current < bound
