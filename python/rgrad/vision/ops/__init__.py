"""Operations and modules for networks that process images."""

from rgrad.vision.ops import misc
from rgrad.vision.ops.misc import (
    MLP,
    Conv2dNormActivation,
    Conv3dNormActivation,
    FrozenBatchNorm2d,
    Permute,
    SqueezeExcitation,
)
from rgrad.vision.ops.stochastic_depth import StochasticDepth, stochastic_depth

__all__ = [
    "Conv2dNormActivation",
    "Conv3dNormActivation",
    "FrozenBatchNorm2d",
    "MLP",
    "Permute",
    "SqueezeExcitation",
    "StochasticDepth",
    "misc",
    "stochastic_depth",
]
