"""Recording which module calls an operation, for graphs backward, and the operations themselves, for graphs forward."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from rgrad._C import Node, Tensor
from rgrad.overrides import TorchFunctionMode
from rgrad.viz._nodes import LEAF, OPERATION, RESULT, Box, Call, describe, shape_of, tensors_in

# The key of a node's metadata that holds its call.
_KEY = "rgrad.viz"


def call_of(node: Node) -> Call | None:
    """The call in which a node of the backward graph was made, if it was recorded."""
    return node.metadata.get(_KEY)


class _Recorder(TorchFunctionMode):
    """Knows at each operation which calls of modules are running."""

    def __init__(self) -> None:
        super().__init__()
        self.running: list[Call] = []

    @property
    def call(self) -> Call | None:
        return self.running[-1] if self.running else None

    @contextlib.contextmanager
    def following(self, module: Any) -> Iterator[None]:
        """Records within the block; the outermost module itself is no box."""
        handles = []
        for path, part in module.named_modules():
            if path:
                handles += self._follow(path, part)
        try:
            with self:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _follow(self, path: str, part: Any) -> list[Any]:
        def begin(*_: Any) -> None:
            self.running.append(Call(path, type(part).__name__, self.call))

        def end(*_: Any) -> None:
            self.running.pop()

        before = part.register_forward_pre_hook(begin, prepend=True)
        return [before, part.register_forward_hook(end, always_call=True)]


class _Labels(_Recorder):
    """Notes on every node of the backward graph in which call it was made."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # Read before the call, since an operation in place gives its argument a new node.
        seen = {t.grad_fn for t in tensors_in((args, kwargs))}
        result = func(*args, **kwargs)
        if self.call is not None:
            # A function may consist of several operations: all nodes down to those of its arguments.
            pending = [t.grad_fn for t in tensors_in(result)]
            while pending:
                node = pending.pop()
                if node is None or node in seen or _KEY in node.metadata or type(node).__name__ == "AccumulateGrad":
                    continue
                node.metadata[_KEY] = self.call
                pending += [source for source, _ in node.next_functions]
        return result


@contextlib.contextmanager
def modules(module: Any) -> Iterator[None]:
    """A context in which the nodes of the backward graph remember in which submodule they were made.

    Args:
        module: the outermost module; `graph` then draws its submodules as boxes.

    Example:
        >>> import rgrad as torch
        >>> from rgrad import nn
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))
        >>> with torch.viz.modules(net):
        ...     loss = net(torch.ones(4, 2)).sum()
        >>> "1: Sequential" in torch.viz.graph(loss, net).dot
        True
    """
    with _Labels().following(module):
        yield


class _Operations(_Recorder):
    """Records the operations themselves, with the tensors that they take and give."""

    def __init__(self, inputs: Any, own: Any) -> None:
        super().__init__()
        self.boxes: list[Box] = []
        self._makers: dict[int, int] = {}
        # A tensor that dies would leave its identity to another one.
        self._alive: list[Any] = [inputs]
        self._own = {id(t) for t in own}
        given = list(tensors_in(inputs))
        for i, t in enumerate(given):
            name = "input" if len(given) == 1 else f"input {i}"
            self._add(Box([name, describe(t)], LEAF, shape=shape_of(t), operation=False), [t])

    def _add(self, box: Box, results: list[Tensor]) -> None:
        for t in results:
            self._makers[id(t)] = len(self.boxes)
        self._alive += results
        self.boxes.append(box)

    def number_of(self, t: Tensor) -> int | None:
        """The node that made a tensor; None for parameters and buffers, which are not drawn."""
        if id(t) in self._own and id(t) not in self._makers:
            return None
        if id(t) not in self._makers:
            self._add(Box(["tensor", describe(t)], LEAF, shape=shape_of(t), operation=False), [t])
        return self._makers[id(t)]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        results = list(tensors_in(result))
        if results:
            name = func.__name__
            if name == "__get__":
                name = func.__self__.__name__
            numbers = (self.number_of(t) for t in tensors_in((args, kwargs)))
            inputs = list(dict.fromkeys(n for n in numbers if n is not None))
            shape = ", ".join(shape_of(t) for t in results[:3]) + (", …" if len(results) > 3 else "")
            self._add(Box([name, shape], OPERATION, inputs, self.call, shape), results)
        return result


def operations(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Box]:
    """Runs a module and returns the nodes that its results depend on."""
    own = [*module.parameters(), *module.buffers()]
    recorder = _Operations((args, kwargs), own)
    with recorder.following(module):
        results = list(tensors_in(module(*args, **kwargs)))
    boxes = recorder.boxes
    for i, t in enumerate(results):
        name = "result" if len(results) == 1 else f"result {i}"
        maker = recorder.number_of(t)
        boxes.append(Box([name, describe(t)], RESULT, [] if maker is None else [maker], operation=False))
    # What no result depends on, such as counters of normalizations, is left out.
    wanted, pending = set[int](), list(range(len(boxes) - len(results), len(boxes)))
    while pending:
        i = pending.pop()
        if i not in wanted:
            wanted.add(i)
            pending += boxes[i].inputs
    places = {old: new for new, old in enumerate(sorted(wanted))}
    kept = [boxes[old] for old in places]
    for box in kept:
        box.inputs = [places[i] for i in box.inputs]
    return kept
