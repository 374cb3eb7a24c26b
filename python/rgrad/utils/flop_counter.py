"""Counting the multiplications and additions of a block: two for each multiplication that is summed."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from rgrad import overrides
from rgrad.nn.modules import module as _module

__all__ = ["FlopCounterMode"]


def _product(a: Any, b: Any) -> int:
    """Of matrices with any dimensions before them, or vectors."""
    left = a.shape if len(a.shape) > 1 else (1, *a.shape)
    right = b.shape if len(b.shape) > 1 else (*b.shape, 1)
    batch = max(math.prod(left[:-2]), math.prod(right[:-2]))
    return 2 * batch * left[-2] * left[-1] * right[-1]


def _convolution(result: Any, input: Any, weight: Any, *rest: Any, **named: Any) -> int:
    return 2 * result.numel() * math.prod(weight.shape[1:])


def _transposed(result: Any, input: Any, weight: Any, *rest: Any, **named: Any) -> int:
    return 2 * input.numel() * math.prod(weight.shape[1:])


def _attention(result: Any, query: Any, key: Any, value: Any, *rest: Any, **named: Any) -> int:
    scores = math.prod(query.shape[:-1]) * key.shape[-2]
    return 2 * scores * (query.shape[-1] + value.shape[-1])


def _multiply(result: Any, a: Any, b: Any, *rest: Any, **named: Any) -> int:
    return _product(a, b)


def _add_multiply(result: Any, c: Any, a: Any, b: Any, *rest: Any, **named: Any) -> int:
    return _product(a, b)


_FORMULAS: dict[str, Any] = {
    **{name: _multiply for name in ("mm", "bmm", "matmul", "mv", "dot", "__matmul__", "vdot")},
    **{name: _add_multiply for name in ("addmm", "baddbmm", "addmv", "addbmm")},
    "linear": lambda result, x, w, *rest, **named: 2 * x.numel() * w.shape[0],
    **{name: _convolution for name in ("conv1d", "conv2d", "conv3d")},
    **{name: _transposed for name in ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")},
    "scaled_dot_product_attention": _attention,
}


class FlopCounterMode(overrides.TorchFunctionMode):
    """A block whose products, convolutions and attention are counted, by the modules that they are made in.

    The backward pass is one call of the program, and not counted.

    Args:
        mods: accepted, without effect: all modules are seen.
        depth: how many levels of modules the table shows.
        display: whether the table is printed at the end.
        custom_mapping: by function, what counts a call of it: takes the result, then the arguments.

    Example:
        >>> import rgrad as torch
        >>> from rgrad.utils.flop_counter import FlopCounterMode
        >>> with FlopCounterMode(display=False) as counter:
        ...     y = torch.nn.Linear(3, 4)(torch.ones(2, 3))
        >>> counter.get_total_flops()
        48
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None
    ) -> None:
        self.depth, self.display = depth, display
        self._own = custom_mapping or {}
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self._open: list[str] = []
        self._hooks: list[Any] = []

    def _path_of(self, module: Any) -> str:
        name = type(module).__name__
        if not self._open:
            return name
        outer = self._modules[-1]
        child = next((n for n, m in outer.named_children() if m is module), name)
        return f"{self._open[-1]}.{child}"

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self._modules: list[Any] = []

        def begin(module: Any, args: Any) -> None:
            self._open.append(self._path_of(module))
            self._modules.append(module)

        def finish(module: Any, args: Any, result: Any) -> None:
            self._open.pop()
            self._modules.pop()

        self._hooks = [
            _module.register_module_forward_pre_hook(begin),
            _module.register_module_forward_hook(finish, always_call=True),
        ]
        super().__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        for hook in self._hooks:
            hook.remove()
        if self.display:
            print(self.get_table(self.depth))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        count = self._own.get(func, _FORMULAS.get(getattr(func, "__name__", "")))
        if count is not None:
            flops = count(result, *args, **(kwargs or {}))
            for name in ("Global", *dict.fromkeys(self._open)):
                self.flop_counts[name][func] += flops
        return result

    def get_total_flops(self) -> int:
        """All of the block."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """By module and function; those of the whole block are under "Global"."""
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
