"""Random programs: chains of operations, views, in-place writes and hooks, against derivatives made without a tape.

Every line of a program is run twice: as rgrad code, and on jets, which carry a value together with its derivatives by
every element of the leaves. A jet's arrays are NumPy's, so that a view of a jet is a view of its arrays and a write
through one is seen by all, as it is with tensors. Regions of deferred operations begin and end at random lines.
`RANDOM_PROGRAMS` in the environment says how many are run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import rgrad

PROGRAMS = int(os.environ.get("RANDOM_PROGRAMS", "1000"))
BATCH = 100
MODIFIED = "has been modified by an inplace operation"

Part = Callable[[np.ndarray, int], np.ndarray]
"""What is done to an array whose first dimensions, so many, are not the tensor's."""


# ---- jets: values with their first and, where wanted, second derivatives


@dataclass
class Jet:
    parts: list[np.ndarray]
    """Value, first derivatives (one more dimension in front), second derivatives (two more)."""

    def __post_init__(self) -> None:
        self.parts = [np.asarray(p) for p in self.parts]

    @property
    def value(self) -> np.ndarray:
        return self.parts[0]

    def linear(self, f: Part) -> Jet:
        return Jet([f(p, lead) for lead, p in enumerate(self.parts)])

    def scaled(self, by: float) -> Jet:
        """The same value with its derivatives multiplied: what a hook does to them."""
        return Jet([self.value, *(p * by for p in self.parts[1:])])

    def constant(self) -> Jet:
        return Jet([self.value.copy(), *(np.zeros_like(p) for p in self.parts[1:])])

    def copy(self) -> Jet:
        return self.linear(lambda a, _: a.copy())

    def expand(self, shape: tuple[int, ...]) -> Jet:
        def f(a: np.ndarray, lead: int) -> np.ndarray:
            ones = (1,) * (len(shape) + lead - a.ndim)
            return np.broadcast_to(a.reshape(a.shape[:lead] + ones + a.shape[lead:]), a.shape[:lead] + shape)

        return self.linear(f)

    def chain(self, f: np.ndarray, f1: np.ndarray, f2: np.ndarray) -> Jet:
        """A function of each element, by its value and its derivatives."""
        parts = [f]
        if len(self.parts) > 1:
            d = self.parts[1]
            parts.append(f1 * d)
        if len(self.parts) > 2:
            parts.append(f2 * d[:, None] * d[None] + f1 * self.parts[2])
        return Jet(parts)

    def __add__(self, other: Jet) -> Jet:
        shape = np.broadcast_shapes(self.value.shape, other.value.shape)
        a, b = self.expand(shape), other.expand(shape)
        return Jet([x + y for x, y in zip(a.parts, b.parts, strict=True)])

    def __mul__(self, other: Jet | float) -> Jet:
        if not isinstance(other, Jet):
            return self.linear(lambda a, _: a * other)
        shape = np.broadcast_shapes(self.value.shape, other.value.shape)
        return bilinear(np.multiply, self.expand(shape), other.expand(shape))


def bilinear(f: Callable[[Any, Any], np.ndarray], a: Jet, b: Jet) -> Jet:
    parts = [f(a.value, b.value)]
    if len(a.parts) > 1:
        parts.append(f(a.parts[1], b.value) + f(a.value, b.parts[1]))
    if len(a.parts) > 2:
        cross = f(a.parts[1][:, None], b.parts[1][None])
        parts.append(f(a.parts[2], b.value) + f(a.value, b.parts[2]) + cross + cross.swapaxes(0, 1))
    return Jet(parts)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


UNARY: dict[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]] = {
    "sin": lambda x: (np.sin(x), np.cos(x), -np.sin(x)),
    "cos": lambda x: (np.cos(x), -np.sin(x), -np.cos(x)),
    "tanh": lambda x: (np.tanh(x), 1 - np.tanh(x) ** 2, -2 * np.tanh(x) * (1 - np.tanh(x) ** 2)),
    "sigmoid": lambda x: (
        _sigmoid(x),
        _sigmoid(x) * (1 - _sigmoid(x)),
        _sigmoid(x) * (1 - _sigmoid(x)) * (1 - 2 * _sigmoid(x)),
    ),
    "square": lambda x: (x * x, 2 * x, np.full_like(x, 2.0)),
    "relu": lambda x: (np.maximum(x, 0), (x > 0) * 1.0, np.zeros_like(x)),
    "abs": lambda x: (np.abs(x), np.sign(x), np.zeros_like(x)),
    "atan": lambda x: (np.arctan(x), 1 / (1 + x * x), -2 * x / (1 + x * x) ** 2),
    "neg": lambda x: (-x, np.full_like(x, -1.0), np.zeros_like(x)),
}


def softmax(a: Jet, axis: int) -> Jet:
    e = np.exp(a.value)
    e = a.chain(e, e, e)
    total = e.linear(lambda p, lead: p.sum(axis + lead, keepdims=True))
    v = total.value
    return e * total.chain(1 / v, -1 / v**2, 2 / v**3)


def pick(a: Jet, index: Any) -> Jet:
    """Basic indices give a view, others a copy: as with tensors."""
    items = index if isinstance(index, tuple) else (index,)
    return a.linear(lambda p, lead: p[(slice(None),) * lead + items])


def diagonal(p: np.ndarray, lead: int) -> np.ndarray:
    n = min(p.shape[lead:])
    stride = p.strides[lead] + p.strides[lead + 1]
    return np.lib.stride_tricks.as_strided(p, (*p.shape[:lead], n), (*p.strides[:lead], stride))


# ---- programs


@dataclass
class Memory:
    """What lies in the same memory shares these."""

    saved: bool = False
    """Whether some node may have kept a tensor in it."""
    version: int = 0


@dataclass
class Base:
    """What views are views of: they share its history."""

    tracked: bool
    jet: Jet
    memory: Memory
    leaf: bool = False


@dataclass
class Var:
    name: str
    jet: Jet
    base: Base
    view: bool = False
    multi: bool = False
    """Whether it, or what it is a view of, is one of several views that one call made."""
    expanded: bool = False
    factor: float = 1.0
    """What hooks on this view, or on those that it was made from, multiply its gradient by."""
    version: int = 0
    """The memory's when the history of this view was last looked up."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.jet.value.shape

    def stale(self) -> bool:
        return self.multi and self.base.tracked and self.version != self.base.memory.version

    def read(self) -> Jet:
        if self.version != self.base.memory.version:
            self.factor, self.version = 1.0, self.base.memory.version
        return self.jet if self.factor == 1.0 else self.jet.scaled(self.factor)


@dataclass
class Program:
    seed: int
    lines: list[str] = field(default_factory=list)
    in_region: bool = False

    def __post_init__(self) -> None:
        self.r = r = random.Random(self.seed)
        # Where regions begin and end, apart from what the program does.
        self.places = random.Random(~self.seed)
        self.order = 2 if r.random() < 0.2 else 1
        # In a careful program nothing that a node saved is written; in another, an error may say that it was.
        self.careful = r.random() < 0.85
        # Whether there may be casts, and the relative error that they may make.
        self.rough, self.tolerance = r.random() < 0.1, 0.0
        self.rng = np.random.default_rng(self.seed)
        self.env: dict[str, Any] = {"torch": rgrad}
        self.vars: list[Var] = []
        self.leaf_factors: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self.count = 0
        shapes = [r.choice([(2,), (3,), (2, 2), (2, 3), (1, 3)]) for _ in range(r.choice([1, 2]))]
        self.inputs = sum(int(np.prod(s)) for s in shapes)
        offset = 0
        for shape in shapes:
            n = int(np.prod(shape))
            parts = [self.rng.uniform(-1.5, 1.5, shape), np.zeros((self.inputs, *shape))]
            parts[1].reshape(self.inputs, n)[offset : offset + n] = np.eye(n)
            if self.order == 2:
                parts.append(np.zeros((self.inputs, self.inputs, *shape)))
            offset += n
            self.tensor(Jet(parts), leaf=True)
        self.leaves = list(self.vars)
        parts = [self.rng.uniform(-1.5, 1.5, (2, 3)), np.zeros((self.inputs, 2, 3))]
        parts += [np.zeros((self.inputs, self.inputs, 2, 3))] * (self.order - 1)
        self.tensor(Jet(parts), leaf=False)

    def run(self, line: str) -> None:
        if self.places.random() < 0.15:
            self.toggle_region()
        self.lines.append(line)
        exec(line, self.env)

    def toggle_region(self) -> None:
        """Opens or closes a region of deferred operations: `RGRAD_DEFER_FROM=1` says that small tensors wait too."""
        self.lines.append("# the end of a region" if self.in_region else "# a region begins")
        if self.in_region:
            rgrad._C._exit_region()
        else:
            rgrad._C._enter_region()
        self.in_region = not self.in_region

    def refused(self, line: str, message: str) -> None:
        self.lines.append(f"# refused: {line}")
        with pytest.raises(RuntimeError, match=message):
            exec(line, self.env)

    def fresh(self) -> str:
        self.count += 1
        return f"x{self.count}"

    def tensor(self, jet: Jet, leaf: bool) -> None:
        name = self.fresh()
        wants = ", requires_grad=True" if leaf else ""
        self.run(f"{name} = torch.tensor({jet.value.tolist()}, dtype=torch.float64{wants})")
        self.vars.append(Var(name, jet, Base(leaf, jet, Memory(), leaf)))

    def add(self, name: str, jet: Jet, sources: list[Var], saves: bool, grad: bool = True) -> Var:
        """The variable of a new tensor."""
        tracked = grad and any(s.base.tracked for s in sources)
        jet = jet.copy() if tracked else jet.constant()
        var = Var(name, jet, Base(tracked, jet, Memory(saves and tracked)))
        if saves and tracked:
            for s in sources:
                s.base.memory.saved = True
        self.vars.append(var)
        return var

    def var(self, when: Callable[[Var], bool] = lambda _: True) -> Var | None:
        some = [v for v in self.vars if not v.stale() and when(v)]
        return self.r.choice(some) if some else None

    # -- operations

    def unary(self) -> Var | None:
        x = self.var()
        f, name = self.r.choice(sorted(UNARY)), self.fresh()
        grad = self.r.random() > 0.1
        if grad:
            self.run(f"{name} = {x.name}.{f}()")
        else:
            self.run(f"with torch.no_grad(): {name} = {x.name}.{f}()")
        jet = x.read()
        return self.add(name, jet.chain(*UNARY[f](jet.value)), [x], f != "neg", grad)

    def binary(self) -> Var | None:
        x = self.var()
        y = self.var(lambda y: _broadcasts(x.shape, y.shape))
        f, name = self.r.choice(["*", "+", "-"]), self.fresh()
        self.run(f"{name} = {x.name} {f} {y.name}")
        a, b = x.read(), y.read()
        jet = a * b if f == "*" else a + (b if f == "+" else b * -1.0)
        return self.add(name, jet, [x, y], f == "*")

    def product(self) -> Var | None:
        x = self.var(lambda x: len(x.shape) == 2)
        y = self.var(lambda y: len(y.shape) == 2 and x.shape[1] == y.shape[0]) if x else None
        if y is None:
            return None
        name = self.fresh()
        self.run(f"{name} = {x.name} @ {y.name}")
        return self.add(name, bilinear(np.matmul, x.read(), y.read()), [x, y], True)

    def linear(self) -> Var | None:
        x = self.var(lambda x: len(x.shape) > 0 and 0 not in x.shape)
        axis = self.r.randrange(len(x.shape))
        n = x.shape[axis]
        index = [self.r.randrange(n) for _ in range(self.r.randrange(1, 4))]
        f: dict[str, Part] = {
            f"sum({axis})": lambda p, lead: p.sum(axis + lead),
            f"mean({axis}, keepdim=True)": lambda p, lead: p.mean(axis + lead, keepdims=True),
            f"cumsum({axis})": lambda p, lead: p.cumsum(axis + lead),
            f"flip({axis})": lambda p, lead: np.flip(p, axis + lead),
            f"roll(1, {axis})": lambda p, lead: np.roll(p, 1, axis + lead),
            f"index_select({axis}, torch.tensor({index}))": lambda p, lead: p.take(index, axis + lead),
            "clone()": lambda p, _: p,
        }
        call, name = self.r.choice(sorted(f)), self.fresh()
        self.run(f"{name} = {x.name}.{call}")
        return self.add(name, x.read().linear(f[call]), [x], False)

    def selection(self) -> Var | None:
        x = self.var(lambda x: len(x.shape) > 0 and 0 not in x.shape)
        axis, name, jet = self.r.randrange(len(x.shape)), self.fresh(), x.read()
        match self.r.choice(["softmax", "sort", "mask", "amax", "indices"]):
            case "indices":
                index = [self.r.randrange(-x.shape[0], x.shape[0]) for _ in range(self.r.randrange(1, 4))]
                self.run(f"{name} = {x.name}[torch.tensor({index})]")
                return self.add(name, pick(jet, (index,)), [x], False)
            case "softmax":
                self.run(f"{name} = {x.name}.softmax({axis})")
                return self.add(name, softmax(jet, axis), [x], True)
            case "sort":
                order = jet.value.argsort(axis, kind="stable")
                self.run(f"{name} = {x.name}.sort(dim={axis}, stable=True)[0]")
                return self.add(name, jet.linear(lambda p, lead: _along(p, order, axis, lead)), [x], False)
            case "mask":
                mask = self.rng.random(x.shape) < 0.6
                self.run(f"{name} = {x.name}[torch.tensor({mask.tolist()}, dtype=torch.bool)]")
                return self.add(name, pick(jet, mask), [x], False)
            case _:
                top = jet.value.argmax(axis)
                if np.sum(jet.value == jet.value.max(axis, keepdims=True)) != top.size:
                    return None  # A tie's gradient is shared, which no derivative says.
                self.run(f"{name} = {x.name}.amax({axis}, keepdim=True)")
                top = np.expand_dims(top, axis)
                return self.add(name, jet.linear(lambda p, lead: _along(p, top, axis, lead)), [x], True)

    def cast(self) -> Var | None:
        """There and back: what is rounded on the way makes the whole program less exact."""
        x, name = self.var(), self.fresh()
        self.tolerance = 1e-4
        self.run(f"{name} = {x.name}.float().double()")
        jet = x.read()
        return self.add(name, Jet([jet.value.astype(np.float32), *jet.parts[1:]]), [x], False)

    def join(self) -> Var | None:
        x = self.var(lambda x: len(x.shape) > 0)
        y = self.var(lambda y: y.shape == x.shape)
        axis, name = self.r.randrange(len(x.shape)), self.fresh()
        f, join = self.r.choice([("cat", np.concatenate), ("stack", np.stack)])
        self.run(f"{name} = torch.{f}([{x.name}, {y.name}], {axis})")
        a, b = x.read(), y.read()
        parts = [join([p, q], axis + lead) for lead, (p, q) in enumerate(zip(a.parts, b.parts, strict=True))]
        return self.add(name, Jet(parts), [x, y], False)

    # -- views

    def view(self) -> Var | None:
        x = self.var(lambda x: len(x.shape) > 0 and 0 not in x.shape)
        axis, n = self.r.randrange(len(x.shape)), x.shape[0]
        start = self.r.randrange(n)
        pad = (slice(None),) * axis
        f: dict[str, Part] = {
            f"{{}}[{start}]": lambda p, lead: p[(slice(None),) * lead + (start, ...)],
            f"{{}}[{start}:]": lambda p, lead: p[(slice(None),) * lead + (slice(start, None),)],
            "{}[..., ::2]": lambda p, _: p[..., ::2],
            f"{{}}.unsqueeze({axis})": lambda p, lead: p[(slice(None),) * lead + (*pad, None)],
            "{}.mT" if len(x.shape) > 1 else "{0}.view_as({0})": lambda p, lead: (
                p.swapaxes(-1, -2) if p.ndim - lead > 1 else p[...]
            ),
            f"{{}}.narrow({axis}, 0, 1)": lambda p, lead: p[(slice(None),) * lead + (*pad, slice(0, 1))],
        }
        if len(x.shape) == 2 and min(x.shape) > 0:
            f["{}.diagonal()"] = diagonal
        if self.env[x.name].is_contiguous() and x.jet.value.flags.c_contiguous:
            f["{}.view(-1)"] = lambda p, lead: p.reshape(*p.shape[:lead], -1)
        text, name = self.r.choice(sorted(f)), self.fresh()
        self.run(f"{name} = {text.format(x.name)}")
        return self.look(name, x, x.jet.linear(f[text]))

    def look(self, name: str, x: Var, jet: Jet, multi: bool = False, expanded: bool = False) -> Var:
        """The variable of a view of `x`."""
        x.read()
        var = Var(name, jet, x.base, True, multi or x.multi, expanded or x.expanded, x.factor, x.version)
        self.vars.append(var)
        return var

    def several_views(self) -> Var | None:
        x = self.var(lambda x: len(x.shape) > 0 and x.shape[0] > 1)
        if x is None:
            return None
        n = x.shape[0]
        cuts: dict[str, list[Any]] = {
            "unbind(0)": [(i, ...) for i in range(n)],
            "split(1)": [slice(i, i + 1) for i in range(n)],
            f"split([1, {n - 1}])": [slice(0, 1), slice(1, n)],
            "chunk(2)": [slice(0, (n + 1) // 2), slice((n + 1) // 2, n)],
        }
        call = self.r.choice(sorted(cuts))
        names = [self.fresh() for _ in cuts[call]]
        self.run(f"{', '.join(names)} = {x.name}.{call}")
        views = [self.look(name, x, pick(x.jet, cut), multi=True) for name, cut in zip(names, cuts[call], strict=True)]
        # One node makes all of them: a hook on it is not one of them alone, a hook on the tensor is.
        for view in views:
            if view.base.tracked and self.r.random() < 0.2:
                self.hook(view, self.r.choice(["tensor", "looks"]))
        return views[-1]

    def expanded(self) -> Var | None:
        x = self.var(lambda x: len(x.shape) < 3)
        name = self.fresh()
        self.run(f"{name} = {x.name}.expand({(2, *x.shape)})")
        return self.look(name, x, x.jet.expand((2, *x.shape)), expanded=True)

    def detached(self) -> Var | None:
        x = self.var(lambda x: not x.expanded)
        name = self.fresh()
        self.run(f"{name} = {x.name}.detach()")
        parts = [x.jet.value, *(np.zeros_like(p) for p in x.jet.parts[1:])]
        self.vars.append(var := Var(name, Jet(parts), Base(False, Jet(parts), x.base.memory)))
        return var

    # -- writes

    def write(self) -> Var | None:
        x = self.var(lambda x: not (self.careful and x.base.memory.saved))
        y = self.var(lambda y: _broadcast_shape(x.shape, y.shape) == x.shape) if x else None
        if x is None or y is None:
            return None
        if y is not x and np.may_share_memory(x.jet.value, y.jet.value):
            return None
        f = self.r.choice(
            ["copy_", "mul_", "add_", "+=", "unary", "fill_", "zero_", "item", "mask", "masked_fill_", "put", "number"]
        )
        if y is x and f not in ("unary", "fill_", "zero_", "mask", "masked_fill_", "number"):
            return None
        # The old value comes from the base: hooks on the view as it was are not met.
        grad, saves, a, b = self.r.random() > 0.15, False, x.jet, y.read()
        nothing = a.linear(lambda p, _: np.zeros_like(p))
        half = Jet([np.full_like(a.value, 0.5), *nothing.parts[1:]])
        sources = [y]
        part: Any = ...
        match f:
            case "copy_":
                line, new = f"{x.name}.copy_({y.name})", b.expand(x.shape)
            case "mul_":
                line, new, saves = f"{x.name}.mul_({y.name})", a * b, True
            case "add_":
                line, new = f"{x.name}.add_({y.name}, alpha=-2)", a + b * -2.0
            case "+=":
                line, new = f"{x.name} += {y.name}", a + b
            case "unary":
                u, sources = self.r.choice(sorted(set(UNARY) - {"relu"})), []
                line, new, saves = f"{x.name}.{u}_()", a.chain(*UNARY[u](a.value)), u != "neg"
            case "fill_":
                line, new, sources = f"{x.name}.fill_(0.5)", half, []
            case "number":
                line, new, sources = f"{x.name}.copy_(0.5)", half, []
            case "put":
                if not x.shape or not x.shape[0] or _broadcast_shape(x.shape[1:], y.shape) != x.shape[1:]:
                    return None
                index = self.r.sample(range(x.shape[0]), self.r.randrange(1, x.shape[0] + 1))
                added = self.r.random() < 0.5
                line = f"{x.name}.index_put_((torch.tensor({index}),), {y.name}, accumulate={added})"
                new, change = a.copy(), b.expand((len(index), *x.shape[1:]))
                for lead, (p, q) in enumerate(zip(new.parts, change.parts, strict=True)):
                    at = (slice(None),) * lead + (index,)
                    p[at] = p[at] + q if added else q
            case "zero_":
                line, new, sources = f"{x.name}.zero_()", nothing, []
            case "item":
                if not x.shape or not x.shape[0]:
                    return None
                part = self.r.randrange(x.shape[0])
                if _broadcast_shape(x.shape[1:], y.shape) != x.shape[1:]:
                    return None
                line, new = f"{x.name}[{part}] = {y.name}", b.expand(x.shape[1:])
            case _:
                mask, sources = self.rng.random(x.shape) < 0.5, []
                where = f"torch.tensor({mask.tolist()}, dtype=torch.bool)"
                line = f"{x.name}[{where}] = 0.5" if f == "mask" else f"{x.name}.masked_fill_({where}, 0.5)"
                new = Jet([np.where(mask, p, q) for p, q in zip(half.parts, a.parts, strict=True)])
        if not grad:
            line = f"with torch.no_grad(): {line}"
        tracked = grad and (x.base.tracked or any(s.base.tracked for s in sources))
        if x.expanded:
            overlaps = any(n > 1 and step == 0 for n, step in zip(x.shape, x.jet.value.strides, strict=True))
            if overlaps and not x.multi and f in ("mul_", "add_", "+="):
                self.refused(line, "more than one element of the written-to tensor|a view of a leaf Variable")
            return None
        if tracked and x.multi:
            if f != "item":
                self.refused(line, "view .* is being modified inplace")
            return None
        if tracked and x.base.leaf:
            self.refused(
                line, "a (view of a )?leaf Variable that requires grad is being used in an in-place operation"
            )
            return None
        self.run(line)
        target = x.jet if part is ... else pick(x.jet, (part, ...))
        new = new.copy()
        target.value[...] = new.value
        x.base.memory.version += 1
        if tracked:
            for p, q in zip(target.parts[1:], new.parts[1:], strict=True):
                p[...] = q
            x.base.tracked = True
            if saves:
                for s in (x, *sources):
                    s.base.memory.saved = True
            return x if part is ... else None
        return None

    # -- hooks

    def hook(self, x: Var, kind: str | None = None) -> None:
        """A hook on what was just made: nothing has read it yet."""
        factor = self.r.choice([2.0, -0.5]) if self.order == 1 else 1.0
        scale = f"tuple(g if g is None else g * {factor} for g in gs)"
        kind = kind or self.r.choice(["tensor", "pre", "post", "looks"])
        self.env["calls"] = self.calls
        match kind:
            case "tensor":
                self.run(f"{x.name}.register_hook(lambda g: g if g is None else g * {factor})")
            case "pre":
                self.run(f"{x.name}.grad_fn.register_prehook(lambda gs: {scale})")
            case "post":
                self.run(f"{x.name}.grad_fn.register_hook(lambda gs, _: {scale})")
            case _:
                key = f"hook{len(self.lines)}"
                count = f"calls.update({key}=calls.get('{key}', 0) + 1)"
                self.run(f"{x.name}.register_hook(lambda g: g if g is None else {count})")
                return
        if not x.view:
            for p in x.base.jet.parts[1:]:
                p *= factor
        else:
            x.read()
            x.factor *= factor

    def leaf_hook(self) -> None:
        leaf = self.r.choice(self.leaves)
        factor = self.r.choice([2.0, -0.5]) if self.order == 1 else 1.0
        self.run(f"{leaf.name}.register_hook(lambda g: g if g is None else g * {factor})")
        self.leaf_factors[leaf.name] = self.leaf_factors.get(leaf.name, 1.0) * factor

    # -- the whole

    def play(self) -> None:
        steps = [self.unary, self.binary, self.product, self.linear, self.selection, self.join, self.detached]
        steps += [self.view, self.several_views, self.expanded, self.view, self.write, self.write, self.write]
        if self.rough:
            steps.append(self.cast)
        for _ in range(self.r.randrange(4, 16)):
            made = self.r.choice(steps)()
            if made and made.base.tracked and not made.base.leaf and not made.multi and self.r.random() < 0.2:
                self.hook(made)
            if self.r.random() < 0.05:
                self.leaf_hook()
        for v in self.vars:
            if v.stale():
                self.refused(
                    f"{v.name}.sum()", "its base or another view of its base has been modified inplace"
                )
                continue
            t = self.env[v.name]
            assert t.requires_grad == v.base.tracked, f"{v.name}.requires_grad"
            np.testing.assert_allclose(
                t.detach().numpy(),
                v.jet.value,
                rtol=1e-10 + self.tolerance,
                atol=1e-12 + self.tolerance,
                err_msg=v.name,
            )
        self.check_gradients()

    def check_gradients(self) -> None:
        chosen = [v for v in self.vars if v.base.tracked and not v.stale()]
        chosen = self.r.sample(chosen, min(len(chosen), self.r.randrange(1, 5)))
        total = chosen[0].read().linear(lambda p, lead: p.sum(tuple(range(lead, p.ndim))))
        for v in chosen[1:]:
            total = total + v.read().linear(lambda p, lead: p.sum(tuple(range(lead, p.ndim))))
        self.run(f"loss = {' + '.join(f'{v.name}.sum()' for v in chosen)}")
        leaves = ", ".join(v.name for v in self.leaves)
        graph = "create_graph=True" if self.order == 2 else "retain_graph=True"
        self.run(f"grads = torch.autograd.grad(loss, [{leaves}], {graph}, materialize_grads=True)")
        flat = np.concatenate([g.detach().numpy().reshape(-1) for g in self.env["grads"]])
        factors = [np.full(v.jet.value.size, self.leaf_factors.get(v.name, 1.0)) for v in self.leaves]
        want = total.parts[1] * np.concatenate(factors)
        exact = 1e-9 + self.tolerance
        np.testing.assert_allclose(flat, want, rtol=exact, atol=exact * (1 + np.abs(want).max()))
        if self.order == 2:
            self.check_second(total.parts[2])
        self.run("loss.backward()")
        for v, g in zip(self.leaves, self.env["grads"], strict=True):
            got = self.env[v.name].grad
            got = np.zeros(v.shape) if got is None else got.detach().numpy()
            np.testing.assert_allclose(got, g.detach().numpy(), rtol=1e-9, atol=1e-12)
        # A second derivative passes some nodes once more.
        assert self.order == 2 or all(n == 2 for n in self.calls.values()), self.calls

    def check_second(self, want: np.ndarray) -> None:
        """The gradient of a weighted sum of the gradients."""
        weights = self.rng.uniform(-1, 1, self.inputs)
        parts, offset = [], 0
        for i, v in enumerate(self.leaves):
            w = weights[offset : offset + v.jet.value.size].reshape(v.shape)
            offset += w.size
            parts.append(f"(grads[{i}] * torch.tensor({w.tolist()}, dtype=torch.float64)).sum()")
        self.run(f"second = {' + '.join(parts)}")
        leaves = ", ".join(v.name for v in self.leaves)
        if not self.env["second"].requires_grad:
            np.testing.assert_allclose(want, 0, atol=1e-9)
            return
        self.run(
            f"second = torch.autograd.grad(second, [{leaves}], retain_graph=True, materialize_grads=True)"
        )
        got = np.concatenate([g.numpy().reshape(-1) for g in self.env["second"]])
        want = np.tensordot(weights, want, 1)
        exact = 1e-8 + self.tolerance
        np.testing.assert_allclose(got, want, rtol=exact, atol=exact * (1 + np.abs(want).max()))


def _broadcast_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return _broadcast_shape(a, b) is not None


def _along(p: np.ndarray, index: np.ndarray, axis: int, lead: int) -> np.ndarray:
    index = np.broadcast_to(index, p.shape[:lead] + index.shape)
    return np.take_along_axis(p, index, axis + lead)


@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_random_programs_have_the_gradients_that_need_no_tape(first):
    for seed in range(first, min(first + BATCH, PROGRAMS)):
        program = Program(seed)
        try:
            program.play()
        except RuntimeError as e:
            if program.careful or MODIFIED not in str(e):
                raise AssertionError("\n".join([f"program {seed}", *program.lines])) from e
        except Exception as e:
            raise AssertionError("\n".join([f"program {seed}", *program.lines])) from e
        finally:
            if program.in_region:
                program.toggle_region()
