"""Finding a pattern in a graph, and putting something else in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rgrad.fx._symbolic_trace import symbolic_trace
from rgrad.fx.graph import Graph
from rgrad.fx.graph_module import GraphModule
from rgrad.fx.node import Node

__all__ = ["Match", "replace_pattern"]


@dataclass
class Match:
    """A place where a pattern was found: its last node, and the node for each of the pattern's."""

    anchor: Node
    nodes_map: dict[Node, Any] = field(default_factory=dict)


def _graph_of(source: Any) -> Graph:
    if isinstance(source, Graph):
        return source
    return source.graph if isinstance(source, GraphModule) else symbolic_trace(source).graph


def _matches(pattern: Any, found: Any, nodes_map: dict[Node, Any]) -> bool:
    """Whether an argument of the graph is what the pattern has there."""
    if not isinstance(pattern, Node):
        if isinstance(pattern, (tuple, list)):
            same = isinstance(found, (tuple, list)) and len(pattern) == len(found)
            return same and all(_matches(p, f, nodes_map) for p, f in zip(pattern, found, strict=True))
        return type(pattern) is type(found) and bool(pattern == found)
    if pattern in nodes_map:
        return nodes_map[pattern] is found
    if pattern.op == "placeholder":
        nodes_map[pattern] = found
        return True
    if not isinstance(found, Node) or (pattern.op, pattern.target) != (found.op, found.target):
        return False
    nodes_map[pattern] = found
    same = len(pattern.args) == len(found.args) and pattern.kwargs.keys() == found.kwargs.keys()
    return same and all(
        _matches(p, f, nodes_map)
        for p, f in [
            *zip(pattern.args, found.args, strict=True),
            *((value, found.kwargs[key]) for key, value in pattern.kwargs.items()),
        ]
    )


def _is_closed(match: Match, anchor: Node, pattern: Graph) -> bool:
    """Whether nobody outside uses what is inside and goes away."""
    inside = {f for p, f in match.nodes_map.items() if p.op != "placeholder" and isinstance(f, Node)}
    return all(node is anchor or node.op == "get_attr" or set(node.users) <= inside for node in inside)


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule, replacement: Callable[..., Any] | GraphModule
) -> list[Match]:
    """Replaces all places in a graph that a pattern matches.

    Args:
        gm: the module, whose graph changes.
        pattern: a function or module with one result; its parameters match anything.
        replacement: takes the same parameters.

    Returns:
        The matches that were replaced; they do not overlap.

    Example:
        >>> import rgrad as torch
        >>> traced = torch.fx.symbolic_trace(lambda x, y: torch.relu(x + y))
        >>> len(torch.fx.replace_pattern(traced, lambda a, b: a + b, lambda a, b: a * b))
        1
        >>> traced(torch.tensor(2.0), torch.tensor(5.0))
        tensor(10.)
    """
    wanted, other = _graph_of(pattern), _graph_of(replacement)
    goal = wanted.output_node().args[0]
    if not isinstance(goal, Node):
        raise NotImplementedError("replace_pattern: the pattern has to return one value that it computes")
    made: list[Match] = []
    gone: set[Node] = set()
    for node in list(gm.graph.nodes):
        match = Match(node)
        if node in gone or node.op == "output" or not _matches(goal, node, match.nodes_map):
            continue
        inside = {f for p, f in match.nodes_map.items() if p.op != "placeholder"}
        if inside & gone or not _is_closed(match, node, wanted):
            continue
        _replace(gm, match, wanted, other)
        gone |= inside
        made.append(match)
    gm.recompile()
    return made


def _replace(gm: GraphModule, match: Match, wanted: Graph, other: Graph) -> None:
    inputs = [match.nodes_map[n] for n in wanted.nodes if n.op == "placeholder"]
    values: dict[Node, Any] = dict(zip((n for n in other.nodes if n.op == "placeholder"), inputs, strict=True))
    with gm.graph.inserting_before(match.anchor):
        result = gm.graph.graph_copy(other, values)
    match.anchor.replace_all_uses_with(result)
    for pattern_node, node in reversed(match.nodes_map.items()):
        del pattern_node
        _erase(gm.graph, node, inputs)
    _erase(gm.graph, match.anchor, inputs)
    for node in reversed(list(match.nodes_map.values())):
        _erase(gm.graph, node, inputs)


def _erase(graph: Graph, node: Any, inputs: list[Any]) -> None:
    if isinstance(node, Node) and not node.users and not node._erased and all(node is not x for x in inputs):
        graph.erase_node(node)
