"""The functions on which the modules are based.

Those that PyTorch implements in C are the core's; the others are composed here and in the modules imported here, or are
calls of the core's: Note [Functions that take attributes].
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import rgrad
from rgrad import _C

from . import grad as grad  # programs call torch.nn.functional.grad.conv2d_weight
from ._attention import multi_head_attention_forward
from ._bags import embedding_bag
from ._ctc import ctc_loss
from ._distance import cosine_similarity, pairwise_distance, pdist
from ._dropout import alpha_dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout
from ._fractional import (
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
)
from ._grouped import grouped_mm
from ._losses import (
    cosine_embedding_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    linear_cross_entropy,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    poisson_nll_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from ._operations import (
    batch_norm,
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    celu,
    cross_entropy,
    dropout,
    elu,
    embedding,
    group_norm,
    hardsigmoid,
    hardswish,
    hardtanh,
    huber_loss,
    kl_div,
    l1_loss,
    layer_norm,
    leaky_relu,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    mish,
    mse_loss,
    nll_loss,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    smooth_l1_loss,
    softsign,
    tanh,
    tanhshrink,
    threshold,
)
from ._resample import interpolate
from ._sampling import affine_grid, grid_sample
from ._windows import (
    fold,
    laid_like,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
    unfold,
)

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "grouped_mm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "native_channel_shuffle",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

_nn = _C._nn
Tensor = _C.Tensor

linear = _nn.linear
conv1d = _nn.conv1d
conv2d = _nn.conv2d
conv3d = _nn.conv3d
avg_pool1d = _nn.avg_pool1d
avg_pool2d = _nn.avg_pool2d
avg_pool3d = _nn.avg_pool3d
adaptive_avg_pool1d = _nn.adaptive_avg_pool1d
conv_transpose1d = _nn.conv_transpose1d
conv_transpose2d = _nn.conv_transpose2d
conv_transpose3d = _nn.conv_transpose3d
gelu = _nn.gelu
softplus = _nn.softplus
softshrink = _nn.softshrink
hardshrink = _nn.hardshrink
logsigmoid = _nn.logsigmoid
prelu = _nn.prelu
scaled_dot_product_attention = _nn.scaled_dot_product_attention
lstm_layer = _nn.lstm_layer


# In-place forms of activations.


def relu_(input: Tensor) -> Tensor:
    """Applies :func:`relu` in place."""
    return relu(input, inplace=True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Applies :func:`leaky_relu` in place."""
    return leaky_relu(input, negative_slope, inplace=True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Applies :func:`elu` in place."""
    return elu(input, alpha, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """Applies :func:`selu` in place."""
    return selu(input, inplace=True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Applies :func:`celu` in place."""
    return celu(input, alpha, inplace=True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Applies :func:`hardtanh` in place."""
    return hardtanh(input, min_val, max_val, inplace=True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """Applies :func:`threshold` in place."""
    return _nn.threshold(input, threshold, value, inplace=True)


# Activations.


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Leaky ReLU whose slope is drawn per element from U(lower, upper), or in evaluation is their mean.

    Args:
        input: a tensor of a floating point dtype.
        lower: smallest slope for negative elements.
        upper: largest slope.
        training: whether to draw slopes.
        inplace: whether to write to the input.
    """
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace=inplace)
    with rgrad.no_grad():
        slopes = rgrad.empty_like(input).uniform_(lower, upper)
        slopes = rgrad.where(input <= 0, slopes, rgrad.ones_like(input))
    return input.mul_(slopes) if inplace else input * slopes


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """Applies :func:`rrelu` in place."""
    return rrelu(input, lower, upper, training, inplace=True)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Multiplies the first half of ``input`` along ``dim`` with the sigmoid of the second.

    Args:
        input: a tensor of a floating point dtype, of size ``2 * k`` in ``dim``.
        dim: the dimension that is halved.

    Returns:
        A tensor of size ``k`` in that dimension.

    Raises:
        RuntimeError: the size is odd.
    """
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    size = input.size(dim)
    if size % 2 != 0:
        where = dim if dim >= 0 else dim + input.dim()
        raise RuntimeError(f"Halving dimension must be even, but dimension {where} is size {size}")
    values, gates = input.chunk(2, dim)
    return values * gates.sigmoid()


def _warn_of_chosen_dim(name: str, stacklevel: int) -> None:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Divides exponentials by their sum: ``exp(x) / sum(exp(x))`` along ``dim``.

    Args:
        input: a tensor of a floating point dtype.
        dim: along which the values add up to 1; chosen by the rank, with a warning, if not given.
        dtype: to which the input is cast first.

    Returns:
        A tensor of the input's shape.

    >>> rgrad.nn.functional.softmax(rgrad.zeros(2), dim=0)
    tensor([0.5000, 0.5000])
    """
    if dim is None:
        _warn_of_chosen_dim("softmax", _stacklevel)
    return _nn.softmax(input, dim, _stacklevel, dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Applies :func:`softmax` to the negated input.

    Args:
        input: a tensor of a floating point dtype.
        dim: along which the values add up to 1; chosen by the rank, with a warning, if not given.
        dtype: to which the input is cast first.

    Returns:
        A tensor of the input's shape.
    """
    if dim is None:
        _warn_of_chosen_dim("softmin", _stacklevel)
    return _nn.softmax(-input, dim, _stacklevel, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Takes the logarithm of :func:`softmax` without overflow: ``x - log(sum(exp(x)))`` along ``dim``.

    Args:
        input: a tensor of a floating point dtype.
        dim: along which the exponentials add up to 1; chosen by the rank, with a warning, if not given.
        dtype: to which the input is cast first.

    Returns:
        A tensor of the input's shape.
    """
    if dim is None:
        _warn_of_chosen_dim("log_softmax", _stacklevel)
    return _nn.log_softmax(input, dim, _stacklevel, dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Draws from the Gumbel-softmax distribution.

    Args:
        logits: log probabilities, not necessarily normalized.
        tau: temperature.
        hard: whether the values are one-hot (their gradient is that of the soft ones).
        eps: unused.
        dim: dimension of the classes.
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    with rgrad.no_grad():
        gumbels = -rgrad.empty_like(logits).exponential_().log()
    soft = softmax((logits + gumbels) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    one = rgrad.zeros_like(soft).scatter_(dim, index, 1.0)
    return one - soft.detach() + soft


# Norms and distances.


def normalize(
    input: Tensor, p: float = 2.0, dim: int | Sequence[int] = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Divides by the p-norm along ``dim``, clamped to at least ``eps``.

    Args:
        input: a tensor of a floating point dtype.
        p: degree of the norm.
        dim: one dimension or several.
        eps: the minimum norm.
        out: where the result is written.

    >>> rgrad.nn.functional.normalize(rgrad.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / norm if out is None else rgrad.div(input, norm, out=out)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Returns a tensor with one more dimension that is 1 at the index and 0 elsewhere.

    Args:
        tensor: int64 class indices.
        num_classes: size of the new dimension; -1 means one more than the largest index.
    """
    if tensor.dtype != rgrad.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return rgrad.zeros((*tensor.shape, num_classes), dtype=rgrad.int64, device=tensor.device)
    if tensor.min().item() < 0:
        raise RuntimeError("Class values must be non-negative.")
    largest = tensor.max().item()
    if num_classes == -1:
        num_classes = largest + 1
    elif largest >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    result = rgrad.zeros((*tensor.shape, num_classes), dtype=rgrad.int64, device=tensor.device)
    return result.scatter_(-1, tensor.unsqueeze(-1), 1)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divides by the root of the mean square over the last dimensions: ``x / sqrt(mean(x**2) + eps) * weight``.

    Args:
        input: ``(*, *normalized_shape)``, of a floating point dtype.
        normalized_shape: sizes of the last dimensions, over which the mean is taken.
        weight: factors, of that shape.
        eps: added to the mean; the dtype's machine epsilon by default.

    Returns:
        A tensor of the input's shape and dtype.

    Raises:
        RuntimeError: the input does not end with these sizes.
    """
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    if tuple(input.shape[input.dim() - len(shape) :]) != shape:
        expected = "*" + ", ".join(map(str, shape))
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [{expected}], but got input of "
            f"size{list(input.shape)}"
        )
    if eps is None:
        eps = rgrad.finfo(input.dtype).eps
    dims = tuple(range(-len(shape), 0))
    # Half types keep too few digits for a mean of squares.
    wide = input.float() if input.dtype in (rgrad.float16, rgrad.bfloat16) else input
    result = wide * ((wide * wide).mean(dims, keepdim=True) + eps).rsqrt()
    if weight is not None:
        result = result * weight
    return result.to(input.dtype) if wide is not input else result


def _instance_norm_without_eps(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float,
    eps: float,
) -> Tensor:
    """Batch norm refuses an eps of 0; the norm of groups of one channel takes it, and has no statistics to update."""
    with rgrad.no_grad():
        for running, unbiased in ((running_mean, input.mean), (running_var, input.var)):
            if running is not None:
                new = unbiased(tuple(range(2, input.dim()))).mean(0)
                running.mul_(1 - momentum).add_(new.to(running.dtype), alpha=momentum)
    return _nn.group_norm(input, input.size(1), weight, bias, eps)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalizes every channel of every sample by itself.

    It is the batch norm of one sample whose channels are those of the whole batch; running statistics are
    then averaged over the batch.

    Args:
        input: ``(N, C, *)``, of a floating point dtype.
        running_mean: ``(C,)``; updated in place with `use_input_stats`, used without it.
        running_var: as `running_mean`.
        weight: factors, ``(C,)``.
        bias: what is added then, ``(C,)``.
        use_input_stats: whether mean and variance are those of the input.
        momentum: how much of the new statistics goes into the running ones.
        eps: added to the variance.

    Raises:
        ValueError: each channel has but one element, whose variance is nothing to divide by.
    """
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {rgrad.Size(input.shape)}"
        )
    batch, channels = input.shape[:2]

    def repeated(values: Tensor | None) -> Tensor | None:
        return None if values is None else values.repeat(batch)

    if use_input_stats and eps <= 0:
        return _instance_norm_without_eps(input, running_mean, running_var, weight, bias, momentum, eps)
    mean, variance = repeated(running_mean), repeated(running_var)
    merged = input.reshape(1, batch * channels, *input.shape[2:])
    result = batch_norm(merged, mean, variance, repeated(weight), repeated(bias), use_input_stats, momentum, eps)
    if use_input_stats:
        with rgrad.no_grad():
            for running, updated in ((running_mean, mean), (running_var, variance)):
                if running is not None and updated is not None:
                    running.copy_(updated.view(batch, channels).mean(0))
    return result.view(input.shape)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns ``input1 @ weight[k] @ input2 + bias[k]`` for every k.

    Args:
        input1: ``(*, in1)``, of a floating point dtype.
        input2: ``(*, in2)``, with the same leading sizes.
        weight: ``(out, in1, in2)``.
        bias: ``(out,)``.

    Returns:
        A tensor ``(*, out)``.

    Raises:
        RuntimeError: sizes do not fit together.
    """
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(_bilinear_mismatch(input1, input2))
    out_features, in1, in2 = weight.shape
    for place, given, needed in ((1, input1.size(-1), in1), (2, input2.size(-1), in2)):
        if given != needed:
            raise RuntimeError(
                f"bilinear(): input{place} size does not match weight size: got {given} but expected {needed}"
            )
    first = input1.reshape(-1, in1)
    second = input2.reshape(-1, in2)
    products = (first @ weight.permute(1, 0, 2).reshape(in1, -1)).view(-1, out_features, in2)
    result = (products @ second.unsqueeze(-1)).squeeze(-1)
    if bias is not None:
        result = result + bias
    return result.view(*input1.shape[:-1], out_features)


def _bilinear_mismatch(input1: Tensor, input2: Tensor) -> str:
    if input1.dim() != input2.dim():
        return f"bilinear(): input dimensions do not match: got {input1.dim()} and {input2.dim()}"
    dim = next(d for d in range(input1.dim() - 1) if input1.size(d) != input2.size(d))
    sizes = f"got {input1.size(dim)} and {input2.size(dim)}"
    return f"bilinear(): input batch dimensions do not match at dim {dim}: {sizes}"


# Padding. The core pads with a constant; the other modes gather elements of the input.


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Adds elements around ``input``.

    Args:
        input: the tensor.
        pad: how many elements before and after, of the last dimension first; negative numbers crop.
        mode: ``'constant'``, ``'reflect'``, ``'replicate'`` or ``'circular'``.
        value: the constant, 0 by default.

    Example:
        >>> rgrad.nn.functional.pad(rgrad.ones(1, 2), (1, 0))
        tensor([[0., 1., 1.]])
    """
    if mode == "constant":
        return _nn.pad(input, pad, mode, value)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    spatial = len(pad) // 2
    if len(pad) not in (2, 4, 6) or input.dim() not in (spatial + 1, spatial + 2):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {input.dim()}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    result = input if any(pad) else input.clone(memory_format=rgrad.contiguous_format)
    for place in range(spatial):
        dim = input.dim() - 1 - place
        result = _pad_dimension(result, dim, pad[2 * place], pad[2 * place + 1], mode)
    return result if mode == "circular" else laid_like(result, input)


def _pad_dimension(input: Tensor, dim: int, before: int, after: int, mode: str) -> Tensor:
    if before == 0 and after == 0:
        return input
    size = input.size(dim)
    if mode == "reflect" and max(before, after) >= size:
        raise RuntimeError(
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: "
            "padding "
            f"({before}, {after}) at dimension {dim} of input {list(input.shape)}"
        )
    if mode == "circular" and max(before, after) > size:
        raise RuntimeError("Padding value causes wrapping around more than once.")
    place = rgrad.arange(-before, size + after, device=input.device)
    # Crop first: circular padding repeats the remaining elements.
    first, last = max(-before, 0), size - max(-after, 0)
    if mode == "reflect":
        place = (size - 1) - ((size - 1) - place.abs()).abs()
    elif mode == "replicate":
        place = place.clamp(0, size - 1)
    else:
        place = (place - first).remainder(last - first) + first
    return input.index_select(dim, place)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Rearranges ``(*, C * r**2, H, W)`` into ``(*, C, H * r, W * r)``.

    Args:
        input: at least three-dimensional, of any dtype.
        upscale_factor: r.

    Raises:
        RuntimeError: the channels are no multiple of ``r**2``.

    >>> rgrad.nn.functional.pixel_shuffle(rgrad.zeros(1, 8, 2, 3), 2).shape
    torch.Size([1, 2, 4, 6])
    """
    factor = upscale_factor
    if input.dim() < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.dim()} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {factor}")
    *batch, channels, height, width = input.shape
    if channels % factor**2 != 0:
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
            f"upscale_factor, but input.size(-3)={channels} is not divisible by {factor**2}"
        )
    split = input.reshape(math.prod(batch), channels // factor**2, factor, factor, height, width)
    shape = (*batch, channels // factor**2, height * factor, width * factor)
    return laid_like(split.permute(0, 1, 4, 2, 5, 3).reshape(shape), input)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Undoes :func:`pixel_shuffle`: rearranges ``(*, C, H * r, W * r)`` into ``(*, C * r**2, H, W)``.

    Args:
        input: at least three-dimensional, of any dtype.
        downscale_factor: r.

    Raises:
        RuntimeError: height or width is no multiple of r.
    """
    factor = downscale_factor
    if input.dim() < 3:
        raise RuntimeError(
            "pixel_unshuffle expects input to have at least 3 dimensions, but got input with "
            f"{input.dim()} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {factor}")
    *batch, channels, height, width = input.shape
    for name, at, size in (("height", -2, height), ("width", -1, width)):
        if size % factor:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({at})={size} "
                f"is not divisible by {factor}"
            )
    split = input.reshape(math.prod(batch), channels, height // factor, factor, width // factor, factor)
    shape = (*batch, channels * factor**2, height // factor, width // factor)
    return laid_like(split.permute(0, 1, 3, 5, 2, 4).reshape(shape), input)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleaves the channels of ``groups`` groups.

    Args:
        input: ``(N, C, *)``, of any dtype.
        groups: a divisor of C.

    Raises:
        RuntimeError: the channels are no multiple of the groups.

    >>> rgrad.nn.functional.channel_shuffle(rgrad.arange(4).view(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    if input.dim() < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    if input.size(1) % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {input.size(1)} channels and {groups} groups."
        )
    split = input.reshape(input.size(0), groups, input.size(1) // groups, *input.shape[2:])
    return laid_like(split.transpose(1, 2).reshape(input.shape), input)


native_channel_shuffle = channel_shuffle


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
) -> Tensor:
    """The older name of :func:`interpolate`."""
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """The older name of :func:`interpolate` with mode ``nearest``."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """The older name of :func:`interpolate` with mode ``bilinear`` and aligned corners."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


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
        raise RuntimeError(f"adaptive_max_pool1d() expects one number as output_size, but got {sizes}")
    size = sizes[0]
    pooled = adaptive_max_pool2d(input.unsqueeze(-2), (1, size), return_indices)
    if return_indices:
        return pooled[0].squeeze(-2), pooled[1].squeeze(-2)
    return pooled.squeeze(-2)


def _named_after(pool: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., tuple[Tensor, Tensor]]:
    function.__name__ = function.__qualname__ = f"{pool.__name__}_with_indices"
    function.__doc__ = f"Returns maxima and their indices: :func:`{pool.__name__}` with ``return_indices=True``."
    return function


def _max_pool_with_indices(pool: Callable[..., Any]) -> Callable[..., tuple[Tensor, Tensor]]:
    def function(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode, return_indices=True)

    return _named_after(pool, function)


def _adaptive_max_pool_with_indices(pool: Callable[..., Any]) -> Callable[..., tuple[Tensor, Tensor]]:
    def function(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple[Tensor, Tensor]:
        return pool(input, output_size, True)

    return _named_after(pool, function)


max_pool1d_with_indices = _max_pool_with_indices(max_pool1d)
max_pool2d_with_indices = _max_pool_with_indices(max_pool2d)
max_pool3d_with_indices = _max_pool_with_indices(max_pool3d)
adaptive_max_pool1d_with_indices = _adaptive_max_pool_with_indices(adaptive_max_pool1d)
adaptive_max_pool2d_with_indices = _adaptive_max_pool_with_indices(adaptive_max_pool2d)
adaptive_max_pool3d_with_indices = _adaptive_max_pool_with_indices(adaptive_max_pool3d)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolves sequences whose dimensions are time, batch and channels.

    Args:
        input: ``(T, N, in_channels)``, of a floating point dtype.
        weight: ``(width, in_channels, out_channels)``.
        bias: ``(out_channels,)``.
        pad: zeros before and after the sequence.

    Returns:
        A tensor ``(T + 2 * pad - width + 1, N, out_channels)``.
    """
    return conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divides by a power of the mean square over ``size`` adjacent channels."""
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)")
    if input.numel() == 0:
        return input
    square = input * input
    rows = square.reshape(input.size(0), 1, input.size(1), math.prod(input.shape[2:]))
    padded = _nn.pad(rows, (0, 0, size // 2, (size - 1) // 2))
    mean = avg_pool2d(padded, (size, 1), stride=1).reshape(input.shape)
    return input / (mean * alpha + k).pow(beta)
