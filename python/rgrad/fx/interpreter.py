"""Running a graph node by node, for what changes or watches a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rgrad.fx.graph import Graph
from rgrad.fx.graph_module import GraphModule
from rgrad.fx.node import Argument, Node, Target, map_aggregate, map_arg
from rgrad.fx.proxy import Proxy
from rgrad.nn import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs the graph of a module; a subclass changes what a kind of node does.

    Args:
        module: has what the graph looks up.
        garbage_collect_values: whether values are forgotten after their last use.
        graph: another graph than the module's.

    Example:
        >>> import rgrad as torch
        >>> class Names(torch.fx.Interpreter):
        ...     def run_node(self, n):
        ...         print(n.name)
        ...         return super().run_node(n)
        >>> Names(torch.fx.symbolic_trace(lambda x: x + 1)).run(torch.ones(1))
        x
        add
        output
        tensor([2.])
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module: Any = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = self.module.graph if graph is None else graph
        self.garbage_collect_values = garbage_collect_values
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.args_iter: Iterator[Any] = iter(())
        self._last: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for node in reversed(self.graph.nodes):
            for used in node.all_input_nodes:
                if used not in seen:
                    seen.add(used)
                    self._last.setdefault(node, []).append(used)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Runs the graph.

        Args:
            args: its arguments.
            initial_env: values that nodes have already.
            enable_io_processing: accepted, without effect.

        Returns:
            What it returns.
        """
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                error.add_note(f"While executing {node.format_node()}")
                raise
            if node.op == "output":
                return self.env[node]
            if self.garbage_collect_values:
                for used in self._last.get(node, ()):
                    self.env.pop(used, None)
        return None

    def run_node(self, n: Node) -> Any:
        """The value of a node, by the method that its kind is called."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument of the run."""
        if str(target).startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!")

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """What the module has at a path."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function."""
        assert not isinstance(target, str)
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a method of the first argument."""
        owner, *rest = args
        return getattr(owner, str(target))(*rest, **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a submodule."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """What the graph returns."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """What the module has at a path."""
        at = self.module
        for part in target.split("."):
            if not hasattr(at, part):
                raise RuntimeError(f"Node referenced nonexistent target {target}")
            at = getattr(at, part)
        return at

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The values of the arguments of a node."""
        return self.map_nodes_to_values(n.args, n), dict(self.map_nodes_to_values(n.kwargs, n))

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """An argument with the values of the nodes in it."""

        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(f"Node {n} uses {node}, which has no value yet: Graph.lint() tells what is wrong")
            return self.env[node]

        return map_arg(args, value)


class Transformer(Interpreter):
    """Makes a module anew of what its methods do with the nodes of another.

    Args:
        module: the other, which stays as it is.
    """

    def __init__(self, module: GraphModule) -> None:
        from rgrad.fx._symbolic_trace import Tracer

        super().__init__(module)
        self.new_graph = Graph()

        class _Into(Tracer):
            """Adds to the new graph; every module is a leaf."""

            def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
                """True."""
                return True

        self.tracer: Any = _Into()
        self.tracer.graph, self.tracer.root = self.new_graph, module

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """An argument of the new module."""
        return Proxy(self.new_graph.placeholder(str(target), default_value=args[0] if args else ...), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """The look-up in the new module."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """A call in the new module."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """A call in the new module."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """A call in the new module."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Runs, and makes the new module."""
        result = super().run()
        if result is not None:
            self.new_graph.output(map_aggregate(result, lambda x: x.node if isinstance(x, Proxy) else x))
        return GraphModule(self.module, self.new_graph)
