"""User-defined operations, with names `namespace::name`, and how they are called.

Note [How a custom operation is called]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A call goes through these steps, each of which may complete it:

1. The arguments are bound to the schema.
2. If a mode is active or an argument has a `__torch_function__`, the call is passed to it.
3. If a function is registered for the dispatch key Autograd, it is called; it calls the operation again, which then
   skips this step. Before that, a call with batched tensors is made by the rule for `vmap`, or for each slice.
4. If there is a composite implementation, it is called; the operations that it calls are recorded individually.
5. If gradients must be recorded, the operation becomes one node, whose backward is the registered formula. Tensors in
   lists must be inputs of the node as well, so the arguments are flattened before its `forward` and restored in it.
   An operation of a `Library` without a formula is not a node: the calls in its implementation are recorded.
6. Otherwise the implementation for the device is called, without recording, unless a mode or the class of an argument
   has a `__torch_dispatch__`, which then computes the result.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rgrad import _C
from rgrad._C import Tensor
from rgrad._library.interposed import by_handlers, by_vmap, is_batched
from rgrad._library.schema import Schema
from rgrad._ops import OpOverload as _OpOverload
from rgrad._ops import OpOverloadPacket as _OpOverloadPacket
from rgrad.autograd import Function
from rgrad.autograd.grad_mode import no_grad
from rgrad.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

_KINDS = {"cpu": "cpu", "cuda": "gpu", "gpu": "gpu", "mps": "gpu", "xpu": "xpu", "meta": "meta"}

operations: dict[str, Operation] = {}
_below = threading.local()


def device_kind(name: str) -> str:
    """The canonical name of a kind of device."""
    kind = _KINDS.get(name.lower())
    if kind is None:
        raise ValueError(f"unknown device type {name!r}")
    return kind


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


@contextmanager
def _below_autograd(name: str) -> Iterator[None]:
    """Within the block, calls of an operation skip its function for autograd."""
    names = _below.__dict__.setdefault("names", [])
    names.append(name)
    try:
        yield
    finally:
        names.pop()


class Operation:
    """An operation and its registrations.

    Args:
        schema: its schema, including its name.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.kernels: dict[str | None, Callable[..., Any]] = {}
        self.composite: Callable[..., Any] | None = None
        self.autograd: Callable[..., Any] | None = None
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.disabled: set[str | None] = set()
        self.vmap: Callable[..., Any] | None = None
        # By class of tensors or of modes, what computes the operation in place of their `__torch_dispatch__`.
        self.dispatch_rules: dict[Any, Callable[..., Any]] = {}
        # Whether results must not be arguments; operations of `custom_op` guarantee this.
        self.checks_aliases = False
        self._node: Any = None

    @property
    def name(self) -> str:
        """The name as `namespace::name`."""
        return self.schema.name

    @property
    def dotted(self) -> str:
        """The name as `namespace.name`, used in errors."""
        return self.name.replace("::", ".")

    def kernel_for(self, values: Any) -> Callable[..., Any]:
        """The implementation for the device of the arguments."""
        kinds = [device_kind(t.device.type) for t in _tensors(values)]
        kind = next((k for k in kinds if k != "cpu"), kinds[0] if kinds else None)
        for key in (kind, None):
            if key in self.kernels and key not in self.disabled:
                return self.kernels[key]
        if kind == "meta" and self.fake is not None:
            return self.fake
        if kind is None and len(self.kernels) == 1:
            return next(iter(self.kernels.values()))
        have = ", ".join(sorted(str(k) for k in self.kernels)) or "no device"
        raise NotImplementedError(
            f"Could not run '{self.name}' with arguments from the '{(kind or 'cpu').upper()}' backend: it has an "
            f"implementation for {have}"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the operation: see Note [How a custom operation is called]."""
        positional, by_name = self.schema.bind(args, kwargs)
        tensors = _tensors((positional, by_name))
        if _C._has_torch_function(tensors):
            return _C._handle_torch_function(overload(self), tuple(tensors), tuple(args), kwargs)
        if is_batched((positional, by_name)):
            return by_vmap(self, self, positional, by_name)
        if self.autograd is not None and self.name not in getattr(_below, "names", ()):
            with _below_autograd(self.name):
                return self.autograd(*positional, **by_name)
        if self.composite is not None and not self.kernels:
            return self.composite(*positional, **by_name)
        if _C.is_grad_enabled() and any(t.requires_grad for t in tensors):
            if self.backward is None and not self.checks_aliases:
                made = by_handlers(self, overload(self), positional, by_name)
                if made is not NotImplemented:
                    return made
                return self.kernel_for((positional, by_name))(*positional, **by_name)
            return self._record(positional, by_name)
        return self.compute(positional, by_name)

    def compute(self, positional: list[Any], by_name: dict[str, Any]) -> Any:
        """Computes the results, without recording."""
        given = {id(t) for t in _tensors((positional, by_name))}
        with no_grad():
            result = by_handlers(self, overload(self), positional, by_name)
            if result is not NotImplemented:
                return result
            result = self.kernel_for((positional, by_name))(*positional, **by_name)
        if self.checks_aliases and any(id(t) in given for t in _tensors(result)):
            raise RuntimeError(
                f"{self.dotted}: The output of this custom operator must not also be an input to it; return a clone"
            )
        return result

    def _record(self, positional: list[Any], by_name: dict[str, Any]) -> Any:
        """Computes the results as one node of the graph."""
        if self._node is None:
            self._node = _node_of(self)
        leaves, spec = tree_flatten(positional)
        # The description of the call is the last argument, so that `needs_input_grad` begins with the tensors.
        call = _Call(spec, len(leaves), by_name)
        result = self._node.apply(*leaves, call)
        return list(result) if call.makes_list else result


class _Call:
    """The description of a call that a node needs besides the tensors."""

    def __init__(self, spec: Any, count: int, by_name: dict[str, Any]) -> None:
        self.spec, self.count, self.by_name = spec, count, by_name
        self.makes_list = False


class _Context:
    """The context of a node; its `needs_input_grad` has the nesting of the arguments."""

    def __init__(self, inner: Any, call: _Call) -> None:
        self.__dict__["_inner"] = inner
        self.__dict__["_call"] = call

    @property
    def needs_input_grad(self) -> Any:
        needs = tree_unflatten(self._inner.needs_input_grad[: self._call.count], self._call.spec)
        return tuple(needs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)


def _node_of(operation: Operation) -> Any:
    """Creates the class of the nodes of an operation."""

    def forward(ctx: Any, *leaves: Any) -> Any:
        *values, call = leaves
        ctx.call_of_operation = call
        positional = tree_unflatten(values, call.spec)
        result = operation.compute(positional, call.by_name)
        written = [a.name for a in operation.schema.arguments if a.mutated]
        if written:
            names = [a.name for a in operation.schema.arguments if not a.keyword_only]
            given = {**dict(zip(names, positional, strict=True)), **call.by_name}
            ctx.mark_dirty(*_tensors([given[name] for name in written]))
        if operation.setup_context is not None:
            inputs = tuple(positional)
            more = {"keyword_only_inputs": call.by_name} if call.by_name else {}
            operation.setup_context(_Context(ctx, call), inputs, output=result, **more)
        call.makes_list = isinstance(result, list)
        return tuple(result) if call.makes_list else result

    def backward(ctx: Any, *grads: Any) -> Any:
        call = ctx.call_of_operation
        if operation.backward is None:
            raise RuntimeError(
                f"Trying to backward through {operation.dotted}.default but no autograd formula was registered. "
                "Please use register_autograd to add one."
            )
        given = (list(grads),) if call.makes_list else grads
        found = operation.backward(_Context(ctx, call), *given)
        found = list(found) if isinstance(found, tuple) else [found]
        return (*_flattened(operation, call.spec, found), None)

    members: dict[str, Any] = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    members["__module__"] = __name__
    name = f"GeneratedBackwardFor_{operation.dotted.replace('.', '_')}_default"
    return types.new_class(name, (Function,), exec_body=lambda namespace: namespace.update(members))


def _flattened(operation: Operation, spec: Any, found: list[Any]) -> list[Any]:
    """Gradients in the order of the flattened arguments; None is expanded for a list of tensors."""
    if len(found) != spec.num_children:
        raise RuntimeError(
            f"the backward of {operation.dotted} returned {len(found)} gradients for {spec.num_children} arguments"
        )
    flat: list[Any] = []
    for gradient, child in zip(found, spec.children(), strict=True):
        if child.is_leaf():
            flat.append(gradient)
        elif gradient is None:
            flat.extend([None] * child.num_leaves)
        else:
            if len(gradient) != child.num_leaves:
                raise RuntimeError(
                    f"the backward of {operation.dotted} returned {len(gradient)} gradients for a list of "
                    f"{child.num_leaves} tensors"
                )
            flat.extend(gradient)
    return flat


class OpOverload(_OpOverload):
    """The object that handlers receive for an operation: `torch.ops.namespace.name.default`."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self._schema = operation.schema
        self.namespace = operation.name.split("::")[0]
        self.__name__ = f"{operation.name.split('::')[1]}.default"
        self.__qualname__ = self.__name__
        self.__module__ = f"torch._ops.{self.namespace}"

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """The packet of all overloads; it has only this one."""
        return packet(self._operation)

    def name(self) -> str:
        """The name as `namespace::name`."""
        return self._operation.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._operation(*args, **kwargs)

    def __str__(self) -> str:
        return f"{self._operation.dotted}.default"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._operation.dotted}', overload='default')>"


class OpOverloadPacket(_OpOverloadPacket):
    """The set of overloads of an operation: `torch.ops.namespace.name`."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self._qualified_op_name = operation.name
        self.default = OpOverload(operation)
        self.__name__ = self.__qualname__ = operation.name.split("::")[1]
        self.__module__ = f"torch.ops.{operation.name.split('::')[0]}"

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        return ["default"]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._operation(*args, **kwargs)

    def __str__(self) -> str:
        return self._operation.dotted

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._operation.dotted}')>"


_packets: dict[str, OpOverloadPacket] = {}


def packet(operation: Operation) -> OpOverloadPacket:
    """The object for an operation in `torch.ops`."""
    found = _packets.get(operation.name)
    if found is None or found._operation is not operation:
        found = _packets[operation.name] = OpOverloadPacket(operation)
    return found


def overload(operation: Operation) -> OpOverload:
    """The only overload of an operation."""
    return packet(operation).default


def find(op: Any) -> Operation:
    """The operation given by a name, a definition or an object of `torch.ops`."""
    if isinstance(op, Operation):
        return op
    if isinstance(op, str):
        name = op.removesuffix(".default")
        if name not in operations:
            raise RuntimeError(f"Could not find the operator {op}: define it with torch.library.custom_op or define")
        return operations[name]
    inner = getattr(op, "_operation", None)
    if not isinstance(inner, Operation):
        raise ValueError(f"expected an operator or its name, but got {type(op).__name__}")
    return inner


def add(schema: Schema) -> Operation:
    """Creates an operation; raises if the name exists or is invalid."""
    if schema.name.count("::") != 1 or not all(part.isidentifier() for part in schema.name.split("::")):
        raise ValueError(f"expected a name like 'namespace::name' but got {schema.name!r}")
    if schema.name in operations:
        raise RuntimeError(f"the operator {schema.name} was defined before")
    operation = operations[schema.name] = Operation(schema)
    return operation


def remove(names: Iterable[str]) -> None:
    """Deletes operations."""
    for name in names:
        operations.pop(name, None)
        _packets.pop(name, None)
