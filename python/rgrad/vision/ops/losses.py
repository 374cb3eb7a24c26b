"""Losses for the detection of objects."""

from __future__ import annotations

import math

import rgrad
from rgrad import Tensor, nn

__all__ = ["complete_box_iou_loss", "distance_box_iou_loss", "generalized_box_iou_loss", "sigmoid_focal_loss"]


def _reduced(loss: Tensor, reduction: str, mean: Tensor | None = None) -> Tensor:
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    if reduction == "mean":
        return loss.mean() if mean is None else mean
    raise ValueError(
        f"Invalid Value for arg 'reduction': '{reduction} \n Supported reduction modes: 'none', 'mean', 'sum'"
    )


def sigmoid_focal_loss(
    inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2, reduction: str = "none"
) -> Tensor:
    """The cross entropy of a yes or no, weighted by how wrong the prediction is (Lin et al., 2017).

    The formula is -α (1 - p)^γ log p, with p the probability that is given to the truth.

    Args:
        inputs: logits of any shape.
        targets: 0 or 1, floats of the same shape.
        alpha: weight of ones; that of zeros is 1 - alpha. Negative for no weights.
        gamma: the power.
        reduction: "none", "mean" or "sum".
    """
    if not (0 <= alpha <= 1) and alpha != -1:
        raise ValueError(f"Invalid alpha value: {alpha}. alpha must be in the range [0,1] or -1 for ignore.")
    entropy = nn.functional.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    chance = inputs.sigmoid()
    wrong = chance + targets - 2 * chance * targets
    loss = entropy * wrong**gamma
    if alpha >= 0:
        loss = loss * (alpha * targets + (1 - alpha) * (1 - targets))
    return _reduced(loss, reduction)


def _measures(boxes1: Tensor, boxes2: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Of each pair: intersection over union, the union, and width and height of the smallest box around both."""

    def area(size: Tensor) -> Tensor:
        return size[..., 0] * size[..., 1]

    low1, high1, low2, high2 = boxes1[..., :2], boxes1[..., 2:], boxes2[..., :2], boxes2[..., 2:]
    shared = area((rgrad.minimum(high1, high2) - rgrad.maximum(low1, low2)).clamp(min=0))
    union = area(high1 - low1) + area(high2 - low2) - shared
    return shared / (union + eps), union, rgrad.maximum(high1, high2) - rgrad.minimum(low1, low2)


def _floats(boxes: Tensor) -> Tensor:
    return boxes if boxes.dtype in (rgrad.float32, rgrad.float64) else boxes.float()


def _mean(loss: Tensor) -> Tensor:
    """The mean; zero of no boxes."""
    return loss.mean() if loss.numel() else 0.0 * loss.sum()


def generalized_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """One minus the generalized intersection over union of each pair.

    Args:
        boxes1: corners, of shape (N, 4).
        boxes2: corners, of shape (N, 4).
        reduction: "none", "mean" or "sum".
        eps: added to what is divided by.
    """
    iou, union, hull = _measures(_floats(boxes1), _floats(boxes2), eps)
    around = hull[..., 0] * hull[..., 1]
    loss = 1 - iou + (around - union) / (around + eps)
    return _reduced(loss, reduction, _mean(loss))


def _distance(boxes1: Tensor, boxes2: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    iou, _, hull = _measures(boxes1, boxes2, eps)
    apart = (boxes1[..., :2] + boxes1[..., 2:] - boxes2[..., :2] - boxes2[..., 2:]) / 2
    return 1 - iou + apart.pow(2).sum(-1) / (hull.pow(2).sum(-1) + eps), iou


def distance_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """One minus `distance_box_iou` of each pair; the arguments are those of `generalized_box_iou_loss`."""
    loss, _ = _distance(_floats(boxes1), _floats(boxes2), eps)
    return _reduced(loss, reduction, _mean(loss))


def complete_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """One minus `complete_box_iou` of each pair; the arguments are those of `generalized_box_iou_loss`."""
    boxes1, boxes2 = _floats(boxes1), _floats(boxes2)
    loss, iou = _distance(boxes1, boxes2, eps)
    angles = []
    for boxes in (boxes1, boxes2):
        size = boxes[..., 2:] - boxes[..., :2]
        angles.append(rgrad.atan(size[..., 0] / size[..., 1]))
    v = (4 / math.pi**2) * (angles[1] - angles[0]).pow(2)
    with rgrad.no_grad():
        weight = v / (1 - iou + v + eps)
    loss = loss + weight * v
    return _reduced(loss, reduction, _mean(loss))
