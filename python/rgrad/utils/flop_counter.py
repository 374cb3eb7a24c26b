"""Counting the multiplications and additions of a block: two for each multiplication that is summed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from rgrad._library import aten
from rgrad.utils._python_dispatch import TorchDispatchMode
from rgrad.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]


def _mm(result: Any, a: Any, b: Any, *rest: Any, **named: Any) -> int:
    return 2 * result.numel() * a.shape[-1]


def _addmm(result: Any, c: Any, a: Any, b: Any, *rest: Any, **named: Any) -> int:
    return _mm(result, a, b)


def _convolution(result: Any, input: Any, weight: Any, *rest: Any, **named: Any) -> int:
    transposed = len(rest) > 4 and rest[4]
    return 2 * (input if transposed else result).numel() * math.prod(weight.shape[1:])


def _convolution_backward(result: Any, grad: Any, *saved: Any, **named: Any) -> int:
    """As many as the forward pass for each of the two gradients that is computed.

    A kernel is applied at each element of the output, or of the input of a transposed convolution. Which of the two it
    was is told by the channels that the weight has first; where both have as many, the kernels cannot be more than the
    elements of the smaller one.
    """
    by_input, by_weight = result[0], result[1]
    weight = saved[-1] if by_weight is None else by_weight
    input = saved[0] if by_input is None else by_input
    fits = [t.numel() for t in (grad, input) if t.shape[t.dim() - weight.dim() + 1] == weight.shape[0]]
    applied = min(fits, default=grad.numel())
    return 2 * applied * math.prod(weight.shape[1:]) * sum(g is not None for g in (by_input, by_weight))


def _attention(result: Any, query: Any, key: Any, value: Any, *rest: Any, **named: Any) -> int:
    scores = math.prod(query.shape[:-1]) * key.shape[-2]
    return 2 * scores * (query.shape[-1] + value.shape[-1])


# By operation, what counts a call: takes the result, then the arguments.
flop_registry: dict[Any, Callable[..., int]] = {
    **{aten.shown(name): _mm for name in ("mm", "bmm")},
    **{aten.shown(name): _addmm for name in ("addmm", "baddbmm")},
    aten.shown("convolution"): _convolution,
    aten.shown("convolution_backward"): _convolution_backward,
    aten.shown("scaled_dot_product_attention"): _attention,
}


def _shape(value: Any) -> Any:
    if hasattr(value, "shape"):
        return value.shape
    return type(value)(_shape(v) for v in value) if isinstance(value, tuple | list) else value


def _of_shapes(formula: Callable[..., int]) -> Callable[..., int]:
    """A formula of tensors made of one of shapes, which takes that of the result as `out_shape`."""

    def count(result: Any, *args: Any, **kwargs: Any) -> int:
        named = {name: _shape(value) for name, value in kwargs.items()}
        return formula(*map(_shape, args), **named, out_shape=_shape(result))

    return count


def _of_values(formula: Callable[..., int]) -> Callable[..., int]:
    return lambda result, *args, **kwargs: formula(*args, **kwargs, out_val=result)


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[..., Any]:
    """Registers what counts the calls of an operation.

    Args:
        targets: the operation, such as `torch.ops.aten.mm`, or several.
        get_raw: whether the formula takes tensors and the result as `out_val`, and not shapes and that of the result as
            `out_shape`.

    Returns:
        A decorator of the formula.
    """

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        for target in targets if isinstance(targets, tuple | list) else [targets]:
            flop_registry[target] = _of_values(formula) if get_raw else _of_shapes(formula)
        return formula

    return register


class _Counting(TorchDispatchMode):
    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of an operation, which is counted."""
        result = func(*args, **(kwargs or {}))
        self.counter._count(func.overloadpacket, result, args, kwargs or {})
        return result


class FlopCounterMode:
    """A block whose products, convolutions and attention are counted, by the modules that they are made in.

    Those of the backward pass are counted as well.

    Args:
        mods: accepted, without effect: all modules are seen.
        depth: how many levels of modules the table shows.
        display: whether the table is printed at the end.
        custom_mapping: by operation, a formula of the shapes of its arguments and of `out_shape`; of tensors and
            `out_val` if it has the attribute `_get_raw`.

    Example:
        >>> import rgrad as torch
        >>> from rgrad.utils.flop_counter import FlopCounterMode
        >>> with FlopCounterMode(display=False) as counter:
        ...     y = torch.nn.Linear(3, 4)(torch.ones(2, 3)).sum()
        >>> counter.get_total_flops()
        48
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None
    ) -> None:
        self.depth, self.display = depth, display
        own = (custom_mapping or {}).items()
        raw = {op: _of_values(f) if getattr(f, "_get_raw", False) else _of_shapes(f) for op, f in own}
        self.flop_registry = {**flop_registry, **raw}
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.mod_tracker = ModuleTracker()
        self._mode = _Counting(self)

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self._mode.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._mode.__exit__(*exc)
        self.mod_tracker.__exit__(*exc)
        if self.display:
            print(self.get_table(self.depth))

    def _count(self, packet: Any, result: Any, args: Any, kwargs: Any) -> None:
        formula = self.flop_registry.get(packet)
        if formula is not None:
            flops = formula(result, *args, **kwargs)
            for name in sorted(self.mod_tracker.parents, key=lambda name: (name != "Global", name)):
                self.flop_counts[name][packet] += flops

    def get_total_flops(self) -> int:
        """All of the block."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """By module and operation; those of the whole block are under "Global"."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """A text with a line for each module."""
        deepest = self.depth if depth is None else depth
        rows = [("Module", "FLOP", "% Total")]
        total = max(self.get_total_flops(), 1)
        for name, counts in self.flop_counts.items():
            if name.count(".") < deepest:
                flops = sum(counts.values())
                rows.append((name, f"{flops:,}", f"{100 * flops / total:.2f}%"))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)
