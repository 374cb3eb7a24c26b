"""Cross entropy of the scores of a linear layer."""

from __future__ import annotations

import math
from typing import Any

from rgrad import _C

from .. import functional as F
from .linear import Linear
from .linear_cross_entropy_options import LinearCrossEntropyOptions
from .loss import _WeightedLoss

__all__ = ["LinearCrossEntropyLoss"]


class LinearCrossEntropyLoss(_WeightedLoss):
    """The cross entropy between targets and the scores that a linear layer of this module computes.

    Args:
        in_features: size of the input.
        num_classes: number of classes C.
        out_features: sizes of further dimensions, each of whose places has scores of its own.
        bias: whether the layer has a bias.
        device: of the parameters.
        dtype: of the parameters.
        reduction: ``'mean'``, ``'sum'`` or ``'none'``.
        weight: factor of every class, ``(C,)``.
        ignore_index: target without loss; -100 by default if targets are indices.
        label_smoothing: share of the target probability that is spread evenly over all classes.
        options: how to compute it in parts; None for one.

    Shape:
        Input: ``(N, in_features)`` or ``(in_features,)``. Target: indices ``(N, *out_features)``, or probabilities
        ``(N, C, *out_features)``. Output: ``()``, or the indices' shape without reduction.

    >>> loss = rgrad.nn.LinearCrossEntropyLoss(5, 10)
    >>> loss(rgrad.zeros(2, 5), rgrad.tensor([0, 9]))
    tensor(2.3026, grad_fn=<NllLossBackward0>)
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: _C.Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__(weight, reduction=reduction)
        self.in_features = in_features
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.bias = bias
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        self.linear = Linear(in_features, num_classes * math.prod(out_features), bias=bias, device=device, dtype=dtype)

    def forward(self, input: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        """The loss."""
        shape = (self.num_classes, *self.out_features)
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.in_features),
            target,
            linear_bias=None if self.linear.bias is None else self.linear.bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        names = (
            *("in_features", "num_classes", "out_features", "bias", "reduction", "ignore_index", "label_smoothing"),
            "options",
        )
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)
