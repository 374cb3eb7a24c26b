"""Tracing of the operations that a function computes: `make_fx`.

The function is called once, with the arguments, below a mode of `__torch_dispatch__`. Every operation that reaches the
mode is computed and becomes a node: so the graph has no autograd, `vmap` or modules in it, only what they come to, and
its control flow is that of this call.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from rgrad._absent import refuse
from rgrad._C import Tensor
from rgrad.fx.graph import Graph
from rgrad.fx.graph_module import GraphModule
from rgrad.fx.node import Node
from rgrad.nn import Module
from rgrad.utils._python_dispatch import TorchDispatchMode
from rgrad.utils._pytree import tree_flatten, tree_map

__all__ = ["ProxyTorchDispatchMode", "get_proxy_mode", "make_fx"]


def _place(t: Tensor) -> tuple[Any, ...]:
    """Equal for two tensors that are the same numbers in memory."""
    return t.untyped_storage()._cdata, t.storage_offset(), tuple(t.shape), t.stride(), t.dtype


class ProxyTorchDispatchMode(TorchDispatchMode):
    """The mode that records operations as nodes of a graph.

    Args:
        graph: to which nodes are added.
        root: the module that gets the tensors that are no result of a node.
        decompositions: by operation, a function that computes it by others, which are recorded in its place.
    """

    def __init__(self, graph: Graph, root: Module, decompositions: dict[Any, Callable[..., Any]] | None = None) -> None:
        super().__init__()
        self.graph, self.root = graph, root
        self.decompositions = decompositions or {}
        # By id, and by place in memory: what a node saved for backward is another tensor of the same memory. The
        # tensors are kept, so that ids and memory are not used again.
        self._nodes: dict[Any, tuple[Tensor, Node]] = {}
        self._constants = 0

    def follow(self, value: Any, node: Node) -> None:
        """Has a node stand for a value: a tensor, or a tuple or list with tensors."""
        if isinstance(value, Tensor):
            self._nodes[id(value)] = self._nodes[_place(value)] = (value, node)
        elif isinstance(value, tuple | list):
            for i, item in enumerate(value):
                if isinstance(item, Tensor):
                    self.follow(item, self.graph.create_node("call_function", operator.getitem, (node, i)))

    def node_of(self, value: Any) -> Any:
        """The node of a tensor: one that looks it up in the root if no node computed it. Other values as they are."""
        if not isinstance(value, Tensor):
            return value
        known = self._nodes.get(id(value)) or self._nodes.get(_place(value))
        if known is not None:
            return known[1]
        name = f"_tensor_constant{self._constants}"
        self._constants += 1
        setattr(self.root, name, value.detach())
        node = self.graph.create_node("get_attr", name)
        self.follow(value, node)
        return node

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if types:
            return NotImplemented  # The class computes it by operations on other tensors, which are recorded.
        for operation in (func, getattr(func, "overloadpacket", None)):
            if operation in self.decompositions:
                with self:
                    made = self.decompositions[operation](*args, **kwargs)
                if made is not NotImplemented:
                    return made
        given = tree_map(self.node_of, args), tree_map(self.node_of, kwargs)
        made = func(*args, **kwargs)
        if any(isinstance(leaf, Tensor) for leaf in tree_flatten(made)[0]):
            name = func.overloadpacket.__name__
            self.follow(made, self.graph.create_node("call_function", func, *given, name=name))
        return made


_modes: list[ProxyTorchDispatchMode] = []


@contextmanager
def _tracing(mode: ProxyTorchDispatchMode) -> Any:
    _modes.append(mode)
    try:
        with mode:
            yield
    finally:
        _modes.pop()


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The mode of the trace that is under way; None without one."""
    return _modes[-1] if _modes else None


def _names(function: Callable[..., Any], count: int) -> list[str]:
    """The names of positional parameters; those of a function that takes any number are arg0, arg1."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return plain[:count] if len(plain) >= count else [f"arg{i}" for i in range(count)]


def make_fx(
    f: Callable[..., Any],
    decomposition_table: dict[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
) -> Callable[..., GraphModule]:
    """A function that traces another: it calls it, and returns a module of the operations that the call computed.

    Args:
        f: takes tensors and other values, each an argument of the graph; returns tensors, in tuples, lists and dicts.
        decomposition_table: by operation, such as `torch.ops.aten.silu.default`, a function that computes it by others.
        tracing_mode: "real", or "fake", which computes the values as well. "symbolic" is refused, as sizes are numbers
            in the graph.
        pre_dispatch: must be False: operations are recorded below autograd.

    Example:
        >>> import rgrad as torch
        >>> from rgrad.fx.experimental.proxy_tensor import make_fx
        >>> traced = make_fx(torch.func.grad(lambda x: x.sin().sum()))(torch.ones(3))
        >>> traced(torch.zeros(3))
        tensor([1., 1., 1.])
    """
    if tracing_mode == "symbolic":
        refuse("make_fx(tracing_mode='symbolic')", "sizes are never symbols")
    if tracing_mode not in ("real", "fake"):
        raise AssertionError(f"tracing_mode is one of real, fake, symbolic, but got {tracing_mode!r}")
    if pre_dispatch:
        refuse("make_fx(pre_dispatch=True)", "operations are recorded below autograd")

    @functools.wraps(f)
    def traced(*args: Any) -> GraphModule:
        graph, root = Graph(), Module()
        mode = ProxyTorchDispatchMode(graph, root, decomposition_table)
        for name, arg in zip(_names(f, len(args)), args, strict=True):
            if not isinstance(arg, Tensor) and tree_flatten(arg)[1].num_children:
                raise NotImplementedError(f"make_fx: the argument {name} is a container; pass its tensors one by one")
            mode.follow(arg, graph.placeholder(f"{name}_1"))
        with _tracing(mode):
            made = f(*args)
        graph.output(tree_map(mode.node_of, made))
        return GraphModule(root, graph, getattr(f, "__name__", "traced"))

    return traced
