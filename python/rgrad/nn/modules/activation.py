"""Activations.

Except for ``GLU``, the input may have any shape and the output has the same shape.
"""

import warnings
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import _C

from .. import _core, init
from .. import functional as F
from ..parameter import Parameter
from .module import Module

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]

_relu = _core.relu


class _Elementwise(Module):
    """An activation without options."""

    _operation: Callable[[_C.Tensor], _C.Tensor]

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return self._operation(input)


class _InPlace(Module):
    """An activation whose only option is to overwrite its input."""

    _operation: Callable[..., _C.Tensor]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return self._operation(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Sigmoid(_Elementwise):
    """``1 / (1 + exp(-x))``."""

    _operation = staticmethod(_C.Tensor.sigmoid)


class Tanh(_Elementwise):
    """Hyperbolic tangent."""

    _operation = staticmethod(_C.Tensor.tanh)


class Softsign(_Elementwise):
    """``x / (1 + |x|)``."""

    _operation = staticmethod(_core.softsign)


class Tanhshrink(_Elementwise):
    """``x - tanh(x)``."""

    _operation = staticmethod(_core.tanhshrink)


class LogSigmoid(_Elementwise):
    """Logarithm of the sigmoid."""

    _operation = staticmethod(F.logsigmoid)


class ReLU(Module):
    """``max(x, 0)``.

    Args:
        inplace: whether to overwrite the input.

    Example:
        >>> rgrad.nn.ReLU()(rgrad.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return _relu(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class SELU(_InPlace):
    """ELU, scaled so that activations keep mean 0 and variance 1."""

    _operation = staticmethod(_core.selu)


class SiLU(_InPlace):
    """``x * sigmoid(x)``."""

    _operation = staticmethod(_core.silu)


class Mish(_InPlace):
    """``x * tanh(softplus(x))``."""

    _operation = staticmethod(_core.mish)


class Hardswish(_InPlace):
    """``x * relu6(x + 3) / 6``."""

    _operation = staticmethod(_core.hardswish)

    def extra_repr(self) -> str:
        return ""


class Hardsigmoid(_InPlace):
    """``relu6(x + 3) / 6``."""

    _operation = staticmethod(_core.hardsigmoid)

    def extra_repr(self) -> str:
        return ""


class LeakyReLU(Module):
    """``x`` where positive, ``negative_slope * x`` elsewhere.

    Args:
        negative_slope: the slope for negative elements.
        inplace: whether to write to the input.

    >>> rgrad.nn.LeakyReLU(0.5)(rgrad.tensor([-2.0, 2.0]))
    tensor([-1.,  2.])
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + _inplace_repr(self)


class RReLU(Module):
    """Leaky ReLU whose slope is drawn from U(lower, upper) in training and is their mean in evaluation.

    Args:
        lower: least slope for negative elements.
        upper: largest slope, not below the least.
        inplace: whether to write to the input.
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + _inplace_repr(self)


class PReLU(Module):
    """Leaky ReLU whose slope is learned.

    Args:
        num_parameters: 1, or the number of channels, for one slope per channel.
        init: first value of the slope.
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(rgrad.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the initial value of the slope."""
        init.constant_(self.weight, self.init)

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class ELU(Module):
    """``x`` where positive, ``alpha * (exp(x) - 1)`` elsewhere.

    Args:
        alpha: minus this is the limit for large negative elements.
        inplace: whether to write to the input.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + _inplace_repr(self)


class CELU(Module):
    """``x`` where positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere.

    Args:
        alpha: minus this is the limit for large negative elements; the slope at 0 is 1 for any.
        inplace: whether to write to the input.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + _inplace_repr(self)


class GELU(Module):
    """``x`` times the normal distribution function of ``x``.

    Args:
        approximate: ``'none'``, or ``'tanh'`` for the approximation by a hyperbolic tangent.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, and ``x`` where ``beta * x`` exceeds ``threshold``.

    Args:
        beta: how sharply the curve bends at 0.
        threshold: value of ``beta * x`` above which the result is ``x`` itself.
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class _Shrink(Module):
    _operation: Callable[..., _C.Tensor]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return self._operation(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Softshrink(_Shrink):
    """Moves ``x`` towards 0 by ``lambd``, but not past 0."""

    _operation = staticmethod(F.softshrink)


class Hardshrink(_Shrink):
    """``x`` where ``|x| > lambd``, 0 elsewhere."""

    _operation = staticmethod(F.hardshrink)


class Hardtanh(Module):
    """``x``, clamped to ``[min_val, max_val]``.

    Args:
        min_val: lower bound.
        max_val: upper bound, above the lower one.
        inplace: whether to write to the input.
        min_value: older form of ``min_val``.
        max_value: older form of ``max_val``.
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for old, new, given in (("min_value", "min_val", min_value), ("max_value", "max_val", max_value)):
            if given is not None:
                warnings.warn(
                    f"keyword argument `{old}` is deprecated and renamed to `{new}`",
                    FutureWarning,
                    stacklevel=2,
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + _inplace_repr(self)


class ReLU6(Hardtanh):
    """``x``, clamped to ``[0, 6]``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Threshold(Module):
    """``x`` where it exceeds ``threshold``, ``value`` elsewhere.

    Args:
        threshold: the largest element that is replaced.
        value: the replacement.
        inplace: whether to write to the input.

    >>> rgrad.nn.Threshold(1.0, 7.0)(rgrad.tensor([1.0, 2.0]))
    tensor([7., 2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + _inplace_repr(self)


class GLU(Module):
    """The first half of the input along ``dim``, times the sigmoid of the second.

    Shape:
        Input: size ``2 * k`` in ``dim``. Output: size ``k`` there.
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class _AlongDim(Module):
    _operation: Callable[..., _C.Tensor]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        return self._operation(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


def _check_dim(dim: Any) -> None:
    if dim is not None and (isinstance(dim, bool) or not isinstance(dim, int)):
        raise TypeError(f"dim must be an int or None, got {type(dim)}")


class Softmax(_AlongDim):
    """``exp(x) / sum(exp(x))`` along ``dim``.

    Example:
        >>> rgrad.nn.Softmax(dim=1)(rgrad.zeros(1, 2))
        tensor([[0.5000, 0.5000]])
    """

    _operation = staticmethod(F.softmax)

    def __init__(self, dim: int | None = None) -> None:
        _check_dim(dim)
        super().__init__(dim)


class Softmin(_AlongDim):
    """Softmax of the negated input."""

    _operation = staticmethod(F.softmin)


class LogSoftmax(_AlongDim):
    """Logarithm of the softmax along ``dim``."""

    _operation = staticmethod(F.log_softmax)

    def __init__(self, dim: int | None = None) -> None:
        _check_dim(dim)
        super().__init__(dim)


class Softmax2d(Module):
    """Softmax over the channels of ``(N, C, H, W)`` or ``(C, H, W)``."""

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)


def _inplace_repr(module: Any) -> str:
    return ", inplace=True" if module.inplace else ""
