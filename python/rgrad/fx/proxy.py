"""Values that stand for what a traced program will compute: operations on them become nodes."""

from __future__ import annotations

import enum
import inspect
import opcode
import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import rgrad
from rgrad.fx.graph import Graph
from rgrad.fx.node import Argument, Node, Target, map_aggregate

__all__ = ["Attribute", "GraphAppendingTracer", "Proxy", "TraceError", "TracerBase"]

_UNPACK = opcode.opmap["UNPACK_SEQUENCE"]
_BASE_TYPES = (str, int, float, bool, complex, type(None), type(...), enum.Enum, range, bytes)
_CORE_TYPES = (rgrad.dtype, rgrad.device, rgrad.memory_format)


class TraceError(ValueError):
    """A program does something that depends on values, which tracing does not know."""


class TracerBase:
    """What makes nodes of calls."""

    graph: Graph
    record_stack_traces = False
    trace_asserts = False

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Adds a node; a subclass may add to it or refuse it."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if self.record_stack_traces:
            import traceback

            node.stack_trace = "".join(traceback.format_stack()[:-2])
        return node

    def proxy(self, node: Node) -> Proxy:
        """What stands for the value of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Any = None,
    ) -> Any:
        """Adds a node and returns what stands for its value.

        Args:
            kind: of the node.
            target: of the node.
            args: arguments with proxies.
            kwargs: arguments by name with proxies.
            name: that the node would like to have.
            type_expr: an annotation of its value.
            proxy_factory_fn: makes the proxy of the node, in place of `proxy`.
        """
        made_args, made_kwargs = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, made_args, dict(made_kwargs), name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Argument:
        """An argument of a node for a value of the program, which may have proxies in it."""
        own = getattr(type(a), "__fx_create_arg__", None)
        if own is not None:
            return own(a, self)
        if isinstance(a, dict) and any(isinstance(key, (Proxy, Node)) for key in a):
            raise RuntimeError("Keys for dictionaries used as an argument cannot contain a Node")
        if isinstance(a, (tuple, list, dict, slice)):
            return _plain(map_aggregate(a, self.create_arg))
        if isinstance(a, (Node, *_BASE_TYPES, *_CORE_TYPES, type)) or callable(a):
            return a
        if type(a).__module__.partition(".")[0] in ("rgrad", "torch"):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """What a condition does with a proxy: it is an error."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """What a loop does with a proxy: it is an error, unless it takes a known number of values."""
        frame = inspect.currentframe()
        frame = frame.f_back.f_back if frame is not None and frame.f_back is not None else None
        if frame is not None and frame.f_lasti >= 0:
            code = frame.f_code.co_code
            if code[frame.f_lasti] == _UNPACK:
                return (obj[i] for i in range(code[frame.f_lasti + 1]))
        raise TraceError(
            "Proxy object cannot be iterated: how many values it has is not known while a program is traced. "
            "Take them by index, or mark the function by torch.fx.wrap"
        )

    def keys(self, obj: Proxy) -> Any:
        """What `**` does with a proxy."""
        return Attribute(obj, "keys")()


def _plain(a: Any) -> Any:
    """Lists and dictionaries that may be changed, at the top."""
    return list(a) if isinstance(a, list) else dict(a) if isinstance(a, dict) else a


class GraphAppendingTracer(TracerBase):
    """Adds nodes to a graph that is there."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """Stands for the value of a node: operations on it, its attributes and its methods become nodes.

    Args:
        node: the node.
        tracer: makes the nodes; by default one that adds to the graph of `node`.
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __fx_create_arg__(self, tracer: TracerBase) -> Node:
        return self.node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    if TYPE_CHECKING:

        def __getitem__(self, index: Any) -> Any: ...

    def __len__(self) -> NoReturn:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    def __contains__(self, item: object) -> bool:
        raise TraceError("'in' on a traced value asks for a truth value, which tracing does not know")

    def keys(self) -> Any:
        """The keys of the value, of which `**` asks."""
        return self.tracer.keys(self)

    def __deepcopy__(self, memo: Any) -> Any:
        return self.tracer.create_proxy("call_function", _deepcopy(), (self,), {})

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found: list[Proxy] = []
        map_aggregate((tuple(args), dict(kwargs)), lambda x: found.append(x) if isinstance(x, Proxy) else None)
        tracers = {id(proxy.tracer): proxy.tracer for proxy in found}
        if len(tracers) != 1:
            raise RuntimeError(f"a call of {func} has values of {len(tracers)} tracers")
        (tracer,) = tracers.values()
        name = getattr(func, "__name__", "")
        if _is_method(func):
            return tracer.create_proxy("call_method", name, tuple(args), kwargs)
        return tracer.create_proxy("call_function", func, tuple(args), kwargs)


def _deepcopy() -> Any:
    import copy

    return copy.deepcopy


def _is_method(func: Any) -> bool:
    """Whether a function that a handler was given is a method of tensors."""
    name = getattr(func, "__name__", "")
    return getattr(rgrad.Tensor, name, None) is func or str(getattr(func, "__qualname__", "")).startswith("Tensor.")


class Attribute(Proxy):
    """Stands for an attribute: its node is made when the value is used, and not where it is called as a method."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The look-up."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        assert self._node is not None
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


_FORWARD = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and_", "or_", "xor"),
    *("eq", "ne", "lt", "le", "gt", "ge", "getitem", "neg", "pos", "invert", "abs"),
)
_REFLECTED = _FORWARD[:13]


def _operator(name: str, reflected: bool) -> Any:
    function = getattr(operator, name)

    def method(self: Proxy, *args: Any) -> Any:
        values = (*args, self) if reflected else (self, *args)
        return self.tracer.create_proxy("call_function", function, values, {})

    method.__name__ = f"__{'r' if reflected else ''}{name.rstrip('_')}__"
    return method


for _name in _FORWARD:
    setattr(Proxy, f"__{_name.rstrip('_')}__", _operator(_name, False))
for _name in _REFLECTED:
    setattr(Proxy, f"__r{_name.rstrip('_')}__", _operator(_name, True))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign] - `==` makes a node

