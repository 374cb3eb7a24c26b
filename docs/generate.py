"""Writes the files that follow from the operation table: `_C.pyi`, `special.py`, `nn/_operations.py` and docs/ops.md.

    python docs/generate.py           # says which are stale, exit status 1 if any is
    python docs/generate.py --write   # rewrites them
"""

from __future__ import annotations

import ast
import inspect
import keyword
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

HEADER = '''"""Types of the core. Written by docs/generate.py from the operation table: do not edit."""

# ruff: noqa
# Inside the stub `int`, `float`, `bool`, `dtype` and `device` are names of this module or of Tensor: types go by
# an underscored name.
from builtins import bool as _bool, float as _float, int as _int, str as _str
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Self, overload

from rgrad._size import Size

_Number = _int | _float | _bool
'''

# What a tensor is, beside its operations.
TENSOR = '''
    data: Tensor
    grad: Tensor | None
    requires_grad: _bool
    _base: Any
    @property
    def grad_fn(self) -> Node | None: ...
    @property
    def shape(self) -> Size: ...
    @property
    def dtype(self) -> _dtype: ...
    @property
    def device(self) -> _device: ...
    @property
    def layout(self) -> Any: ...
    @property
    def ndim(self) -> _int: ...
    @property
    def nbytes(self) -> _int: ...
    @property
    def itemsize(self) -> _int: ...
    @property
    def output_nr(self) -> _int: ...
    @property
    def _version(self) -> _int: ...
    @property
    def is_leaf(self) -> _bool: ...
    @property
    def real(self) -> Self: ...
    @property
    def retains_grad(self) -> _bool: ...
    @property
    def is_cuda(self) -> _bool: ...
    @property
    def is_meta(self) -> _bool: ...
    @property
    def is_mps(self) -> _bool: ...
    @property
    def is_nested(self) -> _bool: ...
    @property
    def is_quantized(self) -> _bool: ...
    @property
    def is_sparse(self) -> _bool: ...
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def backward(self, gradient: Tensor | None = None, retain_graph: _bool | None = None, create_graph: _bool = False, inputs: Any = None) -> None: ...
    def apply_(self, callable: Callable[[Any], Any]) -> Self: ...
    def map_(self, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Self: ...
    def map2_(self, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Self: ...
    def pinverse(self, rcond: _float = 1e-15) -> Tensor: ...
    def histogram(
        self, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: _bool = False
    ) -> Any: ...
    name: None
    is_ipu: _bool
    is_maia: _bool
    is_mkldnn: _bool
    is_mtia: _bool
    is_sparse_csr: _bool
    is_vulkan: _bool
    is_xla: _bool
    is_xpu: _bool
    volatile: _bool
    def to_dense(self, dtype: _dtype | None = None, *, masked_grad: _bool | None = None) -> Tensor: ...
    def dense_dim(self) -> _int: ...
    def sparse_dim(self) -> _int: ...
    def dim_order(self, ambiguity_check: Any = False) -> tuple[_int, ...]: ...
    def module_load(self, other: Tensor, assign: _bool = False) -> Tensor: ...
    def record_stream(self, stream: Any) -> None: ...
    def const_data_ptr(self) -> _int: ...
    def isreal(self) -> Tensor: ...
    def conj_physical(self) -> Tensor: ...
    def conj_physical_(self) -> Tensor: ...
    def unsafe_chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
    def unsafe_split(self, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
    def unsafe_split_with_sizes(self, split_sizes: Any, dim: _int = 0) -> tuple[Tensor, ...]: ...
    def i0(self) -> Tensor: ...
    def i0_(self) -> Self: ...
    def igamma(self, other: Tensor) -> Tensor: ...
    def igamma_(self, other: Tensor) -> Self: ...
    def igammac(self, other: Tensor) -> Tensor: ...
    def igammac_(self, other: Tensor) -> Self: ...
    def mvlgamma(self, p: _int) -> Tensor: ...
    def mvlgamma_(self, p: _int) -> Self: ...
    def polygamma(self, n: _int) -> Tensor: ...
    def polygamma_(self, n: _int) -> Self: ...
    def geqrf(self) -> Any: ...
    def orgqr(self, tau: Tensor) -> Tensor: ...
    def ormqr(self, tau: Tensor, other: Tensor, left: _bool = True, transpose: _bool = False) -> Tensor: ...
    def matrix_exp(self) -> Tensor: ...
    def lu(self, pivot: _bool = True, get_infos: _bool = False) -> Any: ...
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor) -> Tensor: ...
    def triangular_solve(
        self, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False
    ) -> Any: ...
    def as_subclass(self, cls: Any) -> Any: ...
    @staticmethod
    def _make_subclass(cls: Any, data: Tensor, require_grad: _bool = False) -> Any: ...
    def new(self, *args: Any, device: Any = None) -> Tensor: ...
    def new_tensor(
        self, data: Any, *, dtype: _dtype | None = None, device: Any = None, requires_grad: _bool = False
    ) -> Tensor: ...
    def data_ptr(self) -> _int: ...
    def detach(self) -> Tensor: ...
    def detach_(self) -> Tensor: ...
    def dim(self) -> _int: ...
    def ndimension(self) -> _int: ...
    def element_size(self) -> _int: ...
    def get_device(self) -> _int: ...
    def is_complex(self) -> _bool: ...
    def is_contiguous(self, *, memory_format: _memory_format = ...) -> _bool: ...
    def is_floating_point(self) -> _bool: ...
    def is_signed(self) -> _bool: ...
    def is_inference(self) -> _bool: ...
    def is_pinned(self) -> _bool: ...
    def is_shared(self) -> _bool: ...
    def item(self) -> Any: ...
    def tolist(self) -> Any: ...
    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False) -> Tensor: ...
    @overload
    def nonzero(self, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
    def numpy(self, *, force: _bool = False) -> Any: ...
    def numel(self) -> _int: ...
    def nelement(self) -> _int: ...
    def register_hook(self, hook: Callable[[Tensor], Any]) -> RemovableHandle: ...
    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle: ...
    def requires_grad_(self, requires_grad: _bool = True) -> Self: ...
    def retain_grad(self) -> None: ...
    def share_memory_(self) -> Self: ...
    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: _int) -> _int: ...
    @overload
    def stride(self, dim: None = None) -> tuple[_int, ...]: ...
    @overload
    def stride(self, dim: _int) -> _int: ...
    def storage(self) -> Any: ...
    def storage_offset(self) -> _int: ...
    @overload
    def type(self, dtype: None = None, non_blocking: _bool = False) -> _str: ...
    @overload
    def type(self, dtype: _dtype | _str | Callable[..., Tensor], non_blocking: _bool = False) -> Tensor: ...
    def storage_type(self) -> Any: ...
    def untyped_storage(self) -> UntypedStorage: ...
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any: ...
    def __bool__(self) -> _bool: ...
    def __contains__(self, item: Any) -> _bool: ...
    def __dlpack__(self, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[_int, _int]: ...
    def __float__(self) -> _float: ...
    def __getitem__(self, key: Any) -> Tensor: ...
    def __hash__(self) -> _int: ...
    def __index__(self) -> _int: ...
    def __int__(self) -> _int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __len__(self) -> _int: ...
    def __reversed__(self) -> Tensor: ...
    def __setitem__(self, key: Any, value: Any) -> None: ...
    def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]
'''

ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")
BINARY = [form + n for n in ARITHMETIC for form in ("", "r", "i")] + ["matmul", "rmatmul", "lt", "le", "gt", "ge"]

# The other classes, and the functions that are no operations.
REST = '''
class dtype:
    @property
    def is_floating_point(self) -> _bool: ...
    @property
    def is_complex(self) -> _bool: ...
    @property
    def is_signed(self) -> _bool: ...
    @property
    def itemsize(self) -> _int: ...

class device:
    @property
    def type(self) -> _str: ...
    @property
    def index(self) -> _int | None: ...
    def __init__(self, type: Any, index: _int | None = None) -> None: ...

class memory_format: ...

class Generator:
    @property
    def device(self) -> _device: ...
    def __init__(self, device: Any = None) -> None: ...
    def get_state(self) -> Tensor: ...
    def set_state(self, state: Tensor) -> Generator: ...
    def initial_seed(self) -> _int: ...
    def manual_seed(self, seed: _int) -> Generator: ...
    def seed(self) -> _int: ...
    def _state(self) -> Sequence[_int]: ...
    def _set_state(self, state: bytes) -> None: ...

class Node:
    def __getattr__(self, name: _str) -> Any: ...

class RemovableHandle:
    def __getattr__(self, name: _str) -> Any: ...

class SavedTensor:
    def register_hooks(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None: ...
    def unpack(self) -> Tensor | None: ...

class UntypedStorage:
    def __init__(self, data: _int | Sequence[_int] = 0, *, device: _device | _str | None = None) -> None: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: _int, value: _int) -> None: ...
    def __getattr__(self, name: _str) -> Any: ...

_dtype = dtype
_device = device
_memory_format = memory_format

def as_tensor(data: Any, dtype: _dtype | None = None, device: _device | _str | None = None) -> Tensor: ...
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: _bool | None = None) -> Tensor: ...
def from_numpy(array: Any) -> Tensor: ...
def frombuffer(buffer: Any, *, dtype: _dtype, count: _int = -1, offset: _int = 0, requires_grad: _bool = False) -> Tensor: ...
def get_default_dtype() -> _dtype: ...
def get_num_threads() -> _int: ...
def is_anomaly_check_nan_enabled() -> _bool: ...
def is_anomaly_enabled() -> _bool: ...
def is_complex(input: Tensor) -> _bool: ...
def is_floating_point(input: Tensor) -> _bool: ...
def is_grad_enabled() -> _bool: ...
def is_inference_mode_enabled() -> _bool: ...
def is_signed(input: Tensor) -> _bool: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False, out: Any = None) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
def numel(input: Tensor) -> _int: ...
def is_warn_always_enabled() -> _bool: ...
def set_warn_always(enabled: _bool) -> None: ...
def set_default_dtype(d: _dtype) -> None: ...
def set_num_threads(n: _int) -> None: ...
def tensor(data: Any, *, dtype: _dtype | None = None, device: _device | _str | None = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor: ...
@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Tensor, input: Tensor | _Number, other: Tensor | _Number, *, out: Any = None) -> Tensor: ...
'''

TYPES = {
    "Tensor": "Tensor",
    "Tensor[]": "Sequence[Tensor]",
    "Tensor?[]": "Sequence[Tensor | None]",
    "Operand": "Tensor | _Number",
    "Number": "_Number",
    "int": "_int",
    "int[]": "_int | Sequence[_int]",
    "size": "Sequence[_int]",
    "float": "_float",
    "float[]": "_float | Sequence[_float]",
    "bool": "_bool",
    "dtype": "_dtype",
    "device": "_device | _str | _int",
    "str": "_str",
    "Generator": "Generator",
    "memory_format": "_memory_format",
    "Storage": "UntypedStorage",
    "typename": "_dtype | _str | Callable[..., Tensor]",
}

RESULTS = {"": "Tensor", "Tensor[]": "tuple[Tensor, ...]", "bool": "_bool"}

# What rows return whose signatures do not say it.
IMPLIED = {
    "is_nonzero": "bool",
    "is_conj": "bool",
    "is_neg": "bool",
    "is_same_size": "bool",
    "is_set_to": "bool",
    "std_mean": "tuple[Tensor, Tensor]",
    "var_mean": "tuple[Tensor, Tensor]",
}


def split(text: str) -> list[str]:
    """Splits a parameter list at its top-level commas."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "[("
        depth -= c in "])"
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    tail = text[start:].strip()
    return [*parts, tail] if tail else parts


def python_type(t: str) -> str:
    """The stub's type of a signature's type."""
    if t != "Tensor?[]" and t.endswith("?"):
        return python_type(t[:-1]) + " | None"
    return TYPES.get(t, "Any")


def parameters(sig: str, method: bool, variadic: bool) -> str:
    """The stub's parameters of a signature; a size as separate numbers if `variadic`, otherwise as one sequence."""
    out: list[str] = []
    for i, part in enumerate(split(sig)):
        if part == "*":
            out.append("*")
            continue
        name, _, rest = part.partition(":")
        t, eq, default = (s.strip() for s in rest.partition("="))
        if keyword.iskeyword(name):
            name += "_"
        if method and i == 0:
            out.append("self")
        elif t == "Tensor*":
            out.append(f"*{name}: Tensor | Sequence[Tensor]")
        elif t == "size":
            positional = split(sig.partition("*,")[0].rstrip(" ,"))
            one_by_one = variadic and i == int(method) == len(positional) - 1
            out.append(f"*{name}: _int" if one_by_one else f"{name}: Sequence[_int]" + (f" = {default}" if eq else ""))
        else:
            out.append(f"{name}: {python_type(t)}" + (f" = {default}" if eq else ""))
    # A star parameter makes a bare star superfluous.
    if any(p.startswith("*") and len(p) > 1 for p in out) and "*" in out:
        out.remove("*")
    return ", ".join(out)


def fields(name: str) -> tuple[str, ...] | None:
    """The fields of the named tuple that an operation returns, if it returns one."""
    from rgrad import return_types

    return getattr(getattr(return_types, name, None), "_fields", None)


def result_class(names: tuple[str, ...]) -> str:
    """The stub's name of the named tuple with these fields."""
    return "_" + "".join(n.capitalize() for n in names)


def result_type(op: dict, sig: str) -> str:
    """The stub's type of what a signature returns."""
    result = sig.partition("->")[2].strip() or IMPLIED.get(op["name"], "")
    named = fields(op["name"])
    if result.startswith("tuple") and named:
        return result_class(named)
    return RESULTS.get(result, result)


def declarations(op: dict, method: bool, inplace: bool = False) -> list[str]:
    """An operation's signatures as the text between a function's name and its colon."""
    out: list[str] = []
    for sig in op["signatures"]:
        text = sig.partition("->")[0]
        for variadic in (True, False):
            params = parameters(text, method, variadic)
            if op["out"] and not method and not inplace:
                params += (", " if "*" in params else ", *, ") + "out: Any = None"
            line = f"({params}) -> {result_type(op, sig)}"
            if line not in out:
                out.append(line)
    return out


def definitions(declared: dict[str, list[str]], docs: dict[str, str], indent: str = "") -> list[str]:
    """The lines that declare names, each with its overloads and, at the first, its documentation."""
    lines = []
    for name, overloads in declared.items():
        for i, text in enumerate(overloads):
            if len(overloads) > 1:
                lines.append(f"{indent}@overload")
            doc = docs.get(name)
            if doc is None or i:
                lines.append(f"{indent}def {name}{text}: ...")
            else:
                lines += [f"{indent}def {name}{text}:", f'{indent}    {"r" * (chr(92) in doc)}"""{doc}"""']
    return lines


def documentation(table: list[dict]) -> dict[str, str]:
    """What each name of the table does, in one line."""
    docs: dict[str, str] = {}
    for op in table:
        doc = " ".join(op["doc"].split())
        for name in (op["name"], *op["aliases"]):
            docs.setdefault(name, doc)
            docs.setdefault(f"{name}_", f"{doc} In place.")
    return docs


def collect(table: list[dict], method: bool, known: set[str]) -> dict[str, list[str]]:
    """What the table declares as methods or as functions, by name: rows that share a name share its overloads."""
    out: dict[str, list[str]] = {}
    for op in table:
        for inplace in (False, True):
            if op["inplace"] if inplace else op["method" if method else "function"]:
                for name in (op["name"], *op["aliases"]):
                    name += "_" * inplace
                    if name in known:
                        overloads = out.setdefault(name, [])
                        overloads += [d for d in declarations(op, method, inplace) if d not in overloads]
    return out


# Members of tensors that say nothing of themselves at run time, as their classes are not written in Python.
MEMBERS = {
    "const_data_ptr": "The address of the first element, for reading.",
    "data": "A tensor with the same memory and without history; assigning to it replaces the memory.",
    "data_ptr": "The address of the first element.",
    "detach": "A tensor with the same memory and without history, which needs no gradient.",
    "detach_": "Removes the tensor's history, which makes it a leaf.",
    "device": "Where the tensor's memory is.",
    "dim": "The number of dimensions.",
    "dtype": "The type of the elements.",
    "element_size": "The bytes of an element.",
    "get_device": "The number of the tensor's GPU; -1 on the CPU.",
    "grad": "The gradient that backward has accumulated, of the tensor's shape; None before.",
    "grad_fn": "The node of the graph that made the tensor; None for leaves.",
    "is_complex": "Whether the elements are complex numbers: False, as there is no such dtype.",
    "is_contiguous": "Whether the elements lie in order and without gaps, in a memory format.",
    "is_cpu": "Whether the tensor is on the CPU.",
    "is_cuda": "Whether the tensor is on a GPU that goes by this name.",
    "is_floating_point": "Whether the elements are floating-point numbers.",
    "is_inference": "Whether the tensor was made in inference mode.",
    "is_leaf": "Whether backward accumulates into `grad` here: true of what no operation with a history made.",
    "is_meta": "Whether the tensor has a shape and no elements.",
    "is_mps": "Whether the tensor is on a GPU that goes by this name.",
    "is_nested": "False: there are no nested tensors.",
    "is_pinned": "Whether the memory is pinned for copies to a GPU.",
    "is_quantized": "False: there are no quantized tensors.",
    "is_signed": "Whether the dtype has negative numbers.",
    "is_sparse": "False: there are no sparse tensors.",
    "item": "The only element, as a Python number.",
    "itemsize": "The bytes of an element.",
    "layout": "How elements lie in memory: always `strided`.",
    "name": "None: tensors have no names.",
    "nbytes": "The bytes of all elements.",
    "ndim": "The number of dimensions.",
    "ndimension": "The number of dimensions.",
    "nelement": "The number of elements.",
    "numel": "The number of elements.",
    "output_nr": "Which of the results of `grad_fn` the tensor is.",
    "requires_grad": "Whether operations on the tensor are recorded for backward.",
    "requires_grad_": "Sets `requires_grad`.",
    "retains_grad": "Whether backward keeps the gradient of this tensor, which is no leaf.",
    "shape": "The sizes of all dimensions.",
    "size": "The sizes of all dimensions, or the size of one.",
    "storage_offset": "The place of the first element in the storage.",
    "stride": "How many elements of the storage lie between neighbors, for each dimension or for one.",
    "tolist": "The elements as nested lists of Python numbers; the number itself without dimensions.",
}


def member_doc(tensor: Any, name: str) -> str | None:
    """The first paragraph of what a member of tensors says of itself, or its line in `MEMBERS`."""
    text = inspect.getdoc(getattr(tensor, name, None)) if not name.startswith("_") else None
    if text is None or not text.strip():
        return MEMBERS.get(name)
    return " ".join(text.split("\n\n")[0].split())


def documented(declarations: str, tensor: Any) -> str:
    """The declarations of a class with the documentation of its members, at the first overload of each."""
    seen: set[str] = set()

    def add(match: re.Match[str]) -> str:
        name = match["def"] or match["variable"]
        doc = None if name in seen else member_doc(tensor, name)
        seen.add(name)
        if doc is None:
            return match[0]
        quoted = f'{"r" * (chr(92) in doc)}"""{doc}"""'
        return f"{match['head']}:\n        {quoted}" if match["def"] else f"{match[0]}\n    {quoted}"

    line = r"^(?P<head>    def (?P<def>\w+)\(.*\) -> [^:]+): \.\.\.$|^    (?P<variable>\w+): .*$"
    return re.sub(line, add, declarations, flags=re.M)


def declared_in(text: str, indent: str) -> set[str]:
    """The names that a piece of the stub declares at one depth."""
    found = re.findall(rf"^{indent}(?:(?:def|class) (\w+)|(\w+)(?=: | = ))", text, re.M)
    return {a or b for a, b in found}


def stub(table: list[dict], core: Any) -> str:
    """The text of `_C.pyi`."""
    methods = {n for n in dir(core.Tensor) if not n.startswith("__")} - declared_in(TENSOR, "    ")
    functions = {n for n in dir(core) if not n.startswith("__")} - declared_in(REST, "") - {"Tensor"}
    lines = [HEADER]
    for names in sorted({f for op in table if (f := fields(op["name"]))}):
        lines += [f"class {result_class(names)}(NamedTuple):", *(f"    {n}: Tensor" for n in names), ""]

    lines.append("class Tensor:" + documented(TENSOR.rstrip(), core.Tensor))
    lines += [f"    def __{n}__(self, other: Any) -> Tensor: ..." for n in BINARY]
    lines += [f"    def __{n}__(self) -> Tensor: ..." for n in ("neg", "pos", "abs", "invert")]
    declared = collect(table, True, methods)
    docs = documentation(table)
    lines += definitions(declared, docs, "    ")
    attributes = {op["name"] for op in table if op["attribute"]}
    for name in sorted(attributes):
        lines += ["    @property", f"    def {name}(self) -> Tensor: ..."]
    lines += [f"    {n}: Any" for n in sorted(methods - declared.keys() - attributes)]

    lines.append(REST)
    declared = collect(table, False, functions)
    lines += definitions(declared, docs)
    for name in sorted(functions - declared.keys()):
        kind = type(getattr(core, name))
        lines.append(f"{name}: {kind.__name__ if kind in (core.dtype, core.memory_format) else 'Any'}")
    return "\n".join(lines) + "\n"


# PyTorch has these in torch.special too; the table has them under their plain names.
ALSO_SPECIAL = ("log_softmax", "logit", "logsumexp", "round", "sinc", "softmax")

# Those of torch.special that are written in Python, by their module.
SPECIAL_IN_PYTHON = {
    "bessel": ("i0", "i0e", "i1", "i1e", "modified_bessel_i0", "modified_bessel_i1", "spherical_bessel_j0"),
    "bessel_jyk": (
        "airy_ai",
        *(f"bessel_{kind}{order}" for kind in "jy" for order in "01"),
        *(f"{scaled}modified_bessel_k{order}" for scaled in ("", "scaled_") for order in "01"),
    ),
    "gamma": ("entr", "gammainc", "gammaincc", "multigammaln", "polygamma", "zeta"),
    "gaussian": ("erfcx", "log_ndtr", "ndtr", "ndtri"),
    "polynomials": (
        *(f"chebyshev_polynomial_{kind}" for kind in "tuvw"),
        "hermite_polynomial_h",
        "hermite_polynomial_he",
        "laguerre_polynomial_l",
        "legendre_polynomial_p",
        *(f"shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"),
    ),
}


def special(core: Any) -> str:
    """The text of `special.py`: what the table calls `special_*`, `ALSO_SPECIAL` and `SPECIAL_IN_PYTHON`, as editors see it."""
    sources = {name: name for name in ALSO_SPECIAL}
    for name in dir(core._special):
        if not name.startswith("_"):
            sources[name] = name if hasattr(core, name) else f"_special.{name}"
    sources |= {name.removeprefix("special_"): name for name in dir(core) if name.startswith("special_")}
    names = sorted({*sources, *(name for written in SPECIAL_IN_PYTHON.values() for name in written)})
    imports = []
    for module, written in SPECIAL_IN_PYTHON.items():
        line = f"from rgrad._special.{module} import "
        one = line + ", ".join(written)
        imports += [one] if len(one) <= 120 else [line + "(", *(f"    {name}," for name in written), ")"]
    lines = [
        '"""`torch.special`. Written by docs/generate.py from the operation table: do not edit."""',
        "",
        "from rgrad import _C",
        *imports,
        "",
        "__all__ = [",
        *(f'    "{name}",' for name in names),
        "]",
        "",
        *(f"{name} = _C.{sources[name]}" for name in sorted(sources)),
    ]
    return "\n".join(lines) + "\n"


def written_in_python(package: str) -> set[str]:
    """The functions that the modules of a package define, other than those that this script writes."""
    modules = (m for m in (ROOT / "python" / "rgrad" / package).glob("*.py") if m.name != "_operations.py")
    trees = (ast.parse(m.read_text()).body for m in modules)
    return {node.name for tree in trees for node in tree if isinstance(node, ast.FunctionDef)}


def plain_type(t: str) -> str:
    """The type of a signature's type outside the stub."""
    return re.sub(r"\b_(int|float|bool|str)\b", r"\1", python_type(t)).replace("_Number", "float")


def wrapped(head: str, parts: list[str], tail: str, indent: str) -> list[str]:
    """A parameter or argument list on one line, on a line of its own, or one a line, as the formatter breaks it."""
    if len(line := f"{indent}{head}({', '.join(parts)}){tail}") <= 120:
        return [line]
    if len(inner := f"{indent}    {', '.join(parts)}") <= 120:
        return [f"{indent}{head}(", inner, f"{indent}){tail}"]
    return [f"{indent}{head}(", *(f"{indent}    {part}," for part in parts), f"{indent}){tail}"]


def forwarding(op: dict) -> list[str]:
    """A function of Python with an operation's signature that calls the operation.

    The older arguments of losses are turned into a reduction on the way, whose warning then points at the caller.
    """
    (signature,) = op["signatures"]
    declared, arguments = [], []
    older = "size_average" in signature
    for part in split(signature):
        name, _, rest = part.partition(":")
        t, eq, default = (s.strip() for s in rest.partition("="))
        declared.append(f"{name}: {'str' if name == 'reduction' else plain_type(t)}" + (f" = {default}" if eq else "").replace("'", '"'))
        replaced = {"size_average": "None", "reduce": "None", "reduction": "choose(size_average, reduce, reduction)"}
        arguments.append(replaced.get(name, name) if older else name)
    result = "Any" if "return_indices" in signature else "Tensor"
    return [
        "@of_the_core",
        *wrapped(f"def {op['name']}", declared, f" -> {result}:", ""),
        f'    """{" ".join(op["doc"].split())}"""',
        *wrapped(f"return _core.{op['name']}", arguments, "", "    "),
    ]


def operations(table: list[dict]) -> str:
    """The text of `nn/_operations.py`."""
    others = written_in_python("nn")
    found = {op["name"]: op for op in table if op["nn"] and not op["native"] and op["name"] not in others}
    lines = [
        '"""Functions of Python, each a call of the core\'s of the same name: Note [Functions that take attributes].',
        "",
        "Written by docs/generate.py from the operation table: do not edit.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from collections.abc import Sequence",
        "from typing import Any",
        "",
        "from rgrad import _C",
        "",
        "from . import _core",
        "from ._forwarding import of_the_core",
        "from ._reduction import choose",
        "",
        "Tensor = _C.Tensor",
    ]
    for name in sorted(found):
        lines += ["", "", *forwarding(found[name])]
    return "\n".join(lines) + "\n"


def page(table: list[dict]) -> str:
    """The text of docs/ops.md."""
    lines = [
        "# Operations",
        "",
        "Written by docs/generate.py from the operation table. Names, arguments and defaults are PyTorch's. *Found as*: "
        "`x.` a method, `f` a function, `nn` in nn.functional, `_` an in-place form, `out` takes `out=`.",
        "",
        "| operation | arguments | found as | what it does |",
        "| --- | --- | --- | --- |",
    ]
    marks = (("method", "x."), ("function", "f"), ("nn", "nn"), ("inplace", "_"), ("out", "out"), ("special", "special"), ("linalg", "linalg"), ("attribute", "attribute"))
    for op in sorted(table, key=lambda o: o["name"]):
        also = "".join(f"<br>`{a}`" for a in op["aliases"])
        sigs = "<br>".join(f"`{s}`".replace("|", "\\|") for s in op["signatures"])
        where = " ".join(text for key, text in marks if op[key])
        doc = " ".join(op["doc"].split()).replace("|", "\\|")
        lines.append(f"| `{op['name']}`{also} | {sigs} | {where} | {doc} |")
    return "\n".join(lines) + "\n"


def outputs() -> dict[Path, str]:
    """Every generated file and what it should hold."""
    import rgrad.nn  # noqa: F401 - it adds names to the core
    from rgrad import _C

    table = _C._op_table()
    return {
        ROOT / "python" / "rgrad" / "_C.pyi": stub(table, _C),
        ROOT / "python" / "rgrad" / "special.py": special(_C),
        ROOT / "python" / "rgrad" / "nn" / "_operations.py": operations(table),
        ROOT / "docs" / "ops.md": page(table),
    }


def main() -> int:
    stale = [p for p, text in outputs().items() if not p.exists() or p.read_text() != text]
    for p in stale:
        if "--write" in sys.argv:
            p.write_text(outputs()[p])
        print(("wrote " if "--write" in sys.argv else "stale: ") + str(p.relative_to(ROOT)))
    return 1 if stale and "--write" not in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
