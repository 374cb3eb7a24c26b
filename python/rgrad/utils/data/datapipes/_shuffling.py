"""The random numbers of pipes that shuffle."""

from __future__ import annotations

import random
from typing import Self

from rgrad.utils.data.sampler import random_seed


class Shuffling:
    """A pipe whose order can be turned to that of the source, and whose passes can be given a seed."""

    def _start_shuffling(self) -> None:
        self._enabled = True
        self._seed: int | None = None
        self._random = random.Random()

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Turns shuffling on or off, and returns the pipe."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Self:
        """Sets the seed of the next pass, and returns the pipe."""
        self._seed = seed
        return self

    def reset(self) -> None:
        """Seeds the random numbers of a pass."""
        if self._enabled:
            self._random.seed(random_seed() if self._seed is None else self._seed)
            self._seed = None
