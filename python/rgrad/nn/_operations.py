"""Functions of Python, each a call of the core's of the same name: Note [Functions that take attributes].

Written by docs/generate.py from the operation table: do not edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rgrad import _C

from . import _core
from ._forwarding import of_the_core
from ._reduction import choose

Tensor = _C.Tensor


@of_the_core
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
    """Normalises each channel over the batch or by running statistics, then scales and shifts it."""
    return _core.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@of_the_core
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Cross entropy of probabilities of two classes."""
    return _core.binary_cross_entropy(input, target, weight, None, None, choose(size_average, reduce, reduction))


@of_the_core
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Cross entropy of two classes, from logits."""
    return _core.binary_cross_entropy_with_logits(
        input, target, weight, None, None, choose(size_average, reduce, reduction), pos_weight
    )


@of_the_core
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, else `alpha * (exp(x / alpha) - 1)`."""
    return _core.celu(input, alpha, inplace)


@of_the_core
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
    """Cross entropy of logits with target classes or probabilities."""
    return _core.cross_entropy(
        input, target, weight, None, ignore_index, None, choose(size_average, reduce, reduction), label_smoothing
    )


@of_the_core
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes each element with probability `p` and divides the others by `1 - p`."""
    return _core.dropout(input, p, training, inplace)


@of_the_core
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, else `alpha * (exp(x) - 1)`."""
    return _core.elu(input, alpha, inplace)


@of_the_core
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of `weight` by index."""
    return _core.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)


@of_the_core
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-05
) -> Tensor:
    """Normalises groups of channels of each sample, then scales and shifts each channel."""
    return _core.group_norm(input, num_groups, weight, bias, eps)


@of_the_core
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(x + 3) / 6."""
    return _core.hardsigmoid(input, inplace)


@of_the_core
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x relu6(x + 3) / 6."""
    return _core.hardswish(input, inplace)


@of_the_core
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to [min_val, max_val]."""
    return _core.hardtanh(input, min_val, max_val, inplace)


@of_the_core
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Huber's function of the differences."""
    return _core.huber_loss(input, target, reduction, delta, weight)


@of_the_core
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Kullback-Leibler divergence of the target from log-probabilities."""
    return _core.kl_div(input, target, None, None, choose(size_average, reduce, reduction), log_target)


@of_the_core
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Absolute differences."""
    return _core.l1_loss(input, target, None, None, choose(size_average, reduce, reduction), weight)


@of_the_core
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Normalises the trailing dimensions of `normalized_shape`, then scales and shifts their elements."""
    return _core.layer_norm(input, normalized_shape, weight, bias, eps)


@of_the_core
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where positive, else `negative_slope * x`."""
    return _core.leaky_relu(input, negative_slope, inplace)


@of_the_core
def max_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window, with its index in the plane if `return_indices`."""
    return _core.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@of_the_core
def max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window, with its index in the plane if `return_indices`."""
    return _core.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@of_the_core
def max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window, with its index in the plane if `return_indices`."""
    return _core.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@of_the_core
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x))."""
    return _core.mish(input, inplace)


@of_the_core
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Squared differences."""
    return _core.mse_loss(input, target, None, None, choose(size_average, reduce, reduction), weight)


@of_the_core
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-probabilities of the target classes."""
    return _core.nll_loss(input, target, weight, None, ignore_index, None, choose(size_average, reduce, reduction))


@of_the_core
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return _core.relu(input, inplace)


@of_the_core
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    return _core.relu6(input, inplace)


@of_the_core
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The self-normalising ELU of Klambauer et al., 2017."""
    return _core.selu(input, inplace)


@of_the_core
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x sigmoid(x)."""
    return _core.silu(input, inplace)


@of_the_core
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Squared differences below `beta`, absolute ones above."""
    return _core.smooth_l1_loss(input, target, None, None, choose(size_average, reduce, reduction), beta)


@of_the_core
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return _core.softsign(input)


@of_the_core
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return _core.tanhshrink(input)


@of_the_core
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where above the threshold, else `value`."""
    return _core.threshold(input, threshold, value, inplace)
