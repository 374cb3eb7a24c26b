"""`torch.fx`: programs as graphs that can be looked at, changed and run.

>>> import rgrad as torch
>>> traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()))
>>> for node in traced.graph.nodes:
...     print(node.op, node.target)
placeholder input
call_module 0
call_module 1
output output
"""

from __future__ import annotations

from rgrad.fx import immutable_collections, interpreter, proxy
from rgrad.fx._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from rgrad.fx.graph import CodeGen, Graph
from rgrad.fx.graph_module import GraphModule
from rgrad.fx.interpreter import Interpreter, Transformer
from rgrad.fx.node import Node, has_side_effect, map_arg
from rgrad.fx.proxy import Proxy
from rgrad.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "immutable_collections",
    "interpreter",
    "map_arg",
    "proxy",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]
