"""Modules whose `forward` is the code of a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
import os
from typing import Any

from rgrad import Tensor
from rgrad.fx.graph import Graph, PythonCode
from rgrad.nn import Module

__all__ = ["GraphModule", "reduce_graph_module"]

_numbers = itertools.count()


def _compiled(code: PythonCode) -> Any:
    """The function `forward` of a code, whose lines tracebacks show."""
    name = f"<eval_with_key>.{next(_numbers)}"
    linecache.cache[name] = (len(code.src), None, code.src.splitlines(keepends=True), name)
    space = dict(code.globals)
    exec(compile(code.src, name, "exec"), space)
    return space["forward"]


def _copy_path(source: Any, target: Any, path: str) -> None:
    """Gives a module what another has at a path, with empty modules on the way."""
    *parents, last = path.split(".")
    for part in parents:
        source = getattr(source, part)
        if not hasattr(target, part):
            target.add_module(part, Module())
        target = getattr(target, part)
    _assign(getattr(source, last), target, last)


def _assign(value: Any, target: Any, name: str) -> None:
    if isinstance(value, Tensor) and not hasattr(value, "_is_param") and type(value).__name__ != "Parameter":
        target.register_buffer(name, value)
    else:
        setattr(target, name, value)


class GraphModule(Module):
    """A module that runs a graph.

    Args:
        root: the module that has what the graph looks up, or a dictionary of it by paths. Only that is taken over.
        graph: the graph; call `recompile` after changing it.
        class_name: what `repr` calls the module.

    Example:
        >>> import rgrad as torch
        >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        >>> traced(torch.tensor([-1.0]))
        tensor([1.])
        >>> print(traced.code.strip())
        def forward(self, x):
            relu = torch.relu(x);  x = None
            add = relu + 1;  relu = None
            return add
    """

    _code: str

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Every instance has a `forward` of its own, which stands in its class.
        base = next(c for c in cls.__mro__ if "forward" not in vars(c) or c is GraphModule)
        return super().__new__(type("GraphModuleImpl", (base,), {"__module__": base.__module__}))

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        targets = [str(n.target) for n in graph.nodes if n.op in ("call_module", "get_attr")]
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for path in dict.fromkeys(targets):
                _copy_path(root, self, path)
        elif isinstance(root, dict):
            for path in dict.fromkeys(targets):
                if path not in root:
                    raise RuntimeError(f"the graph looks up {path!r}, which is not among what it was given")
            # Modules come before what is in them.
            for path in sorted(set(targets), key=lambda p: p.count(".")):
                self._place(path, root[path])
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        self._tracer_cls = graph._tracer_cls
        self.meta: dict[str, Any] = {}

    def _place(self, path: str, value: Any) -> None:
        at: Any = self
        *parents, last = path.split(".")
        for part in parents:
            if not hasattr(at, part):
                at.add_module(part, Module())
            at = getattr(at, part)
        _assign(value, at, last)

    @property
    def graph(self) -> Graph:
        """The graph; assigning one that belongs to another module takes a copy of it."""
        return self.__dict__["_graph"]

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(graph)}")
        if graph.owning_module not in (None, self):
            graph = copy.deepcopy(graph)
        graph.owning_module = self
        self.__dict__["_graph"] = graph
        self.recompile()

    @property
    def code(self) -> str:
        """The code of `forward`."""
        return self._code

    def recompile(self) -> PythonCode:
        """Makes `forward` anew, after the graph was changed."""
        code = self.graph.python_code("self")
        self.__dict__["_code"] = code.src
        type(self).forward = _compiled(code)
        return code

    def add_submodule(self, target: str, m: Module) -> bool:
        """Puts a module at a path, with empty modules on the way; False where something else stands there."""
        at: Any = self
        *parents, last = target.split(".")
        for part in parents:
            if not hasattr(at, part):
                at.add_module(part, Module())
            at = getattr(at, part)
            if not isinstance(at, Module):
                return False
        at.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Removes the module at a path; False where there is none."""
        *parents, last = target.split(".")
        at: Any = self
        for part in parents:
            at = getattr(at, part, None)
        if not isinstance(at, Module) or not isinstance(getattr(at, last, None), Module):
            return False
        delattr(at, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Removes the modules that no node calls or looks into."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = str(node.target).split(".")
                used.update(".".join(parts[:i]) for i in range(1, len(parts) + 1))
                if node.op == "call_module":
                    inner = self.get_submodule(str(node.target))
                    used.update(f"{node.target}.{name}" for name, _ in inner.named_modules())
        for name, _ in list(self.named_modules()):
            if name and name not in used:
                self.delete_submodule(name)

    def print_readable(self, print_output: bool = True, **options: Any) -> str:
        """The code as a class, which is printed too.

        Args:
            print_output: whether it is printed.
            options: accepted, without effect.
        """
        body = "".join(f"    {line}\n" if line.strip() else "\n" for line in self.code.strip("\n").splitlines())
        text = f"class {self._get_name()}(torch.nn.Module):\n{body.rstrip()}\n"
        if print_output:
            print(text)
        return text

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Refuses: save the module by `torch.save`."""
        from rgrad._absent import refuse

        refuse("GraphModule.to_folder", f"save the module {module_name} by torch.save")

    def _copied_state(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("_graph", None)
        return state

    def __deepcopy__(self, memo: Any) -> Any:
        made = _bare(type(self).__name__)
        memo[id(self)] = made
        made.__dict__.update(copy.deepcopy(self._copied_state(), memo))
        graph = copy.deepcopy(self.graph, memo)
        graph.owning_module = None
        made.graph = graph
        return made

    def __copy__(self) -> Any:
        made = _bare(type(self).__name__)
        made.__dict__.update(self._copied_state())
        made.graph = copy.deepcopy(self.graph)
        return made

    def __reduce__(self) -> Any:
        return reduce_graph_module, (self._copied_state(), self.graph, type(self).__name__)

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self._code}"


def _bare(class_name: str) -> Any:
    made: Any = GraphModule.__new__(GraphModule)
    Module.__init__(made)
    type(made).__name__ = class_name
    return made


def reduce_graph_module(state: dict[str, Any], graph: Graph, class_name: str) -> GraphModule:
    """Makes a module again that was pickled."""
    made = _bare(class_name)
    made.__dict__.update(state)
    made.graph = graph
    return made


