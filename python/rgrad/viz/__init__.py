"""Drawings of the graph that backward traverses, and of the operations of a module, without other packages.

>>> import rgrad as torch
>>> layer = torch.nn.Linear(2, 1)
>>> picture = torch.viz.graph(layer(torch.ones(1, 2)).sum(), layer)
>>> picture
<graph of 6 nodes>

In a notebook the object displays itself. ``picture.save("graph.svg")`` and ``picture.save("graph.dot")`` write files.
``torch.viz.forward(model, x)`` draws the operations of a model instead. Submodules are boxes, which can be folded.
"""

from __future__ import annotations

import fnmatch
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

from rgrad._C import Node, Tensor
from rgrad.viz._draw import Folded, dot, svg
from rgrad.viz._fold import folded_by_default, tree_of
from rgrad.viz._nodes import LEAF, OPERATION, RESULT, Box, Call, describe, shape_of
from rgrad.viz._record import call_of, modules, operations

__all__ = ["Graph", "forward", "graph", "modules"]


class Graph:
    """A drawing of a graph, in which results flow from the top to the bottom.

    Submodules are boxes around their operations. In graphs of more than 40 nodes, modules without submodules are one
    node each, and so is a module with the same structure as one that is drawn; in still larger ones, the innermost
    levels are folded.
    """

    def __init__(self, boxes: list[Box], folded: set[Call] | None = None) -> None:
        self._boxes = boxes
        self._tree = tree_of(boxes)
        self._folded = folded_by_default(self._tree, boxes) if folded is None else folded

    def __repr__(self) -> str:
        return f"<graph of {len(self._boxes)} nodes>"

    def _repr_svg_(self) -> str:
        """The SVG for a notebook."""
        return svg(Folded(self._boxes, self._tree, self._folded))

    @property
    def dot(self) -> str:
        """The graph in the language of Graphviz."""
        return dot(Folded(self._boxes, self._tree, self._folded))

    def fold(self, *paths: str) -> Graph:
        """The graph with more modules folded.

        Args:
            paths: patterns of modules' paths, such as ``"layer?"`` or ``"encoder.*"``; every module if there is none.

        Returns:
            Another drawing.

        Example:
            >>> import rgrad as torch
            >>> net = torch.nn.Sequential(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()))
            >>> picture = torch.viz.forward(net, torch.ones(2))
            >>> "2 operations" in picture.dot, "2 operations" in picture.fold("0").dot
            (False, True)
        """
        return Graph(self._boxes, self._folded | self._matching(paths))

    def unfold(self, *paths: str) -> Graph:
        """The graph with modules unfolded, together with those that they are in.

        Args:
            paths: patterns of modules' paths; every module if there is none.

        Returns:
            Another drawing.
        """
        shown = {c for call in self._matching(paths) for c in call.chain()}
        return Graph(self._boxes, self._folded - shown)

    def _matching(self, paths: tuple[str, ...]) -> set[Call]:
        calls = [c for c in self._tree if c is not None]
        for path in paths:
            if not any(fnmatch.fnmatchcase(c.path, path) for c in calls):
                raise ValueError(
                    f"the graph has no module '{path}'; draw it by viz.forward or record it by viz.modules"
                )
        return {c for c in calls if not paths or any(fnmatch.fnmatchcase(c.path, path) for path in paths)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the drawing to a file in the format of its extension, ``.svg`` or ``.dot``."""
        ending = os.path.splitext(os.fspath(path))[1]
        if ending not in (".svg", ".dot"):
            raise ValueError(f"the graph is saved as .svg or .dot, not as '{ending}'")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.dot if ending == ".dot" else self._repr_svg_())


def forward(module: Any, *args: Any, **kwargs: Any) -> Graph:
    """Runs a module and draws the operations by which its results follow from its arguments.

    Parameters and buffers are not drawn. Functions that consist of several operations are one node.

    Args:
        module: the module.
        args: its arguments.
        kwargs: its keyword arguments.

    Returns:
        The drawing.

    Example:
        >>> import rgrad as torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
        >>> torch.viz.forward(net, torch.ones(4, 2))
        <graph of 4 nodes>
    """
    return Graph(operations(module, args, kwargs))


def graph(root: Tensor | Iterable[Tensor], names: Any = None) -> Graph:
    """Draws the graph from which tensors were computed.

    Operations display the shape of their result. After a backward, leaves that have a gradient display its norm and
    are colored by it. Submodules are boxes if `modules` recorded them.

    Args:
        root: a tensor, or several.
        names: a module, whose parameters are then shown by their paths, or a dictionary of tensors by name.

    Returns:
        The drawing.
    """
    roots = [root] if isinstance(root, Tensor) else list(root)
    known = _names(names)
    paths = {} if names is None or isinstance(names, Mapping) else known
    boxes: list[Box] = []
    numbers: dict[Node, int] = {}
    pending: list[Node] = []

    def number_of(node: Node) -> int:
        if node not in numbers:
            numbers[node] = len(boxes)
            boxes.append(_box(node, known))
            pending.append(node)
        return numbers[node]

    for t in roots:
        result = Box([known.get(id(t), "result"), describe(t)], RESULT, shape=shape_of(t), operation=False)
        boxes.append(result)
        if t.grad_fn is not None:
            result.inputs.append(number_of(t.grad_fn))
    while pending:
        node = pending.pop()
        box = boxes[numbers[node]]
        sources = [source for source, _ in node.next_functions if source is not None]
        box.inputs += [number_of(source) for source in sources]
        if box.call is None and box.operation:
            _name_module(box, [_leaf(source) for source in sources], paths)
    _place_leaves(boxes)
    _colour_by_gradient(numbers, boxes)
    return Graph(boxes)


def _names(names: Any) -> dict[int, str]:
    """Maps the identities of tensors to their names."""
    if names is None:
        return {}
    pairs = names.items() if isinstance(names, Mapping) else names.named_parameters()
    return {id(tensor): name for name, tensor in pairs}


def _leaf(node: Node) -> Tensor | None:
    """The tensor whose gradient a node accumulates; None for other nodes."""
    return node.variable if type(node).__name__ == "AccumulateGrad" else None


def _box(node: Node, known: dict[int, str]) -> Box:
    leaf = _leaf(node)
    if leaf is not None:
        return Box([known.get(id(leaf), "leaf"), describe(leaf)], LEAF, shape=shape_of(leaf), operation=False)
    results = node._input_metadata
    shape = ", ".join(shape_of(m) for m in results[:3]) + (", …" if len(results) > 3 else "")
    return Box([type(node).__name__, *([shape] if shape else [])], OPERATION, call=call_of(node), shape=shape)


def _name_module(box: Box, leaves: list[Tensor | None], paths: dict[int, str]) -> None:
    """Adds the module whose parameters an operation takes, where no call was recorded."""
    owners = {paths[id(t)].rpartition(".")[0] for t in leaves if t is not None and id(t) in paths}
    if len(owners) == 1 and (owner := owners.pop()):
        box.lines.append(f"in {owner}")


def _place_leaves(boxes: list[Box]) -> None:
    """Puts each leaf into the innermost call that all of its users are in."""
    users: dict[int, list[list[Call]]] = {}
    for box in boxes:
        for source in box.inputs:
            if not boxes[source].operation:
                users.setdefault(source, []).append(box.call.chain() if box.call else [])
    for leaf, chains in users.items():
        shared = [calls[0] for calls in zip(*chains, strict=False) if all(c is calls[0] for c in calls)]
        boxes[leaf].call = shared[-1] if shared else None


def _colour_by_gradient(numbers: dict[Node, int], boxes: list[Box]) -> None:
    """Colors leaves from pale to red, by the order of magnitude of their gradients relative to each other."""
    norms: dict[int, float] = {}
    for node, i in numbers.items():
        leaf = _leaf(node)
        if leaf is not None and leaf.grad is not None:
            norms[i] = float(leaf.grad.detach().norm())
    sizes = [math.log10(n) for n in norms.values() if 0 < n < math.inf]
    for i, norm in norms.items():
        boxes[i].norm = norm
        boxes[i].lines.append(f"‖grad‖ = {norm:.3g}")
        if not 0 < norm < math.inf:
            # Zero, infinite and NaN gradients have their own colors, because they often indicate a bug.
            boxes[i].colour = "#cccccc" if norm == 0 else "#b39ddb"
            continue
        low, high = min(sizes), max(sizes)
        share = (math.log10(norm) - low) / (high - low) if high > low else 0.5
        rest = round(225 - 130 * share)
        boxes[i].colour = f"#ff{rest:02x}{rest:02x}"
