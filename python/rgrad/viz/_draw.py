"""Drawings as SVG and in the language of Graphviz."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Hashable

from rgrad.viz._fold import Tree, folded_box, path_key, signatures
from rgrad.viz._layout import Edge, Frame, Item, Port, arrange
from rgrad.viz._nodes import Box, Call


class Folded:
    """A graph in which some calls of modules are one node each.

    Attributes:
        nodes: the nodes that are drawn, by the number of their first box or by their call.
        edges: pairs of their keys, from what is used to what uses it.
        calls: the calls that are drawn as boxes around nodes, the outermost first.
    """

    def __init__(self, boxes: list[Box], tree: Tree, folded: set[Call]) -> None:
        texts = signatures(tree, boxes) if folded else {}
        self.calls = [c for c in tree if c is not None and not any(above in folded for above in c.chain())]
        first: dict[str, Call] = {}
        for call in sorted(self.calls, key=lambda c: path_key(c.path)):
            first.setdefault(texts.get(call, ""), call)
        self.nodes: dict[Hashable, Box] = {}
        key_of: list[Hashable] = []
        for i, box in enumerate(boxes):
            chain = box.call.chain() if box.call else []
            call = next((c for c in chain if c in folded), None)
            key_of.append(i if call is None else call)
            if call is None:
                self.nodes[i] = box
            elif call not in self.nodes:
                same = first.get(texts[call]) if tree[call].calls else None
                self.nodes[call] = folded_box(tree, boxes, call, same)
        self.edges = [
            (key_of[source], key_of[i])
            for i, box in enumerate(boxes)
            for source in box.inputs
            if key_of[source] is not key_of[i]
        ]

    def around(self, key: Hashable) -> list[Call | None]:
        """The boxes around a node, from the whole picture inwards."""
        call = self.nodes[key].call
        return [None, *(call.chain() if call else [])]


def dot(graph: Folded) -> str:
    """The graph in the language of Graphviz."""
    names = {key: f"n{i}" for i, key in enumerate(graph.nodes)}
    lines = ["digraph {", '  node [shape=box, style=filled, fontname="monospace"];']

    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"')

    def write(call: Call | None, indent: str) -> None:
        for key, box in graph.nodes.items():
            if box.call is call:
                text = "\\n".join(map(quoted, box.lines))
                lines.append(f'{indent}{names[key]} [label="{text}", fillcolor="{box.colour}"];')
        for i, inner in enumerate(graph.calls):
            if inner.parent is call:
                lines.append(f"{indent}subgraph cluster_{i} {{")
                lines.append(f'{indent}  label="{quoted(inner.title)}";')
                write(inner, indent + "  ")
                lines.append(f"{indent}}}")

    write(None, "  ")
    lines += [f"  {names[source]} -> {names[key]};" for source, key in graph.edges]
    return "\n".join([*lines, "}", ""])


def _frames(graph: Folded) -> dict[Call | None, Frame]:
    """Places the contents of every box, the innermost first."""
    edges: dict[Call | None, list[Edge]] = defaultdict(list)
    for source, key in dict.fromkeys(graph.edges):
        tails, heads = [*graph.around(source), source], [*graph.around(key), key]
        shared = sum(1 for a, b in zip(tails[:-1], heads[:-1], strict=False) if a is b)
        edges[graph.around(source)[shared - 1]].append(Edge(tails[shared], heads[shared], source))
        for outer, inner in zip(graph.around(source)[shared:], tails[shared + 1 :], strict=True):
            edges[outer].append(Edge(inner, Port(source, False), source))
        for outer, inner in zip(graph.around(key)[shared:], heads[shared + 1 :], strict=True):
            edges[outer].append(Edge(Port(source, True), inner, source))
    inside: dict[Call | None, list[Hashable]] = defaultdict(list)
    for key, box in graph.nodes.items():
        inside[box.call].append(key)
    for call in graph.calls:
        inside[call.parent].append(call)
    frames: dict[Call | None, Frame] = {}
    for call in [*reversed(graph.calls), None]:
        items: dict[Hashable, Item] = {}
        for key in inside[call]:
            if key in graph.nodes:
                items[key] = Item(graph.nodes[key].width, graph.nodes[key].height)
            else:
                frame = frames[key]  # pyright: ignore[reportArgumentType]
                items[key] = Item(frame.width, frame.height, ports=frame.ports)
        for edge in edges[call]:
            for end in (edge.tail, edge.head):
                if isinstance(end, Port):
                    items[end] = Item(2.0, 0.0)
        frame = arrange(items, edges[call], call is not None)
        if call is not None:
            frame.width = max(frame.width, 7.0 * len(call.title) + 16)
        frames[call] = frame
    return frames


def _way(points: list[tuple[float, float]], x: float, y: float) -> str:
    """A path through points: curves between layers, straight lines within."""
    (x0, y0), rest = points[0], points[1:]
    parts = [f"M{x + x0:.1f} {y + y0:.1f}"]
    for i, (x1, y1) in enumerate(rest):
        if i % 2 == 1:
            parts.append(f"V{y + y1:.1f}")
        else:
            middle = y + (y0 + y1) / 2
            parts.append(f"C{x + x0:.1f} {middle:.1f} {x + x1:.1f} {middle:.1f} {x + x1:.1f} {y + y1:.1f}")
        x0, y0 = x1, y1
    return " ".join(parts)


def svg(graph: Folded) -> str:
    """The graph as SVG."""
    frames = _frames(graph)
    whole = frames[None]
    boxes: list[str] = []
    ways: list[str] = []
    texts: list[str] = []

    def node(box: Box, x: float, y: float) -> None:
        texts.append(
            f'<rect x="{x - box.width / 2:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
            f'rx="4" fill="{box.colour}" stroke="#555"/>'
        )
        texts.extend(
            f'<text x="{x:.1f}" y="{y + 15 * (i + 1):.1f}">{html.escape(line)}</text>'
            for i, line in enumerate(box.lines)
        )

    pending: list[tuple[Call | None, float, float]] = [(None, 0.0, 0.0)]
    while pending:
        call, x, y = pending.pop()
        frame = frames[call]
        if call is not None:
            boxes.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{frame.width:.1f}" height="{frame.height:.1f}" rx="8" '
                f'fill="#6080a0" fill-opacity="0.07" stroke="#89a"/><text x="{x + 8:.1f}" y="{y + 15:.1f}" '
                f'text-anchor="start" fill="#567">{html.escape(call.title)}</text>'
            )
        for key, item in frame.items.items():
            if key in graph.nodes:
                node(graph.nodes[key], x + item.x, y + item.y)
            elif isinstance(key, Call):
                pending.append((key, x + item.x - item.width / 2, y + item.y))
        for edge, points in frame.routes.items():
            head = ' marker-end="url(#head)"' if edge.head in graph.nodes else ""
            ways.append(f'<path d="{_way(points, x, y)}"{head}/>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole.width:.0f} {whole.height:.0f}" '
            f'width="{whole.width:.0f}" font-family="monospace" font-size="12" text-anchor="middle">',
            '<rect width="100%" height="100%" fill="white"/>',
            '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#777"/></marker></defs>',
            *boxes,
            '<g fill="none" stroke="#777">',
            *ways,
            "</g>",
            *texts,
            "</svg>",
            "",
        ]
    )
