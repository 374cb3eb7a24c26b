"""Schedules that multiply the current rate by a factor or compute it from the epoch."""

from __future__ import annotations

import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from rgrad.optim.lr_scheduler.base import LRScheduler, copy_value, group_values
from rgrad.optim.optimizer import Optimizer


class _FactorLR(LRScheduler):
    """A schedule that multiplies every group's rate by the same factor per epoch."""

    def _factor(self) -> float | None:
        """The factor of this epoch; None for no change."""
        raise NotImplementedError

    def get_lr(self) -> list[Any]:
        """Compute the next rate of each group; for use by `step`."""
        groups, factor = self._groups(), self._factor()
        return [copy_value(group["lr"]) if factor is None else group["lr"] * factor for group in groups]


class StepLR(_FactorLR):
    """Multiplies the rate by `gamma` every `step_size` epochs: in epoch t it is ``lr * gamma ** (t // step_size)``.

    Args:
        optimizer: whose groups' `lr` is set.
        step_size: epochs between two changes.
        gamma: the factor.
        last_epoch: the last epoch already done; -1 to start.

    >>> import rgrad as torch
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     schedule.step()
    >>> schedule.get_last_lr()
    [0.1]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        return None if self.last_epoch == 0 or self.last_epoch % self.step_size != 0 else self.gamma

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * self.gamma ** (self.last_epoch // self.step_size) for lr in self.base_lrs]


class MultiStepLR(_FactorLR):
    """Multiplies the rate by `gamma` at each of the `milestones`.

    Args:
        optimizer: whose groups' `lr` is set.
        milestones: the epochs; a repeated epoch multiplies the rate repeatedly.
        gamma: the factor.
        last_epoch: the last epoch already done; -1 to start.
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        hits = self.milestones.get(self.last_epoch, 0)
        return self.gamma**hits if hits else None

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [lr * self.gamma**passed for lr in self.base_lrs]


class ExponentialLR(_FactorLR):
    """Multiplies the rate by `gamma` every epoch: in epoch t it is ``lr * gamma ** t``.

    Args:
        optimizer: whose groups' `lr` is set.
        gamma: the factor.
        last_epoch: the last epoch already done; -1 to start.
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        return None if self._is_initial else self.gamma

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * self.gamma**self.last_epoch for lr in self.base_lrs]


def _check_factor(which: str, factor: float, zero: bool) -> None:
    """Raises unless the factor is in [0, 1], or in (0, 1] if zero is not allowed."""
    if factor > 1 or factor < 0 or (factor == 0 and not zero):
        bounds = "between 0 and 1" if zero else "greater than 0 and less or equal to 1"
        raise ValueError(f"{which} multiplicative factor expected to be {bounds}.")


class ConstantLR(_FactorLR):
    """Multiplies the rate by `factor` for the first `total_iters` epochs.

    Args:
        optimizer: whose groups' `lr` is set.
        factor: between 0 and 1.
        total_iters: the epoch from which the rate is no longer reduced.
        last_epoch: the last epoch already done; -1 to start.

    Raises:
        ValueError: the factor is out of its range.
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        _check_factor("Constant", factor, zero=True)
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else None

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * (1.0 if self.last_epoch >= self.total_iters else self.factor) for lr in self.base_lrs]


class LinearLR(_FactorLR):
    """Moves a factor of the rate from `start_factor` to `end_factor` over `total_iters` epochs.

    In epoch t the factor is ``start + (end - start) * min(t, total_iters) / total_iters``.

    Args:
        optimizer: whose groups' `lr` is set.
        start_factor: above 0, at most 1.
        end_factor: between 0 and 1.
        total_iters: number of epochs until `end_factor` is reached.
        last_epoch: the last epoch already done; -1 to start.

    Raises:
        ValueError: a factor is out of its range.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        # A rate of zero could not increase again, because each rate is computed from the one before.
        _check_factor("Starting", start_factor, zero=False)
        _check_factor("Ending", end_factor, zero=True)
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return None
        rise = self.end_factor - self.start_factor
        return 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)

    def _get_closed_form_lr(self) -> list[Any]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [
            lr * (self.start_factor + (self.end_factor - self.start_factor) * done) for lr in self.base_lrs
        ]


class PolynomialLR(_FactorLR):
    """Decreases the rate to 0: in epoch t it is ``lr * (1 - min(t, total_iters) / total_iters) ** power``.

    Args:
        optimizer: whose groups' `lr` is set.
        total_iters: number of epochs until the rate is 0.
        power: exponent; 1 for a linear decrease.
        last_epoch: the last epoch already done; -1 to start.
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        if self._is_initial or self.last_epoch > self.total_iters:
            return None
        left = 1.0 - self.last_epoch / self.total_iters
        left_before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return (left / left_before) ** self.power

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [lr * left**self.power for lr in self.base_lrs]


class _FunctionLR(LRScheduler):
    """A schedule defined by one function of the epoch for all groups, or one for each."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]] | tuple[Callable[[int], float], ...],
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = optimizer
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != len(optimizer.param_groups):
                raise ValueError(
                    f"Expected {len(optimizer.param_groups)} lr_lambdas, but got {len(lr_lambda)}"
                )
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * len(optimizer.param_groups)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """The schedule's state, including the states of functions that are callable objects."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [
            None if isinstance(function, types.FunctionType) else function.__dict__.copy()
            for function in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a state that `state_dict` returned."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if saved is not None:
                function.__dict__.update(saved)


class LambdaLR(_FunctionLR):
    """Multiplies the initial rate by a function of the epoch.

    Args:
        optimizer: whose groups' `lr` is set.
        lr_lambda: the function, or a list of one for each group.
        last_epoch: the last epoch already done; -1 to start.

    Raises:
        ValueError: the number of functions is not the number of groups.
    """

    def get_lr(self) -> list[Any]:
        """Compute the next rate of each group; for use by `step`."""
        self._groups()
        pairs = zip(self.lr_lambdas, self.base_lrs, strict=True)
        return [lr * function(self.last_epoch) for function, lr in pairs]


class MultiplicativeLR(_FunctionLR):
    """Multiplies the current rate by a function of the epoch.

    The arguments are those of :class:`LambdaLR`.
    """

    def get_lr(self) -> list[Any]:
        """Compute the next rate of each group; for use by `step`."""
        groups = self._groups()
        if self._is_initial:
            return group_values(self.optimizer, "lr")
        pairs = zip(self.lr_lambdas, groups, strict=True)
        return [group["lr"] * function(self.last_epoch) for function, group in pairs]
