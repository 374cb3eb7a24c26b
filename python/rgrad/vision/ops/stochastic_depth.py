"""Residual branches that are dropped at random (Huang et al., 2016)."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import Tensor, nn

__all__ = ["StochasticDepth", "stochastic_depth"]


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Zeroes whole samples of a residual branch at random, and scales the others by 1 / (1 - p).

    Args:
        input: of shape (N, ...).
        p: the probability of zeroing.
        mode: "row" decides for each sample, "batch" for all together.
        training: whether anything is done.

    Returns:
        A tensor of the input's shape.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}")
    if mode not in ("batch", "row"):
        raise ValueError(f"mode has to be either 'batch' or 'row', but got {mode}")
    if not training or p == 0.0:
        return input
    kept = 1.0 - p
    decisions = input.shape[0] if mode == "row" else 1
    shape: Any = (decisions, *[1] * (input.dim() - 1))
    factor = rgrad.empty(shape, dtype=input.dtype, device=input.device).bernoulli_(kept)
    return input * (factor / kept if kept > 0.0 else factor)


class StochasticDepth(nn.Module):
    """`stochastic_depth` as a module, which acts in training only.

    Args:
        p: the probability of zeroing.
        mode: "row" or "batch".
    """

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p = p
        self.mode = mode

    def forward(self, input: Tensor) -> Tensor:
        """Drops samples of (N, ...)."""
        return stochastic_depth(input, self.p, self.mode, self.training)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p}, mode={self.mode})"
