"""`torch.overrides`: support for classes and modes that override functions by `__torch_function__`.

>>> import rgrad as torch
>>> class Named(torch.overrides.TorchFunctionMode):
...     def __torch_function__(self, func, types, args=(), kwargs=None):
...         print(torch.overrides.resolve_name(func))
...         return func(*args, **(kwargs or {}))
>>> with Named():
...     _ = torch.ones(2) + 1
torch.ones
torch.Tensor.add
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from keyword import iskeyword
from typing import Any

import rgrad
from rgrad import _C, _subclass
from rgrad._subclass import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass

__all__ = [
    "enable_reentrant_dispatch",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

_Function = Callable[..., Any]


class TorchFunctionMode:
    """A context manager whose `__torch_function__` receives every call of a function on tensors in its block.

    A subclass defines `__torch_function__`; calls made in that method are seen only by the enclosing modes.
    """

    def __torch_function__(self, func: _Function, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Makes the call or replaces it.

        Args:
            func: the function, method or accessor that was called.
            types: the classes among the arguments that have a `__torch_function__`.
            args: the arguments.
            kwargs: the keyword arguments; may be None.

        Returns:
            The result of the call; NotImplemented to leave it to the arguments' own `__torch_function__`.
        """
        raise NotImplementedError

    def __enter__(self) -> Any:
        _push_mode(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _pop_mode()


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that makes every call unchanged."""

    def __torch_function__(self, func: _Function, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _push_mode(mode: TorchFunctionMode) -> None:
    _subclass.ask_everywhere()
    _C._push_on_torch_function_stack(mode)


def _pop_mode() -> Any:
    return _C._pop_torch_function_stack()


@contextmanager
def _pop_mode_temporarily() -> Iterator[Any]:
    """Returns the innermost mode, which is inactive within the block."""
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


def _get_current_function_mode() -> Any:
    count = _C._len_torch_function_stack()
    return _C._get_function_stack_at(count - 1) if count else None


def _get_current_function_mode_stack() -> list[Any]:
    return [_C._get_function_stack_at(i) for i in range(_C._len_torch_function_stack())]


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Within a `__torch_dispatch__`, a block whose operations are recorded, and seen by classes and modes, as outside.

    Raises:
        RuntimeError: outside of a `__torch_dispatch__`.
    """
    from rgrad._library import aten

    if not aten.handled.calls:
        raise RuntimeError("Accessing torch dispatch state outside of '__torch_dispatch__' is not allowed.")
    calls, aten.handled.calls = aten.handled.calls, []
    below, disabled = _C._set_below_autograd(False), _C._set_torch_dispatch_disabled(False)
    try:
        yield
    finally:
        aten.handled.calls = calls
        _C._set_below_autograd(below)
        _C._set_torch_dispatch_disabled(disabled)


# Functions that can be overridden.


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode is active or one of the arguments has a `__torch_function__` that must be called."""
    return _C._has_torch_function(relevant_args)


def has_torch_function_unary(obj: Any) -> bool:
    """Like :func:`has_torch_function`, for one argument."""
    return _C._has_torch_function((obj,))


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """Like :func:`has_torch_function`, with the arguments passed one by one."""
    return _C._has_torch_function(relevant_args)


def handle_torch_function(public_api: _Function, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Dispatches a call to the innermost mode and to the arguments that have a `__torch_function__`.

    Args:
        public_api: the function that was called.
        relevant_args: the arguments whose `__torch_function__` is considered.
        args: all arguments.
        kwargs: all keyword arguments.

    Returns:
        The first result that is not NotImplemented.

    Raises:
        TypeError: all of them return NotImplemented.
    """
    return _C._handle_torch_function(public_api, tuple(relevant_args), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[_Function], _Function]:
    """Decorates a function so that modes and its arguments may override it.

    Args:
        dispatcher: takes the arguments of the function and returns the relevant ones.

    >>> import rgrad as torch
    >>> @torch.overrides.wrap_torch_function(lambda a: (a,))
    ... def double(a):
    ...     return a + a
    >>> double(torch.ones(1))
    tensor([2.])
    """

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def overridable(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if _C._has_torch_function(relevant):
                return handle_torch_function(overridable, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return overridable

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a tensor, or acts as one by a `__torch_function__`."""
    return type(inp) is rgrad.Tensor or hasattr(inp, "__torch_function__")


# The overridable functions.

_NAMESPACES = ("torch", "torch.functional", "torch.nn.functional", "torch.linalg", "torch.special")


def _namespace(name: str) -> Any:
    found: Any = rgrad
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


def _accessors() -> Iterator[tuple[str, str, Any]]:
    """Yields the accessors of tensor properties: name, `__get__` or `__set__`, and the accessor."""
    for name in dir(rgrad.Tensor):
        descriptor = inspect.getattr_static(rgrad.Tensor, name)
        if hasattr(type(descriptor), "__set__") and not (name.startswith("__") and name.endswith("__")):
            for access in ("__get__", "__set__"):
                yield name, access, getattr(descriptor, access)


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def get_overridable_functions() -> dict[Any, list[_Function]]:
    """The functions that `__torch_function__` receives, by the module, class or property that owns them."""
    _subclass.ask_everywhere()
    found: dict[Any, list[_Function]] = {}
    ignored = get_ignored_functions()
    for name in _NAMESPACES:
        module = _namespace(name)
        functions = [getattr(module, n) for n in dir(module) if _is_public(n)]
        asks = [f for f in functions if _asks(f) and f not in ignored]
        found[module] = list(dict.fromkeys(asks))
    methods = [getattr(rgrad.Tensor, n) for n in dir(rgrad.Tensor)]
    found[rgrad.Tensor] = [f for f in methods if inspect.isroutine(f) and _is_of_tensor(f) and f not in ignored]
    for name, access, accessor in _accessors():
        if access == "__get__":
            found[inspect.getattr_static(rgrad.Tensor, name)] = [accessor]
    return found


@functools.cache
def _table() -> dict[str, list[str]]:
    """Signatures of the operations in the operation table, by name."""
    signatures: dict[str, list[str]] = {}
    for op in _C._op_table():
        for name in (op["name"], *op["aliases"]):
            signatures.setdefault(name, op["signatures"])
            if op["inplace"]:
                signatures.setdefault(name + "_", op["signatures"])
    return signatures


def _asks(function: Any) -> bool:
    """Whether a function of a namespace can be overridden by `__torch_function__`."""
    if inspect.isbuiltin(function):
        return function.__name__ in _table() or function in (_C.tensor, _C.as_tensor)
    return inspect.isfunction(function) and _subclass.asks(function)


def _is_of_tensor(function: Any) -> bool:
    name = getattr(function, "__name__", "")
    return name in _table() or name in _subclass._rest() or name in _subclass.OPERATORS


def get_ignored_functions() -> set[_Function]:
    """Public functions that `__torch_function__` does not receive."""
    names = [
        "are_deterministic_algorithms_enabled",
        "broadcast_shapes",
        "can_cast",
        "compiled_with_cxx11_abi",
        "from_dlpack",
        "from_numpy",
        "frombuffer",
        "get_autocast_dtype",
        "get_default_dtype",
        "get_num_threads",
        "get_printoptions",
        "get_rng_state",
        "initial_seed",
        "is_autocast_enabled",
        "is_grad_enabled",
        "is_inference_mode_enabled",
        "is_storage",
        "is_tensor",
        "load",
        "manual_seed",
        "promote_types",
        "save",
        "seed",
        "set_default_device",
        "set_default_dtype",
        "set_grad_enabled",
        "set_num_threads",
        "set_printoptions",
        "set_rng_state",
        "typename",
        "use_deterministic_algorithms",
    ]
    tensor = rgrad.Tensor
    methods = (
        tensor.as_subclass,
        tensor.__init__,
        tensor.__new__,
        tensor.__hash__,
        tensor._make_subclass,
    )
    return {getattr(rgrad, n) for n in names if hasattr(rgrad, n)} | {*methods}


def _dummy(signature: inspect.Signature) -> _Function:
    def call(*args: Any, **kwargs: Any) -> int:
        signature.bind(*args, **kwargs)
        return -1

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _signature(function: Any) -> inspect.Signature:
    """A function's signature: from the operation table if it is listed there, else from `inspect`."""
    parameter = inspect.Parameter
    signatures = _table().get(getattr(function, "__name__", ""), [])
    if inspect.isfunction(function) or not signatures:
        try:
            return inspect.signature(function)
        except ValueError:
            anything = [parameter("args", parameter.VAR_POSITIONAL), parameter("kwargs", parameter.VAR_KEYWORD)]
            return inspect.Signature(anything)
    kind, found = parameter.POSITIONAL_OR_KEYWORD, []
    for name, default in _subclass._parameters(signatures[0]):
        default = parameter.empty if default is _subclass._REQUIRED else default
        if default is parameter.empty and found and found[-1].default is not parameter.empty:
            kind = parameter.KEYWORD_ONLY
        # A parameter whose name is a Python keyword gets an underscore.
        found.append(parameter(name + "_" * iskeyword(name), kind, default=default))
    return inspect.Signature(found)


@functools.cache
def get_testing_overrides() -> dict[_Function, _Function]:
    """For each function that can be overridden, a function of the same signature that returns -1."""
    return {f: _dummy(_signature(f)) for functions in get_overridable_functions().values() for f in functions}


@functools.cache
def _names() -> dict[_Function, str]:
    names: dict[_Function, str] = {}
    for functions in get_overridable_functions().values():
        for function in functions:
            names.setdefault(function, "")
    for prefix in _NAMESPACES:
        module = _namespace(prefix)
        for n in dir(module):
            function = getattr(module, n)
            if _is_public(n) and callable(function) and _is_hashable(function):
                _note(names, function, prefix, n)
    for n in dir(rgrad.Tensor):
        function = getattr(rgrad.Tensor, n)
        if _is_hashable(function):
            _note(names, function, "torch.Tensor", n)
    for name, access, accessor in _accessors():
        names[accessor] = f"torch.Tensor.{name}.{access}"
    return names


def _note(names: dict[_Function, str], function: _Function, prefix: str, name: str) -> None:
    """Records the function's full name; if it has several, the one that equals its `__name__` takes precedence."""
    own = getattr(function, "__name__", "") == name and names.get(function, "").startswith(f"{prefix}.")
    if names.get(function) == "" or own:
        names[function] = f"{prefix}.{name}"


def _is_hashable(obj: Any) -> bool:
    try:
        hash(obj)
    except TypeError:
        return False
    return True


def resolve_name(f: _Function) -> str | None:
    """The name of a function that can be overridden, such as `torch.Tensor.add`; None for any other."""
    return _names().get(f)


def is_tensor_method_or_property(func: _Function) -> bool:
    """Whether a function passed to a handler is a method of Tensor or an accessor of one of its properties."""
    return func in _methods()


@functools.cache
def _methods() -> set[_Function]:
    methods = {f for f in get_overridable_functions()[rgrad.Tensor] if _is_hashable(f)}
    return methods | {accessor for _, _, accessor in _accessors()}


def get_default_nowrap_functions() -> set[_Function]:
    """Accessors whose results are not converted to a subclass by the default `__torch_function__` of Tensor."""
    return _subclass.nowrap_functions()
