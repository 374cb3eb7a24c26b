"""Graphs: nodes in the order in which they run, and the Python code that they are."""

from __future__ import annotations

import builtins
import enum
import keyword
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import rgrad
from rgrad.fx.node import Argument, Node, Target, map_arg, qualified_name

__all__ = ["CodeGen", "Graph", "PythonCode"]

_BINARY = {
    **{"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**", "matmul": "@"},
    **{"lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^"},
    **{"eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">="},
}
_UNARY = {"pos": "+", "invert": "~", "neg": "-"}


@dataclass
class PythonCode:
    """The code of a graph, and what it finds in its globals."""

    src: str
    globals: dict[str, Any] = field(default_factory=dict)


class _Names:
    """Names of values that are no keywords and no builtins, each given once."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def create(self, wish: str) -> str:
        """A free name like the one that is wished for."""
        wish = re.sub(r"\W+", "_", wish) or "_unnamed"
        wish = f"_{wish}" if wish[0].isdigit() else wish
        numbered = re.fullmatch(r"(.*)_(\d+)", wish)
        stem, number = (numbered[1], int(numbered[2])) if numbered else (wish, 0)
        name = wish
        while name in self.used or keyword.iskeyword(name) or hasattr(builtins, name) or name in _TAKEN:
            number += 1
            name = f"{stem}_{number}"
        self.used.add(name)
        return name


# Globals of every code.
_TAKEN = {"torch", "device", "inf", "nan", "NoneType", "self"}


def _wish(target: Target) -> str:
    """The name that a node would like to have by its target."""
    name = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
    name = name.rstrip("_") if isinstance(target, str) or name in ("and_", "or_", "not_", "is_") else name
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace(".", "_"))
    return name.lower() if name.strip("_") else "value"


class _Nodes:
    """The nodes of a graph in order, or in reverse."""

    def __init__(self, graph: Graph, backward: bool = False) -> None:
        self.graph, self.backward = graph, backward

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        at = self._step(self.graph._root)
        while at is not self.graph._root:
            # The step is taken first, so that the node may be erased.
            following = self._step(at)
            if not at._erased:
                yield at
            at = following if not following._erased else self._step(at)

    def _step(self, node: Node) -> Node:
        return node._previous if self.backward else node._following

    def __reversed__(self) -> Iterator[Node]:
        return iter(_Nodes(self.graph, not self.backward))


class Graph:
    """A program of nodes.

    >>> import rgrad as torch
    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(torch.relu, (x,))
    >>> _ = graph.output(y)
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
        return relu
    >>> torch.fx.GraphModule({}, graph)(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None) -> None:
        self._root = Node(self, "", "placeholder", "", (), {})
        self._names = _Names()
        self._len = 0
        self._insert: Callable[[Node], None] = self._root.prepend
        self.owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()

    @property
    def nodes(self) -> _Nodes:
        """The nodes in order."""
        return _Nodes(self)

    def output_node(self) -> Node:
        """The node that returns."""
        return next(node for node in reversed(self.nodes) if node.op == "output")

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, and of a target where one is given."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    # Making nodes.

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Adds a node at the place of insertion, which is the end by default.

        Args:
            op: what it does; see `Node`.
            target: what is called or looked up.
            args: arguments.
            kwargs: arguments by name.
            name: that it would like to have; by default one like the target's.
            type_expr: an annotation of its value.
        """
        args, kwargs = args or (), kwargs or {}
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError("args must be a tuple and kwargs a dict")
        node = Node(self, self._names.create(name or _wish(target)), op, target, args, kwargs, type_expr)
        self._insert(node)
        self._len += 1
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """Adds an argument of the graph; with one or two stars in front of its name it takes what is left."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Adds the look-up of a parameter, buffer or other attribute of the module by its path."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """Adds the call of a submodule by its path."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """Adds the call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """Adds the call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """Adds what the graph returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda node: node) -> Node:
        """Adds a copy of a node, of another graph too.

        Args:
            node: what is copied.
            arg_transform: gives the nodes here for those among its arguments.
        """
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        copy = self.create_node(node.op, node.target, args, dict(kwargs), node.name, node.type)
        copy.meta = dict(node.meta)
        return copy

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Adds copies of all nodes of a graph.

        Args:
            g: the graph.
            val_map: gets the copy of each node; what it has already is not copied.
            return_output_node: whether the output node comes with the value.

        Returns:
            What the graph returns, in nodes of this one, or None.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0], val_map.__getitem__)
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def __deepcopy__(self, memo: Any = None) -> Graph:
        memo = {} if memo is None else memo
        copy = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        memo[id(self)] = copy
        copies: dict[Node, Node] = {}
        for node in self.nodes:
            copies[node] = copy.node_copy(node, copies.__getitem__)
        copy._codegen = self._codegen
        return copy

    def __getstate__(self) -> dict[str, Any]:
        rows = [(n.op, n.name, n.target, n.type, _packed(n.args), _packed(n.kwargs)) for n in self.nodes]
        return {"rows": rows, "tracer_cls": self._tracer_cls}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(tracer_cls=state["tracer_cls"])
        made: dict[str, Node] = {}
        for op, name, target, kind, args, kwargs in state["rows"]:
            args, kwargs = _unpacked(args, made), _unpacked(kwargs, made)
            made[name] = self.create_node(op, target, tuple(args), dict(kwargs), name, kind)

    # Where nodes are added.

    def inserting_before(self, n: Node | None = None) -> Any:
        """Has nodes added before another, the first by default, from here on or for a block."""
        return self._insertion_at(n.prepend if n is not None else self._root.append, n)

    def inserting_after(self, n: Node | None = None) -> Any:
        """Has nodes added after another, the last by default, from here on or for a block."""
        return self._insertion_at(n.append if n is not None else self._root.prepend, n)

    def _insertion_at(self, place: Callable[[Node], None], n: Node | None) -> Any:
        if n is not None and n.graph is not self:
            raise AssertionError("Node to insert at is not in graph.")
        return _Insertion(self, place)

    def erase_node(self, to_erase: Node) -> None:
        """Removes a node that nobody uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        to_erase._set((), {})
        following = to_erase._following
        previous = to_erase._previous
        to_erase._unlink()
        # Whoever iterates goes on from here.
        to_erase._previous, to_erase._following = previous, following
        to_erase._erased = True
        self._len -= 1

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Removes what nobody uses and what has no effect.

        Args:
            is_impure_node: tells of a node whether it is to be kept; by default `Node.is_impure`.

        Returns:
            Whether something was removed.
        """
        self.lint()
        before = self._len
        for node in reversed(self.nodes):
            kept = node.is_impure() if is_impure_node is None else is_impure_node(node)
            if not node.users and not kept:
                self.erase_node(node)
        return self._len < before

    def lint(self) -> None:
        """Checks the graph: nodes use earlier nodes of the same graph, names are used once, targets exist.

        Raises:
            RuntimeError: it is not so.
        """
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            for used in node.all_input_nodes:
                if used.graph is not self:
                    raise RuntimeError(f"Argument '{used}' of Node '{node}' does not belong to this Graph")
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! Please check that "
                        "Nodes in the graph are topologically ordered"
                    )
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("call_module", "get_attr"):
                _expect_target(self.owning_module, node)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Has another object write the code."""
        self._codegen = codegen

    def python_code(self, root_module: str, **options: Any) -> PythonCode:
        """The code of a function `forward`.

        Args:
            root_module: the name of the module in it, as "self".
            options: accepted, without effect.
        """
        return self._codegen.generate(self, root_module)

    def print_tabular(self) -> None:
        """Prints the nodes as a table."""
        heads = ("opcode", "name", "target", "args", "kwargs")
        rows = [(n.op, n.name, n._pretty_print_target(n.target), str(n.args), str(n.kwargs)) for n in self.nodes]
        widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
        for row in (heads, tuple("-" * width for width in widths), *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def __str__(self) -> str:
        lines = ["graph():", *(f"    {node.format_node()}" for node in self.nodes)]
        return "\n".join(lines)

    __repr__ = object.__repr__


class _Insertion:
    """A place of insertion, which holds from the start; the block after `with` ends it."""

    def __init__(self, graph: Graph, place: Callable[[Node], None]) -> None:
        self.graph, self.before = graph, graph._insert
        graph._insert = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.graph._insert = self.before


@dataclass(frozen=True)
class _Reference:
    """A node in a pickled argument."""

    name: str


def _packed(a: Argument) -> Argument:
    return map_arg(a, lambda node: _Reference(node.name))


def _unpacked(a: Argument, made: dict[str, Node]) -> Argument:
    from rgrad.fx.node import map_aggregate

    return map_aggregate(a, lambda x: made[x.name] if isinstance(x, _Reference) else x)


def _expect_target(module: Any, node: Node) -> None:
    at = module
    for part in str(node.target).split("."):
        if not hasattr(at, part):
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {part} of {type(at).__name__}"
            )
        at = getattr(at, part)
    if node.op == "call_module" and not isinstance(at, rgrad.nn.Module):
        raise RuntimeError(f"Node {node} target {node.target} does not reference an nn.Module")


class CodeGen:
    """Writes the code of a graph."""

    def generate(self, graph: Graph, root: str) -> PythonCode:
        """The code and its globals."""
        return _Writer(graph, root).write()


class _Writer:
    """Writes one code."""

    def __init__(self, graph: Graph, root: str) -> None:
        self.graph, self.root = graph, root
        self.globals: dict[str, Any] = {"torch": rgrad, "device": rgrad.device, "inf": math.inf, "nan": math.nan}
        self.parameters: list[str] = []
        self.last_of: dict[Node, list[Node]] = {}
        found: set[Node] = set()
        for node in reversed(graph.nodes):
            for used in node.all_input_nodes:
                if used not in found:
                    found.add(used)
                    self.last_of.setdefault(node, []).append(used)

    def write(self) -> PythonCode:
        lines = [line for node in self.graph.nodes for line in self._lines(node)]
        body = "".join(f"    {line}\n" for line in lines or ["pass"])
        parameters = ", ".join([self.root, *self.parameters])
        kind = next((n.type for n in self.graph.nodes if n.op == "output"), None)
        arrow = f" -> {self._global('return_type', kind)}" if kind is not None else ""
        return PythonCode(f"\n\n\ndef forward({parameters}){arrow}:\n{body}    ", self.globals)

    def _global(self, name: str, value: Any) -> str:
        """The name under which the code finds a value."""
        name = re.sub(r"\W", "_", name)
        if keyword.iskeyword(name) or hasattr(builtins, name):
            name = f"_{name}"
        wish, number = name, 0
        while self.globals.setdefault(name, value) is not value or name in self.graph._names.used:
            number += 1
            name = f"{wish}_{number}"
        return name

    def _lines(self, node: Node) -> list[str]:
        if node.op == "placeholder":
            return self._placeholder(node)
        if node.op == "output":
            return [f"return {self._text(node.args[0])}"]
        line = f"{node.name} = {self._call(node)}"
        done = self.last_of.get(node, []) + ([] if node.users else [node])
        return [f"{line};  {' = '.join(n.name for n in done)} = None" if done else line]

    def _placeholder(self, node: Node) -> list[str]:
        target = str(node.target)
        bare = target.lstrip("*")
        default = f" = {self._text(node.args[0])}" if node.args else ""
        self.parameters.append(target + default)
        return [f"{node.name} = {bare}"] if bare != node.name else []

    def _call(self, node: Node) -> str:
        args = [self._text(a) for a in node.args]
        named = [f"{key} = {self._text(value)}" for key, value in node.kwargs.items()]
        if node.op == "get_attr":
            return _path(self.root, str(node.target))
        if node.op == "call_module":
            return f"{_path(self.root, str(node.target))}({', '.join([*args, *named])})"
        if node.op == "call_method":
            owner = args[0] if isinstance(node.args[0], Node) else f"({args[0]})"
            return f"{owner}.{node.target}({', '.join([*args[1:], *named])})"
        function: Any = node.target
        module, name = getattr(function, "__module__", None), getattr(function, "__name__", "")
        if module == "_operator" and not named:
            if name in _BINARY and len(args) == 2:
                return f"{args[0]} {_BINARY[name]} {args[1]}"
            if name in _UNARY and len(args) == 1:
                return f"{_UNARY[name]}{args[0]}"
            if name == "getitem" and isinstance(node.args[0], Node):
                return f"{args[0]}[{args[1]}]"
        if function is getattr and len(args) == 2 and isinstance(node.args[1], str) and node.args[1].isidentifier():
            return f"{args[0]}.{node.args[1]}"
        return f"{self._function(function)}({', '.join([*args, *named])})"

    def _function(self, function: Any) -> str:
        name = qualified_name(function)
        if name is not None and name.startswith("torch."):
            return name
        if name is not None and name.startswith("builtins."):
            return name[len("builtins.") :]
        return self._global(name or getattr(function, "__name__", "function"), function)

    def _text(self, a: Argument) -> str:
        if isinstance(a, Node):
            return a.name
        if isinstance(a, tuple):
            inner = ", ".join(map(self._text, a))
            if hasattr(a, "_fields"):
                return f"{self._global(type(a).__name__, type(a))}({inner})"
            return f"({inner},)" if len(a) == 1 else f"({inner})"
        if isinstance(a, list):
            return f"[{', '.join(map(self._text, a))}]"
        if isinstance(a, dict):
            return "{" + ", ".join(f"{key!r}: {self._text(value)}" for key, value in a.items()) + "}"
        if isinstance(a, slice):
            return f"slice({', '.join(self._text(x) for x in (a.start, a.stop, a.step))})"
        if isinstance(a, enum.Enum):
            return f"{self._global(type(a).__name__, type(a))}.{a.name}"
        if isinstance(a, (rgrad.dtype, rgrad.memory_format)):
            return f"torch.{str(a).removeprefix('torch.')}"
        if isinstance(a, type) or callable(a):
            return self._function(a)
        return repr(a)


def _path(root: str, target: str) -> str:
    """The look-up of a path; a part that is no identifier goes by `getattr`."""
    text = root
    for part in target.split("."):
        text = f"{text}.{part}" if part.isidentifier() and not keyword.iskeyword(part) else f'getattr({text}, "{part}")'
    return text
