"""`scan`: a loop over a dimension that carries a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rgrad import Tensor
from rgrad._higher_order_ops._slices import dim_of, join, slices_of
from rgrad.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["scan"]


def scan(
    combine_fn: Callable[[Any, Any], Any], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    r"""The last state and all outputs of a loop over a dimension, :math:`(c_{i+1}, y_i) = f(c_i, x_i)`.

    Args:
        combine_fn: takes the state and a value built like `xs` without the dimension; returns the next state and an
            output.
        init: the first state, tensors in any nested container.
        xs: tensors of one size in the dimension, in any nested container.
        dim: the dimension that is gone over.
        reverse: whether it is gone over from its end.

    Returns:
        The last state, and the outputs joined in a new dimension `dim`, in the order of `xs`.

    Raises:
        RuntimeError: an argument or a result of `combine_fn` is not of the kind above.
        IndexError: a tensor lacks the dimension.

    >>> import rgrad
    >>> from rgrad._higher_order_ops import scan
    >>> scan(lambda total, x: (total + x, total * x), rgrad.tensor(0), rgrad.tensor([1, 2, 3]))
    (tensor(6), tensor([0, 2, 9]))
    """
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    carry, carry_spec = tree_flatten(init)
    if not carry:
        raise RuntimeError("scan() operator requires init leaves.")
    for x in carry:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"All init leaves must be a Tensor but got {x}")
    leaves, spec = tree_flatten(xs)
    if not leaves:
        return init, []
    for x in leaves:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"All xs leaves must be a Tensor but got {x}")
    at = dim_of(leaves, dim)
    state, made, output_spec = init, [], carry_spec
    for step in slices_of(leaves, at, reverse) or [[x.new_zeros(_without(x, at)) for x in leaves]]:
        pair = combine_fn(state, tree_unflatten(step, spec))
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise RuntimeError(f"combine_fn has to return a pair of the next state and an output, got {pair}")
        state, output = pair
        if tree_flatten(state)[1] != carry_spec:
            raise RuntimeError("combine_fn has to return a state built like init")
        found, output_spec = tree_flatten(output)
        made.append(found)
    joined = join(made, at, reverse)
    if not leaves[0].shape[at]:  # the one step ran on zeros, to tell the outputs' shapes
        state, joined = init, [x.narrow(at, 0, 0) for x in joined]
    return state, tree_unflatten(joined, output_spec)


def _without(x: Tensor, dim: int) -> list[int]:
    """The shape of a tensor without a dimension."""
    shape = list(x.shape)
    del shape[dim]
    return shape
