"""What a drawing consists of: nodes, and the calls of modules in which they were made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rgrad._C import Tensor

OPERATION = "#e8eef7"
LEAF = "#dff0d8"
RESULT = "#fff3cd"
FOLDED = "#d9d9f3"


@dataclass(eq=False)
class Call:
    """One call of a module.

    Attributes:
        path: the module's path in the outermost module.
        kind: the name of its class.
        parent: the call that it was made in, except the outermost.
    """

    path: str
    kind: str
    parent: Call | None

    @property
    def title(self) -> str:
        """The text of its box."""
        return f"{self.path}: {self.kind}"

    def chain(self) -> list[Call]:
        """The calls that it was made in, the outermost first, and itself."""
        found: list[Call] = []
        call: Call | None = self
        while call is not None:
            found.append(call)
            call = call.parent
        return found[::-1]


@dataclass(eq=False)
class Box:
    """A node: its text, its color, the numbers of its inputs, and the call that it belongs to."""

    lines: list[str]
    colour: str
    inputs: list[int] = field(default_factory=list)
    call: Call | None = None
    shape: str = ""
    operation: bool = True
    norm: float | None = None

    @property
    def width(self) -> float:
        return 7.3 * max(map(len, self.lines)) + 20

    @property
    def height(self) -> float:
        return 15.0 * len(self.lines) + 10


def shape_of(t: Any) -> str:
    """A shape as text, without a comma after a single size."""
    return f"({', '.join(map(str, t.shape))})"


def describe(t: Tensor) -> str:
    """Shape and dtype as text."""
    return f"{shape_of(t)} {str(t.dtype).removeprefix('torch.')}"


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in nested containers, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors_in(v)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors_in(v)
