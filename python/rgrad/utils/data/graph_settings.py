"""Settings of the pipes that a pipe is made of."""

from __future__ import annotations

import warnings
from typing import Any

from rgrad import Generator
from rgrad.utils.data.datapipes.iter.combinatorics import ShufflerIterDataPipe
from rgrad.utils.data.datapipes.map.combinatorics import ShufflerIterDataPipe as MapShuffler
from rgrad.utils.data.graph import DataPipeGraph, traverse_dps
from rgrad.utils.data.sampler import random_seed

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_settings", "get_all_graph_pipes"]


def get_all_graph_pipes(graph: DataPipeGraph) -> list[Any]:
    """The pipes of a graph, each once, sources after what is made of them.

    Args:
        graph: as `traverse_dps` returns it.
    """
    found: dict[int, Any] = {}
    for key, (pipe, sources) in graph.items():
        found.setdefault(key, pipe)
        for source in get_all_graph_pipes(sources):
            found.setdefault(id(source), source)
    return list(found.values())


def apply_sharding(datapipe: Any, num_of_instances: int, instance_id: int) -> Any:
    """Gives each part of the samples to one of several workers, by the `sharding_filter` in a pipe.

    Args:
        datapipe: the pipe.
        num_of_instances: the number of workers.
        instance_id: which of them this is.

    Returns:
        The pipe.

    Raises:
        RuntimeError: there is a `sharding_filter` before another one, so that samples would be lost.
    """
    _shard(traverse_dps(datapipe), num_of_instances, instance_id, False)
    return datapipe


def _shard(graph: DataPipeGraph, count: int, number: int, sharded: bool) -> None:
    for pipe, sources in graph.values():
        apply = getattr(type(pipe), "apply_sharding", None)
        if apply is not None:
            if sharded:
                raise RuntimeError("Sharding twice on a single pipeline is likely unintended and will cause data loss.")
            apply(pipe, count, number)
        _shard(sources, count, number, sharded or apply is not None)


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Turns each `shuffle` in a pipe on or off.

    Args:
        datapipe: the pipe.
        shuffle: None changes nothing. If it is True and nothing in the pipe shuffles, `shuffle` is added, with a
            warning.

    Returns:
        The pipe, or the shuffled one.
    """
    if shuffle is None:
        return datapipe
    shufflers = [p for p in get_all_graph_pipes(traverse_dps(datapipe)) if _shuffles(p)]
    if not shufflers and shuffle:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`: one is added at the end, with its "
            "default buffer.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for shuffler in shufflers:
        shuffler.set_shuffle(shuffle)
    return datapipe


def _shuffles(pipe: Any) -> bool:
    of_its_own = hasattr(type(pipe), "set_shuffle") and hasattr(type(pipe), "set_seed")
    return of_its_own or isinstance(pipe, (ShufflerIterDataPipe, MapShuffler))


def apply_random_seed(datapipe: Any, rng: Generator) -> Any:
    """Seeds each pipe that draws random numbers, which those with a method `set_seed` are.

    Args:
        datapipe: the pipe.
        rng: the generator that the seeds are drawn from.

    Returns:
        The pipe.
    """
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if hasattr(type(pipe), "set_seed"):
            pipe.set_seed(random_seed(rng))
    return datapipe
