"""The functions on which the modules are based.

Those that PyTorch implements in C are the core's; the others are composed in the modules imported here, or are calls of
the core's: Note [Functions that take attributes].
"""

from __future__ import annotations

from types import FunctionType

from rgrad import _C

from . import grad as grad  # programs call torch.nn.functional.grad.conv2d_weight
from ._activations import (
    celu_,
    elu_,
    glu,
    gumbel_softmax,
    hardtanh_,
    leaky_relu_,
    log_softmax,
    relu_,
    rrelu,
    rrelu_,
    selu_,
    sigmoid,
    softmax,
    softmin,
    tanh,
    threshold_,
)
from ._attention import multi_head_attention_forward
from ._bags import embedding_bag, one_hot
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
from ._linear import bilinear, conv_tbc
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
from ._normalization import instance_norm, local_response_norm, normalize, rms_norm
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
    silu,
    smooth_l1_loss,
    softsign,
    tanhshrink,
    threshold,
)
from ._padding import pad
from ._pooling import (
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
    max_pool1d_with_indices,
    max_pool2d_with_indices,
    max_pool3d_with_indices,
)
from ._resample import interpolate, upsample, upsample_bilinear, upsample_nearest
from ._sampling import (
    GRID_SAMPLE_INTERPOLATION_MODES as GRID_SAMPLE_INTERPOLATION_MODES,
)
from ._sampling import (
    GRID_SAMPLE_PADDING_MODES as GRID_SAMPLE_PADDING_MODES,
)
from ._sampling import (
    affine_grid,
    grid_sample,
)
from ._shuffles import channel_shuffle, pixel_shuffle, pixel_unshuffle
from ._windows import (
    fold,
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
gru_layer = _nn.gru_layer
bag_sums = _nn.bag_sums
pad_edges = _nn.pad_edges
ctc_losses = _nn.ctc_losses
pad_edges_backward = _nn.pad_edges_backward
native_channel_shuffle = channel_shuffle

# Programs know one module: that is where pickle looks for a function, and what `inspect.getmodule` returns.
for _name in __all__:
    if isinstance(_function := globals()[_name], FunctionType):
        _function.__module__ = __name__
