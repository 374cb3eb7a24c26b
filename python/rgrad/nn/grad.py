"""Gradients of convolutions as functions, without a graph of the convolution itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import _C

Tensor = _C.Tensor
_nn = _C._nn

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _derivative(
    convolution: Callable[..., Tensor], shape: Any, operand: Tensor, grad_output: Tensor, first: bool
) -> Tensor:
    """The gradient for the operand of the given shape; a convolution is linear in it, so its values don't matter."""
    again = rgrad.is_grad_enabled() and (operand.requires_grad or grad_output.requires_grad)
    with rgrad.enable_grad():
        wanted = _C._require_grad(grad_output.new_zeros(tuple(shape)))
        operand = operand if again else operand.detach()
        result = convolution(wanted, operand) if first else convolution(operand, wanted)
        (grad,) = rgrad.autograd.grad(result, wanted, grad_output, create_graph=again)
    assert grad is not None  # a convolution depends on both operands
    return grad


def _input(spatial: int) -> Callable[..., Tensor]:
    convolution = (_nn.conv1d, _nn.conv2d, _nn.conv3d)[spatial - 1]

    def function(
        input_size: Any,
        weight: Tensor,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        def run(x: Tensor, w: Tensor) -> Tensor:
            return convolution(x, w, None, stride, padding, dilation, groups)

        return _derivative(run, input_size, weight, grad_output, first=True)

    return _named(function, f"conv{spatial}d_input", "input", "input_size: shape of the input", "weight: the weight")


def _weight(spatial: int) -> Callable[..., Tensor]:
    convolution = (_nn.conv1d, _nn.conv2d, _nn.conv3d)[spatial - 1]

    def function(
        input: Tensor,
        weight_size: Any,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        def run(x: Tensor, w: Tensor) -> Tensor:
            return convolution(x, w, None, stride, padding, dilation, groups)

        return _derivative(run, weight_size, input, grad_output, first=False)

    return _named(function, f"conv{spatial}d_weight", "weight", "input: the input", "weight_size: shape of the weight")


def _named(function: Callable[..., Tensor], name: str, what: str, *arguments: str) -> Callable[..., Tensor]:
    function.__name__ = function.__qualname__ = name
    listed = "\n        ".join(f"{line}." for line in arguments)
    function.__doc__ = f"""Computes the gradient of a convolution for its {what}.

    Args:
        {listed}
        grad_output: gradient of the convolution's result.
        stride: that of the convolution, like all that follow.
        padding: zeros on each side.
        dilation: distance between elements of the weight.
        groups: number of groups of channels.
    """
    return function


conv1d_input, conv2d_input, conv3d_input = (_input(spatial) for spatial in (1, 2, 3))
conv1d_weight, conv2d_weight, conv3d_weight = (_weight(spatial) for spatial in (1, 2, 3))
