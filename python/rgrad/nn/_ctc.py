"""Connectionist temporal classification: losses of label sequences without alignment."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import _C
from rgrad.amp.autocast_mode import in_float32

Tensor = _C.Tensor

_INTEGERS = (rgrad.uint8, rgrad.int8, rgrad.int16, rgrad.int32, rgrad.int64)


def _lengths(name: str, value: Any, batch: int) -> list[int]:
    lengths = rgrad.as_tensor(value, device="cpu")
    if lengths.numel() and lengths.dtype not in _INTEGERS:
        raise RuntimeError(f"{name} must be integral")
    found: list[int] = lengths.reshape(-1).tolist()
    if len(found) != batch:
        raise RuntimeError(f"{name} must be of size batch_size")
    if found and min(found) < 0:
        raise RuntimeError(f"{name} must be non-negative")
    return found


@in_float32("cpu", "gpu")
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The negative logarithm of the probability of label sequences, over all their alignments; computed on the CPU.

    Args:
        log_probs: logarithms of probabilities, ``(T, N, C)`` or ``(T, C)``.
        targets: labels, ``(N, S)`` padded, or all one after the other in one dimension.
        input_lengths: the number of steps of each sample.
        target_lengths: the number of labels of each sample.
        blank: the class of the blank.
        reduction: ``'mean'`` (of losses divided by their target's length), ``'sum'`` or ``'none'``.
        zero_infinity: whether samples without an alignment have loss and gradient 0.

    Returns:
        The loss, or with ``'none'`` the loss of each sample.

    Example:
        >>> probs = rgrad.full((2, 1, 2), 0.5).log()
        >>> rgrad.nn.functional.ctc_loss(probs, rgrad.tensor([[1]]), [2], [1]).exp()
        tensor(1.3333)
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    batched = log_probs.dim() == 3
    if log_probs.dim() not in (2, 3) or log_probs.numel() == 0:
        raise RuntimeError("log_probs tensor must not be empty")
    probs = log_probs if batched else log_probs.unsqueeze(1)
    count, batch, classes = probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    steps = _lengths("input_lengths", input_lengths, batch)
    lengths = _lengths("target_lengths", target_lengths, batch)
    if max(steps) > count:
        raise RuntimeError(
            f"Expected input_lengths to have value at most {count}, but got value {max(steps)} "
            "(while checking arguments for ctc_loss_allocate_outputs)"
        )
    if targets.dim() == 2 and targets.size(1) < max(lengths):
        raise RuntimeError(
            f"Expected tensor to have size at least {max(lengths)} at dimension 1, but got size {targets.size(1)} for "
            "argument #2 'targets' (while checking arguments for ctc_loss_allocate_outputs)"
        )
    # Half types are too inaccurate for sums of logarithms; the lattice is computed on the CPU.
    wide = probs.cpu() if probs.dtype == rgrad.float64 else probs.cpu().float()
    losses = _C._nn.ctc_losses(wide, targets.cpu(), steps, lengths, blank, zero_infinity)
    losses = losses.to(device=log_probs.device, dtype=log_probs.dtype)
    if reduction == "mean":
        return (losses / rgrad.tensor([max(n, 1) for n in lengths], dtype=losses.dtype, device=losses.device)).mean()
    if reduction == "sum":
        return losses.sum()
    return losses if batched else losses.squeeze(0)
