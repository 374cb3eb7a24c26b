"""Losses composed of operations of the core."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import _C
from rgrad.amp.autocast_mode import in_float32

from ._distance import pairwise_distance, scalar_type
from ._reduction import choose

Tensor = _C.Tensor
logsigmoid = _C._nn.logsigmoid
softplus = _C._nn.softplus


def _checked(reduction: str) -> str:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def _reduce(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    raise ValueError(f"{reduction} is not a valid value for reduction")


@in_float32("cpu", "gpu")
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of counts under a Poisson distribution: ``rate - target * log(rate)``.

    Args:
        input: logarithms of the rates, or the rates, of any shape and a floating point dtype.
        target: the counts, of the same shape.
        log_input: whether the input holds logarithms.
        full: add Stirling's formula for ``log(target!)`` where the target is above 1.
        size_average: older form of ``reduction``.
        eps: added to rates before their logarithm is taken.
        reduce: older form of ``reduction``.
        reduction: ``'mean'``, ``'sum'`` or ``'none'``.

    Returns:
        A tensor without dimensions, or with ``'none'`` the losses, of the input's dtype.
    """
    reduction = choose(size_average, reduce, reduction)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return _reduce(loss, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of ``target`` under a normal distribution of mean ``input``."""
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * rgrad.ones_like(input)
    elif (var < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not (
            input.dim() == var.dim() and all(v in (1, size) for v, size in zip(var.shape, input.shape, strict=True))
        ):
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    # The lower bound is not differentiated.
    with rgrad.no_grad():
        correction = var.clamp(min=eps) - var
    var = var + correction
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduce(loss, reduction)


@in_float32("cpu", "gpu")
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1.

    Args:
        input: distances of pairs, of any shape and a floating point dtype.
        target: 1 for similar pairs and -1 for dissimilar ones, of the same shape.
        margin: the minimum distance of dissimilar pairs.
        size_average: older form of ``reduction``.
        reduce: older form of ``reduction``.
        reduction: ``'mean'``, ``'sum'`` or ``'none'``.

    Returns:
        A tensor without dimensions, or with ``'none'`` the losses, of the input's dtype.
    """
    reduction = choose(size_average, reduce, reduction)
    zero = rgrad.zeros_like(input)
    apart = rgrad.where(target == 1, zero, (margin - input).clamp_min(0))
    together = rgrad.where(target == -1, zero, input)
    return _reduce(apart + together, reduction)


@in_float32("cpu", "gpu")
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, -target * (input1 - input2) + margin)``: a ranking of pairs.

    Args:
        input1: the first of each pair, of any shape and a floating point dtype.
        input2: the second, of the same shape.
        target: 1 where the first should be larger and -1 where the second should.
        margin: the minimum difference.
        size_average: older form of ``reduction``.
        reduce: older form of ``reduction``.
        reduction: ``'mean'``, ``'sum'`` or ``'none'``.

    Returns:
        A tensor without dimensions, or with ``'none'`` the losses, of the input's dtype.

    >>> import rgrad as torch
    >>> torch.nn.functional.margin_ranking_loss(torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([1.0]))
    tensor(2.)
    """
    reduction = choose(size_average, reduce, reduction)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _reduce((-target * (input1 - input2) + float(margin)).clamp_min(0), reduction)


@in_float32("cpu", "gpu")
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Args:
        input1: vectors, ``(N, D)`` or ``(D,)``, of a floating point dtype.
        input2: the vectors that they are compared with, of the same shape.
        target: 1 for similar pairs and -1 for dissimilar ones, ``(N,)`` or 0-d.
        margin: the maximum cosine of dissimilar pairs.
        size_average: older form of ``reduction``.
        reduce: older form of ``reduction``.
        reduction: ``'mean'``, ``'sum'`` or ``'none'``.

    Returns:
        A tensor without dimensions, or with ``'none'`` the losses, of the input's dtype.
    """
    reduction = choose(size_average, reduce, reduction)
    dim, sizes = target.dim(), f"with sizes {list(input1.shape)} and {list(input2.shape)}."
    if dim > 1:
        raise RuntimeError(
            f"0D or 1D target tensor expected, multi-target not supported, but got target of size {list(target.shape)}"
        )
    if input1.dim() != dim + 1 or input2.dim() != dim + 1:
        raise RuntimeError(f"{dim}D target tensor expects {dim + 1}D input tensors, but found inputs {sizes}")
    # Added under the square root, so that zero vectors have a gradient.
    epsilon = 1e-12
    norms = ((input1 * input1).sum(-1) + epsilon) * ((input2 * input2).sum(-1) + epsilon)
    cosine = (input1 * input2).sum(-1) / norms.sqrt()
    zero = rgrad.zeros_like(cosine)
    together = rgrad.where(target == 1, 1 - cosine, zero)
    apart = rgrad.where(target == -1, (cosine - margin).clamp_min(0), zero)
    return _reduce(together + apart, reduction)


@in_float32("cpu", "gpu")
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``log(1 + exp(-target * input))``.

    Args:
        input: scores, of any shape and a floating point dtype.
        target: 1 or -1, of the same shape.
        size_average: older form of ``reduction``.
        reduce: older form of ``reduction``.
        reduction: ``'mean'``, ``'sum'`` or ``'none'``.

    Returns:
        A tensor without dimensions, or with ``'none'`` the losses, of the input's dtype.
    """
    return _reduce(softplus(-target * input, 1, math.inf), choose(size_average, reduce, reduction))


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross-entropy of every class, averaged over the last dimension.

    Args:
        input: scores, ``(*, C)``, of a floating point dtype.
        target: 1 for classes that a sample belongs to and 0 for others, of the same shape.
        weight: a factor for each class, ``(C,)``.
        size_average: older form of ``reduction``.
        reduce: older form of ``reduction``.
        reduction: ``'mean'``, ``'sum'`` or ``'none'``.

    Returns:
        A tensor without dimensions, or with ``'none'`` the losses, of the input's dtype.
    """
    reduction = choose(size_average, reduce, reduction)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    return _reduce(loss.mean(-1), reduction)


def _expect_labels(target: Tensor, least: int, classes: int, message: str) -> None:
    """Rejects labels that are out of range. Does not synchronize with a GPU."""
    if target.device.type == "cpu" and target.numel() and not bool(((target >= least) & (target < classes)).all()):
        raise RuntimeError(message)


def _expect_scores(input: Tensor) -> None:
    """Rejects input of margin losses that has no classes, or too many dimensions."""
    if input.dim() > 2 or (input.dim() and not input.size(-1)):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )


@in_float32("cpu", "gpu")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``sum(max(0, margin - input[target] + input[other]) ** p) / classes``.

    Args:
        input: scores, ``(N, C)`` or ``(C,)``, of a floating point dtype.
        target: int64 classes, ``(N,)`` or of no dimension.
        p: 1 or 2.
        margin: the minimum difference between the score of the class and the others.
        weight: a factor for each class, ``(C,)``.
        size_average: older form of ``reduction``.
        reduce: older form of ``reduction``.
        reduction: ``'mean'``, ``'sum'`` or ``'none'``.

    Returns:
        A tensor without dimensions, or with ``'none'`` the losses, of the input's dtype.
    """
    reduction = _checked(choose(size_average, reduce, reduction))
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if input.dim() == 0:
        input = input.reshape(1)
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    if weight is not None and weight.numel() != input.size(-1):
        raise RuntimeError(f"inconsistent weight size, expected {input.size(-1)} but got {list(weight.shape)}")
    _expect_scores(input)
    samples = input.size(0) if input.dim() == 2 else 1
    if target.dim() > 1 or target.numel() != samples:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch "
            f"size). Expected target size [{samples}], but got {list(target.shape)}. Input has shape "
            f"{list(input.shape)}."
        )
    if target.dtype != rgrad.int64:
        raise RuntimeError(f"expected scalar type Long but found {scalar_type(target)}")
    _expect_labels(target, 0, input.size(-1), "target out of range")
    if input.dim() < 2 and target.dim() == 1:
        # A single sample, whose loss has the rank of the target.
        input = input.reshape(1, -1)
    place = target.unsqueeze(-1)
    gap = (margin - input.gather(-1, place) + input).clamp_min(0)
    if p == 2:
        gap = gap * gap
    if weight is not None:
        gap = gap * weight[target].unsqueeze(-1)
    return _reduce(gap.scatter(-1, place, 0.0).mean(-1), reduction)


@in_float32("cpu", "gpu")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)``.

    Args:
        anchor: samples of shape ``(N, D)`` or ``(D,)``.
        positive: samples of the same class.
        negative: samples of another class.
        margin: the minimum additional distance of the negative; greater than 0.
        p: degree of the norm.
        eps: added to differences, so that equal points have a gradient.
        swap: use the distance between positive and negative if that is smaller.
        size_average: older form of ``reduction``.
        reduce: older form of ``reduction``.
        reduction: ``'mean'``, ``'sum'`` or ``'none'``.
    """
    reduction = choose(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _check_triplet(anchor, positive, negative)
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = rgrad.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduce((near - far + margin).clamp_min(0), reduction)


def _check_triplet(*samples: Tensor) -> None:
    dims = [sample.dim() for sample in samples]
    if len(set(dims)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
            f"but got: anchor {dims[0]}D, positive {dims[1]}D, and negative {dims[2]}D inputs"
        )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """:func:`triplet_margin_loss` with a user-defined distance, by default :func:`pairwise_distance`."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _check_triplet(anchor, positive, negative)
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = rgrad.minimum(far, distance(positive, negative))
    return _reduce((margin + near - far).clamp_min(0), reduction)


@in_float32("cpu", "gpu")
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Hinge loss with several labels per sample: ``sum(max(0, 1 - input[label] + input[other])) / classes``.

    Args:
        input: scores, ``(N, C)`` or ``(C,)``.
        target: the labels of each sample, up to the first -1; of the same shape.
        size_average: older form of ``reduction``.
        reduce: older form of ``reduction``.
        reduction: ``'mean'``, ``'sum'`` or ``'none'``.
    """
    reduction = _checked(choose(size_average, reduce, reduction))
    _expect_scores(input)
    if input.shape != target.shape:
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    _expect_labels(target, -1, input.size(-1) if input.dim() else 1, "argument #2 'target' is out of range")
    scores, labels = (input, target) if input.dim() == 2 else (input.reshape(1, -1), target.reshape(1, -1))
    valid = (labels < 0).to(rgrad.int64).cumsum(1) == 0
    # Labels after the end are moved to an additional column.
    column = labels.masked_fill(~valid, scores.size(1))
    marks = rgrad.zeros((scores.size(0), scores.size(1) + 1), dtype=rgrad.int64, device=scores.device)
    other = marks.scatter(1, column, 1)[:, :-1] == 0
    chosen = scores.gather(1, labels.masked_fill(~valid, 0))
    gap = (1 - chosen.unsqueeze(2) + scores.unsqueeze(1)).clamp_min(0)
    loss = (gap * (valid.unsqueeze(2) & other.unsqueeze(1))).sum((1, 2)) / scores.size(1)
    return _reduce(loss if input.dim() == 2 else loss.squeeze(0), reduction)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """Cross entropy of the scores computed by a linear map.

    Args:
        input: ``(N, features)`` or ``(features,)``.
        linear_weight: ``(classes, *, features)``.
        target: as for `cross_entropy` of scores ``(N, classes, *)``.
        linear_bias: added to the scores, ``(classes, *)``.
        weight: factor of every class, ``(classes,)``.
        reduction: ``'mean'``, ``'sum'`` or ``'none'``.
        ignore_index: target without loss; -100 by default.
        label_smoothing: share of the target probability that is spread evenly over all classes.
        options: a `LinearCrossEntropyOptions`, to keep the scores of but a part of the batch in memory; None for all.

    Returns:
        The loss: a scalar, or one value per target without reduction.
    """
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
    if ignore_index is not None and target.dtype.is_floating_point:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if input.size(-1) != linear_weight.size(-1):
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.size(-1)} and {linear_weight.size(-1)}, respectively"
        )
    shape = tuple(linear_weight.shape[:-1])
    if linear_weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"(N, {input.size(0)}), got unbatched input with shape {tuple(input.shape)}"
        )
    if linear_bias is not None and tuple(linear_bias.shape) != shape:
        raise RuntimeError(f"expected linear_bias shape {shape}, got {tuple(linear_bias.shape)}")
    flat = linear_weight.reshape(-1, linear_weight.size(-1))
    flat_bias = None if linear_bias is None else linear_bias.reshape(-1)
    ignored = -100 if ignore_index is None else ignore_index

    def loss_of(x: Tensor, classes: Tensor, how: str) -> Tensor:
        scores = _C._nn.linear(x, flat, flat_bias).reshape(*x.shape[:-1], *shape)
        return _C._nn.cross_entropy(
            scores, classes, weight, ignore_index=ignored, reduction=how, label_smoothing=label_smoothing
        )

    rows = 0 if options is None or input.dim() == 1 else options.rows(input.size(0), *reversed(flat.shape))
    if not 0 < rows < input.size(0):
        return loss_of(input, target, reduction)
    # The scores of a part are computed again in backward, so that autograd does not keep those of the whole batch.
    from rgrad.utils.checkpoint import checkpoint

    parts = [
        checkpoint(loss_of, x, classes, "none" if reduction == "none" else "sum", use_reentrant=False)
        for x, classes in zip(input.split(rows), target.split(rows), strict=True)
    ]
    if reduction == "none":
        return rgrad.cat(parts)
    total = rgrad.stack(parts).sum()
    if reduction == "sum":
        return total
    if target.dim() == input.dim() - 1 + len(shape):  # probabilities
        return total / (target.numel() // shape[0])
    kept = target != ignored
    if weight is None:
        return total / kept.sum()
    return total / (weight[target.masked_fill(~kept, 0)] * kept).sum()
