"""Positions of nodes: layers from top to bottom, with boxes of modules within boxes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

GAP_X, GAP_Y, PAD, TITLE = 18.0, 26.0, 10.0, 18.0

Key = Hashable


class Edge(NamedTuple):
    """From one item of a frame to another, for the result of a node."""

    tail: Key
    head: Key
    source: Key


class Port(NamedTuple):
    """Where the result of a node enters or leaves a frame."""

    source: Key
    enters: bool


@dataclass
class Item:
    """What has a place in a frame; `ports` are the places, from the middle, where results enter and leave."""

    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    ports: dict[Port, float] = field(default_factory=dict)


@dataclass
class Frame:
    """A module or the whole picture: its items, placed from its upper left corner, and the ways of its edges."""

    items: dict[Key, Item]
    routes: dict[Edge, list[tuple[float, float]]]
    width: float
    height: float
    ports: dict[Port, float]


class _Bend(NamedTuple):
    """Where an edge passes a layer between its ends; edges of one result share their way."""

    tail: Key
    source: Key
    layer: int


# Note [Layers]
#
# Results flow from top to bottom. A node is one layer above the highest of its users, so that all edges point down and
# leaves lie near their users; ports lie in the first and in the last layer. An edge that passes layers has a bend in
# each, which keeps nodes out of its way. Within layers, items are ordered by the mean position of what they are joined
# to, some times downwards and upwards. Then each is moved to the mean position of its neighbors, as far as those beside
# it let it.
def arrange(items: dict[Key, Item], edges: Iterable[Edge], title: bool) -> Frame:
    """Places items.

    Args:
        items: what is to be placed, by key; ports of the frame are keys of type `Port`.
        edges: the edges between them.
        title: whether space is left for a title.
    """
    edges = list(dict.fromkeys(edges))
    layer = _layers(items, edges)
    count = 1 + max(layer.values(), default=0)
    rows: list[list[Key]] = [[] for _ in range(count)]
    for key in items:
        rows[layer[key]].append(key)
    all_items = dict(items)
    chains: dict[Edge, list[Key]] = {}
    links: dict[tuple[Key, Key], tuple[float, float]] = {}
    for edge in edges:
        chain: list[Key] = [edge.tail]
        for between in range(layer[edge.tail] + 1, layer[edge.head]):
            bend = _Bend(edge.tail, edge.source, between)
            if bend not in all_items:
                all_items[bend] = Item(2.0, 0.0)
                rows[between].append(bend)
            chain.append(bend)
        chain.append(edge.head)
        chains[edge] = chain
        for a, b in zip(chain, chain[1:], strict=False):
            start = all_items[a].ports.get(Port(edge.source, False), 0.0)
            links[a, b] = start, all_items[b].ports.get(Port(edge.source, True), 0.0)

    above: dict[Key, list[tuple[Key, float]]] = defaultdict(list)
    below: dict[Key, list[tuple[Key, float]]] = defaultdict(list)
    for (a, b), (start, end) in links.items():
        above[b].append((a, start - end))
        below[a].append((b, end - start))
    _order(rows, above, below)
    _spread(rows, all_items, above, below)

    left = min((it.x - it.width / 2 for it in all_items.values()), default=0.0) - PAD
    right = max((it.x + it.width / 2 for it in all_items.values()), default=0.0) + PAD
    y = PAD + (TITLE if title else 0.0)
    tops, bottoms = [], []
    for row in rows:
        height = max((all_items[k].height for k in row), default=0.0)
        for key in row:
            item = all_items[key]
            item.x -= left
            item.y = y + (height - item.height) / 2
        tops.append(y)
        bottoms.append(y + height)
        y += height + GAP_Y
    frame_height = y - GAP_Y + PAD
    for key, item in items.items():
        if isinstance(key, Port):
            item.y = 0.0 if key.enters else frame_height

    routes = {}
    for edge, chain in chains.items():
        first, last = all_items[edge.tail], all_items[edge.head]
        points = [(first.x + first.ports.get(Port(edge.source, False), 0.0), first.y + first.height)]
        for bend in chain[1:-1]:
            x, at = all_items[bend].x, layer[edge.tail] + len(points) // 2 + 1
            points += [(x, tops[at]), (x, bottoms[at])]
        points.append((last.x + last.ports.get(Port(edge.source, True), 0.0), last.y))
        routes[edge] = points
    width = right - left
    ports = {key: item.x - width / 2 for key, item in items.items() if isinstance(key, Port)}
    return Frame(items, routes, width, frame_height, ports)


def _layers(items: dict[Key, Item], edges: Sequence[Edge]) -> dict[Key, int]:
    """The layer of each item, counted from the top."""
    leaves_frame = any(isinstance(k, Port) and not k.enters for k in items)
    # How far each item is from the bottom.
    far = {k: int(leaves_frame and not isinstance(k, Port)) for k in items}
    sources: dict[Key, list[Key]] = defaultdict(list)
    waiting: dict[Key, int] = dict.fromkeys(items, 0)
    for tail, head in dict.fromkeys((e.tail, e.head) for e in edges):
        sources[head].append(tail)
        waiting[tail] += 1
    ready = [k for k, n in waiting.items() if n == 0]
    while ready:
        key = ready.pop()
        for tail in sources[key]:
            far[tail] = max(far[tail], far[key] + 1)
            waiting[tail] -= 1
            if waiting[tail] == 0:
                ready.append(tail)
    top = max(far.values(), default=0)
    if any(isinstance(k, Port) and k.enters for k in items):
        top = 1 + max((n for k, n in far.items() if not isinstance(k, Port)), default=0)
        far.update({k: top for k in items if isinstance(k, Port) and k.enters})
    return {k: top - n for k, n in far.items()}


Neighbours = dict[Key, list[tuple[Key, float]]]


def _order(rows: list[list[Key]], above: Neighbours, below: Neighbours) -> None:
    """Orders the items of each layer so that few edges cross."""
    place: dict[Key, float] = {}

    def number(row: list[Key]) -> None:
        place.update({k: i - len(row) / 2 for i, k in enumerate(row)})

    for row in rows:
        number(row)
    for sweep in range(6):
        down = sweep % 2 == 0
        for row in rows if down else rows[::-1]:
            joined = above if down else below
            mean = {k: sum(place[n] for n, _ in joined[k]) / len(joined[k]) if joined[k] else place[k] for k in row}
            row.sort(key=lambda k: mean[k])
            number(row)


def _spread(rows: list[list[Key]], items: dict[Key, Item], above: Neighbours, below: Neighbours) -> None:
    """Gives each item a horizontal position."""
    for row in rows:
        x = 0.0
        for key in row:
            items[key].x = x + items[key].width / 2
            x += items[key].width + GAP_X
        for key in row:
            items[key].x -= (x - GAP_X) / 2

    def place(row: list[Key], joined: Neighbours, stay: float) -> None:
        """Moves the items of a row to the means of those that they are joined to; others have the weight `stay`."""
        wanted, weights = [], []
        for key in row:
            places = [items[n].x + offset for n, offset in joined.get(key, [])]
            wanted.append(sum(places) / len(places) if places else items[key].x)
            # Long edges are kept straight.
            weights.append(stay if not places else 8.0 if isinstance(key, _Bend) else 1.0)
        for key, x in zip(row, _apart(wanted, weights, [items[k].width for k in row]), strict=True):
            items[key].x = x

    both = {k: above.get(k, []) + below.get(k, []) for row in rows for k in row}
    leaves = {k: joined for k, joined in below.items() if not above.get(k)}
    for _ in range(4):
        for row in rows:
            place(row, both, 1.0)
        for row in rows[::-1]:
            place(row, both, 1.0)
    # Then chains are made straight, and leaves are moved over their users.
    for _ in range(2):
        for row in rows:
            place(row, above, 0.1)
        for row in rows[::-1]:
            place(row, leaves, 20.0)


def _apart(wanted: list[float], weights: list[float], widths: list[float]) -> list[float]:
    """The positions nearest to those wanted, by weighted squares, at which nothing overlaps (isotonic regression)."""
    offsets = [0.0]
    for a, b in zip(widths, widths[1:], strict=False):
        offsets.append(offsets[-1] + (a + b) / 2 + GAP_X)
    # Runs of items that touch: the mean, the weight and the number of each.
    runs: list[tuple[float, float, int]] = []
    for x, weight, offset in zip(wanted, weights, offsets, strict=True):
        run = (x - offset, weight, 1)
        while runs and runs[-1][0] >= run[0]:
            mean, total, size = runs.pop()
            sum_of = total + run[1]
            run = ((mean * total + run[0] * run[1]) / sum_of, sum_of, size + run[2])
        runs.append(run)
    means = [mean for mean, _, size in runs for _ in range(size)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
