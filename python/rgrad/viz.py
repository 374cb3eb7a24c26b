"""Drawings of the graph that backward traverses, without other packages.

>>> import rgrad as torch
>>> layer = torch.nn.Linear(2, 1)
>>> picture = torch.viz.graph(layer(torch.ones(1, 2)).sum(), layer)
>>> picture
<graph of 6 nodes>

In a notebook the object displays itself. ``picture.save("graph.svg")`` and ``picture.save("graph.dot")`` write files.
"""

from __future__ import annotations

import html
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

from rgrad._C import Node, Tensor

__all__ = ["Graph", "graph"]

_OPERATION = "#e8eef7"
_LEAF = "#dff0d8"
_RESULT = "#fff3cd"


class _Box:
    """One node of the drawing: its lines of text, its color, and its position."""

    def __init__(self, lines: list[str], colour: str) -> None:
        self.lines = lines
        self.colour = colour
        self.inputs: list[int] = []
        self.layer = 0
        self.x = 0.0

    @property
    def width(self) -> float:
        return 7.2 * max(map(len, self.lines)) + 20

    @property
    def height(self) -> float:
        return 15.0 * len(self.lines) + 12


class Graph:
    """A drawing of a graph: operations with edges to their inputs, down to the leaves."""

    def __init__(self, boxes: list[_Box]) -> None:
        self._boxes = boxes
        _arrange(boxes)

    def __repr__(self) -> str:
        return f"<graph of {len(self._boxes)} nodes>"

    def _repr_svg_(self) -> str:
        """The SVG for a notebook."""
        return _svg(self._boxes)

    @property
    def dot(self) -> str:
        """The graph in the language of Graphviz."""
        lines = ["digraph {", '  node [shape=box, style=filled, fontname="monospace"];']
        for i, box in enumerate(self._boxes):
            text = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in box.lines)
            lines.append(f'  n{i} [label="{text}", fillcolor="{box.colour}"];')
        lines += [f"  n{source} -> n{i};" for i, box in enumerate(self._boxes) for source in box.inputs]
        return "\n".join([*lines, "}", ""])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the drawing to a file in the format of its extension, ``.svg`` or ``.dot``."""
        ending = os.path.splitext(os.fspath(path))[1]
        if ending not in (".svg", ".dot"):
            raise ValueError(f"the graph is saved as .svg or .dot, not as '{ending}'")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.dot if ending == ".dot" else self._repr_svg_())


def graph(root: Tensor | Iterable[Tensor], names: Any = None) -> Graph:
    """Draws the graph from which tensors were computed.

    After a backward, leaves that have a gradient display its norm and are colored by it.

    Args:
        root: a tensor, or several.
        names: a module, whose parameters are then shown by their paths, or a dictionary of tensors by name.

    Returns:
        The drawing.
    """
    roots = [root] if isinstance(root, Tensor) else list(root)
    known = _names(names)
    boxes: list[_Box] = []
    numbers: dict[Node, int] = {}
    pending: list[Node] = []

    def number_of(node: Node) -> int:
        if node not in numbers:
            numbers[node] = len(boxes)
            boxes.append(_box(node, known))
            pending.append(node)
        return numbers[node]

    for t in roots:
        result = _Box([known.get(id(t), "result"), _shape(t)], _RESULT)
        boxes.append(result)
        if t.grad_fn is not None:
            result.inputs.append(number_of(t.grad_fn))
    while pending:
        node = pending.pop()
        box = boxes[numbers[node]]
        box.inputs += [number_of(source) for source, _ in node.next_functions if source is not None]
    _colour_by_gradient(numbers, boxes)
    return Graph(boxes)


def _names(names: Any) -> dict[int, str]:
    """Maps the identities of tensors to their names."""
    if names is None:
        return {}
    pairs = names.items() if isinstance(names, Mapping) else names.named_parameters()
    return {id(tensor): name for name, tensor in pairs}


def _shape(t: Tensor) -> str:
    return f"({', '.join(map(str, t.shape))}) {str(t.dtype).removeprefix('torch.')}"


def _leaf(node: Node) -> Tensor | None:
    """The tensor whose gradient a node accumulates; None for other nodes."""
    return node.variable if type(node).__name__ == "AccumulateGrad" else None


def _box(node: Node, known: dict[int, str]) -> _Box:
    leaf = _leaf(node)
    if leaf is None:
        return _Box([type(node).__name__], _OPERATION)
    return _Box([known.get(id(leaf), "leaf"), _shape(leaf)], _LEAF)


def _colour_by_gradient(numbers: dict[Node, int], boxes: list[_Box]) -> None:
    """Colors leaves from pale to red, by the order of magnitude of their gradients relative to each other."""
    norms: dict[int, float] = {}
    for node, i in numbers.items():
        leaf = _leaf(node)
        if leaf is not None and leaf.grad is not None:
            norms[i] = float(leaf.grad.detach().norm())
    sizes = [math.log10(n) for n in norms.values() if 0 < n < math.inf]
    for i, norm in norms.items():
        boxes[i].lines.append(f"‖grad‖ = {norm:.3g}")
        if not 0 < norm < math.inf:
            # Zero, infinite and NaN gradients have their own colors, because they often indicate a bug.
            boxes[i].colour = "#cccccc" if norm == 0 else "#b39ddb"
            continue
        low, high = min(sizes), max(sizes)
        share = (math.log10(norm) - low) / (high - low) if high > low else 0.5
        rest = round(225 - 130 * share)
        boxes[i].colour = f"#ff{rest:02x}{rest:02x}"


# Note [Layers]
#
# The result is at the top. Every node is placed one layer below the lowest of its users, so that all edges point
# down; within a layer, nodes are ordered by the mean position of their users.
def _arrange(boxes: list[_Box]) -> None:
    users: list[list[int]] = [[] for _ in boxes]
    for i, box in enumerate(boxes):
        for source in box.inputs:
            users[source].append(i)
    waiting = [len(u) for u in users]
    ready = [i for i, count in enumerate(waiting) if count == 0]
    while ready:
        i = ready.pop()
        for source in boxes[i].inputs:
            boxes[source].layer = max(boxes[source].layer, boxes[i].layer + 1)
            waiting[source] -= 1
            if waiting[source] == 0:
                ready.append(source)
    layers: list[list[int]] = [[] for _ in range(1 + max((b.layer for b in boxes), default=0))]
    for i, box in enumerate(boxes):
        layers[box.layer].append(i)
    for layer in layers:
        layer.sort(key=lambda i: sum(boxes[u].x for u in users[i]) / max(len(users[i]), 1))
        total = sum(boxes[i].width + 20 for i in layer) - 20
        x = -total / 2
        for i in layer:
            boxes[i].x = x + boxes[i].width / 2
            x += boxes[i].width + 20


def _svg(boxes: list[_Box]) -> str:
    step = 40 + max((b.height for b in boxes), default=0)
    left = min((b.x - b.width / 2 for b in boxes), default=0) - 10
    right = max((b.x + b.width / 2 for b in boxes), default=0) + 10
    bottom = step * (1 + max((b.layer for b in boxes), default=0))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:.0f} 0 {right - left:.0f} {bottom:.0f}" '
        f'width="{right - left:.0f}" font-family="monospace" font-size="12" text-anchor="middle">'
    ]
    for box in boxes:
        for source in (boxes[i] for i in box.inputs):
            top, end = box.layer * step + 10 + box.height, source.layer * step + 10
            middle = (top + end) / 2
            parts.append(
                f'<path d="M{box.x:.1f} {top:.1f} C{box.x:.1f} {middle:.1f} {source.x:.1f} {middle:.1f} '
                f'{source.x:.1f} {end:.1f}" fill="none" stroke="#888"/>'
            )
    for box in boxes:
        y = box.layer * step + 10
        parts.append(
            f'<rect x="{box.x - box.width / 2:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
            f'rx="4" fill="{box.colour}" stroke="#555"/>'
        )
        parts += [
            f'<text x="{box.x:.1f}" y="{y + 15 * (i + 1):.1f}">{html.escape(line)}</text>'
            for i, line in enumerate(box.lines)
        ]
    return "\n".join([*parts, "</svg>", ""])
