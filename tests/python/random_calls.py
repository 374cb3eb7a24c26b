"""Calls with arguments that nobody means: huge, negative, zero and NaN numbers, wrong types, too many arguments, and
tensors that are empty, of many dimensions, expanded, overlapping.

Call number `n` of a seed is always the same, whatever ran before it, and is made in a process of its own, which writes
the number down before it begins. So the process may die: who watches it still knows what it did.

    python tests/python/random_calls.py SEED FIRST COUNT     # runs them, and prints what went wrong
    python tests/python/random_calls.py SEED NUMBER          # prints one call and runs it in this process
"""

from __future__ import annotations

import contextlib
import faulthandler
import inspect
import math
import mmap
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rgrad
import rgrad.nn.functional as F
from rgrad.doctor.samples import Spec, parameters, samples

# ---- arguments

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
SHAPES = (
    (), (0,), (1,), (3,), (7,), (2, 3), (3, 3), (0, 3), (3, 0), (5, 1), (2, 0, 3), (1, 2, 3), (2, 3, 4), (2, 3, 3),
    (1, 2, 4, 4), (2, 2, 5, 3), (0, 2, 4, 4), (1, 2, 3, 4, 4), (2, 1, 2, 1, 2, 2), (0, 1, 2, 1, 0, 2),
    (1, 1, 2, 2, 1, 1, 2),
)  # fmt: skip
LAYOUTS = ("contiguous", "contiguous", "transposed", "expanded", "overlapping", "stepped", "offset", "channels")
CONTENTS = ("data", "data", "zero", "nan", "special", "index", "extreme")
INTS = (
    -(2**63), -(2**62), -(2**32), -(2**31), -1000, -7, -3, -2, -1, 0, 0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 17, 64, 1000,
    65536, 2**31 - 1, 2**31, 2**32, 2**33 + 1, 2**40, 2**53 + 1, 2**61, 2**62, 2**63 - 1,
)  # fmt: skip
SMALL = (-3, -2, -1, 0, 1, 2, 3, 4, 5)
FLOATS = (math.nan, math.inf, -math.inf, -1e30, -1.5, -1.0, -0.0, 0.0, 1e-45, 0.5, 1.0, 2.0, 1e18, 1e30, 1.7e308)
TEXTS = (
    "mean", "sum", "none", "reflect", "replicate", "circular", "constant", "amax", "amin", "prod", "bilinear",
    "nearest", "bicubic", "area", "linear", "trilinear", "same", "valid", "", "nuc", "fro", "tanh", "floor", "trunc",
    "complete", "reduced", "r", "U", "linear", "lower", "midpoint", "ij", "xy", "ij,jk->ik", "ii->i", "...i,i...->",
    "a", "\x00", "µ" * 20,
)  # fmt: skip
WRONG = (
    None, "text", b"bytes", 1j, 10**30, -(10**30), 2**64, object, [], (), {}, {"a": 1}, [[]], [1, "a"], [1.5, 2],
    (None,), [[1], [2, 3]], range(3), range(2**62), slice(None), ..., 2.5, True, math, len, [0] * 70, [2**40] * 9,
    [True, 3], "float32", set(), frozenset({1}),
)  # fmt: skip


@dataclass(frozen=True)
class T:
    """A tensor to be made."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    layout: str = "contiguous"
    holds: str = "data"
    grad: bool = False
    below: int = 3
    # Sizes that it is expanded to, of which there may be more than any memory holds.
    virtual: tuple[int, ...] = ()

    def make(self) -> rgrad.Tensor:
        t = self._laid(self._values())
        if self.virtual:
            t = t.reshape(-1)[:1].reshape(()).expand(self.virtual)
        return t.requires_grad_() if self.grad else t

    def _values(self) -> rgrad.Tensor:
        n, dtype = math.prod(self.shape), getattr(rgrad, self.dtype)
        if self.holds == "zero":
            return rgrad.zeros(self.shape, dtype=dtype)
        if self.holds == "index":
            return rgrad.arange(n).mul(7).add(1).remainder(max(self.below, 1)).to(dtype).reshape(self.shape)
        if self.holds == "extreme":
            all_bits = (-(2**63), 2**63 - 1, -1, 2**31, -(2**31), 2**32, 0)
            return rgrad.tensor([all_bits[i % 7] for i in range(n)]).to(dtype).reshape(self.shape)
        if self.holds in ("nan", "special"):
            pool = (math.nan,) if self.holds == "nan" else (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, 1e38, -2.5)
            return (
                rgrad.tensor([pool[i % len(pool)] for i in range(n)], dtype=rgrad.float64).to(dtype).reshape(self.shape)
            )
        numbers = [(i * 0.618034 + 0.21) % 1.0 * 6 - 3 for i in range(n)]
        return rgrad.tensor(numbers, dtype=rgrad.float64).to(dtype).reshape(self.shape)

    def _laid(self, t: rgrad.Tensor) -> rgrad.Tensor:
        if t.dim() == 0:
            return t
        match self.layout:
            case "transposed":
                order = tuple(reversed(range(t.dim())))
                return t.permute(order).contiguous().permute(order)
            case "expanded" if t.numel():
                return t[:1].expand(t.shape)
            case "overlapping" if t.numel():
                # Each row begins one element after the one before it.
                return t.reshape(-1).as_strided(t.shape, (1,) * t.dim()) if t.numel() >= sum(t.shape) else t
            case "stepped":
                return rgrad.stack([t, t], -1).reshape(-1)[1::2].as_strided(t.shape, [2 * s for s in t.stride()])
            case "offset":
                return rgrad.cat([t.reshape(-1)[:1], t.reshape(-1)])[min(t.numel(), 1) :].view(t.shape)
            case "channels" if t.dim() == 4:
                return t.contiguous(memory_format=rgrad.channels_last)
        return t


def made(x: Any) -> Any:
    if isinstance(x, T):
        return x.make()
    if isinstance(x, dict):
        return {k: made(v) for k, v in x.items()}
    if type(x) in (list, tuple):
        return type(x)(made(v) for v in x)
    return x


def some_tensor(r: random.Random, like: T | None = None) -> T:
    dtype = r.choice(DTYPES) if r.random() < 0.6 else r.choice(("float32", "float64", "int64"))
    shape = r.choice(SHAPES)
    if like is not None:
        shape = like.shape if r.random() < 0.5 else shape
        dtype = like.dtype if r.random() < 0.5 else dtype
    grad = "float" in dtype and r.random() < 0.25
    virtual = ()
    if r.random() < 0.004:
        virtual = r.choice(((2**62,), (2**40, 3), (2**31, 2**31), (2**20, 2**20, 3), (0, 2**62), (2**62, 0, 5)))
    return T(shape, dtype, r.choice(LAYOUTS), r.choice(CONTENTS), grad, r.choice((1, 2, 3, 5)), virtual)


def some_int(r: random.Random) -> int:
    return r.choice(SMALL) if r.random() < 0.5 else r.choice(INTS)


def some_index(r: random.Random, depth: int = 0) -> Any:
    bound = lambda: r.choice((None, some_int(r)))  # noqa: E731
    match r.randrange(10):
        case 0 | 1:
            return some_int(r)
        case 2 | 3:
            return slice(bound(), bound(), bound())
        case 4:
            return r.choice((None, ..., True, False))
        case 5:
            return some_tensor(r)
        case 6:
            return T(
                r.choice(SHAPES), r.choice(("int64", "uint8", "bool", "int32")), r.choice(LAYOUTS), "index", False, 3
            )
        case 7:
            return [r.choice((some_int(r), True)) for _ in range(r.randrange(4))]
        case 8:
            return r.choice(WRONG)
    return tuple(some_index(r, depth + 1) for _ in range(r.randrange(5))) if depth == 0 else some_int(r)


def some_value(r: random.Random, kind: str) -> Any:
    """A value for a parameter of the type that a signature names; of another type now and then."""
    if r.random() < 0.04:
        return some_anything(r)
    if kind.endswith("?"):
        return None if r.random() < 0.3 else some_value(r, kind[:-1])
    few = range(r.choice((0, 1, 1, 2, 2, 2, 3, 3, 4, 6)))
    match kind:
        case "Tensor":
            return some_tensor(r)
        case "Tensor[]" | "Tensor*" | "Tensor?[]":
            first = some_tensor(r)
            return [first if r.random() < 0.5 else some_tensor(r, first) for _ in few]
        case "Operand" | "Number":
            return r.choice((some_tensor(r), some_int(r), some_int(r), r.choice(FLOATS), True))
        case "int":
            return some_int(r)
        case "int[]" | "size":
            return some_int(r) if r.random() < 0.2 else r.choice((list, tuple))(some_int(r) for _ in few)
        case "float":
            return r.choice(FLOATS) if r.random() < 0.7 else some_int(r)
        case "float[]":
            return [r.choice(FLOATS) for _ in few]
        case "bool":
            return r.random() < 0.5
        case "dtype" | "typename":
            return getattr(rgrad, r.choice(DTYPES))
        case "str":
            return r.choice(TEXTS)
        case "device":
            return r.choice(("cpu", "cpu", "cpu", "gpu:99", "nowhere", "cpu:5", -1, 2**40))
        case "memory_format":
            return r.choice(
                (rgrad.contiguous_format, rgrad.preserve_format, rgrad.channels_last, rgrad.channels_last_3d)
            )
        case "layout":
            return rgrad.strided
    return some_anything(r)


def some_anything(r: random.Random) -> Any:
    return r.choice((some_tensor(r), some_int(r), r.choice(FLOATS), r.choice(TEXTS), *r.choices(WRONG, k=3)))


# ---- calls


@dataclass
class Call:
    """What is called, as a path from `rgrad`, with `T`s for tensors. A path that starts with a dot is a method."""

    path: str
    args: list[Any]
    kwargs: dict[str, Any] = field(default_factory=dict)
    # Of a module, what it is then called with; of an optimizer, the gradients that it then steps with.
    then: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        then = f", then {self.then}" if self.then else ""
        return f"{self.path}({', '.join(parts)}){then}"

    def run(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        result = self.first(args, kwargs)
        if isinstance(result, rgrad.nn.Module):
            return result(*made(self.then))
        if isinstance(result, rgrad.optim.Optimizer):
            for p, g in zip(args[0], made(self.then), strict=False):
                p.grad = g
            result.step()
            return result.step()
        return result

    def first(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self.path.startswith("."):
            f = getattr(args[0], self.path[1:])
            return f(*args[1:], **kwargs) if callable(f) else f
        f: Any = rgrad
        for part in self.path.split("."):
            f = getattr(f, part)
        return f(*args, **kwargs) if callable(f) else f


TABLE = rgrad._C._op_table()
PLACES = (("function", ""), ("nn", "nn.functional."), ("special", "special."), ("linalg", "linalg."))
# Beside the table: settings of the process, files and time are none of this.
OTHER = (
    "tensor", "as_tensor", "asarray", "frombuffer", "from_numpy", "from_dlpack", "einsum", "tensordot",
    "chain_matmul", "cosine_similarity", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle",
    "channel_shuffle", "bilinear", "rms_norm", "broadcast_shapes", "can_cast", "promote_types", "result_type",
    "finfo", "iinfo", "Size", "FloatTensor", "LongTensor", "BoolTensor", "HalfTensor", "Tensor", "FloatStorage",
    "UntypedStorage", "TypedStorage", "is_tensor", "typename", "device", "Generator", "linalg.cond",
    "linalg.matrix_norm", "linalg.matrix_power", "linalg.matrix_rank", "linalg.multi_dot", "linalg.norm",
    "linalg.pinv", "linalg.tensorinv", "linalg.tensorsolve", "linalg.vander", "linalg.vecdot", "linalg.vector_norm",
    "autograd.grad", "autograd.backward", "nn.utils.clip_grad_norm_", "nn.utils.rnn.pad_sequence",
    "nn.utils.parameters_to_vector", "nn.init.orthogonal_", "nn.init.dirac_", "nn.init.eye_",
    "nn.init.xavier_uniform_", "nn.init.trunc_normal_", "nn.init.sparse_",
)  # fmt: skip
METHODS = (
    "__getitem__", "__getitem__", "__getitem__", "__getitem__", "__getitem__", "__setitem__", "__setitem__",
    "__setitem__", "__delitem__", "__add__", "__pow__", "__rpow__", "__matmul__", "__lshift__", "__floordiv__",
    "__mod__", "__rsub__", "__iadd__", "__ipow__", "__ixor__", "__contains__", "__bool__", "__int__", "__float__",
    "__index__", "__len__", "__iter__", "__reversed__", "__repr__", "__format__", "__array__", "__dlpack__",
    "__deepcopy__", "__reduce_ex__", "__hash__", "new_tensor", "new", "size", "stride", "tolist", "item", "numpy",
    "backward", "requires_grad_", "detach_", "map_", "apply_", "map2_", "storage", "untyped_storage", "as_subclass",
    "share_memory_", "register_hook", "is_contiguous", "element_size", "pinverse", "get_device",
)  # fmt: skip
SIZES = ("size", "features", "channels", "dim", "num_", "kernel", "stride", "padding", "factor", "groups")
NULLARY = ("__bool__", "__int__", "__float__", "__index__", "__len__", "__iter__", "__reversed__", "__repr__")
FUNCTIONAL = tuple(
    n
    for n, f in vars(F).items()
    if inspect.isfunction(f) and not n.startswith("_") and f.__module__.startswith("rgrad.nn")
)
MODULES = tuple(n for n, c in vars(rgrad.nn).items() if inspect.isclass(c) and issubclass(c, rgrad.nn.Module))
OPTIMIZERS = tuple(
    n
    for n, c in vars(rgrad.optim).items()
    if inspect.isclass(c) and issubclass(c, rgrad.optim.Optimizer) and n != "Optimizer"
)
SHAPES_OF_FIRST = (
    "input", "weight", "target", "query", "key", "value", "bias", "mask", "x1", "anchor", "positive", "negative",
)  # fmt: skip


def call_number(seed: int, n: int) -> Call:
    r = random.Random(seed << 40 | n)
    which = r.random()
    call = (
        table_call(r)
        if which < 0.7
        else method_call(r)
        if which < 0.81
        else function_call(r)
        if which < 0.94
        else module_call(r)
        if which < 0.98
        else optimizer_call(r)
    )
    if r.random() < 0.04:
        call.args.extend(some_anything(r) for _ in range(r.choice((1, 1, 1, 2, 40))))
    if r.random() < 0.02:
        call.kwargs[r.choice(("dim", "input", "nothing", "out", "dtype", "size", "é"))] = some_anything(r)
    if r.random() < 0.01 and call.args:
        call.args.pop()
    return call


def table_call(r: random.Random) -> Call:
    op = r.choice(TABLE)
    found = SAMPLES[op["name"]] if r.random() < 0.5 else ()
    if found:
        sample = r.choice(found)
        dtype = r.choice(("float32", "float32", "float64", "int64", "bfloat16", "bool"))
        layout, grad = r.choice(LAYOUTS), r.random() < 0.3
        args = [planned(a, dtype, layout, grad) for a in sample.args]
        kwargs = {k: planned(v, dtype, layout, grad) for k, v in sample.kwargs.items()}
        for _ in range(r.choice((0, 1, 1, 1, 2, 3))):
            spoil(r, args, kwargs)
    else:
        kwargs, args = {}, []
        signature = parameters(r.choice(op["signatures"]))
        for name, kind, has_default, by_keyword in signature:
            if has_default and r.random() < 0.5:
                continue
            value = some_value(r, kind.strip())
            if by_keyword or kwargs or r.random() < 0.1:
                kwargs[name] = value
            elif kind == "Tensor*" and r.random() < 0.5:
                args.extend(value if isinstance(value, list) else [value])
            else:
                args.append(value)
    places = [prefix for place, prefix in PLACES if op[place]]
    if op["method"] or op["attribute"]:
        places.append(".")
    name = op["name"]
    if op["inplace"] and r.random() < 0.3:
        name, places = name + "_", [".", ""]
    elif op["out"] and op["function"] and r.random() < 0.2:
        kwargs["out"] = some_tensor(r) if r.random() < 0.7 else [some_tensor(r) for _ in range(r.randrange(4))]
        places = [""]
    place = r.choice(places)
    if place == "." and not (args and isinstance(args[0], T)):
        args.insert(0, kwargs.pop("input", None))
        args[0] = args[0] if isinstance(args[0], T) else some_tensor(r)
    return Call(place + name, args, kwargs)


def planned(x: Any, dtype: str, layout: str, grad: bool) -> Any:
    """The argument of a sample with a `T` for its `Spec`."""
    if isinstance(x, Spec):
        if x.holds == "index":
            return T(x.shape, "int64", layout, "index", False, x.below)
        if x.holds == "mask":
            return T(x.shape, "bool", layout, "index", False, 2)
        return T(x.shape, dtype, layout, "data", grad and "float" in dtype)
    if isinstance(x, str) and x.startswith("@"):
        return getattr(rgrad, x[1:])
    if isinstance(x, dict):
        return {k: planned(v, dtype, layout, grad) for k, v in x.items()}
    if type(x) in (list, tuple):
        return type(x)(planned(v, dtype, layout, grad) for v in x)
    return x


def spoil(r: random.Random, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Replaces one argument of a call that was right by one of the same type, or of any."""
    places = [(args, i) for i in range(len(args))] + [(kwargs, k) for k in kwargs]
    if not places:
        return
    where, key = r.choice(places)
    where[key] = spoiled(r, where[key])


def spoiled(r: random.Random, x: Any) -> Any:
    if r.random() < 0.08:
        return some_anything(r)
    if isinstance(x, T):
        other = some_tensor(r, x)
        return (
            other if r.random() < 0.5 else T(x.shape, other.dtype, other.layout, other.holds, other.grad, other.below)
        )
    if isinstance(x, bool):
        return not x
    if isinstance(x, int):
        return some_int(r)
    if isinstance(x, float):
        return r.choice(FLOATS)
    if isinstance(x, str):
        return r.choice(TEXTS)
    if type(x) in (list, tuple) and x:
        parts = list(x)
        i = r.randrange(len(parts))
        match r.randrange(6):
            case 0:
                parts.pop(i)
            case 1:
                parts.insert(i, parts[i])
            case _:
                parts[i] = spoiled(r, parts[i])
        return type(x)(parts)
    return some_anything(r)


def method_call(r: random.Random) -> Call:
    name = r.choice(METHODS)
    t = some_tensor(r)
    match name:
        case "__getitem__":
            return Call("." + name, [t, some_index(r)])
        case "__setitem__":
            value = r.choice((some_tensor(r), T((), t.dtype), some_int(r), r.choice(FLOATS)))
            return Call("." + name, [t, some_index(r), value])
        case "size" | "stride":
            return Call("." + name, [t, some_int(r)])
        case _ if name.startswith("__") and r.random() < 0.7:
            takes_one = name not in NULLARY
            return Call("." + name, [t, r.choice((some_tensor(r, t), some_anything(r), some_int(r)))][: 1 + takes_one])
    return Call("." + name, [t] + [some_anything(r) for _ in range(r.choice((0, 0, 1, 1, 2)))])


def function_call(r: random.Random) -> Call:
    if r.random() < 0.5:
        name = r.choice(OTHER)
        return Call(name, [some_anything(r) for _ in range(r.choice((0, 1, 1, 1, 2, 2, 3)))])
    name = r.choice(FUNCTIONAL)
    args, kwargs = arguments_of(r, getattr(F, name))
    return Call("nn.functional." + name, args, kwargs)


def module_call(r: random.Random) -> Call:
    name = r.choice(MODULES)
    args, kwargs = arguments_of(r, getattr(rgrad.nn, name))
    first = some_tensor(r)
    return Call("nn." + name, args, kwargs, [first, *(some_tensor(r, first) for _ in range(r.choice((0, 0, 0, 1, 2))))])


def optimizer_call(r: random.Random) -> Call:
    name = r.choice(OPTIMIZERS)
    _, kwargs = arguments_of(r, getattr(rgrad.optim, name))
    kwargs.pop("params", None)
    few = [T(t.shape, r.choice(DTYPES[-4:]), t.layout, t.holds, True) for t in (some_tensor(r), some_tensor(r))]
    grads = [t if r.random() < 0.5 else some_tensor(r, t) for t in few]
    return Call("optim." + name, [few], kwargs, [T(g.shape, g.dtype, g.layout, g.holds) for g in grads])


def arguments_of(r: random.Random, f: Any) -> tuple[list[Any], dict[str, Any]]:
    """Arguments for a Python function or class, by the names and defaults of its parameters."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    first: T | None = None
    for p in inspect.signature(f).parameters.values():
        has_default = p.default is not p.empty
        if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) or has_default and r.random() < 0.5:
            continue
        value = some_argument(r, p.name, p.default if has_default else None, first)
        first = first or (value if isinstance(value, T) else None)
        if p.kind is p.KEYWORD_ONLY or has_default:
            kwargs[p.name] = value
        else:
            args.append(value)
    return args, kwargs


def some_argument(r: random.Random, name: str, default: Any, first: T | None) -> Any:
    if r.random() < 0.05:
        return some_anything(r)
    if any(part in name for part in SHAPES_OF_FIRST) and (default is None or r.random() < 0.1):
        return some_tensor(r, first)
    if isinstance(default, bool):
        return r.random() < 0.5
    if any(part in name for part in SIZES):
        return some_int(r) if r.random() < 0.8 else tuple(some_int(r) for _ in range(r.choice((1, 2, 3))))
    if isinstance(default, int):
        return some_int(r)
    if isinstance(default, float):
        return r.choice(FLOATS)
    if isinstance(default, str):
        return r.choice(TEXTS)
    if r.random() < 0.3:
        return some_value(r, r.choice(("int", "int[]", "float", "int[]")))
    return some_anything(r)


SAMPLES = {op["name"]: list(samples(op)) for op in TABLE}


# ---- what must hold of a result


class Broken(AssertionError):
    """A tensor whose parts disagree."""


def tensors_in(x: Any, depth: int = 0) -> Iterator[rgrad.Tensor]:
    if isinstance(x, rgrad.Tensor):
        yield x
    elif isinstance(x, (list, tuple)) and depth < 3:
        for v in x[:100]:
            yield from tensors_in(v, depth + 1)
    elif isinstance(x, dict) and depth < 3:
        for v in x.values():
            yield from tensors_in(v, depth + 1)


def check(t: rgrad.Tensor) -> None:
    """Shape, strides, number of elements and storage agree."""
    shape, strides, offset = tuple(t.shape), t.stride(), t.storage_offset()
    told = f"shape {shape}, strides {strides}, offset {offset}, {t.dtype}"
    if len(strides) != len(shape) or t.dim() != len(shape) or any(n < 0 for n in shape) or offset < 0:
        raise Broken(told)
    if t.numel() != math.prod(shape):
        raise Broken(f"{t.numel()} elements of {told}")
    low = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0)
    high = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s > 0)
    if 0 not in shape and (low < 0 or (high + 1) * t.element_size() > t.untyped_storage().nbytes()):
        raise Broken(f"{told} in {t.untyped_storage().nbytes()} bytes")
    if str(t.dtype).removeprefix("rgrad.").removeprefix("torch.") not in DTYPES:
        raise Broken(told)
    if t.numel() <= 4096:
        copy = t.detach().contiguous()
        if copy.shape != t.shape or not copy.is_contiguous():
            raise Broken(f"a copy of {told}")
        repr(t.grad_fn)


class Late(BaseException):
    """Ctrl-C, as it were: a call ran for longer than it may without being asked to end."""


def run_call(call: Call) -> None:
    """Runs a call, backward too, and checks the tensors that it returns or was given.

    Raises:
        Broken: Parts of a tensor disagree.
        Exception: What the call raised; a panic is one whose text says so.
    """
    rgrad.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            args, kwargs = made(call.args), made(call.kwargs)
        except RuntimeError as e:
            if "panicked" in str(e):
                raise
            return
        results: list[rgrad.Tensor] = []
        try:
            results.extend(tensors_in(call.run(args, kwargs)))
            for t in results:
                if t.requires_grad and t.dtype.is_floating_point and t.numel() < 1 << 20:
                    t.sum().backward(retain_graph=True)
        finally:
            for t in (*results, *tensors_in(args), *tensors_in(kwargs)):
                check(t)


# ---- the process that calls

# Memory beside what the process has at its start. Whoever asks for more gets an error and not a dead process.
MEMORY = 1 << 30
# Seconds after which a call is asked to end, and after which it hangs: of work, or of waiting.
PATIENCE = 1.0
HANGS = 10.0
WAITS = 120.0
RECORD = struct.Struct("=qd")


def limit_memory() -> None:
    with open("/proc/self/statm") as f:
        now = int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))


def work(seed: int, first: int, count: int, journal: str) -> None:
    """Runs calls one after the other, each written down before it begins."""
    faulthandler.enable()
    rgrad.ones(300, 300).matmul(rgrad.ones(300, 300)).sort()
    limit_memory()
    out = os.fdopen(os.dup(1), "w", buffering=1)
    # The core and its callers may print; what they say is not the report.
    os.dup2(2, 1)

    def late(*_: object) -> None:
        raise Late

    signal.signal(signal.SIGALRM, late)
    with open(journal, "r+b") as f, mmap.mmap(f.fileno(), RECORD.size) as page:
        for n in range(first, first + count):
            fault = None
            try:
                page[:] = RECORD.pack(n, time.monotonic())
                call = call_number(seed, n)
                signal.setitimer(signal.ITIMER_REAL, PATIENCE)
                run_call(call)
            except Late:
                # It was asked to end, and did.
                pass
            except Broken as e:
                fault = f"disagrees: {e}"
            except BaseException as e:
                if "panicked" in str(e) or type(e).__name__ == "PanicException":
                    fault = f"panicked: {str(e)[:200]}"
                elif isinstance(e, SystemError) or not isinstance(e, (Exception, KeyboardInterrupt)):
                    fault = f"raised {e!r}"
            finally:
                with contextlib.suppress(Late):
                    signal.setitimer(signal.ITIMER_REAL, 0)
            if fault:
                print(f"{n}\t{fault!r}", file=out)
        page[:] = RECORD.pack(first + count, time.monotonic())


def journaled(journal: Path) -> tuple[int, float]:
    """Which call is being made, and since when. Read until it is read alike twice: it is written meanwhile."""
    read = b""
    while read != (again := journal.read_bytes()):
        read = again
    return RECORD.unpack(read)


def seconds_of_work(pid: int) -> float:
    """Time that the threads of a process have had on any core: on a busy machine a call may wait for long."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Fault:
    seed: int
    number: int
    what: str

    def __str__(self) -> str:
        return f"call {self.seed} {self.number} {self.what}\n    {call_number(self.seed, self.number)}"


def faults(seed: int, first: int, count: int, most: int = 20, log: Any = None) -> list[Fault]:
    """Runs `count` calls from number `first` on in processes that may die, and returns what went wrong.

    Args:
        seed: Which calls.
        first: The first.
        count: How many.
        most: After how many faults to give up.
        log: A file for what the processes print beside.
    """
    found: list[Fault] = []
    end = first + count
    environment = dict(os.environ, RGRAD_GPU_ALLOW_CPU="0", RUST_BACKTRACE="0", PYTHONPATH=os.pathsep.join(sys.path))
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal"
        while first < end and len(found) < most:
            journal.write_bytes(RECORD.pack(first, time.monotonic()))
            command = [sys.executable, __file__, "--work", str(seed), str(first), str(end - first), str(journal)]
            with open(Path(folder) / "faults", "w+") as report:
                child = subprocess.Popen(command, stdout=report, stderr=log or subprocess.DEVNULL, env=environment)
                hangs, seen, work_before = False, -1, 0.0
                while True:
                    try:
                        child.wait(0.2)
                        break
                    except subprocess.TimeoutExpired:
                        at, since = journaled(journal)
                        if at != seen:
                            seen, work_before = at, seconds_of_work(child.pid)
                        worked, waited = seconds_of_work(child.pid) - work_before, time.monotonic() - since
                        if worked > HANGS + 30 * (at == first) or waited > WAITS:
                            hangs = True
                            child.kill()
                report.seek(0)
                for line in report:
                    number, what = line.rstrip("\n").split("\t", 1)
                    found.append(Fault(seed, int(number), what))
                at, _ = journaled(journal)
                if at < end:
                    what = "hangs" if hangs else f"ended the process ({child.returncode})"
                    found.append(Fault(seed, at, what))
                first = at + 1
    return found


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--work"]:
        seed, first, count, journal = arguments[1:]
        return work(int(seed), int(first), int(count), journal)
    numbers = [int(a) for a in arguments]
    if len(numbers) == 2:
        call = call_number(*numbers)
        print(call, flush=True)
        run_call(call)
        return None
    for fault in faults(*numbers, most=10**6, log=sys.stderr):
        print(fault, flush=True)
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
