"""Which calls of modules are drawn as one node."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rgrad.viz._nodes import FOLDED, OPERATION, Box, Call

# Graphs of more nodes than this are folded, and are folded further beyond the other number.
_SMALL, _LARGE = 40, 150


@dataclass
class Contents:
    """What a call contains: nodes and calls, and how many operations in all."""

    boxes: list[int] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    operations: int = 0


Tree = dict[Call | None, Contents]


def tree_of(boxes: list[Box]) -> Tree:
    """The contents of each call; of the whole graph under None."""
    tree: Tree = {None: Contents()}
    for i, box in enumerate(boxes):
        above: Call | None = None
        for call in box.call.chain() if box.call else []:
            if call not in tree:
                tree[call] = Contents()
                tree[above].calls.append(call)
            tree[call].operations += box.operation
            above = call
        tree[above].boxes.append(i)
    return tree


def everything_in(tree: Tree, call: Call) -> list[int]:
    """The nodes in a call and in the calls within it."""
    found, pending = list[int](), [call]
    while pending:
        contents = tree[pending.pop()]
        found += contents.boxes
        pending += contents.calls
    return found


def signatures(tree: Tree, boxes: list[Box]) -> dict[Call, str]:
    """A text for each call that is the same for those of the same structure, whatever their shapes."""
    found: dict[Call, str] = {}

    def signature(call: Call) -> str:
        if call not in found:
            own = tree[call]
            parts = Counter(boxes[i].lines[0] for i in own.boxes if boxes[i].operation)
            inner = Counter(signature(c) for c in own.calls)
            found[call] = f"{call.kind}{sorted(parts.items())}{sorted(inner.items())}"
        return found[call]

    for call in tree:
        if call is not None:
            signature(call)
    return found


def _visible(tree: Tree, folded: set[Call]) -> int:
    count, pending = 0, list[Call | None]([None])
    while pending:
        contents = tree[pending.pop()]
        count += len(contents.boxes) + sum(c in folded for c in contents.calls)
        pending += [c for c in contents.calls if c not in folded]
    return count


def folded_by_default(tree: Tree, boxes: list[Box]) -> set[Call]:
    """In large graphs, modules without submodules and repetitions of what is drawn; then the innermost levels."""
    if len(boxes) <= _SMALL:
        return set()
    calls = [c for c in tree if c is not None]
    folded = {c for c in calls if not tree[c].calls}
    texts = signatures(tree, boxes)
    drawn: set[str] = set()
    # In the order of the program, from outside inwards; what is in a folded call is not drawn.
    pending = sorted(tree[None].calls, key=lambda c: path_key(c.path), reverse=True)
    while pending:
        call = pending.pop()
        if call in folded:
            continue
        if texts[call] in drawn:
            folded.add(call)
            continue
        drawn.add(texts[call])
        pending += sorted(tree[call].calls, key=lambda c: path_key(c.path), reverse=True)
    depth = max((len(c.chain()) for c in calls), default=0)
    while depth > 0 and _visible(tree, folded) > _LARGE:
        folded |= {c for c in calls if len(c.chain()) == depth}
        depth -= 1
    return folded


def path_key(path: str) -> list[tuple[int, str]]:
    """Sorts numbers in paths as numbers."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in path.split(".")]


def folded_box(tree: Tree, boxes: list[Box], call: Call, same_as: Call | None) -> Box:
    """The node that stands for a call."""
    inside = set(everything_in(tree, call))
    used = {source for i, box in enumerate(boxes) if i not in inside for source in box.inputs}
    shapes = [boxes[i].shape for i in sorted(inside & used) if boxes[i].operation]
    lines = [call.title]
    count = tree[call].operations
    if same_as is not None:
        lines.append(f"as {same_as.path}")
    elif count > 1:
        lines.append(f"{count} operations")
    lines += [s for s in dict.fromkeys(shapes) if s]
    norms = [n for n in (boxes[i].norm for i in inside) if n is not None]
    if norms:
        lines.append(f"‖grad‖ ≤ {max(norms):.3g}")
    return Box(lines, FOLDED if tree[call].calls else OPERATION, call=call.parent)
