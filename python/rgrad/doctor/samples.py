"""Sample calls of every operation of the table that takes tensors, used by device tests and the doctor.

A call whose required arguments are all tensors is derived from its signature, so a new pointwise operation needs no
entry here. Calls that need other arguments (an index, a kernel size, matching shapes) are listed in
`recipes.RECIPES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import rgrad
from rgrad import Tensor

from . import recipes as _recipes
from .recipes import RECIPES, Spec

Layout = Literal["contiguous", "transposed", "broadcast", "offset", "misaligned"]
LAYOUTS: tuple[Layout, ...] = ("contiguous", "transposed", "broadcast", "offset")

# Shapes for calls that accept any: a length that is no multiple of 4, empty, one element, 0-d, and many dimensions.
SHAPES: dict[str, tuple[int, ...]] = {
    "matrix": (5, 7),
    "empty": (0, 3),
    "one element": (1,),
    "0-d": (),
    "rank 6": (2, 1, 3, 1, 2, 2),
}

FLOATS = ("float32", "float64", "float16", "bfloat16")
DTYPES = (*FLOATS, "int64", "int32", "int16", "int8", "uint8", "bool")


@dataclass(frozen=True)
class Sample:
    """A call of an operation: its namespace, and its arguments with `Spec`s for tensors."""

    op: str
    place: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    shape: str = "recipe"

    @property
    def name(self) -> str:
        """The name in the documentation: `linalg.norm`, `nn.functional.relu`, `Tensor.view`, `add`."""
        prefix = "" if self.place == "function" else "Tensor." if self.place in ON_TENSORS else f"{self.place}."
        return prefix + self.op

    @property
    def is_elementwise(self) -> bool:
        """Whether the call was derived from a signature with tensors only."""
        return self.shape != "recipe"

    @property
    def minds_memory(self) -> bool:
        """Whether the call is unsuitable for expanded tensors: it depends on or writes the storage of a tensor, or
        divides by
        the spread of the elements of a row, which is zero in an expanded one.
        """
        return self.op.startswith(("as_strided", "resize_", "corrcoef")) or "max_norm" in self.kwargs

    def call(
        self, dtype: str, device: str, layout: Layout = "contiguous", grad: bool = False, wide: bool = False
    ) -> Outcome:
        """Runs the call on a device, and its backward if `grad` is set and there is a derivative.

        Args:
            dtype: The dtype of the data.
            device: The device to run it on.
            layout: The memory layout of the tensors.
            grad: Whether to run backward.
            wide: Whether to compute in float64 with numbers rounded to the floating point `dtype`.
        """
        rgrad.manual_seed(7)
        layout = "contiguous" if layout == "broadcast" and self.minds_memory else layout
        make = _Maker(dtype, device, layout, grad, self.op.endswith("_"), wide)
        args, kwargs = make.fill(list(self.args)), make.fill(self.kwargs)
        results = _tensors(self._function(args)(*args, **kwargs))
        outcome = Outcome([r if isinstance(r, Tensor) else rgrad.tensor(r, device=device) for r in results], [])
        roots = [r for r in outcome.results if r.requires_grad]
        if grad and roots:
            narrow = getattr(rgrad, dtype) if wide else None
            seeds = [_cotangent(r.shape, i).to(narrow or r.dtype).to(r.dtype).to(device) for i, r in enumerate(roots)]
            leaves = [t for t in make.leaves if t.requires_grad]
            given = rgrad.autograd.grad(roots, leaves, seeds, allow_unused=True)
            outcome.gradients = [g for g in given if g is not None]
        return outcome

    def _function(self, args: list[Any]) -> Callable[..., Any]:
        if self.place == "attribute":
            return lambda x: getattr(x, self.op)
        if self.place == "method":
            return getattr(Tensor, self.op)
        where = rgrad
        for part in self.place.split(".") if self.place in PLACES else ():
            where = getattr(where, part)
        return getattr(where, self.op)


@dataclass
class Outcome:
    """The results of a call."""

    results: list[Tensor]
    gradients: list[Tensor]


PLACES = {"nn.functional": "nn", "special": "special", "linalg": "linalg"}
ON_TENSORS = ("method", "attribute")


def samples(op: dict[str, Any], large: tuple[int, ...] | None = None) -> Iterator[Sample]:
    """The sample calls of a table entry (`rgrad._C._op_table()`); none if it takes no tensors.

    Args:
        op: The entry.
        large: The shape of an additional elementwise call.
    """
    place = _place(op)
    if place is None:
        return
    start = Sample(op["name"], place, ())
    recipes = RECIPES.get(start.name, RECIPES.get(op["name"], ()) if place in ON_TENSORS else ())
    if recipes is None:
        return
    if op["samples"]:
        recipes = [eval(f"call({text})", dict(vars(_recipes))) for text in op["samples"]]  # noqa: S307 - text of the table
    if recipes:
        for args, kwargs in recipes:
            yield replace(start, args=args, kwargs=kwargs)
        return
    counts = {n for s in op["signatures"] if (n := _count(s))}
    for count in sorted(counts):
        for label, shape in (*SHAPES.items(), *([("large", large)] if large else [])):
            yield replace(start, args=(Spec(shape),) * count, shape=label)
        for k in range(count):
            specs = tuple(Spec((len(SPECIALS),), "special" if i == k else "data") for i in range(count))
            yield replace(start, args=specs, shape="special values")


def _place(op: dict[str, Any]) -> str | None:
    if op["function"]:
        return "function"
    for place, flag in PLACES.items():
        if op[flag]:
            return place
    return "method" if op["method"] else "attribute" if op["attribute"] else None


def parameters(signature: str) -> list[tuple[str, str, bool, bool]]:
    """For each parameter: name, type, whether it has a default, and whether it is keyword-only."""
    depth, part, parts = 0, "", []
    for c in signature.split("->")[0] + ",":
        depth += (c in "[(") - (c in "])")
        if c == "," and not depth:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    found, keyword = [], False
    for p in filter(None, parts):
        if p == "*":
            keyword = True
            continue
        name, _, rest = p.partition(":")
        kind, has_default, _ = rest.partition("=")
        found.append((name.strip(), kind.strip(), bool(has_default), keyword))
    return found


def _count(signature: str) -> int:
    """The number of tensors in a signature; 0 if it requires anything else."""
    required = [kind for _, kind, has_default, _ in parameters(signature) if not has_default]
    return len(required) if all(k in ("Tensor", "Operand") for k in required) else 0


def _tensors(x: Any) -> list[Any]:
    if isinstance(x, (list, tuple)):
        return [t for v in x for t in _tensors(v)]
    return [] if x is None or isinstance(x, str) else [x]


SPECIALS = (
    float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-40, -1e-40, 1.0, -1.0, 0.5, -2.5, 65504.0, 3.0e38,
)  # fmt: skip


def _cotangent(shape: tuple[int, ...], seed: int) -> Tensor:
    """Numbers between -1 and 2, in an order different from that of any operand."""
    at = rgrad.arange(math.prod(shape), dtype=rgrad.float64) + (seed * 0.377 + 0.21)
    return (at * 0.414_213_562_37).frac().mul(3).sub(1).reshape(shape)


def _spread(n: int, seed: int) -> Tensor:
    at = rgrad.arange(n, dtype=rgrad.float64) + (seed * 0.377 + 0.21)
    return (at * 0.618_033_988_75).frac()


class _Maker:
    """Creates the tensors of one call, each with different numbers."""

    def __init__(self, dtype: str, device: str, layout: Layout, grad: bool, in_place: bool, wide: bool) -> None:
        self.dtype, self.device, self.layout, self.grad = getattr(rgrad, dtype), device, layout, grad
        self.in_place, self.wide = in_place, wide
        self.leaves: list[Tensor] = []
        self._seed = 0

    def fill(self, x: Any) -> Any:
        """Replaces each `Spec` in `x` by a tensor, and each name after an `@` by a dtype."""
        if isinstance(x, str) and x.startswith("@"):
            return getattr(rgrad, x[1:])
        if isinstance(x, Spec):
            return self._tensor(x)
        if isinstance(x, dict):
            return {k: self.fill(v) for k, v in x.items()}
        if isinstance(x, (list, tuple)):
            return type(x)(self.fill(v) for v in x)
        return x

    def _tensor(self, spec: Spec) -> Tensor:
        self._seed += 1
        t = self._values(spec)
        t = self._place(t.double() if self.wide and t.is_floating_point() else t)
        if self.grad and t.is_floating_point() and spec.holds not in ("real", "mask", "index"):
            self.leaves.append(t.requires_grad_())
            # An in-place operation does not accept a leaf.
            return t.clone() if self.in_place else t
        return t

    def _values(self, spec: Spec) -> Tensor:
        shape, n = spec.shape, 1
        for d in shape:
            n *= d
        if spec.holds == "mask":
            return rgrad.arange(n).add(self._seed).remainder(3).eq(0).reshape(shape)
        if spec.holds == "index":
            # A multiplicative sequence covers all positions, some of them twice.
            t = rgrad.arange(n).mul(7).add(self._seed).remainder(max(spec.below, 1))
            return t.sort().values.reshape(shape) if spec.sorted else t.reshape(shape)
        t = self._data(spec, n)
        if spec.sorted:
            t = t.reshape(shape).sort(-1).values if shape else t
        if spec.holds == "dominant":
            diagonal = rgrad.eye(*shape[-2:]) * rgrad.arange(12, 12 + 3 * shape[-1], 3)
            return t.reshape(shape) + diagonal.to(t.dtype)
        return t.reshape(shape)

    def _data(self, spec: Spec, n: int) -> Tensor:
        if spec.holds == "special":
            kept = SPECIALS if self.dtype.is_floating_point else [0, 1, 2, 3, 5, 7, 11, 13, 64, 100, 101, 126, 127]
            return rgrad.tensor(kept, dtype=rgrad.float64)[:n].to(self.dtype)
        if self.dtype == rgrad.bool:
            return rgrad.arange(n).add(self._seed).remainder(3).ne(0)
        if not self.dtype.is_floating_point:
            # The first operand has zeros and, if allowed, negative numbers; the others have no zeros, so that they
            # can be divisors.
            t = rgrad.arange(n).mul(7).add(3 * self._seed).remainder(11)
            first = self._seed == 1 and spec.holds == "data"
            t = t.sub(4) if first and self.dtype != rgrad.uint8 else t if first else t.remainder(5).add(1)
            return t.to(self.dtype)
        t = _spread(n, self._seed)
        if spec.holds == "positive":
            t = t.mul(4).add(0.05)
        elif spec.holds == "unit":
            t = t.mul(0.9).add(0.05)
        else:
            t = t.mul(6).sub(3)
        return t.to(self.dtype)

    def _place(self, t: Tensor) -> Tensor:
        """The numbers of `t` on the device, in the layout under test."""
        if self.layout == "misaligned" and t.numel():
            # Starts at the second byte of a buffer.
            memory = bytearray(1 + t.numel() * t.element_size())
            return rgrad.frombuffer(memory, dtype=t.dtype, offset=1).view(t.shape).copy_(t).to(self.device)
        if self.layout == "contiguous" or t.dim() == 0 or t.numel() == 0:
            return t.to(self.device)
        if self.layout == "transposed":
            order = tuple(reversed(range(t.dim())))
            return t.permute(order).contiguous().to(self.device).permute(order)
        if self.layout == "broadcast":
            return t[:1].contiguous().to(self.device).expand(t.shape)
        # Every second element of a buffer, from the third on.
        base = rgrad.zeros(2 * t.numel() + 3, dtype=t.dtype)
        base[3::2] = t.reshape(-1)
        return base.to(self.device)[3::2].reshape(1, -1)[0].view(t.shape)
