"""Learning rate schedules.

Most schedules are *chainable*: they compute the next rate from the current one, so several of them can be applied to
one optimizer. Call a schedule's `step` after the optimizer's.

Example:
    >>> import rgrad as torch
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
"""

from rgrad.optim.lr_scheduler.annealing import CosineAnnealingLR, CosineAnnealingWarmRestarts, OneCycleLR
from rgrad.optim.lr_scheduler.base import EPOCH_IS_DEPRECATED as EPOCH_DEPRECATION_WARNING
from rgrad.optim.lr_scheduler.base import LRScheduler, _LRScheduler
from rgrad.optim.lr_scheduler.chainable import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from rgrad.optim.lr_scheduler.composite import ChainedScheduler, SequentialLR
from rgrad.optim.lr_scheduler.cyclic import CyclicLR
from rgrad.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "EPOCH_DEPRECATION_WARNING",
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
    "_LRScheduler",
]
