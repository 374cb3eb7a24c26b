"""Connectionist temporal classification: losses of label sequences without alignment.

Note [The lattice of CTC]
~~~~~~~~~~~~~~~~~~~~~~~~~
A path visits the labels from left to right, with a blank before, between and after them. In each step it stays,
advances one state, or advances two states past a blank between two different labels. ``alpha`` sums the probabilities
of all prefixes that end in a state at a time, ``beta`` those of all suffixes from there. Both are kept as logarithms,
and all samples and states are updated together.
"""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import _C
from rgrad.amp.autocast_mode import in_float32

from ..autograd import Function

Tensor = _C.Tensor


class _Lattice:
    """The logarithms of a recursion for all times, samples and states, where a state may be entered from three.

    Two columns of minus infinity stand before the first state (``by=1``, forward in time) or after the last
    (``by=-1``), so that the states of a time, shifted by one and by two, are views.
    """

    def __init__(self, count: int, emitted: Tensor, skips: Tensor, by: int) -> None:
        batch, self.width = skips.shape
        self._all = emitted.new_full((count, batch, self.width + 2), -rgrad.inf)
        self._emitted = emitted.unbind(0)
        self._skips = rgrad.where(skips, 0.0, -rgrad.inf).to(emitted.dtype)
        self._first = 2 if by > 0 else 0
        shifts = (2, 1, 0) if by > 0 else (0, 1, 2)
        self.states, self._next, self._second = [self._columns(k).unbind(0) for k in shifts]

    def _columns(self, first: int) -> Tensor:
        return self._all[:, :, first : first + self.width]

    def entered(self, t: int) -> Tensor:
        """The sum over the ways from the states of time `t`."""
        adjacent = rgrad.logaddexp(self.states[t], self._next[t])
        return rgrad.logaddexp(adjacent, self._second[t] + self._skips)

    def emit(self, t: int, entered: Tensor) -> None:
        rgrad.add(entered, self._emitted[t], out=self.states[t])

    def table(self, count: int) -> Tensor:
        return self._columns(self._first)[:count]


class _CTC(Function):
    """The losses of all samples; see Note [The lattice of CTC]."""

    @staticmethod
    def forward(
        ctx: Any,
        log_probs: Tensor,
        targets: Tensor,
        steps: Tensor,
        lengths: Tensor,
        blank: int,
        zero_infinity: bool,
    ) -> Tensor:
        count, batch, _ = log_probs.shape
        width = 2 * targets.size(1) + 1
        labels = targets.new_full((batch, width), blank)
        labels[:, 1::2] = targets
        emitted = log_probs.gather(2, labels.expand(count, batch, width))
        differs = (labels[:, 2:] != labels[:, :-2]) & (labels[:, 2:] != blank)
        none = differs.new_zeros((batch, min(2, width)))
        onward, back = rgrad.cat([none, differs], 1), rgrad.cat([differs, none], 1)

        places = rgrad.arange(width)
        # A path starts with the first blank or label, and ends with the last label or blank.
        first = (places < 2) & (places <= 2 * lengths.unsqueeze(1))
        last = (places <= 2 * lengths.unsqueeze(1)) & (places >= 2 * lengths.unsqueeze(1) - 1)
        lattice = _Lattice(count, emitted, onward, 1)
        lattice.states[0].copy_(emitted[0].masked_fill(~first, -rgrad.inf))
        for t in range(1, count):
            lattice.emit(t, lattice.entered(t - 1))
        alpha = lattice.table(count)
        end = alpha.gather(0, (steps - 1).clamp_min(0).view(1, -1, 1).expand(1, batch, width))[0]
        losses = -end.masked_fill(~last, -rgrad.inf).logsumexp(1)
        # Without any step, the empty sequence has probability 1.
        losses = rgrad.where(steps > 0, losses, rgrad.where(lengths == 0, 0.0, rgrad.inf).to(losses.dtype))
        ctx.save_for_backward(log_probs, labels, emitted, alpha, losses)
        ctx.lattice = steps, last, back
        ctx.impossible = 0.0 if zero_infinity else rgrad.nan
        return losses.masked_fill(losses == rgrad.inf, 0.0) if zero_infinity else losses

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        log_probs, labels, emitted, alpha, losses = ctx.saved_tensors
        steps, last, back = ctx.lattice
        count = log_probs.size(0)
        end = rgrad.where(last, 0.0, -rgrad.inf).to(emitted.dtype)
        ends = (steps == rgrad.arange(1, count + 1).unsqueeze(1)).unsqueeze(2).unbind(0)
        # After the last time no state has been reached.
        lattice = _Lattice(count + 1, emitted, back, -1)
        for t in reversed(range(count)):
            lattice.emit(t, rgrad.where(ends[t], end, lattice.entered(t + 1)))
        beta = lattice.table(count)
        visits = (alpha + beta - emitted + losses.view(1, -1, 1)).exp()
        expected = rgrad.zeros_like(log_probs).scatter_add(2, labels.expand_as(visits), visits)
        active = (rgrad.arange(count).unsqueeze(1) < steps).unsqueeze(2)
        grad = (log_probs.exp() - expected) * grads[0].view(1, -1, 1)
        grad = rgrad.where(active, grad, rgrad.zeros_like(grad))
        # Without any step, no element of the input was read.
        impossible = (losses == rgrad.inf) & (steps > 0)
        return grad.masked_fill(impossible.view(1, -1, 1), ctx.impossible), None, None, None, None, None


_INTEGERS = (rgrad.uint8, rgrad.int8, rgrad.int16, rgrad.int32, rgrad.int64)


def _lengths(name: str, value: Any, batch: int) -> Tensor:
    lengths = rgrad.as_tensor(value, device="cpu").reshape(-1)
    if lengths.numel() and lengths.dtype not in _INTEGERS:
        raise RuntimeError(f"{name} must be integral")
    lengths = lengths.to(rgrad.int64)
    if lengths.numel() != batch:
        raise RuntimeError(f"{name} must be of size batch_size")
    if bool((lengths < 0).any()):
        raise RuntimeError(f"{name} must be non-negative")
    return lengths


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
    """The negative logarithm of the probability of label sequences, over all their alignments.

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
    if not 0 <= blank < probs.size(2):
        raise RuntimeError("blank must be in label range")
    batch = probs.size(1)
    steps = _lengths("input_lengths", input_lengths, batch)
    lengths = _lengths("target_lengths", target_lengths, batch)
    if int(steps.max()) > probs.size(0):
        raise RuntimeError(
            f"Expected input_lengths to have value at most {probs.size(0)}, but got value {int(steps.max())} "
            "(while checking arguments for ctc_loss_allocate_outputs)"
        )
    targets = targets.cpu().to(rgrad.int64)
    longest = int(lengths.max())
    if targets.dim() == 1:
        parts = targets.split([*lengths.tolist(), targets.numel() - int(lengths.sum())])
        padded = targets.new_full((batch, longest), blank)
        for row, part in zip(padded, parts[:-1], strict=True):
            row[: part.numel()] = part
        targets = padded
    if targets.size(1) < longest:
        raise RuntimeError(
            f"Expected tensor to have size at least {longest} at dimension 1, but got size {targets.size(1)} for "
            "argument #2 'targets' (while checking arguments for ctc_loss_allocate_outputs)"
        )
    counts = rgrad.arange(longest) < lengths.unsqueeze(1)
    targets = targets[:, :longest].masked_fill(~counts, blank)
    # Half types are too inaccurate for sums of logarithms; the lattice is computed on the CPU.
    wide = probs.cpu() if probs.dtype == rgrad.float64 else probs.cpu().float()
    losses = _CTC.apply(wide, targets, steps, lengths, blank, zero_infinity)
    losses = losses.to(device=log_probs.device, dtype=log_probs.dtype)
    if reduction == "mean":
        return (losses / lengths.clamp_min(1).to(losses)).mean()
    if reduction == "sum":
        return losses.sum()
    return losses if batched else losses.squeeze(0)
