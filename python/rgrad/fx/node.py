"""The nodes of a graph: what is called with which arguments, and who uses the result."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import rgrad
from rgrad.fx.immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from rgrad.fx.graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

Target = Callable[..., Any] | str
Argument = Any

_OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output")

# Functions whose calls are kept though nobody uses their result.
_side_effects: set[Any] = set()


def has_side_effect(fn: Any) -> Any:
    """Has calls of a function kept when unused nodes are removed; returns the function."""
    _side_effects.add(fn)
    return fn


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """An argument with `fn` of everything in it that is no tuple, list, dictionary or slice."""
    if isinstance(a, tuple):
        items = [map_aggregate(x, fn) for x in a]
        if hasattr(a, "_fields"):
            return type(a)(*items)
        return tuple(items)
    if isinstance(a, list):
        return immutable_list(map_aggregate(x, fn) for x in a)
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(x, fn)) for key, x in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(x, fn) for x in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """An argument with `fn` of every node in it."""
    if not callable(fn):
        raise AssertionError("map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


# Namespaces in which functions are looked up for the name that code calls them by.
_NAMESPACES = ("", "nn.functional", "linalg", "special", "functional", "nn.init", "fx._symbolic_trace")


def qualified_name(function: Any) -> str | None:
    """Where a program finds a function, as `torch.relu` or `operator.add`; None where it does not by its names."""
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        return None
    if getattr(builtins, name, None) is function:
        return f"builtins.{name}"
    module = getattr(function, "__module__", None) or ""
    if module == "_operator":
        return f"operator.{name}"
    if module == "" or module.partition(".")[0] in ("rgrad", "torch"):
        for path in _NAMESPACES:
            space: Any = rgrad
            for part in path.split(".") if path else ():
                space = getattr(space, part)
            if vars(space).get(name) is function or (path == "" and getattr(space, name, None) is function):
                return ".".join(part for part in ("torch", path, name) if part)
    if module.startswith("torch._ops."):
        module = f"torch.ops.{module.removeprefix('torch._ops.')}"
    return f"{module}.{name}" if module else None


class Node:
    """One step of a graph.

    Attributes:
        op: "placeholder" (an argument of the graph), "get_attr", "call_function", "call_method", "call_module" or
            "output".
        name: of its value in the code.
        target: what is called or looked up: a function, or a name.
        args: arguments, in which nodes stand for their values.
        kwargs: the same by name.
        users: the nodes that have this one among their arguments, as keys.
        meta: whatever passes over the graph note.
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any = None,
    ) -> None:
        if op not in _OPS:
            raise AssertionError(f"invalid op: {op}")
        if op == "call_function" and not callable(target):
            raise ValueError(f"the target of node '{name}' is called, but {target!r} is not callable")
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(f"the target of node '{name}' is a name, but {target!r} is of {type(target)}")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = {}
        self._erased = False
        self._previous = self._following = self
        self.meta: dict[str, Any] = {}
        self._set(args, kwargs)

    def _set(self, args: Any, kwargs: Any) -> None:
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._input_nodes = {}

        def use(node: Node) -> Node:
            self._input_nodes[node] = None
            node.users[self] = None
            return node

        self._args = map_arg(tuple(args), use)
        self._kwargs = map_arg(dict(kwargs), use)

    @property
    def args(self) -> tuple[Argument, ...]:
        """The arguments by position; assigning changes the users of the nodes in them."""
        return self._args

    @args.setter
    def args(self, value: tuple[Argument, ...]) -> None:
        self._set(value, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The arguments by name; assigning changes the users of the nodes in them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: dict[str, Argument]) -> None:
        self._set(self._args, value)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    @property
    def next(self) -> Node:
        """The node after it; the last is followed by the root of the list."""
        return self._following

    @property
    def prev(self) -> Node:
        """The node before it."""
        return self._previous

    @property
    def stack_trace(self) -> str | None:
        """Where the program made it, if that was noted."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def _unlink(self) -> None:
        self._previous._following, self._following._previous = self._following, self._previous
        self._previous = self._following = self

    def prepend(self, x: Node) -> None:
        """Moves a node of the same graph to the place before this one."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._unlink()
        x._previous, x._following = self._previous, self
        self._previous._following = self._previous = x

    def append(self, x: Node) -> None:
        """Moves a node of the same graph to the place after this one."""
        self._following.prepend(x)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Exchanges one argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Adds an argument at a place."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Exchanges or adds an argument by name."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] = lambda user: True, **options: Any
    ) -> list[Node]:
        """Has those who use this node use another.

        Args:
            replace_with: the other.
            delete_user_cb: tells of each user whether it is to change.
            options: accepted, without effect.

        Returns:
            The users that changed.
        """
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Puts one node for another in the arguments."""

        def exchanged(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set(map_arg(self._args, exchanged), map_arg(self._kwargs, exchanged))

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it has to be kept though nobody uses it."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _side_effects or str(getattr(self.target, "__name__", "")) in _KEPT
        if self.op == "call_method":
            return str(self.target).endswith("_") and not str(self.target).endswith("__")
        if self.op == "call_module" and self.graph.owning_module is not None:
            module: Any = self.graph.owning_module.get_submodule(str(self.target))
            return getattr(module, "_is_impure", False)
        return False

    def _pretty_print_target(self, target: Target) -> str:
        if isinstance(target, str):
            return target
        return qualified_name(target) or getattr(target, "__name__", repr(target))

    def format_node(self, *options: Any, **named: Any) -> str:
        """A line that describes it.

        Args:
            options: accepted, without effect, as are those by name.
            named: see `options`.
        """
        if self.op == "output":
            return f"return {self.args[0]}"
        target = self._pretty_print_target(self.target)
        head = f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={target}]"
        if self.op == "placeholder":
            return head + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return head
        return f"{head}(args = {_shown(self.args)}, kwargs = {_shown(self.kwargs)})"

    def __repr__(self) -> str:
        return self.name

    def __lt__(self, other: Node) -> bool:
        """Whether it stands before another in the graph."""
        at: Node = self
        while at._following is not self.graph._root and at is not other:
            at = at._following
        return at is other and self is not other


# In-place functions of `operator` and checks.
_KEPT = ("_assert", "_assert_async", "setitem", "delitem", "iadd", "imul", "_assert_is_none")


def _shown(a: Argument) -> str:
    """An argument as a line describes it: nodes with a percent sign."""
    if isinstance(a, Node):
        return f"%{a.name}"
    if isinstance(a, tuple):
        inner = ", ".join(map(_shown, a))
        return f"({inner},)" if len(a) == 1 else f"({inner})"
    if isinstance(a, list):
        return f"[{', '.join(map(_shown, a))}]"
    if isinstance(a, dict):
        return "{" + ", ".join(f"{key}: {_shown(value)}" for key, value in a.items()) + "}"
    if isinstance(a, types.FunctionType | types.BuiltinFunctionType):
        return qualified_name(a) or a.__name__
    return str(a)
