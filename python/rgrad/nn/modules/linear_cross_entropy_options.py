"""How the linear cross entropy is computed in parts."""

from dataclasses import dataclass
from typing import Any

__all__ = ["LinearCrossEntropyOptions"]


@dataclass
class LinearCrossEntropyOptions:
    """Asks `linear_cross_entropy` to compute the scores of a part of the batch at a time, and again in backward.

    The scores of all samples are never in memory together, at the cost of computing them twice.

    Args:
        allow_retain_graph: accepted; backward can always be repeated.
        batch_chunk_size: samples per part; chosen by the numbers of features and classes if None.
        chunking_method: ``'auto'``, or None for a single part.
        acc_policy: ``'accurate'``, ``'compact'`` or ``'auto'``; accepted, without effect.
        acc_dtype: accepted, without effect.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def rows(self, batch: int, features: int, classes: int) -> int:
        """Samples per part: by default so many that their scores take the memory of the input."""
        if self.batch_chunk_size is not None:
            return max(1, self.batch_chunk_size)
        if self.chunking_method is None:
            return max(1, batch)
        return max(1, -(-batch * features // max(1, classes)))
