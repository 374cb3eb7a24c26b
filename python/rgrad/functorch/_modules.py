"""Modules as functions of their parameters: the former way to `torch.func.functional_call`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import rgrad
from rgrad import Tensor, nn
from rgrad.func import functional_call

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "functional_init",
    "functional_init_with_buffers",
    "make_functional",
    "make_functional_with_buffers",
]


def _stateless(model: nn.Module) -> nn.Module:
    """A copy whose parameters and buffers take no memory."""
    return copy.deepcopy(model).to("meta")


def _named(tensors: Any, disable_autograd_tracking: bool) -> tuple[list[list[str]], tuple[Tensor, ...]]:
    """The names of each tensor of a module, several for one that is tied, and the tensors."""
    found: dict[int, tuple[list[str], Tensor]] = {}
    for name, t in tensors:
        found.setdefault(id(t), ([], t))[0].append(name)
    taken = tuple(t.detach() if disable_autograd_tracking else t for _, t in found.values())
    return [names for names, _ in found.values()], taken


def _parameters_of(model: nn.Module, disable_autograd_tracking: bool) -> tuple[list[list[str]], tuple[Tensor, ...]]:
    return _named(model.named_parameters(remove_duplicate=False), disable_autograd_tracking)


class FunctionalModuleWithBuffers(nn.Module):
    """A module as a function of its parameters, its buffers and its arguments.

    Args:
        stateless_model: the module without its state.
        param_names: the names of each parameter, in order: several for one that is tied.
        buffer_names: the names of each buffer, likewise.
    """

    def __init__(
        self, stateless_model: nn.Module, param_names: Sequence[list[str]], buffer_names: Sequence[list[str]]
    ) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(param_names)
        self.buffer_names = tuple(buffer_names)

    def forward(self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """The module called with these parameters and buffers."""
        state = {}
        for groups, tensors in ((self.param_names, params), (self.buffer_names, buffers)):
            for names, t in zip(groups, tensors, strict=True):
                state.update(dict.fromkeys(names, t))
        return functional_call(self.stateless_model, state, args, kwargs, tie_weights=False)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers as a function of its parameters and its arguments."""

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """The module called with these parameters."""
        return super().forward(params, (), *args, **kwargs)


def make_functional(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """A module without buffers as a function of its parameters, and these.

    Args:
        model: the module.
        disable_autograd_tracking: whether the returned parameters are detached.

    Raises:
        RuntimeError: if the module has buffers.

    Example:
        >>> import rgrad as torch
        >>> from rgrad.functorch._modules import make_functional
        >>> f, params = make_functional(torch.nn.Linear(2, 3))
        >>> f(params, torch.ones(4, 2)).shape
        torch.Size([4, 3])
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError("make_functional(model): `model` has buffers: call make_functional_with_buffers")
    names, taken = _parameters_of(model, disable_autograd_tracking)
    return FunctionalModule(_stateless(model), names, ()), taken


def make_functional_with_buffers(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """A module as a function of its parameters and buffers, and these.

    Args:
        model: the module.
        disable_autograd_tracking: whether the returned parameters are detached.
    """
    names, taken = _parameters_of(model, disable_autograd_tracking)
    of_buffers, buffers = _named(model.named_buffers(remove_duplicate=False), False)
    return FunctionalModuleWithBuffers(_stateless(model), names, of_buffers), taken, buffers


def combine_state_for_ensemble(
    models: Sequence[nn.Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Modules of one kind as one function, with their parameters and buffers joined in a new first dimension.

    Args:
        models: modules of one class, all in training mode or none.

    Raises:
        RuntimeError: if there are none, or they differ.
    """
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    functions, parameters, buffers = zip(*(make_functional_with_buffers(m) for m in models), strict=True)
    stacked = tuple(rgrad.stack(column).detach() for column in zip(*parameters, strict=True))
    return functions[0], stacked, tuple(rgrad.stack(column).detach() for column in zip(*buffers, strict=True))


def functional_init_with_buffers(
    model_class: Callable[..., nn.Module], ensemble_shape: Sequence[int] = (), device: Any = "cpu"
) -> Callable[..., Any]:
    """A function that makes a module, or several with parameters joined in a new first dimension, as a function.

    Args:
        model_class: makes a module of the arguments of the returned function.
        ensemble_shape: empty for one module; the number of modules in a list of one for several.
        device: where the parameters are.

    Returns:
        A function that returns the parameters, the buffers, the module as a function of parameters, buffers and a tuple
        of arguments, and the names of both.

    Raises:
        ValueError: the shape has several elements, or not a positive number.
    """
    if len(ensemble_shape) > 1:
        raise ValueError("NYI: ensemble_shape with more than 1 element")
    if ensemble_shape and ensemble_shape[0] <= 0:
        raise ValueError(f"num_models {ensemble_shape[0]} should be > 0")

    def init(*args: Any, **kwargs: Any) -> Any:
        models = [model_class(*args, **kwargs).to(device) for _ in range(ensemble_shape[0] if ensemble_shape else 1)]
        if ensemble_shape:
            call, parameters, buffers = combine_state_for_ensemble(models)
        else:
            call, parameters, buffers = make_functional_with_buffers(models[0])

        def applied(parameters: Any, buffers: Any, data: tuple[Any, ...]) -> Any:
            return call(parameters, buffers, *data)

        return parameters, buffers, applied, *(tuple(n for n, *_ in g) for g in (call.param_names, call.buffer_names))

    return init


def functional_init(
    model_class: Callable[..., nn.Module], ensemble_shape: Sequence[int] = (), device: Any = "cpu"
) -> Callable[..., Any]:
    """As `functional_init_with_buffers`, for modules without buffers.

    Args:
        model_class: as there.
        ensemble_shape: as there.
        device: as there.

    Returns:
        A function that returns the parameters, the module as a function of parameters and a tuple of arguments, and the
        names.

    Raises:
        RuntimeError: the module has buffers.
    """
    init_whole = functional_init_with_buffers(model_class, ensemble_shape, device)

    def init(*args: Any, **kwargs: Any) -> Any:
        parameters, buffers, applied, names, _ = init_whole(*args, **kwargs)
        if buffers:
            raise RuntimeError("functional_init: the module has buffers: call functional_init_with_buffers")
        return parameters, lambda weights, data: applied(weights, (), data), names

    return init
