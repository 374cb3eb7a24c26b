"""Pruning: parameters of which some elements are kept at zero by a mask.

A pruned parameter ``weight`` is replaced by a parameter ``weight_orig`` and a buffer ``weight_mask`` of ones and zeros.
A hook assigns their product to the attribute ``weight`` before every forward.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import rgrad
from rgrad import _C

from ..modules.module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

Tensor = _C.Tensor


class BasePruningMethod(ABC):
    """Base of the pruning methods: subclasses set `PRUNING_TYPE` and define `compute_mask`.

    `PRUNING_TYPE` is what a method that follows others sees of the tensor: ``'unstructured'``, the elements that are
    left; ``'structured'``, the slices along its `dim` of which something is left; ``'global'``, everything.
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """The hook: assigns the masked parameter to the module."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Chooses what is pruned.

        Args:
            t: importance of every element of the parameter.
            default_mask: the mask of earlier methods.

        Returns:
            A mask of the same shape, with zeros where the earlier one has zeros, and more.
        """

    def apply_mask(self, module: Module) -> Tensor:
        """The product of the module's original parameter and its mask."""
        name = self._tensor_name
        mask = getattr(module, f"{name}_mask")
        return mask.to(getattr(module, f"{name}_orig").dtype) * getattr(module, f"{name}_orig")

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prunes a parameter of a module, in addition to what is pruned already.

        Args:
            module: the module.
            name: name of the parameter.
            *args: the method's constructor's.
            importance_scores: the importance of every element; the parameter itself by default.
            **kwargs: the method's constructor's.

        Returns:
            The module's hook: the method, or a container of it and earlier ones.
        """
        earlier = _hook_of(module, name)
        method = cls(*args, **kwargs)
        method._tensor_name = name
        parameter: Any = getattr(module, name)
        scores = parameter if importance_scores is None else importance_scores
        if scores.shape != parameter.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got "
                f"{scores.shape} vs {parameter.shape}"
            )
        hook: BasePruningMethod = method
        if earlier is not None:
            number, first = earlier
            hook = first if isinstance(first, PruningContainer) else PruningContainer(first)
            hook.add_pruning_method(method)  # type: ignore[union-attr]
            mask = hook.compute_mask(scores, getattr(module, f"{name}_mask"))
            del module._forward_pre_hooks[number]
        else:
            # Before the parameter is replaced: a method that refuses leaves the module unchanged.
            mask = method.compute_mask(scores, rgrad.ones_like(scores))
            module.register_parameter(f"{name}_orig", parameter)
            del module._parameters[name]
        module.register_buffer(f"{name}_mask", mask.detach())
        setattr(module, name, hook.apply_mask(module))
        module.register_forward_pre_hook(hook)
        return hook

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A tensor with zeros where this method prunes; see :meth:`compute_mask`."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        given = rgrad.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=given)

    def remove(self, module: Module) -> None:
        """Makes the masked values the parameter's, and drops the mask."""
        name = self._tensor_name
        if not hasattr(module, f"{name}_mask"):
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        values = self.apply_mask(module)
        original = module._parameters.pop(f"{name}_orig")
        del module._buffers[f"{name}_mask"]
        delattr(module, name)
        if original is not None:
            original.data = values.data
        module.register_parameter(name, original)


def _hook_of(module: Module, name: str) -> tuple[int, BasePruningMethod] | None:
    """The number and the pruning method among the module's hooks that is of a parameter."""
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return number, hook
    return None


class PruningContainer(BasePruningMethod):
    """Pruning methods of one parameter, in the order in which they were applied.

    Args:
        *args: the methods, or one iterable of them.
    """

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        methods = args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args
        if len(args) == 1 and not isinstance(args[0], Iterable):
            self._tensor_name = args[0]._tensor_name
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Appends a method of the same parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is None:
            return
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer "
                f"{self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask after the last method, which sees what the earlier ones left."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype)
        kind = method.PRUNING_TYPE
        if kind == "unstructured":
            left: Any = mask == 1
        elif kind == "structured":
            dim: int = method.dim  # type: ignore[attr-defined]
            _validate_structured_pruning(t)
            # Slices that are left are numbered anew, so that an amount is one of those.
            alive = mask.transpose(0, dim).flatten(1).ne(0).any(1)
            left = [slice(None)] * t.dim()
            left[dim] = alive
            left = tuple(left)
        elif kind == "global":
            left = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
        new = method.compute_mask(t[left], default_mask=mask[left])
        mask = mask.clone()
        mask[left] = new.to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing, but makes mask and original parameter."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask as it is."""
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> BasePruningMethod:  # type: ignore[override]
        """See :func:`identity`."""
        return super().apply(module, name)


class _Unstructured(BasePruningMethod):
    """Prunes an amount of single elements.

    Args:
        amount: how many: a number of elements, or a fraction in [0, 1].
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _keys(self, t: Tensor) -> Tensor:
        """By what elements are chosen: the smallest are pruned."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask with zeros at the elements with the smallest keys."""
        mask = default_mask.clone()
        _validate_pruning_amount(self.amount, t.numel())
        count = _compute_nparams_toprune(self.amount, t.numel())
        if count:
            mask.view(-1)[self._keys(t).reshape(-1).topk(count, largest=False).indices] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Prunes random elements.

    Args:
        amount: how many: a number of elements, or a fraction in [0, 1].
    """

    def _keys(self, t: Tensor) -> Tensor:
        return rgrad.rand(t.shape, device=t.device)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> BasePruningMethod:  # type: ignore[override]
        """See :func:`random_unstructured`."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """Prunes the elements of the smallest absolute values.

    Args:
        amount: how many: a number of elements, or a fraction in [0, 1].
    """

    def _keys(self, t: Tensor) -> Tensor:
        return t.detach().abs()

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        """See :func:`l1_unstructured`."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Structured(BasePruningMethod):
    """Prunes an amount of whole slices along a dimension."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def _keys(self, t: Tensor) -> Tensor:
        """One number per slice: those with the smallest are pruned."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask with zeros in the slices with the smallest keys."""
        _validate_structured_pruning(t)
        if not -t.dim() <= self.dim < t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        _validate_pruning_amount(self.amount, t.size(self.dim))
        count = _compute_nparams_toprune(self.amount, t.size(self.dim))
        if not count:
            return default_mask
        pruned = self._keys(t).topk(count, largest=False).indices
        return default_mask.clone().index_fill_(self.dim, pruned, 0)


class RandomStructured(_Structured):
    """Prunes random slices.

    Args:
        amount: how many: a number of slices, or a fraction in [0, 1].
        dim: the dimension along which a slice is one index.
    """

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount, dim)

    def _keys(self, t: Tensor) -> Tensor:
        return rgrad.rand(t.shape[self.dim], device=t.device)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, dim: int = -1) -> BasePruningMethod:  # type: ignore[override]
        """See :func:`random_structured`."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """Prunes the slices of the smallest norms.

    Args:
        amount: how many: a number of slices, or a fraction in [0, 1].
        n: degree of the norm.
        dim: the dimension along which a slice is one index.
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _keys(self, t: Tensor) -> Tensor:
        dim = self.dim % t.dim()
        return t.detach().norm(p=self.n, dim=[d for d in range(t.dim()) if d != dim])

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        """See :func:`ln_structured`."""
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is zero.

    Args:
        mask: ones and zeros, of the parameter's shape.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The product of both masks."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> BasePruningMethod:  # type: ignore[override]
        """See :func:`custom_from_mask`."""
        return super().apply(module, name, mask=mask)


def identity(module: Module, name: str) -> Module:
    """Gives a parameter a mask of ones.

    Args:
        module: the module; it is changed and returned.
        name: name of the parameter.
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prunes random elements of a parameter.

    Args:
        module: the module; it is changed and returned.
        name: name of the parameter.
        amount: how many of the elements that are left: a number of elements, or a fraction in [0, 1].

    >>> from rgrad.nn.utils import prune
    >>> layer = prune.random_unstructured(rgrad.nn.Linear(4, 2), "weight", amount=3)
    >>> layer.weight_mask.sum()
    tensor(5.)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prunes the elements of a parameter that are smallest in absolute value.

    Args:
        module: the module; it is changed and returned.
        name: name of the parameter.
        amount: how many of the elements that are left: a number of elements, or a fraction in [0, 1].
        importance_scores: what is compared instead of the parameter, of its shape.
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prunes random slices of a parameter.

    Args:
        module: the module; it is changed and returned.
        name: name of the parameter.
        amount: how many of the slices that are left: a number of slices, or a fraction in [0, 1].
        dim: the dimension along which a slice is one index.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prunes the slices of a parameter that have the smallest norms.

    Args:
        module: the module; it is changed and returned.
        name: name of the parameter.
        amount: how many of the slices that are left: a number of slices, or a fraction in [0, 1].
        n: degree of the norm.
        dim: the dimension along which a slice is one index.
        importance_scores: what is compared instead of the parameter, of its shape.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prunes a parameter where a mask is zero.

    Args:
        module: the module; it is changed and returned.
        name: name of the parameter.
        mask: ones and zeros, of the parameter's shape.
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prunes elements of several parameters, chosen among all of them together.

    Args:
        parameters: pairs of a module and the name of its parameter.
        pruning_method: class of an unstructured method.
        importance_scores: what is compared instead of a parameter, by such pairs.
        **kwargs: the method's constructor's, like `amount`.

    Raises:
        TypeError: the method is not unstructured, or the scores are no dict.
    """
    pairs = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of '
            f"type {method.PRUNING_TYPE}"
        )
    values = [(scores[pair] if pair in scores else getattr(*pair)).detach() for pair in pairs]
    masks = [getattr(module, f"{name}_mask", None) if _hook_of(module, name) else None for module, name in pairs]
    known = [rgrad.ones_like(v) if mask is None else mask for v, mask in zip(values, masks, strict=True)]
    # As one tensor with one mask, in a container so that the method sees only what is left.
    container = PruningContainer()
    container._tensor_name = method._tensor_name = "all of them"
    container.add_pruning_method(method)
    flat = rgrad.cat([v.reshape(-1) for v in values]), rgrad.cat([mask.reshape(-1) for mask in known])
    final = container.compute_mask(*flat)
    for (module, name), part, v in zip(pairs, final.split([v.numel() for v in values]), values, strict=True):
        custom_from_mask(module, name, part.view(v.shape))


def remove(module: Module, name: str) -> Module:
    """Makes the masked values of a parameter its own, and drops mask and hook.

    Args:
        module: the module; it is changed and returned.
        name: name of the parameter.

    Raises:
        ValueError: the parameter is not pruned.
    """
    found = _hook_of(module, name)
    if found is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    number, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[number]
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of a module or of one inside it is pruned.

    Args:
        module: the module.
    """
    return any(
        isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values()
    )


# Helpers that methods of programs call, too.


def _validate_structured_pruning(t: Tensor) -> None:
    if t.dim() <= 1:
        raise ValueError(
            f"Structured pruning can only be applied to multidimensional tensors. Found tensor of shape {t.shape} with "
            f"{t.dim()} dims"
        )


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, numbers.Real) or isinstance(amount, bool):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    value: Any = amount
    whole = isinstance(amount, numbers.Integral)
    if value < 0 or (not whole and value > 1):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    if isinstance(amount, numbers.Integral) and int(amount) > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """How many of `tensor_size` an amount is."""
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)
