"""Functions of `rgrad.nn.functional` under the names, and with the arguments, that they have in `rgrad` itself.

Their arguments have no defaults, or other ones; a reduction is a number: 0 for none, which is the default, 1 for the
mean, 2 for the sum; and where the functional form has a switch, these have two names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad import _C
from rgrad.autograd import Function
from rgrad.nn import functional as F
from rgrad.random import drawing_from

Tensor = _C.Tensor
_nn = _C._nn

_REDUCTIONS = ("none", "mean", "sum")


def _reduction(number: int) -> str:
    if number not in (0, 1, 2):
        raise RuntimeError(f"{number} is not a valid value for reduction: 0 is none, 1 the mean, 2 the sum")
    return _REDUCTIONS[number]


# Dropout.


def _probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")


def _channels(input: Tensor) -> None:
    if input.dim() < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`rgrad.nn.functional.dropout`."""
    _probability(p)
    return F.dropout(input, p, train)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`rgrad.nn.functional.dropout`, in place."""
    _probability(p)
    return F.dropout(input, p, train, inplace=True)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`rgrad.nn.functional.alpha_dropout`."""
    _probability(p)
    return F.alpha_dropout(input, p, train)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`rgrad.nn.functional.alpha_dropout`, in place."""
    _probability(p)
    return F.alpha_dropout(input, p, train, inplace=True)


def _feature_dropout(input: Tensor, p: float, train: bool, inplace: bool) -> Tensor:
    _probability(p)
    _channels(input)
    if not train or p == 0 or input.numel() == 0:
        return input
    kept = rgrad.empty(*input.shape[:2], *(1,) * (input.dim() - 2), dtype=input.dtype, device=input.device)
    scale = kept.bernoulli_(1 - p) / (1 - p if p < 1 else 1)
    return input.mul_(scale) if inplace else input * scale


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Zeroes whole channels of (N, C, ...), as `rgrad.nn.functional.dropout2d` does."""
    return _feature_dropout(input, p, train, inplace=False)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_dropout`, in place."""
    return _feature_dropout(input, p, train, inplace=True)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`rgrad.nn.functional.feature_alpha_dropout`."""
    _probability(p)
    _channels(input)
    return F.feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`rgrad.nn.functional.feature_alpha_dropout`, in place."""
    _probability(p)
    _channels(input)
    return F.feature_alpha_dropout(input, p, train, inplace=True)


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Dropout that also returns which elements are kept.

    Args:
        input: of a floating-point dtype.
        p: the probability of zeroing an element.
        train: whether to drop anything; None is True.
    """
    _probability(p)
    if train is False or p == 0:
        return input.clone(), rgrad.ones_like(input, dtype=rgrad.bool)
    kept = rgrad.empty_like(input).bernoulli_(1 - p)
    return input * kept / (1 - p if p < 1 else 1), kept.bool()


# Normalization.


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`rgrad.nn.functional.batch_norm`; the last argument makes no difference."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`rgrad.nn.functional.instance_norm`; the last argument makes no difference."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def _statistics(input: Tensor, dims: Sequence[int], keepdim: bool, eps: float) -> tuple[Tensor, Tensor]:
    variance, mean = rgrad.var_mean(input, list(dims), correction=0, keepdim=keepdim)
    return mean, (variance + eps).rsqrt()


class _Recorded(Function):
    """A value recorded as a result of tensors on which it does not depend."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *inputs: Tensor) -> Tensor:
        ctx.inputs = len(inputs)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return g, *[None] * ctx.inputs


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch norm that also returns the means and the inverse standard deviations of a training batch, (C,) each."""
    made = F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return made, input.new_empty(0), input.new_empty(0)
    # Gradients pass through the first result only.
    return made, *_statistics(input.detach(), [d for d in range(input.dim()) if d != 1], False, eps)


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer norm that also returns the means and the inverse standard deviations."""
    made = F.layer_norm(input, list(normalized_shape), weight, bias, eps)
    # Gradients pass through the first result only.
    return made, *_statistics(input.detach(), [-1 - d for d in range(len(normalized_shape))], True, eps)


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Group norm that also returns the means and the inverse standard deviations, (N, group) each."""
    made = F.group_norm(input, group, weight, bias, eps)
    statistics = _statistics(input.reshape(N, group, C // group * HxW), [-1], False, eps)
    if made.requires_grad and not input.requires_grad:
        affine = [t for t in (weight, bias) if t is not None]
        return made, *(_Recorded.apply(s, *affine) for s in statistics)
    return made, *statistics


# Losses.


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 0,
) -> Tensor:
    """`rgrad.nn.functional.binary_cross_entropy_with_logits`."""
    return F.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_reduction(reduction), pos_weight=pos_weight
    )


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`rgrad.nn.functional.cosine_embedding_loss`."""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Tensor:
    """`rgrad.nn.functional.ctc_loss`."""
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _reduction(reduction), zero_infinity)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Tensor:
    """`rgrad.nn.functional.hinge_embedding_loss`."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_reduction(reduction))


def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Tensor:
    """`rgrad.nn.functional.kl_div`; the mean is that of all elements."""
    made = F.kl_div(input, target, reduction="none", log_target=log_target)
    return {"none": lambda: made, "mean": made.mean, "sum": made.sum}[_reduction(reduction)]()


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`rgrad.nn.functional.margin_ranking_loss`."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """`rgrad.nn.functional.poisson_nll_loss`."""
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_reduction(reduction))


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-06,
    swap: bool = False,
    reduction: int = 0,
) -> Tensor:
    """`rgrad.nn.functional.triplet_margin_loss`."""
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_reduction(reduction))


# Convolutions, pooling and sampling.


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """A convolution of one to three dimensions, or its transpose.

    Args:
        input: (N, C, ...).
        weight: (O, C / groups, ...), or (C, O / groups, ...) if transposed.
        bias: (O,).
        stride: steps of the kernel, one for all dimensions or one for each.
        padding: zeros at both ends.
        dilation: distance of the elements of the kernel.
        transposed: whether the transpose is computed.
        output_padding: what is added at one end of the transpose's result.
        groups: how many groups of channels are apart.
    """
    dims = weight.dim() - 2
    if not 1 <= dims <= 3:
        raise RuntimeError(f"convolution: expected a weight of 3 to 5 dimensions, but got {weight.dim()}")
    if transposed:
        function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
        return function(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return (F.conv1d, F.conv2d, F.conv3d)[dims - 1](input, weight, bias, stride, padding, dilation, groups)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution of sequences whose channels are their last dimension.

    Args:
        input: (time, batch, in channels).
        weight: (kernel, in channels, out channels).
        bias: (out channels,).
        pad: zeros at both ends of time.

    Returns:
        (time, batch, out channels).
    """
    if (input.dim(), weight.dim(), bias.dim()) != (3, 3, 1):
        raise RuntimeError(
            "conv_tbc: expected input and weight of 3 dimensions and a bias of 1, but got "
            f"{input.dim()}, {weight.dim()} and {bias.dim()}"
        )
    return F.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """`rgrad.nn.functional.adaptive_max_pool1d`, with the indices of the maxima."""
    return F.adaptive_max_pool1d(input, output_size, return_indices=True)


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """`rgrad.nn.functional.max_pool1d`, with the indices of the maxima."""
    return F.max_pool1d(input, kernel_size, stride or None, padding, dilation, ceil_mode, return_indices=True)


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """`rgrad.nn.functional.affine_grid`."""
    return F.affine_grid(theta, size, align_corners)


# Embeddings and activations.


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """`rgrad.nn.functional.embedding`, with the table first and -1 for no padding."""
    padding = None if padding_idx == -1 else padding_idx
    return F.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scales the rows of a table that are listed, in place, down to a norm.

    Args:
        input: the table, (rows, size).
        indices: rows, int64.
        max_norm: the largest norm that they may have.
        norm_type: which norm.
    """
    with rgrad.no_grad():
        rows = indices.reshape(-1).unique()
        picked = input[rows]
        norm = rgrad.linalg.vector_norm(picked, norm_type, dim=1, keepdim=True)
        # A little more than the norm, so that rounding does not leave more than the limit.
        scale = rgrad.where(norm > max_norm, max_norm / (norm + 1e-7), 1.0)
        input[rows] = picked * scale
    return input


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, generator: Any = None
) -> Tensor:
    """`rgrad.nn.functional.rrelu`, with numbers of a generator."""
    with drawing_from(generator):
        return F.rrelu(input, lower, upper, training)


def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, generator: Any = None
) -> Tensor:
    """`rrelu`, in place."""
    with drawing_from(generator):
        return F.rrelu(input, lower, upper, training, inplace=True)


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`rgrad.nn.functional.channel_shuffle`."""
    return F.channel_shuffle(input, groups)


def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Samples of Poisson distributions.

    Args:
        input: rates, of any shape and a floating-point dtype; not negative.
        generator: where the random numbers come from; the default generator if None.
    """
    from rgrad.distributions._sampling import poisson as draw

    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"torch.poisson expects rates of a floating-point dtype, but got {input.dtype}")
    with drawing_from(generator):
        return draw(input)


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Samples of binomial distributions.

    Args:
        count: numbers of trials, of a floating-point dtype.
        prob: probabilities of success; the shapes broadcast.
        generator: where the random numbers come from; the default generator if None.
    """
    from rgrad.distributions._sampling import binomial as draw

    for name, value in (("count", count), ("prob", prob)):
        if not value.dtype.is_floating_point:
            kind = value.type().rpartition(".")[2].removesuffix("Tensor")
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {kind}")
    with drawing_from(generator):
        return draw(*rgrad.broadcast_tensors(count, prob))
