"""`torch.cuda.graphs`: names only, as what a GPU is asked to do is not recorded."""

from __future__ import annotations

from rgrad._absent import absent_class, absent_function

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]

_WHY = "what a GPU is asked to do is not recorded"

CUDAGraph = absent_class("torch.cuda.CUDAGraph", _WHY)
graph = absent_class("torch.cuda.graph", _WHY)
graph_pool_handle = absent_function("torch.cuda.graph_pool_handle", _WHY)
make_graphed_callables = absent_function("torch.cuda.make_graphed_callables", _WHY)


def is_current_stream_capturing() -> bool:
    """False: there is no graph capture."""
    return False
