"""Losses.

Every loss takes ``reduction``: ``'mean'`` (the default), ``'sum'``, or ``'none'`` for one value per element.
``size_average`` and ``reduce`` are the older form of the same choice.
"""

import warnings
from collections.abc import Callable
from typing import Any

from rgrad import _C

from .. import _core
from .. import functional as F
from .._reduction import choose
from .distance import PairwiseDistance
from .module import Module

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CosineEmbeddingLoss",
    "CTCLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]

_cross_entropy = _core.cross_entropy
_mse_loss = _core.mse_loss


class _Loss(Module):
    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"):
        super().__init__()
        self.reduction = choose(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """A loss with a weight per class or element. The weight is a buffer, so it moves with the module."""

    weight: _C.Tensor | None

    def __init__(
        self,
        weight: _C.Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """``|input - target|``."""

    def forward(self, input: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """``(input - target) ** 2``.

    Shape:
        Input and target: any shape, the same for both. Output: ``()``, or that shape with ``reduction='none'``.

    Example:
        >>> rgrad.nn.MSELoss()(rgrad.tensor([1.0, 2.0]), rgrad.tensor([1.0, 4.0]))
        tensor(2.)
    """

    def forward(self, input: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return _mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """``error ** 2 / (2 * beta)`` where ``|error| < beta``, ``|error| - beta / 2`` elsewhere."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Half the squared error up to an error of ``delta``, and a line beyond, with the same slope at ``delta``."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        self.delta = delta

    def forward(self, input: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class CrossEntropyLoss(_WeightedLoss):
    """Cross-entropy between classes and logits.

    Args:
        weight: factor of every class, shape ``(C,)``.
        ignore_index: target value whose samples contribute neither to the loss nor to the mean.
        label_smoothing: share of the target probability that is spread evenly over all classes.

    Shape:
        Input: logits, ``(N, C, *)`` or ``(C,)``. Target: class indices ``(N, *)`` or ``()``, or probabilities
        of the input's shape. Output: ``()``, or the indices' shape with ``reduction='none'``.

    Example:
        >>> loss = rgrad.nn.CrossEntropyLoss()
        >>> loss(rgrad.zeros(2, 4), rgrad.tensor([0, 3]))
        tensor(1.3863)
    """

    def __init__(
        self,
        weight: _C.Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return _cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_WeightedLoss):
    """Negative of the input at the target class; the input holds log probabilities.

    The arguments and shapes are those of :class:`CrossEntropyLoss` with class indices.
    """

    def __init__(
        self,
        weight: _C.Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """The older name of :class:`NLLLoss`, with the same arguments."""

    def __init__(
        self,
        weight: _C.Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warnings.warn("`NLLLoss2d` has been deprecated: NLLLoss takes images too.", FutureWarning, stacklevel=2)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class BCELoss(_WeightedLoss):
    """Binary cross-entropy between targets and probabilities, both in [0, 1]."""

    def forward(self, input: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross-entropy between targets in [0, 1] and logits.

    Args:
        weight: factor per element, of a shape that broadcasts.
        pos_weight: factor of the positive targets, per class.
    """

    weight: _C.Tensor | None
    pos_weight: _C.Tensor | None

    def __init__(
        self,
        weight: _C.Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: _C.Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class CTCLoss(_Loss):
    """The loss of label sequences over all their alignments with the input; see :func:`functional.ctc_loss`.

    Args:
        blank: the class that stands for no label.
        reduction: ``'mean'``, ``'sum'`` or ``'none'``.
        zero_infinity: whether samples without an alignment have loss and gradient 0.

    Shape:
        Log probabilities: ``(T, N, C)`` or ``(T, C)``. Targets: ``(N, S)``, or of all samples in one dimension.
        Lengths: ``(N,)``.
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: _C.Tensor, targets: _C.Tensor, input_lengths: _C.Tensor, target_lengths: _C.Tensor
    ) -> _C.Tensor:
        lengths = (input_lengths, target_lengths)
        return F.ctc_loss(log_probs, targets, *lengths, self.blank, self.reduction, self.zero_infinity)


class KLDivLoss(_Loss):
    """``target * (log(target) - input)``; the input holds log probabilities.

    Args:
        log_target: whether the target holds log probabilities too.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """Negative log likelihood of counts under a Poisson distribution.

    Args:
        log_input: whether the input is the logarithm of the rate.
        full: whether to add the approximated constant term.
        eps: added to the rate before its logarithm.
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return F.poisson_nll_loss(log_input, target, self.log_input, self.full, eps=self.eps, reduction=self.reduction)


class GaussianNLLLoss(_Loss):
    """Negative log likelihood under a normal distribution whose mean and variance are given.

    Args:
        full: whether to add the constant term.
        eps: least variance.
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: _C.Tensor, target: _C.Tensor, var: _C.Tensor | float) -> _C.Tensor:
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


class HingeEmbeddingLoss(_Loss):
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1."""

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return F.hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """``max(0, -target * (input1 - input2) + margin)``."""

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: _C.Tensor, input2: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return F.margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1."""

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: _C.Tensor, input2: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return F.cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))``, for targets 1 and -1."""

    def forward(self, input: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Binary cross-entropy of every class, averaged over the classes."""

    def forward(self, input: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return F.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """Hinge loss over several classes."""

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: _C.Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise AssertionError("weight must be 1-dimensional")
        self.p = p
        self.margin = margin

    def forward(self, input: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)``; d is the p-norm of the difference."""

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin = margin
        self.p: Any = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: _C.Tensor, positive: _C.Tensor, negative: _C.Tensor) -> _C.Tensor:
        return F.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, reduction=self.reduction
        )


class TripletMarginWithDistanceLoss(_Loss):
    """:class:`TripletMarginLoss` with a distance function given by the caller."""

    def __init__(
        self,
        *,
        distance_function: Callable[[_C.Tensor, _C.Tensor], _C.Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(None, None, reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: _C.Tensor, positive: _C.Tensor, negative: _C.Tensor) -> _C.Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class MultiLabelMarginLoss(_Loss):
    """Hinge loss with several labels per sample."""

    def forward(self, input: _C.Tensor, target: _C.Tensor) -> _C.Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)
