"""Entry points of the engine: `backward` and `grad`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

from rgrad import _C
from rgrad._C import Tensor

from . import _dual
from .graph import GradientEdge

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return (x,) if isinstance(x, Tensor | GradientEdge) else tuple(x)


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables=None,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Accumulates the gradients of `tensors` into the `.grad` of the leaves on which they depend.

    Args:
        tensors: the roots; a root without a gradient must have one element.
        grad_tensors: a gradient per root, with its root's shape.
        retain_graph: keep the graph for another call; by default the value of `create_graph`.
        create_graph: record the backward pass, for higher derivatives.
        inputs: accumulate only into these.
    """
    if grad_variables is not None:
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
                "Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    roots = _as_tuple(tensors)
    grads = (None,) * len(roots) if grad_tensors is None else _as_tuple(grad_tensors)
    _C._backward(roots, grads, retain_graph, create_graph, None if inputs is None else _as_tuple(inputs))


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """The gradients of `outputs` with respect to `inputs`, without accumulation into `.grad`.

    >>> import rgrad
    >>> x = rgrad.tensor(3.0, requires_grad=True)
    >>> rgrad.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    roots, wanted = _as_tuple(outputs), _as_tuple(inputs)
    # As in PyTorch, surplus gradients are ignored.
    grads = (None,) * len(roots) if grad_outputs is None else _as_tuple(grad_outputs)[: len(roots)]
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    has_tangents = _have_tangents((*roots, *grads))
    if is_grads_batched:
        # Gradients have tangents only if the backward pass is recorded.
        found = _grad_batched(roots, wanted, grads, retain_graph, create_graph or has_tangents, allow_unused)
        # As typed in PyTorch; None is possible where `allow_unused` was asked for.
        return _filled(found, wanted, create_graph) if materialize_grads else tuple(found)  # type: ignore[return-value]
    if has_tangents and not create_graph:
        from ._tangent_levels import grad as grad_with_tangents

        found = grad_with_tangents(roots, wanted, grads, allow_unused, materialize_grads)
        return found  # pyright: ignore[reportReturnType]
    gradients = _C._grad(roots, wanted, grads, retain_graph, create_graph, allow_unused, False)
    return _filled(gradients, wanted, create_graph) if materialize_grads else tuple(gradients)


def _have_tangents(values: tuple[Any, ...]) -> bool:
    if not _dual.levels():
        return False
    from ._tangent_levels import have_tangents

    return have_tangents(values)


def _filled(found: Iterable[Tensor | None], wanted: Iterable[Any], recorded: bool) -> tuple[Tensor, ...]:
    """The gradients with zeros in the place of those that are missing; they require gradients in a recorded pass."""

    def zeros(of: Any) -> Tensor:
        if not isinstance(of, Tensor):
            raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
        return _C.zeros_like(of, requires_grad=recorded)

    return tuple(zeros(t) if g is None else g for g, t in zip(found, wanted, strict=True))


def _grad_batched(
    roots: tuple[Tensor, ...],
    wanted: tuple[Tensor, ...],
    grads: tuple[Tensor | None, ...],
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool,
) -> list[Tensor | None]:
    """Gradients for a batch of weights, stacked: one backward pass in `vmap`, or one for each weight."""
    for i, (root, g) in enumerate(zip(roots, grads, strict=True)):
        if g is None or g.dim() == 0:
            raise ValueError(
                f"is_grads_batched=True needs a batch of gradients for every output, not {g} for output {i}"
            )
        if g.shape[1:] != root.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of a grad_output as the batch; in the "
                f"others a mismatch was detected: grad_output[{i}] has a shape of {g.shape} and output[{i}] has a "
                f"shape of {root.shape}."
            )
    counts = [len(g) for g in grads if g is not None]
    if len(set(counts)) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {counts} for the "
            "mapped dimension"
        )
    if not counts or counts[0] == 0:
        raise ValueError("is_grads_batched=True needs at least one gradient in the batch")
    if any(t is not None and _C._is_wrapper(t) for t in (*roots, *wanted, *grads)):
        # A class gets each gradient by itself, and its own history is around the call.
        rows = [
            _C._grad(
                roots,
                wanted,
                tuple(g if g is None else g[i] for g in grads),
                True if i + 1 < counts[0] else retain_graph,
                create_graph,
                allow_unused,
                False,
            )
            for i in range(counts[0])
        ]
        return [None if column[0] is None else _C.stack(column) for column in zip(*rows, strict=True)]
    from rgrad._vmap import level_of

    with level_of(counts[0], "same") as level:
        batched = tuple(g if g is None else _C._add_batch_dim(g, 0, level) for g in grads)
        found = _C._grad(roots, wanted, batched, retain_graph, create_graph, allow_unused, False)
        return [g if g is None else _C._remove_batch_dim(g, level, counts[0], 0) for g in found]
