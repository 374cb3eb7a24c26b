"""`associative_scan`: all partial results of an associative function over a dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rgrad import Tensor
from rgrad._higher_order_ops._slices import dim_of, join, slices_of
from rgrad.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    r"""All partial results of an associative function along a dimension, :math:`y_i = f(y_{i-1}, x_i), y_0 = x_0`.

    Args:
        combine_fn: takes two values built like `xs`, without the dimension, and returns one.
        xs: tensors of one size in the dimension, in any nested container.
        dim: the dimension that is gone over.
        reverse: whether it is gone over from its end.
        combine_mode: "pointwise" or "generic"; both run the same loop.

    Returns:
        What `xs` looks like, with the partial results.

    Raises:
        ValueError: `combine_fn` is no function, or the mode none of the two.
        IndexError: a tensor lacks the dimension.

    >>> import rgrad
    >>> from rgrad._higher_order_ops import associative_scan
    >>> associative_scan(rgrad.add, rgrad.tensor([1, 2, 3]), 0)
    tensor([1, 3, 6])
    """
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    leaves, spec = tree_flatten(xs)
    if not leaves or not all(isinstance(x, Tensor) for x in leaves):
        raise ValueError("xs leaves must be tensors, and at least one")
    at = dim_of(leaves, dim)
    steps = slices_of(leaves, at, reverse)
    if not steps:
        return xs
    made = [steps[0]]
    for step in steps[1:]:
        combined = combine_fn(tree_unflatten(made[-1], spec), tree_unflatten(step, spec))
        found, found_spec = tree_flatten(combined)
        if found_spec != spec:
            raise RuntimeError("combine_fn has to return what its arguments look like")
        made.append(found)
    return tree_unflatten(join(made, at, reverse), spec)
