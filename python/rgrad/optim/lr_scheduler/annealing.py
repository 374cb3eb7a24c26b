"""Cosine schedules, and the one-cycle schedule."""

from __future__ import annotations

import math
from typing import Any, Literal

from rgrad.optim.lr_scheduler.base import (
    LRScheduler,
    MomentumScheduler,
    check_optimizer,
    group_values,
    per_group,
)
from rgrad.optim.optimizer import Optimizer


def _positive(name: str, value: Any) -> int:
    """`value`, if it is a positive integer."""
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {value}")
    return value


class CosineAnnealingLR(LRScheduler):
    """Decreases the rate to `eta_min` along half a cosine of `T_max` epochs, and increases it again.

    In epoch t it is ``eta_min + (lr - eta_min) * (1 + cos(pi * t / T_max)) / 2`` (arXiv:1608.03983, equation 5).

    Args:
        optimizer: the optimizer whose groups' `lr` is set.
        T_max: epochs from the highest rate to the lowest.
        eta_min: the lowest rate.
        last_epoch: the last epoch that is already done; -1 to start.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:  # noqa: N803
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Compute the next rate of each group; for use by `step`."""
        groups = self._groups()
        if self._is_initial:
            return group_values(self.optimizer, "lr")
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # At the minimum the ratio of the two cosines is 0 / 0, so the increase is computed directly.
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            pairs = zip(self.base_lrs, groups, strict=True)
            return [group["lr"] + (lr - self.eta_min) * rise for lr, group in pairs]
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return [now / before * (group["lr"] - self.eta_min) + self.eta_min for group in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (lr - self.eta_min) * height for lr in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing that restarts after `T_0` epochs, then after periods that are each `T_mult` times as long.

    `step` also accepts fractional epochs, for an update per batch. In a period of `T_i` epochs of which
    `T_cur` have passed, the rate is ``eta_min + (lr - eta_min) * (1 + cos(pi * T_cur / T_i)) / 2`` (arXiv:1608.03983,
    equation 5).

    Args:
        optimizer: the optimizer whose groups' `lr` is set.
        T_0: epochs until the first restart.
        T_mult: factor between the lengths of successive periods.
        eta_min: the rate at the end of a period.
        last_epoch: the last epoch that is already done; -1 to start.

    Raises:
        ValueError: `T_0` or `T_mult` is not a positive integer, or `eta_min` not a number.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803
        T_mult: int = 1,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        # The length of the current period, and the number of its epochs that have passed.
        self.T_i = self.T_0 = _positive("T_0", T_0)
        self.T_cur: float = last_epoch
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_mult, self.eta_min = T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Compute the next rate of each group; for use by `step`."""
        self._groups()
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (lr - self.eta_min) * height for lr in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Sets the rates of the next epoch, or of `epoch`."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        elif epoch < self.T_0:
            self.T_i = self.T_0
            self.T_cur = epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            restarts = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**restarts - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**restarts
        self.last_epoch = math.floor(epoch)
        self._apply(self.get_lr)


class OneCycleLR(MomentumScheduler):
    """One increase of the rate to `max_lr` and one decrease, with opposite changes of the momentum. Step it every
    batch.

    Args:
        optimizer: the optimizer whose groups' `lr` is set.
        max_lr: the highest rate, for all groups or for each.
        total_steps: the number of steps.
        epochs: number of epochs; an alternative to `total_steps`, together with `steps_per_epoch`.
        steps_per_epoch: number of steps in an epoch.
        pct_start: fraction of the steps in which the rate increases.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum: whether the momentum changes, too.
        base_momentum: the momentum at the highest rate.
        max_momentum: the momentum at the first and the last step.
        div_factor: the first rate is `max_lr` divided by this.
        final_div_factor: the last rate is the first divided by this.
        three_phase: decrease to the first rate in as many steps as the increase took, and only then to the last rate.
        last_epoch: the last step that is already done; -1 to start.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = self._count_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        keys = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        top, last = pct_start * self.total_steps, self.total_steps - 1
        phases: list[tuple[Any, ...]] = [(float(top) - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
        if three_phase:
            phases.append((float(2 * top) - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"))
            phases.append((last, "initial_lr", "min_lr", "max_momentum", "max_momentum"))
        else:
            phases.append((last, "max_lr", "min_lr", "base_momentum", "max_momentum"))
        self._schedule_phases = [dict(zip(keys, phase, strict=True)) for phase in phases]
        self._anneal_func_type = anneal_strategy
        self.cycle_momentum = cycle_momentum

        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, per_group("max_lr", optimizer, max_lr), strict=True):
                group["initial_lr"] = lr / div_factor
                group["max_lr"] = lr
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _annealing_cos(start: float, end: float, pct: float) -> float:
        return end + (start - end) / 2.0 * (math.cos(math.pi * pct) + 1)

    @staticmethod
    def _annealing_linear(start: float, end: float, pct: float) -> float:
        return (end - start) * pct + start

    def _anneal_func(self, *args: float) -> float:
        # States of early releases name no kind of annealing, and bring the function instead.
        if not hasattr(self, "_anneal_func_type"):
            return self.anneal_func(*args)  # type: ignore[attr-defined]
        return self._annealing_cos(*args) if self._anneal_func_type == "cos" else self._annealing_linear(*args)

    @staticmethod
    def _count_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
        if total_steps is not None:
            return _positive("total_steps", total_steps)
        if epochs is None or steps_per_epoch is None:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        return _positive("epochs", epochs) * _positive("steps_per_epoch", steps_per_epoch)

    def get_lr(self) -> list[Any]:
        """Compute the next rate of each group, and set its momentum; for use by `step`."""
        groups, step = self._groups(), self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is {self.total_steps}"
            )
        start = 0.0
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        share = (step - start) / (phase["end_step"] - start)
        anneal = self._anneal_func
        if self.cycle_momentum:
            for group in groups:
                momentum = anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], share)
                self._set_momentum(group, momentum)
        return [anneal(group[phase["start_lr"]], group[phase["end_lr"]], share) for group in groups]
