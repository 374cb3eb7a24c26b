"""Averages of a model's weights over training: stochastic weight averaging and exponential moving averages."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, Literal

import rgrad
from rgrad import Tensor
from rgrad.nn import Module
from rgrad.nn.modules.batchnorm import _BatchNorm
from rgrad.optim.lr_scheduler.base import LRScheduler, per_group
from rgrad.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], None]:
    """Returns a function that updates lists of tensors to exponential moving averages, in place."""
    _check_decay(decay)

    @rgrad.no_grad()
    def ema_update(ema_param_list: list[Tensor], current_param_list: list[Tensor], _: Any) -> None:
        for average, current in zip(ema_param_list, current_param_list, strict=True):
            if average.is_floating_point():
                average.lerp_(current, 1 - decay)
            else:
                average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[[Any, Any, Any], None]:
    """Returns a function that updates lists of tensors to running means, in place."""

    @rgrad.no_grad()
    def swa_update(
        averaged_param_list: list[Tensor], current_param_list: list[Tensor], num_averaged: Tensor | int
    ) -> None:
        for average, current in zip(averaged_param_list, current_param_list, strict=True):
            # Integer counters, such as those of batch norms, are not averaged.
            if average.is_floating_point():
                average.add_((current - average) / (num_averaged + 1))
            else:
                average.copy_(current)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], Any]:
    """Returns a function that computes the exponential moving average of one tensor."""
    _check_decay(decay)

    @rgrad.no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[[Any, Any, Any], Any]:
    """Returns a function that computes the running mean of one tensor."""

    @rgrad.no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Tensor | int) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of that model's parameters during training.

    Args:
        model: the model that is trained.
        device: device of the copy; the model's if None.
        avg_fn: returns the new average of a parameter, from its average, its value, and the number of averaged values.
        multi_avg_fn: does the same in place for the lists of all parameters.
        use_buffers: whether buffers are averaged, too, rather than copied.

    Example:
        >>> import rgrad as torch
        >>> model = torch.nn.Linear(2, 1)
        >>> averaged = torch.optim.swa_utils.AveragedModel(model)
        >>> averaged.update_parameters(model)
        >>> torch.equal(averaged.module.weight, model.weight)
        True
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[[Tensor, Tensor, Any], Tensor] | None = None,
        multi_avg_fn: Callable[[list[Tensor], list[Tensor], Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        if None not in (avg_fn, multi_avg_fn):
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        super().__init__()
        copy = deepcopy(model)
        self.module = copy if device is None else copy.to(device)
        # A buffer, so that it is saved and averaging can continue after loading.
        self.register_buffer("n_averaged", rgrad.zeros((), dtype=rgrad.int64, device=device))
        self.use_buffers = use_buffers
        self.avg_fn, self.multi_avg_fn = avg_fn, multi_avg_fn

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the averaged model."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Adds the model's current parameters to the average."""
        averages, currents = list(self._averaged(self.module)), list(self._averaged(model))
        averages = [average.detach() for average in averages]
        currents = [now.detach().to(average.device) for average, now in zip(averages, currents, strict=True)]
        if self.n_averaged == 0:
            for average, current in zip(averages, currents, strict=True):
                average.copy_(current)
        elif self.avg_fn is not None:
            for average, current in zip(averages, currents, strict=True):
                average.copy_(self.avg_fn(average, current, self.n_averaged.to(average.device)))
        else:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averages, currents, self.n_averaged)
        if not self.use_buffers:
            for copy, buffer in zip(self.module.buffers(), model.buffers(), strict=True):
                copy.detach().copy_(buffer.detach().to(copy.device))
        self.n_averaged += 1

    def _averaged(self, model: Module) -> Iterable[Tensor]:
        return itertools.chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()


@rgrad.no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recomputes the running statistics of a model's batch norms, in one pass over the data.

    Args:
        loader: yields batches, or tuples and lists whose first element is the batch.
        model: the model.
        device: device to which batches are moved, if given.
    """
    norms = {module: module.momentum for module in model.modules() if isinstance(module, _BatchNorm)}
    if not norms:
        return
    was_training = model.training
    model.train()
    for module in norms:
        module.reset_running_stats()
        # Momentum None gives the mean over all batches.
        module.momentum = None
    for batch in loader:
        if isinstance(batch, (list, tuple)):
            batch = batch[0]
        model(batch if device is None else batch.to(device))
    for module, momentum in norms.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals the rate of each group to a constant, with which weights are averaged.

    Args:
        optimizer: the optimizer whose groups' `lr` is set.
        swa_lr: the constant, for all groups or for each.
        anneal_epochs: number of epochs until the constant is reached.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        last_epoch: the last epoch that is already done; -1 to start.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        for lr, group in zip(per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """The annealed fraction after a number of steps."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self) -> list[Any]:
        """Compute the next rate of each group; for use by `step`."""
        groups, step = self._groups(), self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, share = self._share(step - 1), self._share(step)
        lrs = []
        for group in groups:
            end = group["swa_lr"]
            # The rate at the start, computed from the current one, so that another schedule may have set it.
            start = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            lrs.append(end * share + start * (1 - share))
        return lrs
