"""Linear maps."""

import math
from typing import Any

import rgrad
from rgrad import _C

from .. import _core, init
from .. import functional as F
from ..parameter import Parameter
from .module import Module

__all__ = ["Bilinear", "Identity", "Linear"]

_linear = _core.linear


class Identity(Module):
    """Returns its input; any arguments of the constructor are ignored.

    Shape:
        Input and output: any shape.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return input


class Linear(Module):
    """Computes ``input @ weight.T + bias``.

    Args:
        in_features: size of the last dimension of the input.
        out_features: size of the last dimension of the output.
        bias: whether to add a learned bias.

    Shape:
        Input: ``(*, in_features)``. Output: ``(*, out_features)``.

    Attributes:
        weight: shape ``(out_features, in_features)``, from U(-k, k) with k = 1 / sqrt(in_features).
        bias: shape ``(out_features,)``, from the same distribution.

    Example:
        >>> layer = rgrad.nn.Linear(20, 30)
        >>> layer(rgrad.zeros(128, 20)).shape
        torch.Size([128, 30])
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(rgrad.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(rgrad.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new initial values."""
        # With a = sqrt(5), the bound of the Kaiming distribution is 1 / sqrt(fan_in).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return _linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A `Linear` under the name that PyTorch prints for the output projection of attention."""


class Bilinear(Module):
    """Computes ``input1 @ weight[k] @ input2 + bias[k]`` for every output feature k.

    Args:
        in1_features: size of the last dimension of the first input.
        in2_features: size of the last dimension of the second input.
        out_features: size of the last dimension of the output.
        bias: whether to add a learned bias.

    Shape:
        Inputs: ``(*, in1_features)`` and ``(*, in2_features)``. Output: ``(*, out_features)``.
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(rgrad.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(rgrad.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new initial values."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: _C.Tensor, input2: _C.Tensor) -> _C.Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
