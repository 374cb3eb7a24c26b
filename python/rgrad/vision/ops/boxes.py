"""Boxes (x1, y1, x2, y2) in the last dimension: their areas, overlaps and formats."""

from __future__ import annotations

import math
from typing import Any

import rgrad
from rgrad import Tensor

__all__ = [
    "batched_nms",
    "box_area",
    "box_convert",
    "box_iou",
    "clip_boxes_to_image",
    "complete_box_iou",
    "distance_box_iou",
    "generalized_box_iou",
    "masks_to_boxes",
    "nms",
    "remove_small_boxes",
]

_FORMATS = ("xyxy", "xywh", "cxcywh")


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The boxes that remain if each one, from the highest score on, removes those that overlap it too much.

    Args:
        boxes: corners, of shape (N, 4).
        scores: of shape (N,).
        iou_threshold: a box is removed if its intersection with a better one is more than this share of their union.

    Returns:
        The indices of the boxes that remain, int64, from the highest score on.

    Example:
        >>> import rgrad as torch
        >>> boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30]])
        >>> torch.vision.ops.nms(boxes, torch.tensor([0.5, 0.9, 0.1]), 0.5)
        tensor([1, 2])
    """
    if boxes.dim() != 2 or boxes.shape[1] != 4:
        raise RuntimeError(f"boxes should be a 2d tensor of shape (N, 4), got {tuple(boxes.shape)}")
    if scores.dim() != 1 or scores.shape[0] != boxes.shape[0]:
        raise RuntimeError(
            f"boxes and scores should have same number of elements in dimension 0, got {boxes.shape[0]} and "
            f"{scores.shape[0] if scores.dim() else 0}"
        )
    import numpy as np

    # Each step depends on those before it, so the loop runs on the CPU.
    corners: Any = boxes.detach().cpu().float().numpy()
    left, top, right, bottom = corners.T
    areas = (right - left) * (bottom - top)
    order: Any = scores.detach().argsort(descending=True, stable=True).cpu().numpy()
    kept: list[int] = []
    while len(order):
        best, order = order[0], order[1:]
        kept.append(int(best))
        width = np.minimum(right[best], right[order]) - np.maximum(left[best], left[order])
        height = np.minimum(bottom[best], bottom[order]) - np.maximum(top[best], top[order])
        shared = np.maximum(width, 0) * np.maximum(height, 0)
        union = areas[best] + areas[order] - shared
        # Two empty boxes in one place have no union; neither removes the other.
        with np.errstate(divide="ignore", invalid="ignore"):
            order = order[~(shared / union > np.float32(iou_threshold))]
    return rgrad.tensor(kept, dtype=rgrad.int64, device=boxes.device)


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """`nms` among the boxes of each category.

    Args:
        boxes: corners, of shape (N, 4).
        scores: of shape (N,).
        idxs: the category of each box, of shape (N,).
        iou_threshold: as for `nms`.

    Returns:
        The indices of the boxes that remain, from the highest score on.
    """
    kept = [rgrad.empty(0, dtype=rgrad.int64, device=boxes.device)]
    for category in idxs.unique():
        places = (idxs == category).nonzero().squeeze(1)
        kept.append(places[nms(boxes[places], scores[places], iou_threshold)])
    every = rgrad.cat(kept)
    return every[scores[every].argsort(descending=True, stable=True)]


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Converts boxes between formats: corners, corner and size, or center and size.

    Args:
        boxes: of shape (..., 4).
        in_fmt: "xyxy", "xywh" or "cxcywh".
        out_fmt: one of the same.
    """
    if in_fmt not in _FORMATS or out_fmt not in _FORMATS:
        raise ValueError(f"Unsupported Bounding Box Conversions for given in_fmt {in_fmt} and out_fmt {out_fmt}")
    if in_fmt == out_fmt:
        return boxes.clone()
    a, b, c, d = boxes.unbind(-1)
    if in_fmt == "xywh":
        a, b, c, d = a, b, a + c, b + d
    elif in_fmt == "cxcywh":
        a, b, c, d = a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d
    if out_fmt == "xywh":
        c, d = c - a, d - b
    elif out_fmt == "cxcywh":
        a, b, c, d = (a + c) / 2, (b + d) / 2, c - a, d - b
    return rgrad.stack((a, b, c, d), dim=-1)


def _wide(values: Tensor) -> Tensor:
    """Of a dtype in which products don't overflow."""
    if values.is_floating_point():
        return values if values.dtype in (rgrad.float32, rgrad.float64) else values.float()
    return values if values.dtype in (rgrad.int32, rgrad.int64) else values.int()


def box_area(boxes: Tensor, fmt: str = "xyxy") -> Tensor:
    """The areas of boxes, (..., 4) to (...).

    Args:
        boxes: the boxes.
        fmt: "xyxy", "xywh" or "cxcywh".
    """
    if fmt not in _FORMATS:
        raise ValueError(f"Unsupported Bounding Box area for given format {fmt}")
    a, b, c, d = _wide(boxes).unbind(-1)
    return (c - a) * (d - b) if fmt == "xyxy" else c * d


def _overlaps(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> tuple[Tensor, Tensor]:
    """Intersections and unions of all pairs, (..., N, M)."""
    if fmt not in _FORMATS:
        raise ValueError(f"Unsupported Box IoU Calculation for given format {fmt}.")
    if fmt != "xyxy":
        boxes1, boxes2 = box_convert(boxes1, fmt, "xyxy"), box_convert(boxes2, fmt, "xyxy")
    first, second = boxes1.unsqueeze(-2), boxes2.unsqueeze(-3)
    corner = rgrad.maximum(first[..., :2], second[..., :2])
    size = _wide(rgrad.minimum(first[..., 2:], second[..., 2:]) - corner).clamp(min=0)
    shared = size[..., 0] * size[..., 1]
    return shared, box_area(boxes1).unsqueeze(-1) + box_area(boxes2).unsqueeze(-2) - shared


def box_iou(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> Tensor:
    """The intersection over the union of all pairs of boxes.

    Args:
        boxes1: of shape (N, 4).
        boxes2: of shape (M, 4).
        fmt: the format of both.

    Returns:
        A tensor of shape (N, M).
    """
    shared, union = _overlaps(boxes1, boxes2, fmt)
    return shared / union


def _hulls(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Width and height of the smallest box around each pair, (N, M, 2)."""
    first, second = boxes1[:, None], boxes2[None]
    low, high = rgrad.minimum(first[..., :2], second[..., :2]), rgrad.maximum(first[..., 2:], second[..., 2:])
    return _wide(high - low).clamp(min=0)


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """The generalized intersection over union of all pairs (Rezatofighi et al., 2019), (N, 4) and (M, 4) to (N, M)."""
    shared, union = _overlaps(boxes1, boxes2)
    hull = _hulls(boxes1, boxes2).prod(-1)
    return shared / union - (hull - union) / hull


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """The intersection over union less the squared distance of centers relative to the hull's diagonal (Zheng et al.,
    2019), (N, 4) and (M, 4) to (N, M).
    """
    first, second = _centers(boxes1)[:, None], _centers(boxes2)[None]
    diagonal = _hulls(boxes1, boxes2).pow(2).sum(-1) + eps
    return box_iou(boxes1, boxes2) - _wide(first - second).pow(2).sum(-1) / diagonal


def _centers(boxes: Tensor) -> Tensor:
    return (boxes[..., :2] + boxes[..., 2:]) / 2


def _angles(boxes: Tensor) -> Tensor:
    """The angle of each box's diagonal."""
    size = boxes[..., 2:] - boxes[..., :2]
    return rgrad.atan(size[..., 0] / size[..., 1])


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """`distance_box_iou` less a term for different proportions, (N, 4) and (M, 4) to (N, M)."""
    v = (4 / math.pi**2) * (_angles(boxes1)[:, None] - _angles(boxes2)[None]).pow(2)
    with rgrad.no_grad():
        weight = v / (1 - box_iou(boxes1, boxes2) + v + eps)
    return distance_box_iou(boxes1, boxes2, eps) - weight * v


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """The indices of boxes (N, 4) whose sides are at least `min_size` long."""
    return ((boxes[:, 2:] - boxes[:, :2]) >= min_size).all(1).nonzero().squeeze(1)


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Moves corners (..., 4) that lie outside of an image of a height and width onto its edge."""
    height, width = size
    across, down = boxes[..., 0::2].clamp(0, width), boxes[..., 1::2].clamp(0, height)
    return rgrad.stack((across, down), dim=-1).reshape(boxes.shape)


def masks_to_boxes(masks: Tensor) -> Tensor:
    """The smallest boxes around the true pixels of masks, (N, H, W) to float32 of shape (N, 4)."""
    boxes = rgrad.zeros((len(masks), 4), device=masks.device)
    for place, mask in enumerate(masks):
        rows, columns = (mask.any(axis).nonzero() for axis in (1, 0))
        corners = (columns.min(), rows.min(), columns.max(), rows.max())
        boxes[place] = rgrad.stack(corners).to(boxes.dtype)
    return boxes
