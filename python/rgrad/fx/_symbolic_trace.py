"""Tracing: running a program on values that stand for tensors, and keeping what it does as a graph."""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import math
import operator
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import rgrad
from rgrad import _subclass
from rgrad._assertions import _assert
from rgrad.fx.graph import Graph
from rgrad.fx.graph_module import GraphModule
from rgrad.fx.node import Argument, map_aggregate
from rgrad.fx.proxy import Proxy, TracerBase
from rgrad.nn import Module, Parameter, Sequential

__all__ = ["PH", "ProxyableClassMeta", "Tracer", "is_fx_symbolic_tracing", "is_fx_tracing", "symbolic_trace", "wrap"]

# Functions that `wrap` marked: the globals of a module and a name in them.
_wrapped: dict[tuple[int, str], dict[str, Any]] = {}

# Tracing exchanges attributes of classes and modules, so one thread traces at a time.
_lock = threading.RLock()
_depth = 0


class _Placeholder:
    """`PH`: an argument that stays one, among those that are given."""

    def __repr__(self) -> str:
        return "PH"


PH = _Placeholder()


def is_fx_tracing() -> bool:
    """Whether a program is being traced."""
    return _depth > 0


is_fx_symbolic_tracing = is_fx_tracing


def wrap(fn_or_name: Any) -> Any:
    """Marks a function of a module: a traced program's call of it becomes one node, and is not looked into.

    Args:
        fn_or_name: the function, or the name under which the module has it, as "len". Written at module level.

    Returns:
        What it was given.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    if caller is None or caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name


def _find_proxy(*values: Any) -> Proxy | None:
    """A proxy among values."""
    found: list[Proxy] = []
    map_aggregate(values, lambda x: found.append(x) if isinstance(x, Proxy) else None)
    return found[0] if found else None


def _recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function; a call with a proxy becomes a node."""

    @functools.wraps(function)
    def record(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", function, args, kwargs)

    return record


class ProxyableClassMeta(type):
    """The type of classes whose instances a traced program may make of proxies: that becomes a node."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None or not is_fx_tracing():
            return super().__call__(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", cls, args, kwargs)


class _Patches:
    """Attributes and dictionary entries that are exchanged for a block."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        """Exchanges an attribute that the owner itself may have or not."""
        if name in vars(owner):
            before = vars(owner)[name]
            self._undo.append(lambda: setattr(owner, name, before))
        else:
            self._undo.append(lambda: delattr(owner, name))
        setattr(owner, name, value)

    def entry(self, names: dict[str, Any], name: str, value: Any) -> None:
        """Exchanges an entry of a dictionary that may have it or not."""
        if name in names:
            before = names[name]
            self._undo.append(lambda: names.__setitem__(name, before))
        else:
            self._undo.append(lambda: names.pop(name, None))
        names[name] = value

    def undo(self) -> None:
        """Puts everything back, the last first."""
        while self._undo:
            self._undo.pop()()


class Tracer(TracerBase):
    """Traces programs. A subclass may say which modules are called as they are (`is_leaf_module`).

    Args:
        autowrap_modules: modules whose functions become nodes where they are called with proxies.
        autowrap_functions: functions that do, under whatever name the traced code knows them.
        param_shapes_constant: accepted, without effect.
    """

    proxy_buffer_attributes = False

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_modules = autowrap_modules
        self._autowrap_functions = autowrap_functions
        self.param_shapes_constant = param_shapes_constant
        self.root: Any = None
        self.graph = Graph()
        self._paths: dict[int, str] = {}
        self._members: dict[int, str] = {}
        self._constants: dict[int, tuple[str, Any]] = {}
        self._looked_up: dict[str, Proxy] = {}

    # What a subclass may change.

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a call of a module becomes one node: by default those of `nn` do, but not Sequential.

        Args:
            m: the module.
            module_qualified_name: its path.
        """
        ours = type(m).__module__.startswith(("rgrad.nn", "torch.nn"))
        return ours and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The path of a module below the root.

        Raises:
            NameError: it is not below the root.
        """
        if id(mod) in self._paths:
            return self._paths[id(mod)]
        for name, module in self.root.named_modules(remove_duplicate=False):
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What a call of a module becomes: a node of a leaf, what its forward does of any other."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What the look-up of an attribute of a module gives: a node for a parameter, the value of anything else."""
        wanted = isinstance(attr_val, Parameter)
        if self.proxy_buffer_attributes and isinstance(attr_val, rgrad.Tensor):
            wanted = True
        path = self._members.get(id(attr_val)) if wanted else None
        if path is None:
            return attr_val
        if path not in parameter_proxy_cache:
            parameter_proxy_cache[path] = self.create_proxy("get_attr", path, (), {})
        return parameter_proxy_cache[path]

    # Arguments.

    def create_arg(self, a: Any) -> Argument:
        """An argument of a node: parameters, buffers and other tensors become look-ups."""
        if isinstance(a, rgrad.Tensor):
            return self.create_node("get_attr", self._path_of_tensor(a), (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super().create_arg(a)

    def _path_of_tensor(self, a: Any) -> str:
        """Where the root has a tensor; where it does not, it gets it as a constant."""
        if id(a) in self._members:
            return self._members[id(a)]
        for owner, module in self.root.named_modules():
            for name, value in vars(module).items():
                if value is a and name.isidentifier():
                    return f"{owner}.{name}" if owner else name
        if isinstance(a, Parameter):
            raise NameError("parameter is not a member of this module")
        if id(a) not in self._constants:
            number = 0
            while hasattr(self.root, f"_tensor_constant{number}"):
                number += 1
            self._constants[id(a)] = f"_tensor_constant{number}", a
            setattr(self.root, f"_tensor_constant{number}", a)
        return self._constants[id(a)][0]

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: dict[str, Any] | None = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The function and the arguments with which it is traced: a proxy for each of its parameters.

        Args:
            root_fn: the function, or the forward of a module's class.
            is_module: whether its first parameter is the module.
            concrete_args: values that some parameters have; the graph checks that they have them.
        """
        concrete = concrete_args or {}
        function = inspect.unwrap(root_fn)
        args: list[Any] = []
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())
        if is_module:
            args.append(self.root)
            parameters = parameters[1:]
        starred: list[inspect.Parameter] = []
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                starred.append(parameter)
            else:
                args.append(self._argument(parameter, concrete))
        if not starred and not any(p.kind is p.KEYWORD_ONLY for p in parameters):
            return root_fn, args
        for parameter in starred:
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            args.append(self.create_proxy("placeholder", stars + parameter.name, (), {}))
        return _positional(function), args

    def _argument(self, parameter: inspect.Parameter, concrete: dict[str, Any]) -> Any:
        name = parameter.name
        default = () if parameter.default is parameter.empty else (parameter.default,)
        if name in concrete and concrete[name] is not PH:
            value = concrete[name]
            stand_in = self.create_proxy("placeholder", f"{name}_1", default, {})
            said = f"{name} was traced as {value!r} and has another value now"
            if value is None:
                self.create_proxy("call_function", _assert_is_none, (stand_in, said), {})
            elif isinstance(value, (bool, int, float, str)):
                same = self.create_proxy("call_function", operator.eq, (stand_in, value), {})
                self.create_proxy("call_function", _assert, (same, said), {})
            return value
        return self.create_proxy("placeholder", name, default, {})

    # The trace.

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        """Runs a module or a function on proxies.

        Args:
            root: what is traced.
            concrete_args: values that some of its parameters have.

        Returns:
            The graph of what it did.
        """
        is_module = isinstance(root, Module)
        self.root = root if is_module else Module()
        function = getattr(type(root), getattr(self, "traced_func_name", "forward")) if is_module else root
        self.graph = Graph(tracer_cls=type(self) if type(self) is not Tracer else None)
        modules = list(self.root.named_modules(remove_duplicate=False))
        self._paths = {id(m): name for name, m in reversed(modules)}
        members = list(self.root.named_parameters(remove_duplicate=False))
        members += self.root.named_buffers(remove_duplicate=False)
        self._members = {id(t): name for name, t in reversed(members)}
        self._constants, self._looked_up = {}, {}
        # Functions of `nn.functional` ask handlers from here on; see Note [Functions that can be overridden].
        _subclass.ask_everywhere()
        with _lock:
            call, args = self.create_args_for_root(function, is_module, concrete_args)
            with self._patched(function):
                result = call(*args)
        self.create_node("output", "output", (self.create_arg(result),), {})
        return self.graph

    @contextlib.contextmanager
    def _patched(self, function: Any) -> Iterator[None]:
        """A block in which modules, their parameters and marked functions are seen."""
        global _depth
        patches = _Patches()
        original_call, original_look_up = Module.__call__, Module.__getattribute__
        looking = False

        def call(module: Module, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return original_call(module, *args, **kwargs)

            if _find_proxy(args, kwargs) is None and id(module) not in self._paths:
                return forward(*args, **kwargs)
            _wrap_globals(patches, getattr(type(module).forward, "__globals__", {}), self._autowrap_functions)
            return self.call_module(module, forward, args, kwargs)

        def look_up(module: Module, name: str) -> Any:
            nonlocal looking
            value = original_look_up(module, name)
            if looking or not isinstance(value, rgrad.Tensor):
                return value
            # What is made of the parameter looks attributes up itself.
            looking = True
            try:
                return self.getattr(name, value, self._looked_up)
            finally:
                looking = False

        try:
            _depth += 1
            patches.attribute(Module, "__call__", call)
            patches.attribute(Module, "__getattribute__", look_up)
            for module in self._autowrap_modules:
                for name, value in list(vars(module).items()):
                    if not name.startswith("_") and callable(value) and not isinstance(value, type):
                        patches.entry(vars(module), name, _recording(value))
            for (_, name), names in list(_wrapped.items()):
                value = names.get(name, getattr(builtins, name, None))
                if value is not None:
                    patches.entry(names, name, _recording(value))
            _wrap_globals(patches, getattr(inspect.unwrap(function), "__globals__", {}), self._autowrap_functions)
            yield
        finally:
            patches.undo()
            _depth -= 1


def _wrap_globals(patches: _Patches, names: dict[str, Any], functions: tuple[Callable[..., Any], ...]) -> None:
    """Exchanges some functions where globals have them."""
    for name, value in list(names.items()):
        if functions and not name.startswith("_") and any(value is function for function in functions):
            patches.entry(names, name, _recording(value))


def _positional(function: Any) -> Any:
    """A function that takes all its parameters by position, and those with stars as one value each."""
    code: CodeType = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    stars = inspect.CO_VARARGS, inspect.CO_VARKEYWORDS
    count += sum(bool(code.co_flags & star) for star in stars)
    changed = code.replace(
        co_flags=code.co_flags & ~(stars[0] | stars[1]),
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
    )
    made = FunctionType(changed, function.__globals__, function.__name__, None, function.__closure__)
    return made


def _assert_is_none(value: Any, msg: str) -> None:
    """Raises AssertionError unless a value is None."""
    assert value is None, msg


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """Traces a module or a function, and makes a module of the graph.

    Args:
        root: what is traced. It may not branch on values of tensors.
        concrete_args: values that some of its parameters have.

    Returns:
        A module that does the same.

    Example:
        >>> import rgrad as torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        >>> traced = torch.fx.symbolic_trace(net)
        >>> [node.op for node in traced.graph.nodes]
        ['placeholder', 'call_module', 'call_module', 'output']
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "GraphModule")
    return GraphModule(tracer.root, graph, name)


