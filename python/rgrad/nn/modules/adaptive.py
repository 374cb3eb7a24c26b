"""Softmax over many classes by their frequency."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import rgrad
from rgrad import _C

from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

Tensor = _C.Tensor


class _ASMoutput(NamedTuple):
    """The log probability of every target, and the mean of their negatives."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Computes log probabilities of classes that are sorted by frequency, with small layers for the rare ones.

    The head scores the classes below the first cutoff, and each cluster of rarer classes as a whole; a class of a
    cluster has the cluster's probability times its own within the cluster. Cluster i is scored by a map to
    ``in_features / div_value**(i + 1)`` features and one to its classes (Grave et al., "Efficient softmax approximation
    for GPUs", 2017).

    Args:
        in_features: size of the input.
        n_classes: number of classes.
        cutoffs: the first class of every cluster, increasing.
        div_value: by how much the size of a cluster's layer falls from cluster to cluster.
        head_bias: whether the head has a bias.
        device: of the parameters.
        dtype: of the parameters.

    Shape:
        Input: ``(N, in_features)`` or ``(in_features,)``; target: int64 classes, ``(N,)`` or ``()``; output as target;
        loss: ``()``.

    Raises:
        ValueError: the cutoffs are not increasing classes.

    >>> layer = rgrad.nn.AdaptiveLogSoftmaxWithLoss(16, 100, cutoffs=[10, 50])
    >>> layer(rgrad.zeros(3, 16), rgrad.tensor([0, 20, 99])).output.shape
    torch.Size([3])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        firsts = list(cutoffs)
        if not firsts:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        whole = all(int(c) == c for c in firsts)
        if not whole or not firsts[0] > 0 or firsts[-1] >= n_classes or any(a >= b for a, b in pairwise(firsts)):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, all below "
                "n_classes"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*firsts, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = firsts[0]
        self.n_clusters = len(firsts)
        self.head_size = self.shortlist_size + self.n_clusters
        made = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for power, (first, end) in enumerate(pairwise(self.cutoffs), start=1):
            hidden = int(in_features // div_value**power)
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **made), Linear(hidden, end - first, bias=False, **made)
                )
            )

    def reset_parameters(self) -> None:
        """Draws all weights anew."""
        self.head.reset_parameters()
        for cluster in self.tail:
            for layer in cluster.children():
                layer.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> _ASMoutput:
        """The targets' log probabilities and the loss."""
        self._check(input, target)
        batched = input.dim() > 1
        x, classes = (input, target) if batched else (input.unsqueeze(0), target.unsqueeze(0))
        if classes.numel():
            low, high = classes.min().item(), classes.max().item()
            if low < 0 or high >= self.n_classes:
                raise RuntimeError(
                    f"Target values should be in [0, {self.n_classes - 1}], but values in range [{low}, {high}] were "
                    "found. "
                )
        # Which cluster every target is in, counted from 1; 0 is the head.
        cluster_of = rgrad.bucketize(classes, classes.new_tensor(self.cutoffs[:-1]), right=True)
        column = rgrad.where(cluster_of == 0, classes, self.shortlist_size + cluster_of - 1)
        result = F.log_softmax(self.head(x), 1).gather(1, column.unsqueeze(1)).squeeze(1)
        for number, (cluster, first) in enumerate(zip(self.tail, self.cutoffs, strict=False), start=1):
            rows = (cluster_of == number).nonzero().squeeze(1)
            if rows.numel():
                within = F.log_softmax(cluster(x.index_select(0, rows)), 1)
                own = within.gather(1, (classes.index_select(0, rows) - first).unsqueeze(1)).squeeze(1)
                result = result.index_add(0, rows, own)
        loss = (-result).mean()
        return _ASMoutput(result if batched else result.squeeze(0), loss)

    @staticmethod
    def _check(input: Tensor, target: Tensor) -> None:
        if target.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if target.dim() == 1 and (input.dim() != 2 or input.size(0) != target.size(0)):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if target.dim() == 0 and input.dim() != 1:
            raise RuntimeError(
                f"0D target tensor expects 1D input tensors, but found inputs with size {rgrad.Size(input.shape)}"
            )

    def log_prob(self, input: Tensor) -> Tensor:
        """The log probabilities of all classes.

        Args:
            input: ``(N, in_features)``.

        Returns:
            A tensor ``(N, n_classes)``.
        """
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for place, cluster in enumerate(self.tail, start=self.shortlist_size):
            parts.append(F.log_softmax(cluster(input), 1) + head[:, place : place + 1])
        return rgrad.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of every sample.

        Clusters are scored only for samples whose most probable output of the head is a cluster, so the class is that
        of the largest `log_prob` except where a cluster is likely as a whole and none of its classes is.

        Args:
            input: ``(N, in_features)``.

        Returns:
            int64 classes, ``(N,)``.
        """
        best = self.head(input).argmax(1)
        rows = (best >= self.shortlist_size).nonzero().squeeze(1)
        if not rows.numel():
            return best
        return best.index_copy(0, rows, self.log_prob(input.index_select(0, rows)).argmax(1))
