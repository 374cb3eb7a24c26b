"""A pickle reader for weights: a restricted implementation of the pickle machine that can only build data.

Note [No code from files]
~~~~~~~~~~~~~~~~~~~~~~~~~
Pickle is a language in which a file can call anything that it can import. This reader never imports: a name in the
file is looked up in a fixed table, and every entry of the table checks its arguments before it accesses memory.
Opcodes that PyTorch's files do not use are refused. A program can allow further names with `add_safe_globals`.
"""

from __future__ import annotations

import importlib
import io
import math
import pickle
import pickletools
import re
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, Literal

import rgrad
from rgrad._utils import _rebuild_wrapper_subclass, set_state
from rgrad.serialization._safe_globals import _safe_globals, is_safe
from rgrad.serialization._zip_file import ByteReader
from rgrad.storage import TypedStorage

_OPCODES = {opcode.code: opcode for opcode in pickletools.opcodes}

@dataclass(frozen=True)
class StorageType:
    """Represents a name such as `torch.FloatStorage`.

    Attributes:
        dtype: the name of the elements' dtype, without the module.
    """

    dtype: str


_STORAGE_TYPES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}
# The dtypes without a legacy type of storage.
BYTE_STORED = (
    *("uint16", "uint32", "uint64"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(type(item) is int and 0 <= item < 2**62 for item in value)


def rebuild_tensor(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    backward_hooks: Any = None,
    metadata: Any = None,
) -> Any:
    """A tensor on a storage; all numbers are checked against the storage's size.

    Args:
        storage: the storage, as a one-dimensional tensor.
        offset: the storage offset of the tensor.
        size: its shape.
        stride: its strides.
        requires_grad: whether it requires a gradient.
        backward_hooks: always empty in files.
        metadata: PyTorch's flags, which are ignored.
    """
    del backward_hooks, metadata
    if not isinstance(storage, TypedStorage):
        raise pickle.UnpicklingError("a tensor without a storage")
    storage = storage._elements()
    size = tuple(size) if isinstance(size, rgrad.Size) else size
    valid = _is_shape(size) and _is_shape(stride) and _is_shape((offset,)) and len(size) == len(stride) <= 64
    # With strides of 0, few bytes can be a huge tensor, but its number of elements must fit in an integer.
    valid = valid and math.prod(n for n in size if n) < 2**62
    if not valid or not isinstance(requires_grad, bool):
        raise pickle.UnpicklingError(f"malformed tensor: offset {offset!r}, size {size!r}, stride {stride!r}"[:300])
    reach = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) + 1
    if 0 in size:
        reach = 0
    if reach > storage.numel():
        raise pickle.UnpicklingError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset} are out of "
            "bounds for "
            f"storage of size {storage.numel()}"
        )
    if 0 in size:
        return rgrad.empty(size, dtype=storage.dtype, device=storage.device).requires_grad_(requires_grad)
    return storage.as_strided(size, stride, offset).requires_grad_(requires_grad)


def rebuild_tensor_of_bytes(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    backward_hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Any:
    """As `rebuild_tensor`, of the given dtype on a storage of bytes."""
    if not (isinstance(storage, TypedStorage) and type(dtype) is rgrad.dtype):
        raise pickle.UnpicklingError("malformed tensor: a storage and a dtype are expected")
    storage = TypedStorage(wrap_storage=storage._untyped_storage, dtype=dtype)
    return rebuild_tensor(storage, offset, size, stride, requires_grad, backward_hooks, metadata)


def rebuild_meta_tensor(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Any:
    """A tensor of the meta device, which has no storage."""
    size = tuple(size) if isinstance(size, rgrad.Size) else size
    valid = isinstance(dtype, rgrad.dtype) and _is_shape(size) and _is_shape(stride) and len(size) == len(stride) <= 64
    if not (valid and math.prod(n for n in size if n) < 2**62 and isinstance(requires_grad, bool)):
        raise pickle.UnpicklingError(f"malformed tensor: size {size!r}, stride {stride!r}"[:300])
    return rgrad.empty_strided(size, stride, dtype=dtype, device="meta").requires_grad_(requires_grad)


def rebuild_parameter(data: Any, requires_grad: Any, backward_hooks: Any = None) -> Any:
    """A `Parameter` with a tensor's data."""
    del backward_hooks
    if not isinstance(data, rgrad.Tensor) or not isinstance(requires_grad, bool):
        raise pickle.UnpicklingError("malformed parameter")
    return rgrad.nn.Parameter(data, requires_grad)


def rebuild_parameter_with_state(data: Any, requires_grad: Any, backward_hooks: Any, state: Any) -> Any:
    """A `Parameter` with a tensor's data, and with attributes."""
    result = rebuild_parameter(data, requires_grad, backward_hooks)
    set_state(result, _checked_state(state))
    return result


def _layout_of(name: Any) -> Any:
    """The layout of a name such as "torch.strided"; there is no other."""
    if name != "torch.strided":
        raise pickle.UnpicklingError(f"tensors are strided: there are none of layout {name!r}"[:300])
    return rgrad.strided


@dataclass(frozen=True)
class TensorType:
    """Represents the name `torch.Tensor`, which files give as the class of a tensor; it can't be called."""


def rebuild_wrapper(kind: Any, *reported: Any) -> Any:
    """A tensor without memory, of a class that computes its operations.

    Args:
        kind: a class of tensors that `add_safe_globals` has allowed.
        reported: what the tensor reports: the dtype, the shape, strides, the offset, the layout, the device, and
            whether it requires grad.
    """
    if not (isinstance(kind, type) and is_safe(kind) and getattr(kind, "_dispatches", False)):
        raise pickle.UnpicklingError(f"malformed tensor: {kind!r} is no class that computes its operations"[:300])
    return _rebuild_wrapper_subclass(kind, *reported)


def rebuild_from_type(function: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """A tensor of a class, with attributes.

    Args:
        function: one of those in this file that rebuild a tensor.
        kind: `TensorType`, or a class of tensors that `add_safe_globals` has allowed.
        arguments: of the function.
        state: the attributes, or what the `__setstate__` of the class takes.
    """
    if function not in (rebuild_tensor, rebuild_tensor_of_bytes, rebuild_meta_tensor, rebuild_wrapper):
        raise pickle.UnpicklingError(f"malformed tensor: it can't be rebuilt by {function!r}"[:300])
    result: Any = function(*arguments)
    if function is rebuild_wrapper and type(result) is not kind:
        raise pickle.UnpicklingError(f"malformed tensor: {kind!r} is not its class"[:300])
    if isinstance(kind, TensorType):
        set_state(result, _checked_state(state))
        return result
    if not (isinstance(kind, type) and is_safe(kind) and issubclass(kind, rgrad.Tensor)):
        raise pickle.UnpicklingError(f"malformed tensor: {kind!r} is not its class"[:300])
    result = result if type(result) is kind else result.as_subclass(kind)
    if hasattr(kind, "__setstate__"):
        result.__setstate__(state)
    else:
        set_state(result, _checked_state(state))
    return result


def _checked_state(state: Any) -> Any:
    """A dictionary of attributes, or a pair of one and of another for slots."""
    for part in state if isinstance(state, tuple) and len(state) == 2 else (state,):
        if part is not None and not (type(part) is dict and all(type(name) is str for name in part)):
            raise pickle.UnpicklingError("malformed tensor: its attributes are no dictionary")
    return state


def _encode(text: Any, encoding: Any) -> bytes:
    """Rebuilds bytes, which protocol 2 writes as encoded text."""
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError("_codecs.encode is allowed with latin1 only")
    return text.encode("latin1")


@dataclass
class _NumpyDtype:
    """A NumPy dtype being rebuilt: a number or boolean type, never an object or a structured type."""

    code: str
    order: Literal["<", ">", "=", "|"] = "="

    def set_state(self, state: Any) -> None:
        if not (isinstance(state, tuple) and len(state) >= 2 and state[1] in ("<", ">", "=", "|")):
            raise pickle.UnpicklingError("malformed numpy dtype")
        self.order = state[1]

    def made(self) -> Any:
        """NumPy's own object."""
        import numpy

        return numpy.dtype(self.code).newbyteorder(self.order)


def _numpy_dtype(code: Any, *flags: Any) -> _NumpyDtype:
    if not isinstance(code, str) or not re.fullmatch(r"[biufc](1|2|4|8|16)", code):
        raise pickle.UnpicklingError(f"numpy dtype {code!r} is not allowed"[:200])
    return _NumpyDtype(code)


def _with_numpy_dtypes(state: Any) -> Any:
    """A state with NumPy's own dtypes, as the `__setstate__` of an array wants them."""
    import sys

    if "numpy" not in sys.modules or not isinstance(state, tuple):
        return state
    return tuple(item.made() if isinstance(item, _NumpyDtype) else item for item in state)


def _numpy_scalar(dtype: Any, data: Any) -> Any:
    import numpy

    if not isinstance(dtype, _NumpyDtype) or not isinstance(data, bytes):
        raise pickle.UnpicklingError("malformed numpy scalar")
    kind = dtype.made()
    if len(data) != kind.itemsize:
        raise pickle.UnpicklingError("malformed numpy scalar")
    return numpy.frombuffer(data, dtype=kind)[0]


def _known_globals() -> dict[str, Any]:
    known: dict[str, Any] = {
        "torch._utils._rebuild_tensor_v2": rebuild_tensor,
        "torch._utils._rebuild_tensor_v3": rebuild_tensor_of_bytes,
        "torch.storage.UntypedStorage": StorageType("uint8"),
        "torch._utils._rebuild_parameter": rebuild_parameter,
        "torch._utils._rebuild_parameter_with_state": rebuild_parameter_with_state,
        "torch._utils._rebuild_meta_tensor_no_storage": rebuild_meta_tensor,
        "torch.serialization._get_layout": _layout_of,
        "torch.Size": lambda items=(): rgrad.Size(_tuple(items)),
        "torch.device": lambda *parts: rgrad.device(*parts),
        "collections.OrderedDict": lambda items=(): OrderedDict((_key(key), value) for key, value in items),
        "collections.Counter": lambda items=(): Counter(_dict(items)),
        "_codecs.encode": _encode,
        "numpy.dtype": _numpy_dtype,
        "numpy.core.multiarray.scalar": _numpy_scalar,
        "numpy._core.multiarray.scalar": _numpy_scalar,
    }
    known["builtins.set"] = lambda items=(): set(map(_key, items))
    known["builtins.frozenset"] = lambda items=(): frozenset(map(_key, items))
    known["builtins.bytearray"] = lambda data=b"": bytearray(_bytes(data))
    known["builtins.complex"] = lambda *parts: complex(*parts)
    for name, dtype in _STORAGE_TYPES.items():
        known[f"torch.{name}"] = StorageType(dtype)
    for dtype in (*_STORAGE_TYPES.values(), *BYTE_STORED):
        known[f"torch.{dtype}"] = getattr(rgrad, dtype)
    return known


def _restricted_globals() -> dict[str, Any]:
    """The names of a file of weights. Without restrictions, those of classes are imported instead."""
    return {
        **_known_globals(),
        "torch._tensor._rebuild_from_type_v2": rebuild_from_type,
        "torch._utils._rebuild_wrapper_subclass": rebuild_wrapper,
        "torch.Tensor": TensorType(),
    }


def _key(value: Any, depth: int = 8) -> Any:
    """Checks a value that is about to be hashed. Hashing recurses without a limit, so deeply nested tuples are
    refused.
    """
    if isinstance(value, (tuple, frozenset)):
        if depth == 0:
            raise pickle.UnpicklingError("a key is nested too deeply")
        for item in value:
            _key(item, depth - 1)
    return value


def _tuple(items: Any) -> tuple[int, ...]:
    if not _is_shape(items):
        raise pickle.UnpicklingError("malformed torch.Size")
    return items


def _dict(items: Any) -> dict[Any, Any]:
    if items != () and not isinstance(items, dict):
        raise pickle.UnpicklingError("malformed Counter")
    return dict(items)


def _bytes(data: Any) -> bytes:
    if not isinstance(data, bytes):
        raise pickle.UnpicklingError("malformed bytearray")
    return data


_MARK = object()

# Modules whose names cannot be allowed in files.
_BLOCKED = frozenset({"sys", "os", "posix", "nt"})


def _full_name(module: Any, name: Any) -> str:
    """The name under which an object is known and allowed; protocol 2 calls the builtins by their name in Python 2."""
    return f"{'builtins' if module == '__builtin__' else module}.{name}"[:300]


def unsafe_names(data: bytes) -> list[str]:
    """The names in a pickle that are neither known nor allowed."""
    allowed = {*_restricted_globals(), *_safe_globals}
    found: dict[str, None] = {}
    strings: list[str] = []
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name == "GLOBAL":
            found[_full_name(*str(argument).split(" ", 1))] = None
        elif opcode.name == "STACK_GLOBAL":
            found[_full_name(*strings[-2:])] = None
        elif isinstance(argument, str):
            strings.append(argument)
    return [name for name in found if name not in allowed]


def _set_attributes(target: Any, state: Any) -> None:
    """Sets what is pickled of an object: a dict of attributes, or a pair of it with those in slots."""
    in_slots: Any = None
    if isinstance(state, tuple) and len(state) == 2:
        state, in_slots = state
    if state:
        target.__dict__.update(state)
    for name, value in (in_slots or {}).items():
        setattr(target, name, value)


class WeightsUnpickler:
    """Executes the pickle of a weights file.

    Args:
        data: the pickle; bytes after it are ignored.
        persistent_load: returns the storage for a persistent id.
        start: offset of the pickle in the data.
        encoding: of strings that Python 2 pickled; "bytes" leaves them bytes.

    Attributes:
        end: end offset of the pickle, available after loading.
    """

    def __init__(
        self,
        data: bytes | memoryview,
        persistent_load: Callable[[Any], Any],
        start: int = 0,
        encoding: str = "utf-8",
    ) -> None:
        self._data = data
        self._start = start
        self._encoding = encoding
        self._persistent_load = persistent_load
        self._globals = _restricted_globals()
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self.end = 0

    def load(self) -> Any:
        """Returns the object. Raises UnpicklingError for anything that is not a pickle of weights."""
        file = io.BufferedReader(ByteReader(memoryview(self._data)))
        file.seek(self._start)
        try:
            while code := file.read(1):
                opcode = _OPCODES.get(code.decode("latin1"))
                name = "unknown" if opcode is None else opcode.name
                if name == "STOP":
                    self.end = file.tell()
                    return self._stack.pop()
                if name == "GLOBAL":
                    # Read here because the standard reader would also decode escapes, and warn about invalid ones.
                    self._lookup(*(file.readline().rstrip(b"\n").decode("ascii") for _ in range(2)))
                    continue
                run = self._OPS.get(name)
                if opcode is None or run is None:
                    raise pickle.UnpicklingError(f"Unsupported operand {name}")
                run(self, None if opcode.arg is None else opcode.arg.reader(file))
        except pickle.UnpicklingError:
            raise
        except (RecursionError, MemoryError) as error:
            raise pickle.UnpicklingError(f"the pickle is too deep or too large ({type(error).__name__})") from None
        except (
            ValueError,
            TypeError,
            KeyError,
            IndexError,
            AttributeError,
            OverflowError,
            UnicodeError,
        ) as error:
            raise pickle.UnpicklingError(f"malformed pickle: {type(error).__name__}: {error}"[:300]) from None
        raise pickle.UnpicklingError("pickle data was truncated")

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _to_mark(self) -> list[Any]:
        """Removes the topmost mark and returns everything above it."""
        for place in range(len(self._stack) - 1, -1, -1):
            if self._stack[place] is _MARK:
                items = self._stack[place + 1 :]
                del self._stack[place:]
                return items
        raise pickle.UnpicklingError("malformed pickle: no mark")

    def _take(self, count: int) -> list[Any]:
        items = self._stack[len(self._stack) - count :]
        if len(items) != count or any(item is _MARK for item in items):
            raise pickle.UnpicklingError("malformed pickle: too few operands")
        del self._stack[len(self._stack) - count :]
        return items

    def _stack_global(self, _: None) -> None:
        module, name = self._take(2)
        self._lookup(module, name)

    def _lookup(self, module: Any, name: Any) -> None:
        full = _full_name(module, name)
        if str(module).partition(".")[0] in _BLOCKED:
            raise pickle.UnpicklingError(f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked.")
        if full in self._globals:
            self._push(self._globals[full])
        elif full in _safe_globals:
            self._push(_safe_globals[full])
        else:
            short = str(name)[:300].rpartition(".")[2]
            raise pickle.UnpicklingError(
                f"Unsupported global: GLOBAL {full} was not an allowed global by default. Please use "
                f"`torch.serialization.add_safe_globals([{short}])` or the "
                f"`torch.serialization.safe_globals([{short}])` context manager to allowlist this global if you trust "
                "this class/function."
            )

    def _allowed(self, function: Any) -> bool:
        known = any(function is entry for entry in self._globals.values()) and callable(function)
        return known or is_safe(function)

    def _reduce(self, _: None) -> None:
        function, arguments = self._take(2)
        if not self._allowed(function):
            raise pickle.UnpicklingError(f"Trying to call reduce for unrecognized function {function!r}"[:300])
        if not isinstance(arguments, tuple):
            raise pickle.UnpicklingError("malformed pickle: arguments must be a tuple")
        self._push(function(*arguments))

    def _new_object(self, _: None) -> None:
        cls, arguments = self._take(2)
        if not (isinstance(cls, type) and is_safe(cls)):
            # Of the table's entries, only classes like OrderedDict are instantiated by this opcode.
            if not (self._allowed(cls) and arguments == ()):
                raise pickle.UnpicklingError(f"Trying to create new object for unrecognized class {cls!r}"[:300])
            self._push(cls())
            return
        self._push(cls.__new__(cls, *arguments))

    def _build(self, _: None) -> None:
        target, state = self._take(2)
        if isinstance(target, _NumpyDtype):
            target.set_state(state)
        elif type(target) is OrderedDict:
            if not isinstance(state, dict) or not set(state) <= {"_metadata"}:
                raise pickle.UnpicklingError("only the _metadata of an OrderedDict may be set")
            target.__dict__.update(state)
        elif is_safe(type(target)):
            if getattr(target, "__setstate__", None) is not None:
                target.__setstate__(_with_numpy_dtypes(state))
            else:
                _set_attributes(target, state)
        else:
            raise pickle.UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, not "
                f"{type(target)}"
            )
        self._push(target)

    def _set_items(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) not in (dict, OrderedDict, Counter) or len(items) % 2:
            raise pickle.UnpicklingError(f"can't set items of {type(target).__name__}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if key is _MARK or value is _MARK:
                raise pickle.UnpicklingError("malformed pickle: a mark among items")
            target[_key(key)] = value

    def _extend(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            raise pickle.UnpicklingError(f"can't append to {type(target).__name__}")
        target.extend(items)

    def _add_items(self, _: None) -> None:
        items = self._to_mark()
        target = self._stack[-1]
        if type(target) is not set:
            raise pickle.UnpicklingError(f"can't add to {type(target).__name__}")
        target.update(map(_key, items))

    def _push_text(self, text: str) -> None:
        """A string of Python 2, whose bytes the standard library reads as latin-1."""
        data = text.encode("latin1")
        self._push(data if self._encoding == "bytes" else data.decode(self._encoding))

    def _put(self, place: int) -> None:
        self._memo[place] = self._stack[-1]

    def _get(self, place: int) -> None:
        self._push(self._memo[place])

    _OPS: dict[str, Callable[[WeightsUnpickler, Any], None]] = {
        "PROTO": lambda self, argument: None,
        "FRAME": lambda self, argument: None,
        "MARK": lambda self, argument: self._push(_MARK),
        "POP": lambda self, argument: self._stack.pop(),
        "NONE": lambda self, argument: self._push(None),
        "NEWTRUE": lambda self, argument: self._push(True),
        "NEWFALSE": lambda self, argument: self._push(False),
        "EMPTY_LIST": lambda self, argument: self._push([]),
        "EMPTY_TUPLE": lambda self, argument: self._push(()),
        "EMPTY_DICT": lambda self, argument: self._push({}),
        "EMPTY_SET": lambda self, argument: self._push(set()),
        "TUPLE": lambda self, argument: self._push(tuple(self._to_mark())),
        "TUPLE1": lambda self, argument: self._push(tuple(self._take(1))),
        "TUPLE2": lambda self, argument: self._push(tuple(self._take(2))),
        "TUPLE3": lambda self, argument: self._push(tuple(self._take(3))),
        "APPEND": lambda self, argument: self._extend(self._take(1)),
        "APPENDS": lambda self, argument: self._extend(self._to_mark()),
        "SETITEM": lambda self, argument: self._set_items(self._take(2)),
        "SETITEMS": lambda self, argument: self._set_items(self._to_mark()),
        "ADDITEMS": _add_items,
        "SHORT_BINSTRING": _push_text,
        "BINSTRING": _push_text,
        "MEMOIZE": lambda self, argument: self._put(len(self._memo)),
        "BINPERSID": lambda self, argument: self._push(self._persistent_load(self._take(1)[0])),
        "STACK_GLOBAL": _stack_global,
        "REDUCE": _reduce,
        "NEWOBJ": _new_object,
        "BUILD": _build,
        **dict.fromkeys(["BINPUT", "LONG_BINPUT"], _put),
        **dict.fromkeys(["BINGET", "LONG_BINGET"], _get),
        **dict.fromkeys(
            [
                "BININT",
                "BININT1",
                "BININT2",
                "LONG1",
                "BINFLOAT",
                "BINUNICODE",
                "SHORT_BINUNICODE",
                "BINUNICODE8",
                "BINBYTES",
                "SHORT_BINBYTES",
                "BINBYTES8",
            ],
            _push,
        ),
    }


def full_unpickler(
    pickle_module: Any, file: IO[bytes], persistent_load: Callable[[Any], Any], options: dict[str, Any]
) -> Any:
    """An unpickler without restrictions, for trusted files; PyTorch's names are mapped to their counterparts
    here.
    """
    from rgrad._door import native_name, table_path
    from rgrad._door._paths import PATHS

    known = _known_globals()

    class Unpickler(pickle_module.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            full = f"{module}.{name}"
            native = native_name(module)
            if native is not None:
                if full in known:
                    return known[full]
                source, names = PATHS.get(table_path(module), ("", ()))
                module = f"rgrad.{source}" if name in names else native
                importlib.import_module(module)
            return super().find_class(module, name)

        def persistent_load(self, persistent_id: Any) -> Any:
            return persistent_load(persistent_id)

    return Unpickler(file, **options)
