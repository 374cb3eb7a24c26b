"""The base class of the schedules, and functions that they share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad.optim.optimizer import Optimizer

EPOCH_IS_DEPRECATED = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated: a schedule counts its steps. "
    "Where there is a closed form, the rate of that epoch comes from it, not from the present rate."
)

_SEE = "The section how-to-adjust-learning-rate of the documentation of `torch.optim` tells more."


def copy_value(value: Any) -> Any:
    """A copy of a setting, unaffected by in-place changes of the optimizer's."""
    return value.clone() if isinstance(value, rgrad.Tensor) else value


def group_values(optimizer: Optimizer, key: str) -> list[Any]:
    """The value of a setting for each group; tensors are copied, so callers cannot change the optimizer's."""
    return [copy_value(group[key]) for group in optimizer.param_groups]


def set_lr(group: dict[str, Any], lr: Any) -> None:
    """Set a group's learning rate, in place if it is a tensor."""
    if isinstance(group["lr"], rgrad.Tensor):
        group["lr"].fill_(float(lr))
    else:
        group["lr"] = lr


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """The value of a setting for each group, given once for all groups or once for each."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [copy_value(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {count}."
        )
    return [copy_value(each) for each in value]


def check_optimizer(optimizer: object) -> None:
    """Raises unless the object is an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


class LRScheduler:
    """Base of the schedules: subclasses define `get_lr`, and `_get_closed_form_lr` if a closed form exists.

    Args:
        optimizer: the optimizer whose groups' `lr` is set.
        last_epoch: the last epoch that is already done; -1 to start.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for index, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copy_value(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{index}] when resuming scheduler with "
                    f"last_epoch={last_epoch}: the groups of an optimizer have it when its state was loaded before. "
                    "A new run starts with last_epoch=-1."
                )
        self.base_lrs = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        optimizer._follow()
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """The schedule's state: everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a state that `state_dict` returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rate of each group, as set by the last `step`."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Compute the next rate of each group; for use by `step`."""
        raise NotImplementedError

    def _groups(self) -> list[dict[str, Any]]:
        """The optimizer's groups; warns users who call `get_lr` instead of `get_last_lr`."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )
        return self.optimizer.param_groups

    def step(self, epoch: int | None = None) -> None:
        """Sets the rates of the next epoch, after the optimizer's step.

        Args:
            epoch: deprecated; the epoch to jump to.
        """
        if self._step_count == 1:
            if not getattr(self.optimizer.step, "hooked", False):
                warnings.warn(
                    "Seems like `optimizer.step()` has been overridden after the scheduler was made, so that the "
                    f"scheduler can't see its calls. Call `optimizer.step()` before `lr_scheduler.step()`. {_SEE}",
                    UserWarning,
                    stacklevel=2,
                )
            elif not self.optimizer._opt_called:
                warnings.warn(
                    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In this order no step is made "
                    f"with the schedule's first rate: call `optimizer.step()` first. {_SEE}",
                    UserWarning,
                    stacklevel=2,
                )
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_IS_DEPRECATED, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed_form = getattr(self, "_get_closed_form_lr", None)
        self._apply(self.get_lr if epoch is None or closed_form is None else closed_form)

    def _apply(self, compute: Callable[[], list[Any]]) -> None:
        self._get_lr_called_within_step = True
        try:
            lrs = compute()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, lrs, strict=True):
            set_lr(group, lr)
        self._last_lr = group_values(self.optimizer, "lr")


class MomentumScheduler(LRScheduler):
    """Base of the schedules that also change each group's momentum (`momentum`, or the first of `betas`)."""

    use_beta1: bool

    def _start_momentum(
        self, optimizer: Optimizer, base_momentum: Any, max_momentum: Any, last_epoch: int
    ) -> tuple[list[Any], list[Any]]:
        """Sets the momentum of a new run to its upper bound.

        Returns:
            The lower and the upper bound for every group.
        """
        if not {"momentum", "betas"} & optimizer.defaults.keys():
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        lows = per_group("base_momentum", optimizer, base_momentum)
        highs = per_group("max_momentum", optimizer, max_momentum)
        if last_epoch == -1:
            for group, low, high in zip(optimizer.param_groups, lows, highs, strict=True):
                self._set_momentum(group, high)
                group["base_momentum"], group["max_momentum"] = copy_value(low), copy_value(high)
        return lows, highs

    def _set_momentum(self, group: dict[str, Any], momentum: float) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class _LRScheduler(LRScheduler):
    """The base under its former name, which programs subclass. The schedules here do not derive from it."""
