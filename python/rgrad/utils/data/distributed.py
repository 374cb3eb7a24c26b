"""A sampler that gives each of several training processes its share of a dataset."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

import rgrad

from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index from `rank` on, of one order that all processes agree on.

    Args:
        dataset: with a length.
        num_replicas: how many processes there are.
        rank: which of them this one is.
        shuffle: whether the order is random; `set_epoch` makes it another each epoch.
        seed: what the order follows from, together with the epoch.
        drop_last: whether to leave out the samples that make the shares uneven, rather than repeat some.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise ValueError(
                "Default process group has not been initialized: there are none here. Give num_replicas and rank."
            )
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        share = len(dataset) / num_replicas
        self.num_samples = math.floor(share) if drop_last else math.ceil(share)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        if self.shuffle:
            generator = rgrad.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = rgrad.randperm(len(self.dataset), generator=generator).tolist()
        else:
            order = list(range(len(self.dataset)))
        if order:
            order *= math.ceil(self.total_size / len(order))
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch, alike in all processes."""
        self.epoch = epoch
