"""Rates that alternate between two bounds."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable
from typing import Any, Literal

from rgrad.optim.lr_scheduler.base import MomentumScheduler, check_optimizer, per_group, set_lr
from rgrad.optim.optimizer import Optimizer


class CyclicLR(MomentumScheduler):
    """Cycles the rate between `base_lr` and `max_lr`, with opposite changes of the momentum. Step it every batch.

    Args:
        optimizer: the optimizer whose groups' `lr` is set.
        base_lr: the rate between cycles.
        max_lr: the highest rate of the first cycle.
        step_size_up: number of increasing steps in a cycle.
        step_size_down: number of decreasing steps in a cycle; `step_size_up` if None.
        mode: how the amplitude changes: never, by half each cycle, or by `gamma` each step.
        gamma: the factor of ``"exp_range"``.
        scale_fn: a function that returns the amplitude; replaces `mode`.
        scale_mode: ``"cycle"`` or ``"iterations"``: the argument of `scale_fn`, the number of the cycle or of the step.
        cycle_momentum: whether the momentum changes, too.
        base_momentum: the momentum at the highest rate.
        max_momentum: the momentum between cycles.
        last_epoch: the last step that is already done; -1 to start.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                set_lr(group, lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn or mode != "exp_range" else "iterations"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            bounds = self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch)
            self.base_momentums, self.max_momentums = bounds
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The amplitude in cycle or step `x`, depending on `scale_mode`."""
        return self._scale_fn_ref(x) if self._scale_fn_custom is None else self._scale_fn_custom(x)

    @property
    def _scale_fn_ref(self) -> Callable[[float], float]:
        if self.mode == "exp_range":
            return functools.partial(self._exp_range_scale_fn, self.gamma)
        return self._triangular2_scale_fn if self.mode == "triangular2" else self._triangular_scale_fn

    @staticmethod
    def _triangular_scale_fn(x: float) -> float:
        return 1.0

    @staticmethod
    def _triangular2_scale_fn(x: float) -> float:
        return 1 / (2.0 ** (x - 1))

    @staticmethod
    def _exp_range_scale_fn(gamma: float, x: float) -> float:
        return gamma**x

    def state_dict(self) -> dict[str, Any]:
        """The schedule's state, without the optimizer. Of a `scale_fn` that is an object it has the attributes; a
        function cannot be saved."""
        custom = self._scale_fn_custom
        is_object = custom is not None and not isinstance(custom, types.FunctionType)
        return super().state_dict() | {"_scale_fn_custom": custom.__dict__.copy() if is_object else None}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a state that `state_dict` returned; the scheduler keeps its own `scale_fn`."""
        rest = state_dict.copy()
        attributes = rest.pop("_scale_fn_custom", None)
        super().load_state_dict(rest)
        if attributes is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(attributes)

    def get_lr(self) -> list[Any]:
        """Compute the next rate of each group, and set its momentum; for use by `step`."""
        groups = self._groups()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(groups, self.base_momentums, self.max_momentums, strict=True):
                self._set_momentum(group, high - (high - low) * share * height)
        bounds = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * share * height for low, high in bounds]
