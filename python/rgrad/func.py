"""Functions made of functions: derivatives, and calls over a dimension; and calls of modules with other parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import Tensor
from rgrad import autograd as _autograd
from rgrad._jacobians import _leaves_of, hessian, jacfwd, jacrev, jvp, linearize
from rgrad.autograd.forward_ad import _has_history
from rgrad.nn.utils.stateless import functional_call
from rgrad.utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]

_Function = Callable[..., Any]

# How many derivatives are being computed around the current call.
_levels = 0


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
        global _levels
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        numbers = tuple(n % len(args) for n in numbers)
        recording = rgrad.is_grad_enabled()
        _levels += 1
        try:
            with rgrad.enable_grad():
                chosen = {n: _leaves_of(args[n]) for n in numbers}
                made = func(*(chosen.get(i, a) for i, a in enumerate(args)), **kwargs)
                value = made[0] if has_aux else made
                if not isinstance(value, Tensor) or value.dim() != 0:
                    found = f"{value.dim()} dimensions" if isinstance(value, Tensor) else f"type {type(value)}"
                    raise RuntimeError(f"grad: expected the function to return a tensor of one number, got {found}")
                leaves, spec = tree_flatten([chosen[n] for n in numbers])
                inputs = [t for t in leaves if isinstance(t, Tensor)]
                keeps = _levels > 1 or (recording and _has_history(value, inputs))
                grads = [None] * len(inputs)
                if value.requires_grad:
                    grads = list(_autograd.grad(value, inputs, create_graph=keeps, allow_unused=True))
                grads = [rgrad.zeros_like(t) if g is None else g for t, g in zip(inputs, grads, strict=True)]
        finally:
            _levels -= 1
        found = tree_unflatten(grads, spec)
        made = made if keeps else tree_map(lambda t: t.detach() if isinstance(t, Tensor) else t, made)
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
        (value, product), with `has_aux` (value, product, more). `product` takes what the value looks like and returns
        a tuple of what the arguments look like.
    """
    with rgrad.enable_grad():
        inputs = _leaves_of(primals)
        made = func(*inputs)
    value = made[0] if has_aux else made
    leaves, spec = tree_flatten(inputs)
    outputs = [t for t in tree_flatten(value)[0] if isinstance(t, Tensor)]
    given = [t for t in leaves if isinstance(t, Tensor)]
    keeps = rgrad.is_grad_enabled() and any(_has_history(o, given) for o in outputs)

    def product(cotangents: Any) -> Any:
        vectors = [t for t in tree_flatten(cotangents)[0] if isinstance(t, Tensor)]
        pairs = [(o, v) for o, v in zip(outputs, vectors, strict=True) if o.requires_grad]
        grads = [None] * len(leaves)
        if pairs:
            outs, into = zip(*pairs, strict=True)
            kept = keeps or (rgrad.is_grad_enabled() and any(v.requires_grad for v in vectors))
            grads = _autograd.grad(outs, leaves, into, retain_graph=True, create_graph=kept, allow_unused=True)
        found = [rgrad.zeros_like(t) if g is None else g for t, g in zip(leaves, grads, strict=True)]
        return tree_unflatten(found, spec)

    shown = value if keeps else tree_map(lambda t: t.detach() if isinstance(t, Tensor) else t, value)
    return (shown, product, made[1]) if has_aux else (shown, product)


def vmap(
    func: _Function, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> _Function:
    """A function that calls another for each index of a dimension of its arguments, and joins the results.

    The calls are made one after the other.

    Args:
        func: takes arguments without that dimension; returns tensors.
        in_dims: the dimension of each argument, None for one that every call gets whole; one number for all.
        out_dims: where the dimension is in the results; one number for all.
        randomness: "different" or "same" for calls that draw random numbers; "error" is taken as "different".
        chunk_size: accepted, without effect.

    Example:
        >>> import rgrad as torch
        >>> torch.func.vmap(torch.dot)(torch.eye(2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([1., 4.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        dims = _dims(in_dims, args) + [0 if isinstance(t, Tensor) else None for t in tree_flatten(kwargs)[0]]
        sizes = {t.shape[d] for t, d in zip(leaves, dims, strict=True) if d is not None}
        if len(sizes) != 1:
            if not sizes:
                raise ValueError("vmap: no argument has a dimension to go over: in_dims is None for all")
            raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped dimension, got {sizes}")
        results = []
        state = rgrad.get_rng_state() if randomness == "same" else None
        for i in range(sizes.pop()):
            if state is not None:
                rgrad.set_rng_state(state)
            chosen = [t if d is None else t.select(d, i) for t, d in zip(leaves, dims, strict=True)]
            own_args, own_kwargs = tree_unflatten(chosen, spec)
            results.append(func(*own_args, **own_kwargs))
        return _joined(results, out_dims)

    return mapped


def _dims(in_dims: Any, args: Any) -> list[int | None]:
    """The mapped dimension of each leaf of the arguments."""
    if isinstance(in_dims, (list, tuple)) and len(in_dims) != len(args):
        raise ValueError(f"vmap: in_dims has {len(in_dims)} entries for {len(args)} arguments")
    each = list(in_dims) if isinstance(in_dims, (list, tuple)) else [in_dims] * len(args)
    found: list[int | None] = []
    for dim, arg in zip(each, args, strict=True):
        inner = tree_flatten(arg)[0]
        dims = [dim] * len(inner) if dim is None or isinstance(dim, int) else tree_flatten(dim)[0]
        for t, d in zip(inner, dims, strict=True):
            if d is not None and not isinstance(t, Tensor):
                if isinstance(in_dims, int):
                    d = None
                else:
                    raise ValueError(f"vmap: in_dims is {d} for an input of type {type(t)}, which has no dimensions")
            if isinstance(t, Tensor) and d is not None and not -t.dim() <= d < t.dim():
                raise ValueError(f"vmap: in_dims is {d} for a tensor of {t.dim()} dimensions")
            found.append(d)
    return found


def _joined(results: list[Any], out_dims: Any) -> Any:
    if not results:
        raise ValueError("vmap: the mapped dimension has size 0, so there is no result to tell shapes by")
    spec = tree_flatten(results[0])[1]
    columns = zip(*(tree_flatten(r)[0] for r in results), strict=True)
    dims = [out_dims] * spec.num_leaves if isinstance(out_dims, int) else tree_flatten(out_dims)[0]
    made = []
    for column, dim in zip(columns, dims, strict=True):
        if not all(isinstance(t, Tensor) for t in column):
            raise ValueError(f"vmap: the function has to return tensors, got {type(column[0])}")
        made.append(column[0] if dim is None else rgrad.stack(column, dim))
    return tree_unflatten(made, spec)


def stack_module_state(models: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of several modules of one kind, joined in a new first dimension."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({type(m) for m in models}) > 1 or len({m.training for m in models}) > 1:
        raise RuntimeError("stack_module_state: the models have to be of one class and in one mode")
    parameters = {
        name: rgrad.stack([dict(m.named_parameters())[name] for m in models]).detach().requires_grad_(p.requires_grad)
        for name, p in models[0].named_parameters()
    }
    buffers = {
        name: rgrad.stack([dict(m.named_buffers())[name] for m in models]) for name, _ in models[0].named_buffers()
    }
    return parameters, buffers
