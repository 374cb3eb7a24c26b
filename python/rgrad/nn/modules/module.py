"""``Module``, the base class of all network modules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, cast

import rgrad
from rgrad import _C
from rgrad import __future__ as conversion

from ..parameter import Buffer, Parameter
from . import _hooks
from ._global_hooks import (
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from ._hooks import HookMixin
from ._registry import REGISTRIES, Registry, install_registry, read_member
from ._state import EXTRA_STATE_KEY as _EXTRA_STATE_KEY_SUFFIX  # noqa: F401 - packages look it up here
from ._state import StateMixin
from ._trace import note_module

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

# Note [Global hooks]
#
# The hooks of every module. They run before a module's own. PyTorch keeps them in these variables, and programs that
# want to be rid of all such hooks put empty dictionaries there. So nothing else keeps a reference to the dictionaries:
# they are read from this file at every use.
_global_forward_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_forward_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_backward_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_backward_hooks: OrderedDict[int, Callable] = OrderedDict()
# Which form the hooks of `_global_backward_hooks` have: full, or the older one, on the last node of each module.
_global_is_full_backward_hook: bool | None = None
# Hooks on the registration of members.
_global_parameter_registration_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_buffer_registration_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_module_registration_hooks: OrderedDict[int, Callable] = OrderedDict()

_HOOK_DICTIONARIES = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_node_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)

# The hook dictionaries whose hooks run during a call of a module.
_CALL_HOOKS = ("_backward_pre_hooks", "_backward_hooks", "_node_hooks", "_forward_hooks", "_forward_pre_hooks")


class Module(HookMixin, StateMixin):
    """Base class of all network modules.

    Assign parameters, buffers and other modules as attributes in ``__init__`` and define ``forward``.

    Attributes:
        training: whether the module is in training mode; see :meth:`train` and :meth:`eval`.

    Example:
        >>> class Net(rgrad.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.hidden = rgrad.nn.Linear(4, 8)
        ...         self.out = rgrad.nn.Linear(8, 2)
        ...     def forward(self, x):
        ...         return self.out(rgrad.relu(self.hidden(x)))
        >>> Net()(rgrad.zeros(3, 4)).shape
        torch.Size([3, 2])
    """

    dump_patches: bool = False
    call_super_init: bool = False
    training: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            name = type(self).__name__
            if kwargs:
                raise TypeError(f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
            if args:
                raise TypeError(f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given")
        attributes = self.__dict__
        attributes["training"] = True
        for registry in REGISTRIES:
            install_registry(self, registry, {})
        attributes["_non_persistent_buffers_set"] = set()
        for hooks in _HOOK_DICTIONARIES:
            attributes[hooks] = OrderedDict()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the module's output; every subclass defines it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if self._has_hooks:
                return self._call_with_hooks(args, kwargs)
            return self.forward(*args, **kwargs)
        except Exception as error:
            note_module(error, self)
            raise

    # Members. See Note [Registries and the instance dictionary].

    __getattr__ = read_member

    def __setattr__(self, name: str, value: Any) -> None:
        attributes = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in attributes:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, except_from="_parameters")
            self.register_parameter(name, value)
            return
        if name in attributes.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, None)
            return
        modules = attributes.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, except_from="_modules")
            modules[name] = _hooks.registered(_global_module_registration_hooks, self, name, value)
        elif modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            modules[name] = None
        elif isinstance(value, _C.Tensor) and isinstance(value, Buffer):
            self._assign_buffer(name, value)
        elif name in attributes.get("_buffers", ()):
            if value is not None and not isinstance(value, _C.Tensor):
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as buffer '{name}' "
                    "(torch.nn.Buffer, torch.Tensor or None expected)"
                )
            attributes["_buffers"][name] = value
        elif name in REGISTRIES:
            install_registry(self, name, cast(Mapping[str, Any], value))
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        for registry in REGISTRIES:
            if name in self.__dict__.get(registry, ()):
                del self.__dict__[registry][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def _assign_buffer(self, name: str, value: Buffer) -> None:
        """Registers a buffer by the class's own `register_buffer`, which may be one without `persistent`."""
        import inspect

        own = type(self).register_buffer
        if own is Module.register_buffer or "persistent" in inspect.signature(own).parameters:
            self.register_buffer(name, value, value.persistent)
        elif value.persistent:
            self.register_buffer(name, value)
        else:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements register_buffer() without "
                "the persistent argument is not allowed."
            )

    def _forget(self, name: str, except_from: str) -> None:
        """Removes ``name`` wherever it is a member or a plain attribute, except from one registry."""
        attributes = self.__dict__
        for registry in REGISTRIES:
            if registry != except_from:
                attributes.get(registry, {}).pop(name, None)
        if except_from != "_buffers":
            attributes.get("_non_persistent_buffers_set", set()).discard(name)
        if name not in attributes.get(except_from, ()):
            attributes.pop(name, None)

    def _check_new_member(self, kind: str, registry: str, name: str) -> None:
        if registry not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_typename(name)}")
        if "." in name:
            got = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{got}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in self.__dict__[registry] and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name: str, tensor: _C.Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that belongs to the module's state but is not a parameter, such as a running mean.

        Args:
            name: attribute under which the buffer is found.
            tensor: the buffer, or None to reserve the name.
            persistent: whether ``state_dict`` contains it.
        """
        self._check_new_member("buffer", "_buffers", name)
        if tensor is not None and not isinstance(tensor, _C.Tensor):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = _hooks.registered(_global_buffer_registration_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter; with None the name is reserved and ``state_dict`` leaves it out."""
        self._check_new_member("parameter", "_parameters", name)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                f"explicitly. "
                f"To express '{name}' as a function of another Tensor, compute the value in the forward() "
                f"method."
            )
        self._parameters[name] = _hooks.registered(_global_parameter_registration_hooks, self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a child module under ``name``."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_new_member("module", "_modules", name)
        self._modules[name] = _hooks.registered(_global_module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Another name of :meth:`add_module`."""
        self.add_module(name, module)

    # Lookup of members by path.

    def get_submodule(self, target: str) -> Module:
        """Returns the module at a dotted path such as ``"features.0"``; the empty path is this module."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts ``module`` at a dotted path; with ``strict`` it must replace an existing module."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def _get_member(self, target: str) -> tuple[Module, str, Any]:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return module, name, getattr(module, name)

    def get_parameter(self, target: str) -> Parameter:
        """Returns the parameter at a dotted path."""
        _, name, parameter = self._get_member(target)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> _C.Tensor:
        """Returns the buffer at a dotted path."""
        module, name, buffer = self._get_member(target)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return buffer

    # Iteration over members. Each object is visited once, under the first name found.

    def _named_members(
        self, get_members: Callable[[Module], Any], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in get_members(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Iterates over the parameters of this module and, with ``recurse``, of all below it."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Iterates over pairs of full name and parameter."""
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[_C.Tensor]:
        """Iterates over the buffers of this module and, with ``recurse``, of all below it."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, _C.Tensor]]:
        """Iterates over pairs of full name and buffer."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """Iterates over the direct child modules."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Iterates over pairs of name and direct child module."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Iterates over this module and all below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Iterates over pairs of full name and module, this module (named ``prefix``) first."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    # Changing all members at once.

    def _apply(self, fn: Callable[[_C.Tensor], _C.Tensor], recurse: bool = True) -> Self:
        """Replaces every parameter's data, every gradient's data and every buffer by the result of ``fn``.

        Parameters keep their identity, so that optimizers made before keep working, unless
        `rgrad.__future__.set_overwrite_module_params_on_conversion` asked for new ones, or `fn` gives memory to a
        parameter without any or takes it away: those of the meta device are others.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        with rgrad.no_grad():
            for name, parameter in self._parameters.items():
                if parameter is None:
                    continue
                grad, made = parameter.grad, fn(parameter)
                if conversion.get_swap_module_params_on_conversion():
                    parameter.grad = None
                    rgrad.utils.swap_tensors(parameter, Parameter(made, parameter.requires_grad))
                elif _replaces(parameter, made):
                    parameter = Parameter(made, parameter.requires_grad)
                    self._parameters[name] = parameter
                else:
                    # The parameter itself, so that its version counts what `fn` writes.
                    parameter.data = made
                if grad is not None:
                    parameter.grad = _converted_grad(grad, fn(grad))
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Calls ``fn`` on every module below this one and then on this one; used to initialize weights."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves and casts parameters and buffers in place.

        Called as ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(tensor)`` or
        ``to(memory_format=...)``. Only floating-point members are cast; only members of four or five dimensions
        take the memory format.

        Returns:
            The module itself.
        """
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )

        def convert(tensor: _C.Tensor) -> _C.Tensor:
            target = {}
            if device is not None:
                target["device"] = device
            if dtype is not None and tensor.is_floating_point():
                target["dtype"] = dtype
            if memory_format is not None and tensor.dim() in (4, 5):
                target["memory_format"] = memory_format
            if not target:
                return tensor
            try:
                return tensor.to(**target, non_blocking=non_blocking)
            except NotImplementedError as error:
                if not tensor.is_meta:
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() instead: a module of the meta device has no values."
                ) from None

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Moves the module without copying its values, which are undefined afterwards."""
        return self._apply(lambda tensor: rgrad.empty_like(tensor, device=device), recurse=recurse)

    def cuda(self, device: Any = None) -> Self:
        """Moves the module to an accelerator."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def cpu(self) -> Self:
        """Moves the module to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def type(self, dst_type: Any) -> Self:
        """Casts all parameters and buffers, integers too, to ``dst_type``."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def _cast_floating(self, dtype: Any) -> Self:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def float(self) -> Self:
        """Casts floating point members to float32."""
        return self._cast_floating(rgrad.float32)

    def double(self) -> Self:
        """Casts floating point members to float64."""
        return self._cast_floating(rgrad.float64)

    def half(self) -> Self:
        """Casts floating point members to float16."""
        return self._cast_floating(rgrad.float16)

    def bfloat16(self) -> Self:
        """Casts floating point members to bfloat16."""
        return self._cast_floating(rgrad.bfloat16)

    def share_memory(self) -> Self:
        """Moves the members' storage into memory that worker processes share."""
        return self._apply(lambda tensor: tensor.share_memory_())

    def train(self, mode: bool = True) -> Self:
        """Sets training mode on this module and its descendants; it affects modules such as Dropout and BatchNorm.

        Args:
            mode: True to train, False to evaluate.

        Returns:
            The module.

        Raises:
            ValueError: the mode is not a bool.
        """
        if mode is not True and mode is not False:
            raise ValueError(f"training mode is expected to be boolean, got {mode!r}")
        self.training = mode
        # Calls the children's own `train`, which a class may override, for example to keep its statistics frozen.
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        """Sets evaluation mode on this module and its descendants."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets whether autograd records operations on the parameters; with False they are frozen."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients of all parameters, or with ``set_to_none=False`` fills them with zeros."""
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
                continue
            if parameter.grad.grad_fn is not None:
                parameter.grad.detach_()
            else:
                parameter.grad.requires_grad_(False)
            parameter.grad.zero_()

    # Printing, pickling.

    def _get_name(self) -> str:
        return self.__class__.__name__

    def extra_repr(self) -> str:
        """Returns the text between the parentheses of the module's repr, before its children."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): {_indent(repr(module))}" for name, module in self._modules.items()]
        if len(extra_lines) <= 1 and not child_lines:
            return f"{self._get_name()}({extra})"
        body = "\n  ".join(extra_lines + child_lines)
        return f"{self._get_name()}(\n  {body}\n)"

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        # Names such as "0", of a Sequential's children, are not identifiers and cannot follow a dot.
        return sorted(name for name in names if not name[:1].isdigit())

    def _replicate_for_data_parallel(self) -> Any:
        """Returns a shallow copy without parameters, with registries of its own, whose members may be replaced."""
        replica = self.__new__(type(self))
        state = self.__getstate__()
        state["_parameters"] = {}
        replica.__dict__.update({name: None for name in self._parameters})
        Module.__setstate__(replica, state)
        replica.__dict__["_is_replica"] = True
        return replica

    def __getstate__(self) -> dict[str, Any]:
        """Returns the instance dictionary with plain dicts as registries and without the cached copies of members."""
        members = {name for registry in REGISTRIES for name in self.__dict__.get(registry, ())}
        state = {name: value for name, value in self.__dict__.items() if name not in members}
        for registry in REGISTRIES:
            if registry in state:
                state[registry] = dict(state[registry])
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        attributes = self.__dict__
        attributes.update(state)
        for registry in REGISTRIES:
            attributes[registry] = Registry(self, attributes.get(registry, {}))
        attributes.setdefault("_non_persistent_buffers_set", set())
        for hooks in _HOOK_DICTIONARIES:
            attributes.setdefault(hooks, OrderedDict())
        # A state pickled by PyTorch has hooks and no flag. See Note [The hook flag].
        if any(attributes[hooks] for hooks in _CALL_HOOKS):
            attributes["_has_hooks"] = True


def _replaces(tensor: _C.Tensor, made: _C.Tensor) -> bool:
    """Whether a module takes a converted tensor itself, instead of giving its data to the one that it has."""
    return conversion.get_overwrite_module_params_on_conversion() or tensor.is_meta != made.is_meta


def _converted_grad(grad: _C.Tensor, made: _C.Tensor) -> _C.Tensor:
    """The gradient after a conversion: the same object, unless parameters are replaced too."""
    if made is grad:
        return grad
    if conversion.get_swap_module_params_on_conversion():
        rgrad.utils.swap_tensors(grad, made)
        return grad
    if _replaces(grad, made):
        return made.requires_grad_(grad.requires_grad)
    grad.data = made
    return grad


def _typename(value: Any) -> str:
    if isinstance(value, _C.Tensor):
        return value.type()
    kind = value if isinstance(value, type) else type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Sorts the arguments of ``Module.to`` into device, dtype, non_blocking and memory_format."""
    first = args[0] if args else None
    if isinstance(first, _C.Tensor) or "tensor" in kwargs:
        names = ("tensor", "non_blocking", "copy")
    elif isinstance(first, rgrad.dtype):
        names = ("dtype", "non_blocking", "copy")
    else:
        names = ("device", "dtype", "non_blocking", "copy")
    given: dict[str, Any] = dict(zip(names, args, strict=False))
    kinds: dict[str, Any] = {
        "tensor": _C.Tensor,
        "device": (str, int, rgrad.device),
        "dtype": rgrad.dtype,
        "non_blocking": bool,
        "copy": bool,
        "memory_format": rgrad.memory_format,
    }
    known = len(args) <= len(names) and not given.keys() & kwargs.keys() and {*names, "memory_format"} >= kwargs.keys()
    given.update(kwargs)
    # A bool is an int, but no device.
    if not known or not all(
        value is None or (isinstance(value, kinds[name]) and (name != "device" or not isinstance(value, bool)))
        for name, value in given.items()
    ):
        got = [_typename(value) for value in args] + [f"{name}={_typename(value)}" for name, value in kwargs.items()]
        raise TypeError(f"to() received an invalid combination of arguments - got ({', '.join(got)})")
    if given.get("copy"):
        raise RuntimeError(".to() does not accept copy argument")
    like = given.get("tensor")
    device, dtype = (given.get("device"), given.get("dtype")) if like is None else (like.device, like.dtype)
    device = None if device is None else rgrad.device(device)
    return device, dtype, bool(given.get("non_blocking")), given.get("memory_format")


# Where subclasses that change how they are moved look it up.
_C._nn._parse_to = _parse_to
