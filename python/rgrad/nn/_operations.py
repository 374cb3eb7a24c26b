"""Python functions, each a call of the core's operation of the same name.

# Note [Functions that take attributes]
PyTorch writes these functions in Python, and programs use what only functions of Python have: they set attributes on
them, ask `inspect` for their source, or find the instance bound to them where one is a class attribute. A function of
the core offers none of that, so each gets a function of Python before it, which costs a call of an empty function.
It also replaces the core's function in `rgrad._C._nn`, where the core looks up what it passes to
`__torch_function__`. Modules call the core's functions, which `nn._core` keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rgrad import _C

from . import _core
from ._reduction import choose

Tensor = _C.Tensor
_F = TypeVar("_F", bound=Callable[..., Any])
FUNCTIONS: list[Callable[..., Any]] = []


def _of_the_core(function: _F) -> _F:
    """Puts a function in the place of the core's, whose documentation it gets."""
    name = function.__name__
    function.__doc__ = getattr(_core, name).__doc__
    function.__module__ = "rgrad.nn.functional"
    setattr(_C._nn, name, function)
    FUNCTIONS.append(function)
    return function


@_of_the_core
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    return _core.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@_of_the_core
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    return _core.binary_cross_entropy(input, target, weight, None, None, choose(size_average, reduce, reduction))


@_of_the_core
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    reduction = choose(size_average, reduce, reduction)
    return _core.binary_cross_entropy_with_logits(input, target, weight, None, None, reduction, pos_weight)


@_of_the_core
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return _core.celu(input, alpha, inplace)


@_of_the_core
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    reduction = choose(size_average, reduce, reduction)
    return _core.cross_entropy(input, target, weight, None, ignore_index, None, reduction, label_smoothing)


@_of_the_core
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return _core.dropout(input, p, training, inplace)


@_of_the_core
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return _core.elu(input, alpha, inplace)


@_of_the_core
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    return _core.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)


@_of_the_core
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-05
) -> Tensor:
    return _core.group_norm(input, num_groups, weight, bias, eps)


@_of_the_core
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    return _core.hardsigmoid(input, inplace)


@_of_the_core
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    return _core.hardswish(input, inplace)


@_of_the_core
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    return _core.hardtanh(input, min_val, max_val, inplace)


@_of_the_core
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    return _core.huber_loss(input, target, reduction, delta, weight)


@_of_the_core
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    return _core.kl_div(input, target, None, None, choose(size_average, reduce, reduction), log_target)


@_of_the_core
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    return _core.l1_loss(input, target, None, None, choose(size_average, reduce, reduction), weight)


@_of_the_core
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    return _core.layer_norm(input, normalized_shape, weight, bias, eps)


@_of_the_core
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    return _core.leaky_relu(input, negative_slope, inplace)


@_of_the_core
def max_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    return _core.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@_of_the_core
def max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    return _core.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@_of_the_core
def max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    return _core.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@_of_the_core
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    return _core.mish(input, inplace)


@_of_the_core
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    return _core.mse_loss(input, target, None, None, choose(size_average, reduce, reduction), weight)


@_of_the_core
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    return _core.nll_loss(input, target, weight, None, ignore_index, None, choose(size_average, reduce, reduction))


@_of_the_core
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    return _core.relu(input, inplace)


@_of_the_core
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    return _core.relu6(input, inplace)


@_of_the_core
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    return _core.selu(input, inplace)


@_of_the_core
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    return _core.silu(input, inplace)


@_of_the_core
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    return _core.smooth_l1_loss(input, target, None, None, choose(size_average, reduce, reduction), beta)


@_of_the_core
def softsign(input: Tensor) -> Tensor:
    return _core.softsign(input)


@_of_the_core
def tanhshrink(input: Tensor) -> Tensor:
    return _core.tanhshrink(input)


@_of_the_core
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    return _core.threshold(input, threshold, value, inplace)


def sigmoid(input: Tensor) -> Tensor:
    """Calls :meth:`Tensor.sigmoid`, which is ``1 / (1 + exp(-x))``."""
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:
    """Calls :meth:`Tensor.tanh`, the hyperbolic tangent."""
    return input.tanh()


for function in (sigmoid, tanh):
    function.__module__ = "rgrad.nn.functional"
    FUNCTIONS.append(function)
