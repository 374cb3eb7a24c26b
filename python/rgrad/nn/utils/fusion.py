"""Fusion of batch normalization into the preceding layer, for evaluation."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import rgrad
from rgrad import _C

from ..modules.module import Module
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

Tensor = _C.Tensor
M = TypeVar("M", bound=Module)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of one convolution equivalent to a convolution followed by a batch norm."""
    bias = rgrad.zeros_like(bn_rm) if conv_b is None else conv_b
    scale = (bn_rv + bn_eps).rsqrt()
    if bn_w is not None:
        scale = scale * bn_w
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    weight = conv_w * scale.reshape(shape)
    shifted = (bias - bn_rm) * scale + (0 if bn_b is None else bn_b)
    return (
        Parameter(weight.detach().to(conv_w.dtype), conv_w.requires_grad),
        Parameter(shifted.detach().to(conv_w.dtype if conv_b is None else conv_b.dtype), bias.requires_grad),
    )


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of one linear map equivalent to a linear map followed by a batch norm."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _fused(layer: M, bn: Any, transpose: bool) -> M:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    fused: Any = copy.deepcopy(layer)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_eval(conv: M, bn: Any, transpose: bool = False) -> M:
    """A convolution equivalent to ``conv`` followed by ``bn``, both in evaluation mode."""
    return _fused(conv, bn, transpose)


def fuse_linear_bn_eval(linear: M, bn: Any) -> M:
    """A linear map equivalent to ``linear`` followed by ``bn``, both in evaluation mode."""
    layer: Any = linear
    if layer.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1 must hold, and they are "
            f"{layer.out_features} and {bn.num_features}"
        )
    return _fused(linear, bn, transpose=False)
