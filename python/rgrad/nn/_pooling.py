"""Adaptive pooling, and the forms of max pooling that return indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec

from rgrad import _C

from ._operations import max_pool1d, max_pool2d, max_pool3d

Tensor = _C.Tensor
_nn = _C._nn
_P = ParamSpec("_P")


def _filled(output_size: Any, input: Tensor) -> Any:
    """An output size with None replaced by the input's sizes."""
    if isinstance(output_size, int):
        return output_size
    if input.dim() <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    if None not in output_size:
        return output_size
    sizes = input.shape[-len(output_size) :]
    return tuple(n if wanted is None else wanted for wanted, n in zip(output_size, sizes, strict=True))


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Averages over windows that cover (N, C, H, W) evenly; None keeps a size."""
    return _nn.adaptive_avg_pool2d(input, _filled(output_size, input))


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Averages over windows that cover (N, C, D, H, W) evenly; None keeps a size."""
    return _nn.adaptive_avg_pool3d(input, _filled(output_size, input))


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima over windows that cover (N, C, H, W) evenly; None keeps a size."""
    return _nn.adaptive_max_pool2d(input, _filled(output_size, input), return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima over windows that cover (N, C, D, H, W) evenly; None keeps a size."""
    return _nn.adaptive_max_pool3d(input, _filled(output_size, input), return_indices)


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima over ``output_size`` windows that cover the last dimension evenly."""
    sizes = (output_size,) if isinstance(output_size, int) else tuple(output_size)
    if len(sizes) != 1:
        raise RuntimeError(f"adaptive_max_pool1d() argument 'output_size' should contain one int (got {len(sizes)})")
    size = sizes[0]
    pooled = adaptive_max_pool2d(input.unsqueeze(-2), (1, size), return_indices)
    if return_indices:
        return pooled[0].squeeze(-2), pooled[1].squeeze(-2)
    return pooled.squeeze(-2)


def named_after(
    pool: Callable[_P, Any], function: Callable[..., tuple[Tensor, Tensor]]
) -> Callable[_P, tuple[Tensor, Tensor]]:
    """Gives a function that also returns indices the name and, for editors, the parameters of the pooling."""
    function.__name__ = function.__qualname__ = f"{pool.__name__}_with_indices"
    function.__doc__ = f"Returns maxima and their indices: :func:`{pool.__name__}` with ``return_indices=True``."
    return function


def _max_pool_with_indices(pool: Callable[_P, Any]) -> Callable[_P, tuple[Tensor, Tensor]]:
    call: Callable[..., Any] = pool

    def function(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:
        return call(input, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode, return_indices=True)

    return named_after(pool, function)


def _adaptive_max_pool_with_indices(pool: Callable[_P, Any]) -> Callable[_P, tuple[Tensor, Tensor]]:
    call: Callable[..., Any] = pool

    def function(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple[Tensor, Tensor]:
        return call(input, output_size, True)

    return named_after(pool, function)


max_pool1d_with_indices = _max_pool_with_indices(max_pool1d)
max_pool2d_with_indices = _max_pool_with_indices(max_pool2d)
max_pool3d_with_indices = _max_pool_with_indices(max_pool3d)
adaptive_max_pool1d_with_indices = _adaptive_max_pool_with_indices(adaptive_max_pool1d)
adaptive_max_pool2d_with_indices = _adaptive_max_pool_with_indices(adaptive_max_pool2d)
adaptive_max_pool3d_with_indices = _adaptive_max_pool_with_indices(adaptive_max_pool3d)
