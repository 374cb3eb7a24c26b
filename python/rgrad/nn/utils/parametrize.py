"""Computed members of modules: for example a weight that is a function of other learned tensors.

Note [Parametrized modules]
A parametrized parameter is moved from the module's registry to ``module.parametrizations[name]``, where it is called
``original`` (or ``original0``, ``original1``, … if the member is computed from several tensors). A property replaces
it in the module. Properties belong to classes, so the module becomes an instance of a subclass created only for it,
named ``Parametrized`` and its former class name. Removing the last parametrization restores the former class.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any

import rgrad
from rgrad import _C

from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

Tensor = _C.Tensor


class _Cache:
    """The values computed in the outermost `cached` block, by module and name."""

    depth = 0
    values: dict[tuple[int, str], Tensor] = {}


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Within the block, each parametrized member is computed only once, at its first use."""
    _Cache.depth += 1
    try:
        yield
    finally:
        _Cache.depth -= 1
        if _Cache.depth == 0:
            _Cache.values.clear()


def _register(module: Module, name: str, value: Tensor) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def _check_same(message: str, unlike: str, before: Tensor, after: Tensor, labels: tuple[str, str]) -> None:
    """Raises unless dtype and shape are the same."""
    for kind in ("dtype", "shape"):
        one, other = getattr(before, kind), getattr(after, kind)
        if one != other:
            raise ValueError(
                f"{message.format(kind=kind)}, unless {unlike} flag is enabled.\n"
                f"{labels[0].format(kind=kind)}: {one}\n{labels[1].format(kind=kind)}: {other}"
            )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied one after the other, and the tensors that they start from.

    Args:
        modules: the parametrizations.
        original: the tensor that is parametrized.
        unsafe: whether dtype and shape may change.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        like = original.detach()
        with rgrad.no_grad():
            new: Any = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        new = module.right_inverse(new)
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            for kind in ("dtype", "device"):
                one, other = getattr(original, kind), getattr(new, kind)
                if one != other:
                    raise ValueError(
                        f"When `right_inverse` outputs one tensor, it may not change the {kind}.\n"
                        f"original.{kind}: {one}\nright_inverse(original).{kind}: {other}"
                    )
            original.data = new.detach()
            _register(self, "original", original)
        else:
            self._register_several(original, new)
        if not unsafe:
            result = self()
            if not isinstance(result, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
            message = "Registering a parametrization may not change the {kind} of the tensor"
            _check_same(message, "`unsafe`", like, result, ("unparametrized {kind}", "parametrized {kind}"))

    def _register_several(self, original: Tensor, parts: Sequence[Any]) -> None:
        for i, part in enumerate(parts):
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                    f"Got element {i} of the sequence with type {type(part).__name__}."
                )
            part = part.detach()
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            _register(self, f"original{i}", _C._require_grad(part, original.requires_grad))

    @property
    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Any) -> None:
        """Sets the originals so that the parametrized tensor becomes ``value``.

        Args:
            value: a tensor; the parametrizations' own ``right_inverse`` are applied to it, the last one first.

        Raises:
            RuntimeError: a parametrization has no ``right_inverse``.
            ValueError: the results cannot replace the originals, which stay unchanged.
        """
        with rgrad.no_grad():
            for module in reversed(list(self)):
                invert = getattr(module, "right_inverse", None)
                if invert is None:
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = invert(value)
        originals, parts = self._originals, self._as_parts(value)
        for i, (original, part) in enumerate(zip(originals, parts, strict=True)):
            if part.dtype != original.dtype:
                which, name = ("The tensor", "original") if self.is_tensor else (f"Tensor {i}", f"original{i}")
                raise ValueError(
                    f"{which} returned by `right_inverse` has dtype {part.dtype} "
                    f"while `{name}` has dtype {original.dtype}"
                )
        for original, part in zip(originals, parts, strict=True):
            original.data = part.detach()

    def _as_parts(self, inverse: Any) -> Sequence[Tensor]:
        """The result of the first ``right_inverse``, as one tensor for every original."""
        if self.is_tensor:
            if isinstance(inverse, Tensor):
                return [inverse]
            raise ValueError(f"`right_inverse` should return a tensor. Got {type(inverse).__name__}")
        wanted = "'right_inverse' must return a sequence of tensors"
        if not isinstance(inverse, Sequence):
            raise ValueError(f"{wanted}. Got {type(inverse).__name__}.")
        if len(inverse) != self.ntensors:
            raise ValueError(f"{wanted} of length {self.ntensors}. Got a sequence of length {len(inverse)}.")
        for i, part in enumerate(inverse):
            if not isinstance(part, Tensor):
                raise ValueError(f"{wanted}. Got element {i} of type {type(part).__name__}.")
        return inverse

    def forward(self) -> Tensor:
        """The parametrized tensor."""
        first, *rest = self
        result = first(*self._originals)
        for module in rest:
            result = module(result)
        return result


def _own_class(module: Module) -> None:
    """Gives a module a class of its own. See Note [Parametrized modules]."""
    cls = type(module)

    def refuse(self: Module) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(): save that, make and "
            "parametrize a module as this one was, and give it the state by load_state_dict()."
        )

    def deepcopied(self: Module, memo: dict[int, Any]) -> Module:
        if id(self) in memo:
            return memo[id(self)]
        replica = memo[id(self)] = self.__new__(type(self))
        replica.__setstate__(copy.deepcopy(Module.__getstate__(self), memo))
        return replica

    members: dict[str, Any] = {"__getstate__": refuse}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = deepcopied
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _own_property(module: Module, name: str) -> None:
    """Adds the property that replaces a parametrized member."""

    def get(self: Any) -> Tensor:
        if _Cache.depth == 0:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _Cache.values:
            _Cache.values[key] = self.parametrizations[name]()
        return _Cache.values[key]

    def put(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Replaces a parameter or buffer of a module by the result of another module.

    Args:
        module: the module.
        tensor_name: the name of its member.
        parametrization: called with the member, or with the result of earlier parametrizations. If it has a method
            ``right_inverse``, the member can be assigned, and may be computed from several tensors.
        unsafe: whether dtype and shape may change.

    Returns:
        The module.

    Example:
        >>> from rgrad.nn.utils.parametrize import register_parametrization
        >>> class Symmetric(rgrad.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = register_parametrization(rgrad.nn.Linear(3, 3), "weight", Symmetric())
        >>> bool((layer.weight == layer.weight.T).all())
        True
    """
    parametrization.train(module.training)
    holder: Any = module
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(getattr(module, tensor_name), tensor_name, parametrization)
        holder.parametrizations[tensor_name].append(parametrization)
        holder.parametrizations[tensor_name].unsafe |= unsafe
        return module
    if tensor_name not in module._buffers and tensor_name not in module._parameters:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a "
            f"parametrized element with name '{tensor_name}'"
        )
    parametrizations = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _own_class(module)
        holder.parametrizations = ModuleDict()
    _own_property(module, tensor_name)
    holder.parametrizations[tensor_name] = parametrizations
    return module


def _check_next(before: Tensor, name: str, parametrization: Any) -> None:
    """Raises unless a parametrization may be applied after the existing ones."""
    after = parametrization(before)
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    labels = (f"module.{name}.{{kind}}", f"parametrization(module.{name}).{{kind}}")
    message = "Registering a parametrization may not change the {kind} of the tensor"
    _check_same(message, "the `unsafe`", before, after, labels)
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    message = f"The tensor returned by parametrization.right_inverse must have the same {{kind}} as module.{name}"
    _check_same(message, "the `unsafe`", before, back, (f"module.{name}.{{kind}}", "returned {kind}"))


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the given member of the module is parametrized; without a name, whether any member is."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Makes a parametrized member an ordinary one again.

    Args:
        module: the module.
        tensor_name: the name of its member.
        leave_parametrized: whether the member keeps its last computed value rather than the original one.

    Returns:
        The module.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    holder: Any = module
    parametrizations = holder.parametrizations[tensor_name]
    if not (parametrizations.is_tensor or leave_parametrized):
        raise ValueError(
            f"Cannot leave unparametrized (`leave_parametrized=False`) {tensor_name}: it is computed from "
            f"{parametrizations.ntensors} tensors, of which none could take its place."
        )
    current = getattr(module, tensor_name)
    if parametrizations.is_tensor:
        member = parametrizations.original
        if leave_parametrized:
            member.data = current.detach()
    else:
        member = Parameter(current.detach()) if current.requires_grad else current
    delattr(type(module), tensor_name)
    del holder.parametrizations[tensor_name]
    _register(module, tensor_name, member)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that the module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Copies the parametrizations of one module, with their original tensors, to another module.

    Args:
        from_module: the source.
        to_module: the destination.
        tensor_name: the member; all parametrized members by default.

    Returns:
        ``to_module``.
    """
    if not is_parametrized(from_module):
        return to_module
    source, target = from_module, to_module
    parametrizations: Any = source.parametrizations
    for name in list(parametrizations) if tensor_name is None else [tensor_name]:
        if not hasattr(target, name):
            setattr(target, name, Parameter(getattr(source, name).detach()))
        for parametrization in parametrizations[name]:
            register_parametrization(target, name, parametrization)
        received: Any = target.parametrizations
        for member, value in parametrizations[name]._parameters.items():
            setattr(received[name], member, value)
    return target
