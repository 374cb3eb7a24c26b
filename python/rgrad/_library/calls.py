"""Which operation of `torch.ops.aten` a call of the API is, as policies of selective checkpointing name operations.

PyTorch's dispatcher sees a call below autograd, where `linear` is a product and `softmax` is `_softmax`. Here a call is
one operation, so the table gives it the name of the operation that does its work there, on the CPU unless it says
otherwise: `linear` with a bias is `addmm.default`. Every other function of the operation table has its own name, with
the overload `default`.

>>> import rgrad as torch
>>> from rgrad._library.calls import operation_of
>>> operation_of(torch.nn.functional.linear, (torch.ones(2, 3), torch.ones(4, 3)), {})
<OpOverload(op='aten.mm', overload='default')>
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rgrad import _C
from rgrad._C import Tensor
from rgrad._library import aten
from rgrad._library.operation import OpOverload as CustomOverload

_Args = tuple[Any, ...]
_Kwargs = dict[str, Any]
# Chooses "name.overload" by the arguments; None where the call is no operation.
_Chooser = Callable[[_Args, _Kwargs], "str | None"]


def _argument(args: _Args, kwargs: _Kwargs, at: int, *names: str) -> Any:
    """The argument at a position or with one of the names; None without it."""
    if len(args) > at:
        return args[at]
    return next((kwargs[name] for name in names if name in kwargs), None)


def _fixed(full_name: str) -> _Chooser:
    return lambda args, kwargs: full_name


def _by_operand(name: str, at: int = 1, tensor: str = "Tensor", scalar: str = "Scalar") -> _Chooser:
    """The overload depends on whether an operand is a tensor."""

    def choose(args: _Args, kwargs: _Kwargs) -> str:
        operand = _argument(args, kwargs, at, "other", "value", "weight", "src")
        return f"{name}.{tensor if isinstance(operand, Tensor) else scalar}"

    return choose


def _reduction(name: str, with_dim: str = "dim", without: str = "default") -> _Chooser:
    """The overload depends on whether dimensions are given."""

    def choose(args: _Args, kwargs: _Kwargs) -> str:
        return f"{name}.{without if _argument(args, kwargs, 1, 'dim', 'axis') is None else with_dim}"

    return choose


def _extremum(name: str) -> _Chooser:
    """`max` and `min`: of all elements, along a dimension, or of two tensors."""
    reduction = _reduction(name)

    def choose(args: _Args, kwargs: _Kwargs) -> str | None:
        other = _argument(args, kwargs, 1, "other")
        return f"{name}imum.default" if isinstance(other, Tensor) else reduction(args, kwargs)

    return choose


def _power(base: int, exponent: int) -> _Chooser:
    def choose(args: _Args, kwargs: _Kwargs) -> str:
        operands = (_argument(args, kwargs, 0, "input", "self"), _argument(args, kwargs, 1, "exponent", "other"))
        if not isinstance(operands[base], Tensor):
            return "pow.Scalar"
        return "pow.Tensor_Tensor" if isinstance(operands[exponent], Tensor) else "pow.Tensor_Scalar"

    return choose


def _quotient(args: _Args, kwargs: _Kwargs) -> str:
    return "div.Tensor" if kwargs.get("rounding_mode") is None else "div.Tensor_mode"


def _product(first: int, second: int) -> _Chooser:
    """`matmul`, whose form depends on the numbers of dimensions; `first` and `second` are its operands' positions."""

    def choose(args: _Args, kwargs: _Kwargs) -> str | None:
        operands = (_argument(args, kwargs, 0, "input", "self"), _argument(args, kwargs, 1, "other", "tensor2"))
        a, b = operands[first], operands[second]
        if not isinstance(a, Tensor) or not isinstance(b, Tensor):
            return None
        if b.dim() == 1:
            return "dot.default" if a.dim() == 1 else "mv.default"
        # A stack of matrices times one matrix is one product of all its rows.
        return "mm.default" if min(a.dim(), b.dim()) <= 2 else "bmm.default"

    return choose


def _linear(args: _Args, kwargs: _Kwargs) -> str:
    return "mm.default" if _argument(args, kwargs, 2, "bias") is None else "addmm.default"


def _attention(args: _Args, kwargs: _Kwargs) -> str:
    query = _argument(args, kwargs, 0, "query")
    if query.device.type == "cpu":
        return "_scaled_dot_product_flash_attention_for_cpu.default"
    half = query.dtype in (_C.float16, _C.bfloat16)
    kind = "flash" if half and _argument(args, kwargs, 3, "attn_mask") is None else "efficient"
    return f"_scaled_dot_product_{kind}_attention.default"


def _item(args: _Args, kwargs: _Kwargs) -> str:
    """Indexing: by tensors or lists it copies; by numbers and slices it is a view, named after the first of them."""
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    if any(isinstance(i, Tensor | list | bool) for i in index):
        return "index.Tensor"
    first = next((i for i in index if i is not None and i is not Ellipsis), None)
    if first is None:
        return "unsqueeze.default"
    return "slice.Tensor" if isinstance(first, slice) else "select.int"


def _split(args: _Args, kwargs: _Kwargs) -> str:
    sizes = _argument(args, kwargs, 1, "split_size_or_sections", "split_size")
    return "split.Tensor" if isinstance(sizes, int) else "split_with_sizes.default"


def _loss_of_classes(args: _Args, kwargs: _Kwargs) -> str:
    scores, target = _argument(args, kwargs, 0, "input"), _argument(args, kwargs, 1, "target")
    if target.is_floating_point():
        return "_log_softmax.default"  # Probabilities: what follows is a product and a sum.
    return "nll_loss2d_forward.default" if scores.dim() > 2 else "nll_loss_forward.default"


def _resampling(args: _Args, kwargs: _Kwargs) -> str:
    space = _argument(args, kwargs, 0, "input").dim() - 2
    mode = _argument(args, kwargs, 3, "mode") or "nearest"
    if mode == "area":
        return f"_adaptive_avg_pool{space}d.default"
    if mode == "nearest-exact":
        return f"_upsample_nearest_exact{space}d.default"
    smooth = kwargs.get("antialias", False)
    return f"{'_' * smooth}upsample_{mode}{space}d{'_aa' * smooth}.default"


def _padding(args: _Args, kwargs: _Kwargs) -> str:
    mode = _argument(args, kwargs, 2, "mode") or "constant"
    if mode in ("reflect", "replicate"):
        space = len(_argument(args, kwargs, 1, "pad")) // 2
        return f"{'reflection' if mode == 'reflect' else 'replication'}_pad{space}d.default"
    return "constant_pad_nd.default" if mode == "constant" else "_pad_circular.default"


def _sampling(args: _Args, kwargs: _Kwargs) -> str:
    return f"grid_sampler_{_argument(args, kwargs, 0, 'input').dim() - 2}d.default"


# By the names of functions and methods, those without a table entry of their own name as well.
_CALLS: dict[str, str | _Chooser] = {
    # Products.
    "linear": _linear,
    "matmul": _product(0, 1),
    "__matmul__": _product(0, 1),
    "__rmatmul__": _product(1, 0),
    **dict.fromkeys(("_einsum", "_tensordot", "inner"), "bmm.default"),
    **dict.fromkeys(("outer", "ger"), "mul.Tensor"),
    **{f"conv{side}{n}d": "convolution.default" for side in ("", "_transpose") for n in (1, 2, 3)},
    "scaled_dot_product_attention": _attention,
    "lstm_layer": "mkldnn_rnn_layer.default",
    # Arithmetic. A number beside a tensor counts as a tensor in the first four.
    **{name: f"{name}.Tensor" for name in ("add", "sub", "mul")},
    **{f"__{name}__": f"{name}.Tensor" for name in ("add", "sub", "mul")},
    **{f"__r{name}__": f"{name}.Tensor" for name in ("add", "mul")},
    "div": _quotient,
    "true_divide": "div.Tensor",
    "__truediv__": "div.Tensor",
    "__rtruediv__": "reciprocal.default",
    "__floordiv__": "floor_divide.default",
    "__rfloordiv__": "floor_divide.default",
    "__mod__": _by_operand("remainder"),
    "__rmod__": "remainder.Scalar_Tensor",
    "__rsub__": _by_operand("rsub"),
    "rsub": _by_operand("rsub"),
    "pow": _power(0, 1),
    "__pow__": _power(0, 1),
    "__rpow__": _power(1, 0),
    "square": "pow.Tensor_Scalar",
    "lerp": _by_operand("lerp", 2),
    "masked_fill": _by_operand("masked_fill", 2),
    "fill": _by_operand("fill"),
    **{n: _by_operand(n) for n in ("remainder", "fmod", "eq", "ne", "lt", "le", "gt", "ge")},
    **{f"__{n}__": _by_operand(n) for n in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{f"bitwise_{n}": _by_operand(f"bitwise_{n}") for n in ("and", "or", "xor")},
    **{f"__{side}{n}__": _by_operand(f"bitwise_{n}") for side in ("", "r") for n in ("and", "or", "xor")},
    "where": "where.self",
    # Reductions.
    "sum": _reduction("sum", "dim_IntList"),
    "mean": _reduction("mean"),
    "prod": _reduction("prod", "dim_int"),
    "max": _extremum("max"),
    "min": _extremum("min"),
    **{name: _reduction(name) for name in ("all", "any", "median", "nanmedian")},
    **{name: f"{name}.correction" for name in ("var", "std", "var_mean", "std_mean")},
    "norm": "linalg_vector_norm.default",
    # Layers.
    "softmax": "_softmax.default",
    "log_softmax": "_log_softmax.default",
    "layer_norm": "native_layer_norm.default",
    "group_norm": "native_group_norm.default",
    "batch_norm": "native_batch_norm.default",
    "dropout": "native_dropout.default",
    "max_pool1d": "max_pool2d_with_indices.default",
    "max_pool2d": "max_pool2d_with_indices.default",
    "max_pool3d": "max_pool3d_with_indices.default",
    "adaptive_avg_pool1d": "_adaptive_avg_pool2d.default",
    "adaptive_avg_pool2d": "_adaptive_avg_pool2d.default",
    "adaptive_avg_pool3d": "_adaptive_avg_pool3d.default",
    "adaptive_max_pool1d": "adaptive_max_pool2d.default",
    "interpolate": _resampling,
    "pad": _padding,
    "pad_edges": _padding,
    "grid_sampler": _sampling,
    "cross_entropy": _loss_of_classes,
    "nll_loss": _loss_of_classes,
    "inv": "linalg_inv_ex.default",
    "inverse": "linalg_inv_ex.default",
    # Copies; where they return their argument, they are no operation: `RETURN_ARGUMENT`.
    **dict.fromkeys(("to", "type", "type_as", "cpu", "cuda"), "_to_copy.default"),
    **dict.fromkeys(("float", "double", "half", "bfloat16"), "_to_copy.default"),
    **dict.fromkeys(("bool", "byte", "char", "short", "int", "long"), "_to_copy.default"),
    "contiguous": "clone.default",
    "empty": "empty.memory_format",
    # Indexing and views.
    "__getitem__": _item,
    "select": "select.int",
    "narrow": "slice.Tensor",
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), "transpose.int"),
    **dict.fromkeys(("movedim", "moveaxis"), "permute.default"),
    "split": _split,
    "chunk": "split.Tensor",
    "unbind": "unbind.int",
    "squeeze": _reduction("squeeze"),
    **dict.fromkeys(("reshape", "reshape_as", "view_as", "flatten", "unflatten", "ravel"), "view.default"),
    "expand_as": "expand.default",
    "scatter": _by_operand("scatter", 3, "src", "value"),
}

# A call of these that returns its argument, or a view of it, is not one that a policy is asked about.
RETURN_ARGUMENT = frozenset({"_to_copy.default", "clone.default"})


@functools.cache
def _overload(full_name: str) -> Any:
    """The object of `torch.ops.aten` that programs compare with."""
    name, _, form = full_name.partition(".")
    found = aten.packet(name)
    return None if found is None else getattr(found, form)


# What functions of Python are composed of; there is no such operation in PyTorch.
_PARTS = frozenset({"_lu_factor", "_row_order"})


@functools.cache
def _names() -> dict[str, str]:
    """By name and alias, what an operation of the table is called in `torch.ops.aten`."""
    names: dict[str, str] = {}
    for op in _C._op_table():
        if op["name"] in _PARTS:
            continue
        place = "" if op["function"] else "linalg_" if op["linalg"] else "special_" if op["special"] else ""
        own = place + op["name"]
        for name in (op["name"], *op["aliases"]):
            # `Tensor.diagonal` and `linalg.diagonal` are two operations.
            if not own.startswith("linalg_") or name not in names:
                names[name] = own
    return names


@functools.cache
def _chooser(name: str) -> _Chooser | None:
    if name.endswith("_") and not name.endswith("__"):
        return None
    found = _CALLS.get(name)
    if found is None:
        own = _names().get(name)
        found = None if own is None else _CALLS.get(own, f"{own}.default")
    return _fixed(found) if isinstance(found, str) else found


def operation_of(function: Any, args: _Args, kwargs: _Kwargs) -> Any:
    """The operation that a call computes, as an object of `torch.ops`.

    Args:
        function: what was called, as a mode receives it.
        args: the positional arguments.
        kwargs: the keyword arguments.

    Returns:
        The overload; None if the call writes to an argument, or is no operation: a question such as `x.dim()`, or a
        function that calls several operations.
    """
    if isinstance(function, CustomOverload):
        return None if any(a.mutated for a in function._schema.arguments) else function
    module = getattr(function, "__module__", None)  # None of functions of the core.
    if module is not None and module.split(".")[0] not in ("rgrad", "torch"):
        return None
    if kwargs.get("out") is not None or kwargs.get("inplace"):
        return None
    choose = _chooser(getattr(function, "__name__", ""))
    full_name = None if choose is None else choose(args, kwargs)
    return None if full_name is None else _overload(full_name)


def shown_arguments(function: Any, args: _Args, kwargs: _Kwargs) -> tuple[_Args, _Kwargs]:
    """The arguments of a call as those of its operation: policies look at the shapes of the matrices of a product."""
    if getattr(function, "__name__", "") != "linear":
        return args, kwargs
    x, weight = (_argument(args, kwargs, i, name) for i, name in enumerate(("input", "weight")))
    matrices = (x.detach().reshape(-1, x.shape[-1]), weight.detach().t())
    bias = _argument(args, kwargs, 2, "bias")
    return (matrices if bias is None else (bias, *matrices)), {}


# Operations that have the arguments of their function, so that what `_CALLS` chooses can be called with these.
_SAME_ARGUMENTS = frozenset(
    [
        *("add", "sub", "mul", "div", "rsub", "pow", "lerp", "masked_fill", "fill"),
        *("remainder", "fmod", "floor_divide"),
        *("eq", "ne", "lt", "le", "gt", "ge", "bitwise_and", "bitwise_or", "bitwise_xor"),
        *("sum", "mean", "prod", "max", "min", "all", "any", "median", "nanmedian"),
        *("var", "std", "var_mean", "std_mean", "select", "transpose", "unbind", "squeeze", "scatter"),
        *("swapaxes", "swapdims"),
    ]
)


def form_of(name: str, args: _Args, kwargs: _Kwargs) -> str:
    """The overload that a call of the operation table is, with the arguments as they are: "add.Tensor".

    Args:
        name: the name in the table.
        args: the arguments by position.
        kwargs: the arguments by name.
    """
    if name.endswith("_") and not name.endswith("__"):
        packet, _, form = form_of(name[:-1], args, kwargs).partition(".")
        return f"{packet}_.{form}"
    own = _names().get(name, name)
    if name not in _SAME_ARGUMENTS or (name in ("var", "std") and any(isinstance(a, bool) for a in args)):
        return f"{own}.default"
    choose = _CALLS.get(name, f"{own}.default")
    return (choose if isinstance(choose, str) else choose(args, kwargs)) or f"{own}.default"
