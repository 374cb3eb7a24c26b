"""Schedules made of other schedules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from rgrad.optim.lr_scheduler.base import LRScheduler, group_values, set_lr
from rgrad.optim.lr_scheduler.plateau import ReduceLROnPlateau
from rgrad.optim.optimizer import Optimizer


class _CompositeLR(LRScheduler):
    """A schedule made of other schedules of the same optimizer."""

    _schedulers: list[LRScheduler]

    def _check(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], verb: str) -> None:
        name = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(f"{name} expects at least one scheduler{verb}, but got no scheduler.")
        for index, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {index} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler, whose `step` takes a metric, but got one "
                    f"at index {index}."
                )
            if (optimizer or schedulers[0].optimizer) is not scheduler.optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but the "
                    f"{type(scheduler).__name__} at index {index} belongs to another: {scheduler.optimizer}"
                )

    def state_dict(self) -> dict[str, Any]:
        """The schedule's state; those of the combined schedules are under `_schedulers`."""
        state = {
            key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_schedulers")
        }
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a state that `state_dict` returned."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


class SequentialLR(_CompositeLR):
    """Runs several schedules one after the other, switching at the `milestones`.

    Args:
        optimizer: whose groups' `lr` is set.
        schedulers: the schedules, all of this optimizer.
        milestones: the epochs at which the next schedule begins, in increasing order, one fewer than schedules.
        last_epoch: the last epoch already done; -1 to start.

    Raises:
        ValueError: the number of milestones is wrong, or a schedule belongs to another optimizer or depends on a
            metric.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        self._check(optimizer, schedulers, "")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestones: got {len(schedulers)} schedulers, {len(milestones)} milestones"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # The constructor of each schedule made its first step. Undo all of them, then let the first schedule start.
        for group in optimizer.param_groups:
            set_lr(group, group["initial_lr"])
        _undo(self)
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """Sets the rates by the schedule that is active."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _undo(scheduler: LRScheduler) -> None:
    """Undoes the first step of every schedule that `scheduler` consists of."""
    parts = getattr(scheduler, "_schedulers", None)
    if parts is None:
        scheduler.last_epoch -= 1
        return
    for part in parts:
        _undo(part)


class ChainedScheduler(_CompositeLR):
    """Several chainable schedules at once; their factors multiply.

    Args:
        schedulers: the schedules, all of one optimizer.
        optimizer: the optimizer of the schedules; by default that of the first.

    Raises:
        ValueError: there is no schedule, or one belongs to another optimizer or depends on a metric.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._check(optimizer, schedulers, " to be chained")  # type: ignore[arg-type]
        self._schedulers = list(schedulers)
        self.optimizer = optimizer or schedulers[0].optimizer
        self._last_lr = group_values(self.optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Steps every schedule."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = group_values(self.optimizer, "lr")
