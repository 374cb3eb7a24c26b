"""`__torch_function__` outside the operation table: Note [Functions that can be overridden]."""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import Enum

from rgrad import _C
from rgrad._C import Tensor

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

# Operations on tensors that are handled neither by the operation table nor by the operators of the core.
_METHODS = [
    *(f"__{name}__" for name in ("neg", "abs", "invert", "getitem", "setitem", "reversed")),
    "detach",
    "new",
    "new_tensor",
]
# Methods that `__torch_function__` receives under another name in PyTorch.
_SEEN_AS = {"__neg__": "neg", "__abs__": "abs", "__pos__": "positive", "ndimension": "dim", "nelement": "numel"}
# Methods for which PyTorch does not include plain tensors in `types`.
_SHOWN_WITHOUT_PLAIN = {
    *("size", "is_contiguous", "stride", "requires_grad_", "numpy", "new_tensor", "new", "__getitem__", "__setitem__"),
}
# Functions that PyTorch implements in C, though they are Python here: their arguments are passed on unchanged.
_WRITTEN_IN_C = {
    *("bilinear", "celu_", "channel_shuffle", "cosine_similarity", "elu_", "hardtanh_", "leaky_relu_", "one_hot"),
    *("pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "relu_", "rrelu_", "selu_", "threshold_"),
}
# Functions of `nn.init` that check for overrides.
_INITS = ("uniform_", "normal_", "constant_", "kaiming_uniform_")
# Operators of the core, which check for overrides themselves.
OPERATORS = {
    *(
        f"__{form}{name}__"
        for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")
        for form in ("", "r", "i")
    ),
    *(f"__{name}__" for name in ("lt", "le", "eq", "ne", "gt", "ge", "matmul", "rmatmul")),
}
# Never overridden: methods that construct, compare, copy and pickle objects.
_UNASKED = {
    *OPERATORS,
    *("__new__", "__init__", "__class__", "__dict__", "__doc__", "__module__", "__hash__", "__weakref__", "__iter__"),
    *(
        "__init_subclass__",
        "__torch_function__",
        "__copy__",
        "__delitem__",
        "__div__",
        "__rdiv__",
        "__idiv__",
        "__dir__",
    ),
    *("__array_priority__", "_takes_part", "_make_subclass", "as_subclass"),
    *("__torch_dispatch__", "_dispatches", "_make_wrapper_subclass"),
}


def _wrapped(name: str, function: Any) -> Callable[..., Any]:
    """Wraps a method to check for `__torch_function__` first, which gets the method of that name of Tensor."""
    plain = name not in _SHOWN_WITHOUT_PLAIN

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        seen = getattr(Tensor, _SEEN_AS.get(name, name))
        return _C._call_torch_function(function, (self, *args), kwargs, plain, seen)

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    method.__doc__ = function.__doc__
    method.__wrapped__ = function  # type: ignore[attr-defined]
    return method


def _property(name: str, descriptor: Any) -> property:
    """Wraps a property to check for `__torch_function__` first, reported as `Tensor.name.__get__` and so on."""

    def asked(access: str) -> Callable[..., Any]:
        function = getattr(descriptor, access)

        def accessor(self: Tensor, *value: Any) -> Any:
            seen = getattr(getattr(Tensor, name), access)
            return _C._call_torch_function(function, (self, *value), {}, True, seen)

        return accessor

    return property(asked("__get__"), asked("__set__"), asked("__delete__"), getattr(descriptor, "__doc__", None))


@functools.cache
def _rest() -> dict[str, Any]:
    """The attributes of Tensor other than operations of the table and operators of the core, by name."""
    table: set[str] = set()
    for op in _C._op_table():
        names = (op["name"], *op["aliases"])
        table.update(names if op["method"] or op["attribute"] else ())
        table.update(f"{name}_" for name in names if op["inplace"])
    found = {name: value for base in reversed(Tensor.__mro__[:-1]) for name, value in vars(base).items()}
    return {
        name: value
        for name, value in found.items()
        if name not in _UNASKED and name not in table and not _added_by_others(value)
    }


def _added_by_others(value: Any) -> bool:
    """Whether an attribute of Tensor is a function or a property that a program added: nothing overrides those."""
    function = getattr(value, "fget", value)
    module = getattr(function, "__globals__", {}).get("__name__", "rgrad")
    return str(module).partition(".")[0] not in ("rgrad", "torch")


def _ask(cls: Any) -> None:
    """Wraps everything in a class that does not check for `__torch_function__` itself."""
    for name, value in _rest().items():
        if cls is not Tensor and any(name in vars(base) for base in cls.__mro__ if base not in Tensor.__mro__):
            continue
        if hasattr(type(value), "__set__"):
            setattr(cls, name, _property(name, value))
        elif callable(value) and hasattr(type(value), "__get__") and not isinstance(value, type):
            setattr(cls, name, _wrapped(name, value))


def _ask_in_place(function: Any) -> None:
    """Makes a Python function check for `__torch_function__`.

    Its code object is replaced, so that modules that have already imported the function use the check too, without
    any cost before there is a mode.
    """
    import inspect
    from types import FunctionType

    code, name = function.__code__, function.__name__
    parameters = list(inspect.signature(function).parameters.values())
    takes_any = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)
    known = [(p.name, _REQUIRED if p.default is p.empty else p.default) for p in parameters]
    as_keywords = function.__module__ in ("rgrad.nn.init", "torch.nn.init")
    as_given = takes_any or name in _WRITTEN_IN_C
    original = FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    original.__kwdefaults__ = function.__kwdefaults__

    def ask(args: Any, kwargs: Any) -> Any:
        shown = None if as_given else _bound(known, args, kwargs)
        if shown is not None and as_keywords:
            shown = [], {**dict(zip((n for n, d in known if d is _REQUIRED), shown[0], strict=False)), **shown[1]}
        args, kwargs = shown or (args, kwargs)
        return _C._call_torch_function(original, tuple(args), kwargs, name not in _WRITTEN_IN_C, function)

    function.__globals__[f"_ask_{name}"] = ask
    function.__wrapped__ = original
    function.__code__ = _asking(name, code.co_freevars).replace(co_filename=code.co_filename)


def _asking(name: str, free: tuple[str, ...]) -> CodeType:
    """The code of a function that passes its arguments to the global `_ask_{name}`.

    It names the free variables of the function that receives it, though it reads none: code that is compiled without
    them does not fill their places in the frame, and whoever looks at the frame's locals crashes the process.
    """
    mentioned = f"        if False: {', '.join(free)}\n" if free else ""
    source = (
        f"def factory({', '.join(free)}):\n"
        f"    def {name}(*args, **kwargs):\n{mentioned}        return _ask_{name}(args, kwargs)\n"
        f"    return {name}\n"
    )
    made: dict[str, Any] = {}
    exec(source, made)
    return made["factory"](*free).__code__


_REQUIRED = object()


def asks(function: Any) -> bool:
    """Whether a function of Python checks for overrides, once :func:`ask_everywhere` was called."""
    return function in _of_the_core() or function.__code__.co_names == (f"_ask_{function.__name__}",)


def _bound(parameters: list[tuple[str, Any]], args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]] | None:
    """Arranges arguments as PyTorch's functions pass them on: those with a default by keyword, the others by
    position.
    """
    kwargs = dict(kwargs)
    if len(args) > len(parameters):
        return None
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for i, (name, default) in enumerate(parameters):
        if i < len(args):
            value = args[i]
        elif name in kwargs:
            value = kwargs.pop(name)
        elif default is not _REQUIRED:
            value = default
        else:
            return None
        if default is _REQUIRED:
            positional.append(value)
        else:
            named[name] = value
    return positional, {**named, **kwargs}


@functools.cache
def _parameters(signature: str) -> list[tuple[str, Any]]:
    """The parameters in a signature of the operation table, with their defaults."""
    import ast

    found: list[tuple[str, Any]] = []
    depth, word = 0, ""
    for c in signature.split("->")[0] + ",":
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            name, _, rest = word.strip().partition(":")
            _, has_default, default = rest.partition(" = ")
            if name and name != "*":
                found.append((name, ast.literal_eval(default) if has_default else _REQUIRED))
            word = ""
        else:
            word += c
    return found


def as_written(signature: str, args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]] | None:
    """Arranges the arguments of a table operation as PyTorch's Python function passes them on; None if they do not
    match.
    """
    return _bound(_parameters(signature), args, kwargs)


def _converted(result: Any, cls: type) -> Any:
    """A result with plain tensors converted to class `cls`."""
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, tuple | list):
        return type(result)(_converted(r, cls) for r in result)
    return result


def _torch_function(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Calls `func` and returns its result as tensors of this class.

    Args:
        func: the function or method of `Tensor` that was called.
        types: the classes of tensors among the arguments that have a `__torch_function__`.
        args: its arguments.
        kwargs: its keyword arguments.

    Returns:
        The result; NotImplemented if one of the types is not a base class of this class.
    """
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    if getattr(func, "__name__", None) == "__deepcopy__":
        # It makes copies of the class, with their attributes.
        return getattr(func, "__wrapped__", func)(*args, **(kwargs or {}))
    result = _C._disabled_torch_function_impl(func, types, args, kwargs or {})
    if getattr(func, "__name__", None) == "__get__" and not isinstance(result, Tensor):
        return result  # A shape is a tuple, but not of tensors.
    return result if func in nowrap_functions() else _converted(result, cls)


def nowrap_functions() -> set[Any]:
    """Getters whose results keep their class."""
    return {vars(Tensor)[name].__get__ for name in ("_base", "grad") if name in vars(Tensor)}


def _init_subclass(cls: Any, **kwargs: Any) -> None:
    """Registers a new subclass, unless it opts out by `__torch_function__ = _disabled_torch_function_impl`."""
    super(Tensor, cls).__init_subclass__(**kwargs)
    if cls.__torch_dispatch__ is not Tensor.__torch_dispatch__:  # type: ignore[attr-defined]
        from rgrad._dispatch import install_class

        install_class(cls)
        if getattr(cls.__torch_function__, "__func__", None) is _torch_function:
            # As in PyTorch, such a class gets what its handler returned, and nothing is converted to it.
            cls.__torch_function__ = _C._disabled_torch_function_impl
    take_part(cls)


def take_part(cls: Any) -> None:
    """Makes a class override functions, unless it opts out.

    From the first such class on, each call of an operation looks for overrides among its arguments.
    """
    cls._takes_part = cls.__torch_function__ is not _C._disabled_torch_function_impl
    if not cls._takes_part:
        return
    _C._meet_subclass()
    if getattr(cls.__torch_function__, "__func__", None) is not _torch_function:
        _ask(cls)
        _ask_in_functions()
    else:
        own = [base for base in cls.__mro__ if issubclass(base, Tensor) and base is not Tensor]
        for name in _METHODS:
            if not any(name in vars(base) for base in own):
                setattr(cls, name, _wrapped(name, getattr(Tensor, name)))
    if "__hash__" not in vars(cls):
        cls.__hash__ = Tensor.__hash__


class _Disable:
    """Disables overrides within a block."""

    level: int

    def __enter__(self) -> None:
        self.before = _C._set_torch_function_disabled(self.level)

    def __exit__(self, *exc: object) -> None:
        _C._set_torch_function_disabled(self.before)


class DisableTorchFunctionSubclass(_Disable):
    """Within the block, operations ignore the `__torch_function__` of arguments, but not modes."""

    level = 1


class DisableTorchFunction(_Disable):
    """Within the block, operations ignore the `__torch_function__` of arguments and of modes."""

    level = 2


class _TorchFunctionState(Enum):
    """Whose `__torch_function__` operations ignore."""

    ENABLED = 0
    SUBCLASSES_DISABLED = DisableTorchFunctionSubclass.level
    ALL_DISABLED = DisableTorchFunction.level


def _set_torch_function_state(state: _TorchFunctionState) -> None:
    """Sets whose `__torch_function__` operations of this thread ignore."""
    if not isinstance(state, _TorchFunctionState):
        raise TypeError(f"_set_torch_function_state(): expected _TorchFunctionState, but got {type(state)}")
    _C._set_torch_function_disabled(state.value)


def _get_torch_function_state() -> _TorchFunctionState:
    """Whose `__torch_function__` operations of this thread ignore."""
    level = _C._set_torch_function_disabled(0)
    _C._set_torch_function_disabled(level)
    return _TorchFunctionState(int(level))


def _of_the_core() -> list[Callable[..., Any]]:
    """The functions of Python whose check is that of the core: Note [Functions that take attributes]."""
    from rgrad.nn._forwarding import FUNCTIONS

    return FUNCTIONS


@functools.cache
def ask_everywhere() -> None:
    """Makes everything that a mode intercepts check for overrides; called when the first mode is entered."""
    _ask(Tensor)
    _ask_in_functions()


@functools.cache
def _ask_in_functions() -> None:
    """Makes functions that are written in Python check for overrides, as soon as a class has its own."""
    from types import FunctionType

    from rgrad import functional as joined
    from rgrad.nn import functional, init

    functions = [getattr(functional, name) for name in dir(functional) if not name.startswith("_")]
    functions += [getattr(joined, name) for name in joined.__all__]
    functions += [getattr(init, name) for name in _INITS]
    for function in {id(f): f for f in functions if isinstance(f, FunctionType)}.values():
        if function.__module__.startswith(("rgrad.", "torch.")) and function not in _of_the_core():
            _ask_in_place(function)


def _disabled_torch_dispatch(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Calls `func` as if no class and no mode had a `__torch_dispatch__`."""
    before = _C._set_torch_dispatch_disabled(True)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        _C._set_torch_dispatch_disabled(before)


def _make_wrapper_subclass(*args: Any, **kwargs: Any) -> Any:
    """A tensor of a class without memory: see `rgrad._dispatch.make_wrapper_subclass`."""
    from rgrad._dispatch import make_wrapper_subclass

    return make_wrapper_subclass(*args, **kwargs)


class _DisableTorchDispatch:
    """While this object lives, or within a block, operations ignore `__torch_dispatch__`."""

    def __init__(self) -> None:
        self.before: bool | None = _C._set_torch_dispatch_disabled(True)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        if self.before is not None:
            _C._set_torch_dispatch_disabled(self.before)
            self.before = None

    def __del__(self) -> None:
        self.__exit__()


def install() -> None:
    """Adds to Tensor what its subclasses inherit."""
    _C.DisableTorchFunctionSubclass = DisableTorchFunctionSubclass  # type: ignore[attr-defined]
    _C._DisableTorchDispatch = _DisableTorchDispatch  # type: ignore[attr-defined]
    _C.DisableTorchFunction = DisableTorchFunction  # type: ignore[attr-defined]
    _C._TorchFunctionState = _TorchFunctionState  # type: ignore[attr-defined]
    _C._get_torch_function_state = _get_torch_function_state  # type: ignore[attr-defined]
    _C._set_torch_function_state = _set_torch_function_state  # type: ignore[attr-defined]
    Tensor._takes_part = False  # type: ignore[attr-defined]
    Tensor._dispatches = False  # type: ignore[attr-defined]
    _C._disabled_torch_dispatch_impl = _disabled_torch_dispatch  # type: ignore[attr-defined]
    Tensor.__torch_dispatch__ = _disabled_torch_dispatch  # type: ignore[attr-defined]
    Tensor._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)  # type: ignore[attr-defined]
    Tensor.__torch_function__ = classmethod(_torch_function)  # type: ignore[attr-defined]
    Tensor.__init_subclass__ = classmethod(_init_subclass)  # type: ignore[assignment]
