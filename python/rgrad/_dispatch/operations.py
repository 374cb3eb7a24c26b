"""What `__torch_dispatch__` is handed for a call: the operation of `torch.ops.aten`, and its arguments.

PyTorch's dispatcher sees a call below autograd, after functions that are made of others have called these. A function
of the table is one operation here, so those of `DECOMPOSED` call their parts when a class or a mode looks on. Every
other call is shown as one operation: as that of PyTorch which does the work if it has the same results
(`_REARRANGED`), or else as the function itself (`aten.layer_norm.default`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import rgrad
from rgrad import _C
from rgrad._C import Tensor
from rgrad._library import aten
from rgrad._library.calls import form_of
from rgrad.utils import _mode_utils


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if bias is None:
        return _matmul(input, weight.t())
    if input.dim() == 2:
        return rgrad.addmm(bias, input, weight.t())
    return _matmul(input, weight.t()) + bias


def _matmul(input: Any, other: Any) -> Any:
    dims = input.dim(), other.dim()
    if dims == (1, 1):
        return rgrad.dot(input, other)
    if dims == (2, 1):
        return rgrad.mv(input, other)
    if dims == (1, 2):
        return rgrad.mm(input.unsqueeze(0), other).squeeze(0)
    if dims == (2, 2):
        return rgrad.mm(input, other)
    if min(dims) == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {dims[0]}D and {dims[1]}D")
    if dims[1] <= 2:
        rows = input.reshape(-1, input.shape[-1])
        product = rgrad.mm(rows, other) if dims[1] == 2 else rgrad.mv(rows, other)
        return product.view(*input.shape[:-1], *other.shape[1:])
    if dims[0] == 1:
        return _matmul(input.unsqueeze(0), other).squeeze(-2)
    batch = rgrad.broadcast_shapes(input.shape[:-2], other.shape[:-2])
    n, m, p = input.shape[-2], input.shape[-1], other.shape[-1]
    left = input.expand(*batch, n, m).reshape(-1, n, m)
    right = other.expand(*batch, m, p).reshape(-1, m, p)
    return rgrad.bmm(left, right).view(*batch, n, p)


def _image(input: Tensor) -> Tensor:
    """A meta tensor of the same shape and strides, on which shapes are computed."""
    return rgrad.empty_strided(input.shape, input.stride(), dtype=input.dtype, device="meta")


def _view_or_copy(input: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    with _mode_utils.no_dispatch():
        image = _image(input)
        wanted = tuple(change(image).shape)
        try:
            image.view(wanted)
            viewable = True
        except RuntimeError:
            viewable = False
    if wanted == tuple(input.shape) and viewable:
        return input.view(wanted)
    return (input if viewable else input.clone(memory_format=_C.contiguous_format)).view(wanted)


def _reshape(input: Tensor, shape: Any) -> Tensor:
    return _view_or_copy(input, lambda image: image.reshape(tuple(shape)))


def _flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    flat = _view_or_copy(input, lambda image: image.flatten(start_dim, end_dim))
    return input if flat.shape == input.shape else flat


def _unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    return _view_or_copy(input, lambda image: image.unflatten(dim, tuple(sizes)))


def _contiguous(input: Tensor, *, memory_format: Any = None) -> Tensor:
    wanted = _C.contiguous_format if memory_format is None else memory_format
    return input if input.is_contiguous(memory_format=wanted) else input.clone(memory_format=wanted)


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    mask = rgrad.zeros_like(input) if p == 1 else rgrad.empty_like(input).bernoulli_(1 - p).div_(1 - p)
    return input.mul_(mask) if inplace else input * mask


def _chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    if chunks < 1:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    return input.split(max(1, -(-input.shape[dim] // chunks)), dim)


def _cross_entropy(input: Tensor, target: Tensor, *options: Any, **named: Any) -> Tensor:
    """Of class indices without smoothing, which is the last option."""
    scores = rgrad.log_softmax(input, 0 if input.dim() == 1 else 1)
    named.pop("label_smoothing", None)
    return rgrad.nn.functional.nll_loss(scores, target, *options[:5], **named)


_DTYPES = {
    **{n: n for n in ("float16", "float32", "float64", "bfloat16", "bool", "uint8", "int8", "int16", "int32", "int64")},
    **{"half": "float16", "float": "float32", "double": "float64"},
    **{"byte": "uint8", "char": "int8", "short": "int16", "int": "int32", "long": "int64"},
}
_CONVERSIONS = frozenset(
    [
        *("half", "float", "double", "bfloat16", "bool", "byte", "char", "short", "int", "long"),
        *("to", "type", "cpu"),
    ]
)


def _options_of_conversion(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What a conversion asks for: "dtype", "device", "copy", "memory_format"."""
    named = {key: value for key, value in kwargs.items() if key != "non_blocking"}
    if name in _DTYPES:
        return {"dtype": getattr(rgrad, _DTYPES[name]), **named}
    if name == "cpu":
        return {"device": _C.device("cpu"), **named}
    target = args[1] if len(args) > 1 else named.pop("other", None)
    if name == "type":
        dtype = _DTYPES.get(str(target).removeprefix("torch."))
        with _mode_utils.no_dispatch():
            return {"dtype": rgrad.empty(0).type(target).dtype if dtype is None else getattr(rgrad, dtype)}
    if isinstance(target, Tensor):
        return {"dtype": target.dtype, "device": target.device, **named}
    order = ("dtype", "", "copy") if isinstance(target, _C.dtype) else ("device", "dtype", "", "copy")
    given = {key: value for key, value in zip(order, args[1:], strict=False) if key}
    return {**given, **named}


def _conversion(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The options of `_to_copy`; None for a conversion that returns its argument."""
    input = args[0]
    asked = _options_of_conversion(name, args, kwargs)
    wanted: dict[str, Any] = {}
    if asked.get("dtype") not in (None, input.dtype):
        wanted["dtype"] = asked["dtype"]
    device = asked.get("device")
    if device is not None and _C.device(device) != input.device:
        wanted["device"] = _C.device(device)
    memory_format = asked.get("memory_format")
    if memory_format not in (None, _C.preserve_format) and not input.is_contiguous(memory_format=memory_format):
        wanted["memory_format"] = memory_format
    if asked.get("copy") and "dtype" not in wanted:
        wanted = {"dtype": input.dtype, **wanted}
    return wanted or None


def _quotient(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    return other.reciprocal() * input


def _identity(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return input


# By name, what calls the parts of a function.
DECOMPOSED: dict[str, Callable[..., Any]] = {
    "linear": _linear,
    "matmul": _matmul,
    "reshape": _reshape,
    "reshape_as": lambda input, other: _reshape(input, other.shape),
    "view_as": lambda input, other: input.view(other.shape),
    "expand_as": lambda input, other: input.expand(other.shape),
    "ravel": lambda input: _reshape(input, (-1,)),
    "flatten": _flatten,
    "unflatten": _unflatten,
    "contiguous": _contiguous,
    "dropout": _dropout,
    "chunk": _chunk,
    "outer": lambda input, vec2: input.unsqueeze(1) * vec2,
    "square": lambda input: input.pow(2),
    "type_as": lambda input, other: input.to(device=other.device, dtype=other.dtype),
}


def decomposition(name: str, form: str, args: Any, kwargs: dict[str, Any]) -> Callable[..., Any] | None:
    """What calls the parts of a call; None if it is shown as one operation.

    Args:
        name: the operation of the table.
        form: "" for the one that returns its result, "_" in place, "out" with outputs.
        args: its arguments by position.
        kwargs: its arguments by name.
    """
    if form:
        return None
    if name == "cross_entropy":
        smooth = kwargs.get("label_smoothing", args[7] if len(args) > 7 else 0.0)
        return None if smooth or args[1].is_floating_point() else _cross_entropy
    if name == "div":
        return None if isinstance(args[0], Tensor) or kwargs else _quotient
    if name in _CONVERSIONS:
        returns_argument = not (name == "type" and len(args) < 2) and _conversion(name, args, kwargs) is None
        return _identity if returns_argument else None
    return DECOMPOSED.get(name)


# ---- how a call is shown


class Shown(NamedTuple):
    """A call as `__torch_dispatch__` gets it, and what its operation calls while a handler runs."""

    full_name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    function: Callable[..., Any]


_Function = Callable[..., Any]
# Of the name and the function of an operation, and the arguments of a call.
_Rearrange = Callable[[str, _Function, tuple[Any, ...], dict[str, Any]], "Shown | None"]


@functools.cache
def table_function(name: str) -> Callable[..., Any]:
    """The operation of the table, as a function of the arguments that it has there."""
    found = _C._operation(name)
    if found is None:
        raise NotImplementedError(f"{name} is no operation: __torch_dispatch__ cannot be handed it")
    return found


def _softmax(name: str, own: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shown | None:
    if len(args) < 2 or args[1] is None or kwargs:
        return None
    return Shown(f"_{name}.default", (args[0], args[1], False), {}, lambda x, dim, half: own(x, dim))


def _number_first(name: str, own: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shown | None:
    if isinstance(args[0], Tensor):
        return None

    def function(tensor: Any, number: Any, *rest: Any, **named: Any) -> Any:
        return own(number, tensor, *rest, **named)

    return Shown("rsub.Scalar", (args[1], args[0], *args[2:]), kwargs, function)


def _convolution(name: str, own: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shown | None:
    n = int(name[-2])
    transposed = "transpose" in name
    rest = ("output_padding", "groups", "dilation") if transposed else ("dilation", "groups")
    names = ("input", "weight", "bias", "stride", "padding", *rest)
    given = {**dict(zip(names, args, strict=False)), **kwargs}

    def ints(key: str, default: int) -> Any:
        value = given.get(key, default)
        value = [value] if isinstance(value, int) else list(value)
        return value * n if len(value) == 1 else value

    if isinstance(given.get("padding"), str):
        return None
    shown = (given["input"], given["weight"], given.get("bias"), ints("stride", 1), ints("padding", 0))
    shown += (ints("dilation", 1), transposed, ints("output_padding", 0), given.get("groups", 1))

    def function(x: Any, w: Any, b: Any, stride: Any, padding: Any, dilation: Any, *others: Any) -> Any:
        _, output_padding, groups = others
        rest = (output_padding, groups, dilation) if transposed else (dilation, groups)
        return own(x, w, b, stride, padding, *rest)

    return Shown("convolution.default", shown, {}, function)


def _where(name: str, own: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shown | None:
    """The method's condition is its second argument, the operation's the first."""

    def function(condition: Any, x: Any, *rest: Any) -> Any:
        return own(x, condition, *rest)

    return Shown("where.self", (args[1], args[0], *args[2:]), kwargs, function)


def _selected(name: str, own: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shown | None:
    """A choice by condition that the core makes, between tensors or numbers."""
    forms = {(True, True): "self", (True, False): "ScalarOther", (False, True): "ScalarSelf", (False, False): "Scalar"}
    form = forms[isinstance(args[1], Tensor), isinstance(args[2], Tensor)]
    return Shown(f"where.{form}", args, kwargs, own)


def _listed(own: _Function) -> _Function:
    """The operation with a list as its result."""
    return lambda *args, **kwargs: list(own(*args, **kwargs))


def _split(name: str, own: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shown | None:
    full_name = "split.Tensor" if isinstance(args[1], int) else "split_with_sizes.default"
    return Shown(full_name, args, kwargs, _listed(own))


def _unbind(name: str, own: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shown | None:
    return Shown("unbind.int", args, kwargs, _listed(own))


def _movedim(name: str, own: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shown | None:
    x, source, destination = args
    dims = [d % x.dim() for d in ([source] if isinstance(source, int) else source)]
    places = [d % x.dim() for d in ([destination] if isinstance(destination, int) else destination)]
    moved = dict(zip(places, dims, strict=True))
    rest = iter(d for d in range(x.dim()) if d not in dims)
    order = [moved[i] if i in moved else next(rest) for i in range(x.dim())]

    def function(x: Any, dims: Any) -> Any:
        return own(x, source, destination)

    return Shown("permute.default", (x, order), {}, function)


def _without_names(own: _Function) -> _Function:
    """The operation with its results in a plain tuple, if they are several."""

    def function(*args: Any, **kwargs: Any) -> Any:
        result = own(*args, **kwargs)
        return tuple(result) if isinstance(result, tuple) else result

    return function


def _norm(name: str, own: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shown | None:
    if not all(a is None or isinstance(a, int | float | list) for a in args[1:]):
        return None
    return Shown("linalg_vector_norm.default", args, kwargs, own)


def _reversed_dims(name: str, own: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shown | None:
    dims = list(range(args[0].dim()))[::-1]
    return Shown("permute.default", (args[0], dims), {}, lambda x, dims: table_function("permute")(x, dims))


def _last_two(name: str, own: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shown | None:
    function = table_function("transpose")
    return Shown("transpose.int", (args[0], -2, -1), {}, lambda x, a, b: function(x, a, b))


def _narrow(name: str, own: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shown | None:
    if not isinstance(args[2], int):
        return None
    x, dim, start, length = args
    start += x.shape[dim] if start < 0 else 0

    def function(x: Any, dim: int, start: int, end: int) -> Any:
        return own(x, dim, start, end - start)

    return Shown("slice.Tensor", (x, dim, start, start + length), {}, function)


def _embedding(name: str, own: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shown | None:
    """The weight is the first argument of the operation."""
    indices, weight, *rest = args
    if len(rest) > 1 and rest[1] is not None:
        return None
    padding = rest[0] if rest else None
    shown = (weight, indices, -1 if padding is None else padding, *rest[3:])

    def function(weight: Any, indices: Any, *options: Any) -> Any:
        return own(indices, weight, *rest)

    return Shown("embedding.default", shown if len(rest) > 3 or padding is not None else shown[:2], {}, function)


def _padding(name: str, own: _Function, args: Any, kwargs: dict[str, Any]) -> Shown | None:
    if len(args) > 2 and args[2] != "constant":
        return None
    value = args[3] if len(args) > 3 and args[3] is not None else 0

    def function(x: Any, pads: Any, value: Any = 0) -> Any:
        return own(x, pads, "constant", value)

    return Shown("constant_pad_nd.default", (args[0], args[1], value), {}, function)


def _to_copy(name: str, own: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shown | None:
    options = None if name == "type" and len(args) < 2 else _conversion(name, args, kwargs)
    if options is None:
        return None

    def function(x: Any, **_: Any) -> Any:
        return own(x, *args[1:], **kwargs)

    return Shown("_to_copy.default", args[:1], options, function)


_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def _comparison(name: str, own: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shown | None:
    if isinstance(args[0], Tensor):
        return None
    mirrored = _MIRRORED[name]
    return Shown(f"{mirrored}.Scalar", (args[1], args[0]), {}, table_function(mirrored))


# By name, how a call is shown whose operation has another name or order of arguments; None shows it as it is.
_REARRANGED: dict[str, _Rearrange] = {
    "sub": _number_first,
    **{f"conv{side}{n}d": _convolution for side in ("", "_transpose") for n in (1, 2, 3)},
    "softmax": _softmax,
    "log_softmax": _softmax,
    "where": _where,
    "select_where": _selected,
    "split": _split,
    "unbind": _unbind,
    **dict.fromkeys(("movedim", "moveaxis"), _movedim),
    "norm": _norm,
    "T": _reversed_dims,
    "mT": _last_two,
    "mH": _last_two,
    "narrow": _narrow,
    "embedding": _embedding,
    "pad": _padding,
    **dict.fromkeys(_CONVERSIONS, _to_copy),
    **dict.fromkeys(_MIRRORED, _comparison),
}

# Factory functions, which the dispatcher hands the device and whether to pin the memory.
_FACTORIES = frozenset(
    [
        *("arange", "empty", "empty_permuted", "empty_strided", "eye", "full", "linspace", "logspace", "normal"),
        *("ones", "rand", "randint", "randn", "randperm", "range", "scalar_tensor", "tril_indices", "triu_indices"),
        "zeros",
    ]
)
_LIKE = frozenset(f"{kind}_like" for kind in ("ones", "zeros", "empty", "full", "rand", "randn", "randint"))
_NEW = frozenset(f"new_{kind}" for kind in ("ones", "zeros", "empty", "full", "empty_strided"))


def _with_options(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The options of a factory function as PyTorch's bindings pass them."""
    if name == "normal" and "size" not in kwargs and not any(isinstance(a, list) for a in args):
        return kwargs
    if name in _FACTORIES:
        named = {key: value for key, value in kwargs.items() if key != "device"}
        return {**named, "device": kwargs.get("device", rgrad.get_default_device()), "pin_memory": False}
    return {**kwargs, "pin_memory": False} if name in _LIKE or name in _NEW else kwargs


def _without_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Drops what `_with_options` adds and the table does not take."""

    def call(*args: Any, pin_memory: Any = None, layout: Any = None, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def _form_of_factory(name: str, args: tuple[Any, ...]) -> str:
    if name == "arange" and len(args) > 1:
        return "arange.start" if len(args) == 2 else "arange.start_step"
    if name == "eye" and len(args) > 1:
        return "eye.m"
    if name == "randint" and len(args) > 2:
        return "randint.low"
    if name == "normal":
        kinds = ["Tensor" if isinstance(a, Tensor) else "float" for a in args[:2]]
        return f"normal.{'_'.join(kinds)}"
    return "empty.memory_format" if name == "empty" else f"{name}.default"


def operation(
    name: str, signature: str, form: str, args: tuple[Any, ...], kwargs: dict[str, Any], own: _Function
) -> tuple[Any, ...]:
    """The operation of a call and its arguments, as `__torch_dispatch__` gets them.

    Args:
        name: the operation of the table.
        signature: that of its overload.
        form: "" for the one that returns its result, "_" in place, "out" with outputs.
        args: its arguments by position.
        kwargs: its arguments by name.
        own: the function of these arguments.

    Returns:
        The overload, the arguments by position, those by name, and what the overload calls while a handler runs.
    """
    shown = None if form else _rearranged(name, signature, own, args, kwargs)
    if shown is None:
        packet, _, chosen = form_of(name, args, kwargs).partition(".")
        if form == "out":
            shown = Shown(f"{packet}.out", args, kwargs, own)
        else:
            suffix = "" if packet.endswith("_") else form
            shown = Shown(f"{packet}{suffix}.{chosen}", args, kwargs, _without_names(own))
    return overload(shown.full_name), shown.args, shown.kwargs, shown.function


def _rearranged(
    name: str, signature: str, own: _Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Shown | None:
    if name == "where" and not signature.startswith("input"):
        return _selected(name, own, args, kwargs) if len(args) == 3 else None
    if name in _FACTORIES or name in _LIKE or name in _NEW:
        full_name = _form_of_factory(name, args) if name in _FACTORIES else f"{name}.default"
        return Shown(full_name, args, _with_options(name, args, kwargs), _without_options(own))
    rearrange = _REARRANGED.get(name)
    return None if rearrange is None else rearrange(name, own, args, kwargs)


def overload(full_name: str) -> Any:
    """The overload of a name such as "add.Tensor"."""
    name, _, form = full_name.partition(".")
    return getattr(aten.shown(name), form)


def begin(func: Any, function: Callable[..., Any]) -> None:
    """Until `end`, handlers that call `func` call `function`."""
    aten.handled.calls.append((func, function))


def end() -> None:
    """Ends what the last `begin` began."""
    aten.handled.calls.pop()
