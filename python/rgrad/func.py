"""Functions made of functions: derivatives, and calls over a dimension; and calls of modules with other parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import _C, Tensor
from rgrad import autograd as _autograd
from rgrad import nn as _nn
from rgrad._jacobians import (
    _argument_numbers,
    _check_outputs,
    _leaves_of,
    _split,
    expect_floating_outputs,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
)
from rgrad._transforms import transforming
from rgrad._vmap import vmap
from rgrad.autograd._tangent_levels import _has_history, have_tangents, without_history
from rgrad.nn.utils.stateless import functional_call
from rgrad.utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]

_Function = Callable[..., Any]


def grad_and_value(func: _Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> _Function:
    """A function that returns the gradient of another, and its value.

    Args:
        func: returns one number, as a tensor; with `has_aux` a pair of it and anything.
        argnums: by which arguments the derivative is taken; they may be containers of tensors.
        has_aux: whether there is more than the number.

    Returns:
        A function of the same arguments, which returns (gradients, value), the value with what came with it.
    """

    @functools.wraps(func)
    def derived(*args: Any, **kwargs: Any) -> Any:
        numbers = _argument_numbers(args, argnums)
        recording = rgrad.is_grad_enabled()
        with transforming() as outer:
            inputs, given = _leaves_of([args[n] for n in numbers])
            chosen = dict(zip(numbers, given, strict=True))
            made = func(*(chosen.get(i, a) for i, a in enumerate(args)), **kwargs)
            value, _ = _split(made, has_aux, "grad_and_value(f)(*args)")
            if not isinstance(value, Tensor):
                raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(value)}")
            if value.dim() != 0:
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got one of "
                    f"{value.dim()} dims"
                )
            spec = tree_flatten(given)[1]
            keeps = (recording and (outer > 0 or _has_history(value, inputs))) or have_tangents([value])
            grads = [None] * len(inputs)
            if value.requires_grad:
                grads = list(_autograd.grad(value, inputs, create_graph=keeps, allow_unused=True))
            grads = [rgrad.zeros_like(t) if g is None else g for t, g in zip(inputs, grads, strict=True)]
        found = tree_unflatten(grads, spec)
        made = made if keeps else tree_map(lambda t: without_history(t) if isinstance(t, Tensor) else t, made)
        return found[0] if isinstance(argnums, int) else tuple(found), made

    return derived


def grad(func: _Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> _Function:
    """A function that returns the gradient of another.

    Args:
        func: returns one number, as a tensor; with `has_aux` a pair of it and anything.
        argnums: by which arguments the derivative is taken; they may be containers of tensors.
        has_aux: whether what comes with the number is returned too.

    Example:
        >>> import rgrad as torch
        >>> cube = torch.func.grad(torch.func.grad(lambda x: x**3))
        >>> cube(torch.tensor(2.0))
        tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def derived(*args: Any, **kwargs: Any) -> Any:
        found, made = both(*args, **kwargs)
        return (found, made[1]) if has_aux else found

    return derived


def vjp(func: _Function, *primals: Any, has_aux: bool = False) -> Any:
    """The value of a function, and a function that multiplies vectors with its Jacobian from the left.

    Args:
        func: returns a tensor or a container of them; with `has_aux` a pair of that and anything.
        primals: its arguments.
        has_aux: whether there is more than the value.

    Returns:
        (value, product), with `has_aux` (value, product, more). `product` takes what the value looks like, and as
        `autograd.grad` whether the graph is kept and its result recorded; it returns a tuple of what the arguments look
        like.
    """
    with transforming():
        leaves, inputs = _leaves_of(primals)
        made = func(*inputs)
    value, _ = _split(made, has_aux, "vjp(f, *primals)")
    spec = tree_flatten(inputs)[1]
    outputs, of_value = tree_flatten(value)
    _check_outputs(value, outputs, "vjp(f, *primals)")
    expect_floating_outputs(outputs)
    tracked = any(_has_history(o, leaves) for o in outputs)
    tangents = have_tangents(outputs)
    keeps = (rgrad.is_grad_enabled() and tracked) or tangents

    def product(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        vectors, of_cotangents = tree_flatten(cotangents)
        if of_cotangents != of_value:
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as that of the outputs: "
                f"{of_cotangents} beside {of_value}"
            )
        pairs = [(o, v) for o, v in zip(outputs, vectors, strict=True) if o.requires_grad]
        grads = [None] * len(leaves)
        if pairs:
            outs, into = zip(*pairs, strict=True)
            kept = tangents or (rgrad.is_grad_enabled() and (tracked or any(v.requires_grad for v in vectors)))
            kept = kept if create_graph is None else create_graph
            grads = _autograd.grad(outs, leaves, into, retain_graph=retain_graph, create_graph=kept, allow_unused=True)
        found = [rgrad.zeros_like(t) if g is None else g for t, g in zip(leaves, grads, strict=True)]
        return tree_unflatten(found, spec)

    if not keeps:
        made = tree_map(lambda t: without_history(t) if isinstance(t, Tensor) else t, made)
    return (made[0], product, made[1]) if has_aux else (made, product)


def stack_module_state(models: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of several modules of one kind, joined in a new first dimension."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(m.training != models[0].training for m in models):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = {}
    for name, p in models[0].named_parameters():
        own = [dict(m.named_parameters())[name] for m in models]
        if any(t.requires_grad != p.requires_grad for t in own):
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
        parameters[name] = rgrad.stack(own).detach().requires_grad_(p.requires_grad)
    buffers = {
        name: rgrad.stack([dict(m.named_buffers())[name] for m in models]) for name, _ in models[0].named_buffers()
    }
    return parameters, buffers


def functionalize(func: _Function, *, remove: str = "mutations") -> _Function:
    """A function that computes what another does, for programs that trace it without writes in place.

    Nothing is traced here, so `func` itself is called: writes in place are right under every transform.

    Args:
        func: the function.
        remove: "mutations", or "mutations_and_views".

    Raises:
        RuntimeError: for another `remove`.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}: there are "
            "'mutations' and 'mutations_and_views'"
        )

    @functools.wraps(func)
    def called(*args: Any, **kwargs: Any) -> Any:
        with transforming(derivative=False):
            return func(*args, **kwargs)

    return called


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The tensor whose slices a tensor in `vmap` stands for; any other is returned as it is.

    Args:
        tensor: the tensor.
        recurse: whether to go through all levels of nested calls, or through the innermost only.
    """
    value, levels = _C._batch_value(tensor)
    return value if recurse or not levels else _C._batched(value, levels[:-1])


def replace_all_batch_norm_modules_(root: _nn.Module) -> _nn.Module:
    """Makes the batch norms in a module normalise without running statistics, in place, as `vmap` needs it.

    Args:
        root: the module, which is changed.

    Returns:
        `root`.
    """
    for module in root.modules():
        if isinstance(module, _nn.modules.batchnorm._BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
