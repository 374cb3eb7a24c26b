"""Definition of operations: `custom_op`, `Library`, and registrations."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rgrad._absent import refuse
from rgrad._library import operation as _operation
from rgrad._library import schema as _schema
from rgrad._library.operation import Operation, OpOverload

_Function = Callable[..., Any]
_COMPOSITE = ("CompositeImplicitAutograd", "")
_EVERY_DEVICE = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "default")


def _kinds(device_types: Any) -> list[str | None]:
    if device_types is None or device_types == "default":
        return [None]
    names = [device_types] if isinstance(device_types, str) else list(device_types)
    return [_operation.device_kind(name) for name in names]


class CustomOpDef:
    """An operation defined by :func:`custom_op`; calling it calls the operation.

    Args:
        operation: the operation.
        function: its implementation for every device.
    """

    def __init__(self, operation: Operation, function: _Function) -> None:
        self._operation = operation
        self._init_fn = function
        self._qualname = operation.name
        self._namespace, self._name = operation.name.split("::")
        self.__name__ = getattr(function, "__name__", self._name)
        self.__doc__ = function.__doc__

    @property
    def _opoverload(self) -> OpOverload:
        return _operation.overload(self._operation)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._operation(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def register_kernel(self, device_types: Any, fn: _Function | None = None, /) -> _Function:
        """Registers an implementation for some devices.

        Args:
            device_types: "cpu", "cuda" (a GPU of any vendor), a list of these, or None for every device.
            fn: the implementation, with the operation's parameters and results; if absent, a decorator is returned.
        """
        return register_kernel(self, device_types, fn)

    def register_fake(self, fn: _Function, /) -> _Function:
        """Registers a function that creates results of the right shapes and dtypes, without values."""
        return register_fake(self, fn)

    def register_autograd(self, backward: _Function, /, *, setup_context: _Function | None = None) -> None:
        """Registers the gradient formula; see :func:`rgrad.library.register_autograd`."""
        register_autograd(self, backward, setup_context=setup_context)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Within the block, enables or disables the implementation for a device; if disabled, the generic one is
        used.

        Args:
            device_type: "cpu", "cuda".
            enabled: whether it is enabled.
        """
        kind = _operation.device_kind(device_type)
        disabled = self._operation.disabled
        before = kind in disabled
        (disabled.discard if enabled else disabled.add)(kind)
        try:
            yield
        finally:
            (disabled.add if before else disabled.discard)(kind)

    def register_vmap(self, func: _Function | None = None) -> Any:
        """Registers a rule for `vmap`; see :func:`rgrad.library.register_vmap`."""
        return register_vmap(self, func)

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: _Function | None = None, /) -> Any:
        """Registers a rule for a class; see :func:`rgrad.library.register_torch_dispatch`."""
        return register_torch_dispatch(self, torch_dispatch_class, fn)


def custom_op(
    name: str,
    fn: _Function | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Defines an operation by a function; autograd and `__torch_function__` handlers treat a call as one operation.

    Args:
        name: `namespace::name`.
        fn: computes the results, which are new tensors; its parameters are annotated. By default, returns a decorator.
        mutates_args: the names of the tensors that it writes to, or "unknown".
        device_types: the supported devices, such as "cpu" or "cuda"; all if None.
        schema: replaces the annotations: `(Tensor x, int n=2) -> Tensor`.
        tags: accepted, without effect.

    Example:
        >>> import rgrad as torch
        >>> @torch.library.custom_op("example::square", mutates_args=())
        ... def square(x: torch.Tensor) -> torch.Tensor:
        ...     return x * x
        >>> def backward(ctx, grad):
        ...     (x,) = ctx.saved_tensors
        ...     return 2 * x * grad
        >>> square.register_autograd(
        ...     backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
        ... )
        >>> x = torch.tensor([1.0, 3.0], requires_grad=True)
        >>> torch.ops.example.square(x).sum().backward()
        >>> x.grad
        tensor([2., 6.])
    """

    def define(function: _Function) -> CustomOpDef:
        text = schema if schema is not None else _schema.infer(function, mutates_args=mutates_args)
        parsed = _schema.parse(text, name)
        _check_mutated(parsed, mutates_args)
        _operation.remove([name])  # A notebook cell may be executed again.
        operation = _operation.add(parsed)
        operation.checks_aliases = True
        for kind in _kinds(device_types):
            operation.kernels[kind] = function
        return CustomOpDef(operation, function)

    return define if fn is None else define(fn)


def _check_mutated(parsed: _schema.Schema, mutates_args: Any) -> None:
    if mutates_args == "unknown":
        return
    named = {mutates_args} if isinstance(mutates_args, str) else set(mutates_args)
    written = {a.name for a in parsed.arguments if a.mutated}
    if named != written:
        raise ValueError(f"{parsed} writes to {sorted(written)}, but mutates_args is {sorted(named)}")


class Library:
    """Defines operations in a namespace, or implementations of another library's, until the object is deleted.

    Args:
        ns: the namespace.
        kind: "DEF" for a new one, "IMPL" to add implementations, "FRAGMENT" to add operations.
        dispatch_key: default of the argument of `impl`.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns == "prim":
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if kind == "DEF" and (ns in _spaces or ns == "aten"):
            raise RuntimeError(f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defined: list[str] = []
        # Of `impl`, as "namespace/name/key".
        self._op_impls: set[str] = set()
        self._overrides: list[tuple[str, str]] = []
        if kind == "DEF":
            _spaces.add(ns)
        self._finalizer = weakref.finalize(
            self, _forget, ns, kind, self._defined, self._op_impls, self._overrides, _impls
        )

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Adds an operation.

        Args:
            schema: `name(Tensor x, int n=2) -> Tensor`.
            alias_analysis: accepted, without effect, as is `tags`.
            tags: see `alias_analysis`.

        Returns:
            Its name.
        """
        if self.kind == "IMPL":
            raise RuntimeError("a library of kind IMPL adds implementations; DEF and FRAGMENT define operations")
        name = schema.split("(")[0].strip()
        operation = _operation.add(_schema.parse(schema, f"{self.ns}::{name}"))
        self._defined.append(operation.name)
        return name

    def impl(
        self, op_name: Any, fn: _Function, dispatch_key: str = "", *, with_keyset: bool = False, **options: Any
    ) -> None:
        """Adds an implementation.

        Args:
            op_name: the name of an operation, or an object of `torch.ops`.
            fn: the implementation, with the operation's parameters and results.
            dispatch_key: "CPU", "CUDA" for a device; "CompositeExplicitAutograd" for all; "Autograd" for a function
                that creates nodes itself; "CompositeImplicitAutograd" for one whose calls are recorded; "Meta" for one
                that creates results without values.
            with_keyset: must be False: rgrad has no dispatch key sets.
            options: accepted, without effect.
        """
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if with_keyset:
            refuse("Library.impl(with_keyset=True)", "there is no dispatcher with keys")
        key = dispatch_key or self.dispatch_key
        if self.dispatch_key not in ("", key):
            raise RuntimeError(
                f"{op_name}: the dispatch key {key} is inconsistent with the dispatch key of the library, "
                f"{self.dispatch_key}"
            )
        name = op_name if isinstance(op_name, str) else op_name.name()
        name = name if "::" in name else f"{self.ns}::{name}"
        if name.partition("::")[0] != self.ns:
            raise RuntimeError(f"{name}: operator name does not match namespace {self.ns} of the library")
        registered = f"{self.ns}/{name.partition('::')[2].removesuffix('.default')}/{key}"
        if registered in _impls:
            raise RuntimeError(f"{name}: there is already a kernel registered from python for the dispatch key {key}")
        self._implement(name, key, fn)
        _impls.add(registered)
        self._op_impls.add(registered)

    def _implement(self, name: str, key: str, fn: _Function) -> None:
        if self.ns == "aten":
            from rgrad._library.overrides import override

            self._overrides.append(override(name.partition("::")[2], key, fn))
            return
        operation = _operation.find(name)
        if key in _COMPOSITE:
            operation.composite = fn
        elif key in _EVERY_DEVICE:
            operation.kernels[None] = fn
        elif key == "Meta":
            operation.fake = fn
        elif key.startswith("Autograd"):
            operation.autograd = fn
        elif fn is not fallthrough_kernel:  # which leaves a device without an implementation
            operation.kernels[_operation.device_kind(key)] = fn

    def fallback(self, fn: _Function, dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Raises: operations without an implementation are an error."""
        refuse("Library.fallback", "there is no dispatcher with keys")

    def _destroy(self) -> None:
        """Deletes the operations that the library defined."""
        self._finalizer()


# Namespaces that are owned by a library of kind "DEF".
_spaces: set[str] = set()
# What libraries implement, as "namespace/name/key".
_impls: set[str] = set()


def _forget(
    ns: str, kind: str, defined: list[str], implemented: set[str], overrides: list[Any], impls: set[str]
) -> None:
    impls -= implemented
    if overrides:
        from rgrad._library.overrides import restore

        for of in overrides:
            restore(of)
        overrides.clear()
    _operation.remove(defined)
    if kind == "DEF":
        _spaces.discard(ns)


# Libraries of operations that were defined without a library; they are never deleted.
_kept: list[Library] = []


def define(
    qualname: str | Library, schema: str, *, lib: Library | None = None, tags: Any = (), alias_analysis: str = ""
) -> Any:
    """Defines an operation.

    Args:
        qualname: `namespace::name`; or a library, for a decorator of the implementation for all devices.
        schema: `(Tensor x, int n=2) -> Tensor`; after the name, if a library is given.
        lib: the library that owns it; without one it is never deleted.
        tags: accepted, without effect.
        alias_analysis: accepted, without effect.
    """
    if isinstance(qualname, Library):
        owner, added = qualname, qualname.define(schema, alias_analysis, tags=tags)

        def register(function: _Function) -> _Function:
            owner.impl(added, function, "CompositeExplicitAutograd")
            return function

        return register
    namespace, _, name = qualname.partition("::")
    if not name:
        raise ValueError(f"expected a name like 'namespace::name' but got {qualname!r}")
    if lib is None:
        lib = Library(namespace, "FRAGMENT")
        _kept.append(lib)
    lib.define(name + schema.strip(), tags=tags)


def impl(qualname: str | Library, types: Any, func: Any = None, *, lib: Library | None = None) -> Any:
    """Adds an implementation of an operation.

    Args:
        qualname: `namespace::name`; or a library, with the name and a dispatch key of `Library.impl` after it, for a
            decorator of the implementation.
        types: "cpu", "cuda", several of these, a dispatch key as for `Library.impl`, or "default" for an implementation
            whose calls are recorded for gradients.
        func: the implementation, with the operation's parameters and results; if absent, a decorator is returned.
        lib: ignored.
    """

    if isinstance(qualname, Library):
        owner, name, dispatch_key = qualname, types, func or ""

        def add(function: _Function) -> _Function:
            owner.impl(name, function, dispatch_key)
            return function

        return add

    def register(function: _Function) -> _Function:
        target = Library(qualname.partition("::")[0], "IMPL")
        for key in [types] if isinstance(types, str) else types:
            target.impl(qualname, function, "CompositeImplicitAutograd" if key == "default" else key)
        return function

    return register if func is None else register(func)


def register_kernel(op: Any, device_types: Any, func: _Function | None = None, /, *, lib: Any = None) -> Any:
    """Registers an implementation of an operation for some devices.

    Args:
        op: its name or definition.
        device_types: "cpu", "cuda" (a GPU of any vendor), a list of these, or None for every device.
        func: the implementation, with the operation's parameters and results; if absent, a decorator is returned.
        lib: ignored.
    """
    operation = _operation.find(op)

    def register(function: _Function) -> _Function:
        for kind in _kinds(device_types):
            operation.kernels[kind] = function
        return function

    return register if func is None else register(func)


def register_fake(
    op: Any, func: _Function | None = None, /, *, lib: Any = None, _stacklevel: int = 1, **options: Any
) -> Any:
    """Registers a function that creates results of the right shapes and dtypes, without values.

    Args:
        op: its name or definition.
        func: has the operation's parameters; if absent, a decorator is returned.
        lib: ignored.
        options: accepted, without effect.
    """
    operation = _operation.find(op)

    def register(function: _Function) -> _Function:
        operation.fake = function
        return function

    return register if func is None else register(func)


impl_abstract = register_fake


def register_autograd(
    op: Any, backward: _Function, /, *, setup_context: _Function | None = None, lib: Any = None
) -> None:
    """Registers the gradient formula of an operation.

    Args:
        op: its name or definition.
        backward: called with a context and the gradients of the results; returns a gradient for each positional
            argument, None for no gradient, a list for a list of tensors.
        setup_context: called as `setup_context(ctx, inputs, output)` after the operation, with
            `keyword_only_inputs` too if there are any; saves the values that `backward` needs.
        lib: ignored.
    """
    operation = _operation.find(op)
    if operation.schema.is_mutable and operation.schema.returns:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {operation.dotted}.default with schema "
            f"{operation.schema}. Please create a functional operator and register an autograd formula for that."
        )
    operation.backward, operation.setup_context = backward, setup_context


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Casts floating-point arguments of an operation under autocast.

    Args:
        op: its name or definition.
        device_type: "cpu" or "cuda".
        cast_inputs: the dtype of the arguments after the cast.
        lib: ignored.
    """
    from rgrad import Tensor, amp, is_autocast_enabled

    operation = _operation.find(op)
    kind = _operation.device_kind(device_type)
    inner = operation.autograd

    def cast(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(cast, value))
        chosen = isinstance(value, Tensor) and _operation.device_kind(value.device.type) == kind
        return value.to(cast_inputs) if chosen and value.is_floating_point() else value

    def call(*args: Any, **kwargs: Any) -> Any:
        target = inner or operation
        if not is_autocast_enabled(device_type):
            return target(*args, **kwargs)
        with amp.autocast(device_type, enabled=False):
            return target(*map(cast, args), **{name: cast(value) for name, value in kwargs.items()})

    operation.autograd = call


def register_torch_dispatch(op: Any, torch_dispatch_class: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Registers what computes an operation for a class of tensors or modes, in place of its `__torch_dispatch__`.

    Args:
        op: its name or definition.
        torch_dispatch_class: the class of the tensors or modes.
        func: called as `func(cls, func, types, args, kwargs)` for a class of tensors, with the mode in place of `cls`
            for modes; if absent, a decorator is returned.
        lib: ignored.
    """
    operation = _operation.find(op)

    def register(function: _Function) -> _Function:
        operation.dispatch_rules[torch_dispatch_class] = function
        return function

    return register if func is None else register(func)


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Registers how `vmap` calls an operation, which otherwise is called for each slice.

    Args:
        op: its name or definition.
        func: called as `func(info, in_dims, *args, **kwargs)` with whole arguments; returns the results and their
            mapped dimensions, as the `vmap` of a custom function does. If absent, a decorator is returned.
        lib: ignored.

    Example:
        >>> import rgrad as torch
        >>> @torch.library.custom_op("example::cube", mutates_args=())
        ... def cube(x: torch.Tensor) -> torch.Tensor:
        ...     return x**3
        >>> @torch.library.register_vmap("example::cube")
        ... def of_slices(info, in_dims, x):
        ...     return cube(x), in_dims[0]
        >>> torch.vmap(cube)(torch.tensor([1.0, 2.0]))
        tensor([1., 8.])
    """
    operation = _operation.find(op)

    def register(function: _Function) -> _Function:
        operation.vmap = function
        return function

    return register if func is None else register(func)


def get_ctx() -> Any:
    """Raises: the context is for results whose shape depends on values, which cannot be created without values."""
    refuse("torch.library.get_ctx", "shapes are never symbols")


def fallthrough_kernel(*args: Any, **kwargs: Any) -> Any:
    """For `Library.impl`: autocast leaves the operation as it is, or a device stays without an implementation.

    Raises when called: there is no other implementation to fall through to.
    """
    refuse("torch.library.fallthrough_kernel", "there is no dispatcher with keys")
