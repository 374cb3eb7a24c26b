"""Rounding to the values that a quantized tensor could hold, for training with that error."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import _C
from rgrad.autograd.function import Function

Tensor = _C.Tensor

_FLOATS = (_C.float64, _C.float32, _C.float16, _C.bfloat16)


class _FakeQuantize(Function):
    r"""See `fake_quantize_per_tensor_affine`; scale and zero point are broadcast against the input here."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Tensor:
        inverse = 1.0 / scale if isinstance(scale, Tensor) or scale else 0.0
        scaled = x.float() * inverse
        real = isinstance(zero_point, Tensor) and zero_point.is_floating_point()
        # A zero point between two integers shifts what is rounded, so that 0 need not be a value.
        steps = (scaled + zero_point).round() if real else scaled.round() + zero_point
        ctx.save_for_backward((steps >= quant_min) & (steps <= quant_max))
        # The lower bound is the value of what is no number, as of a conversion to an integer.
        kept = steps.nan_to_num(nan=float(quant_min)).clamp(quant_min, quant_max)
        return ((kept - zero_point) * scale).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        (inside,) = ctx.saved_tensors
        return grad * inside, None, None, None, None


def _check(input: Any, quant_min: int, quant_max: int) -> None:
    if input.dtype not in _FLOATS:
        raise NotImplementedError(f"fake quantization is of floating-point tensors, not of {input.dtype}")
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or equal to `quant_max`.")


def fake_quantize_per_tensor_affine(
    input: Tensor, scale: float | Tensor, zero_point: int | Tensor, quant_min: int, quant_max: int
) -> Tensor:
    r"""Rounds to the values that integers stand for, one scale for all elements.

    .. math:: y = s \left(\operatorname{clip}\left(\operatorname{round}(x / s) + z, q_{\min}, q_{\max}\right) - z\right)

    The gradient passes unchanged where nothing was clipped, and is 0 elsewhere (`Jacob et al.
    <https://arxiv.org/abs/1712.05877>`_).

    Args:
        input: a floating-point tensor.
        scale: the distance of two neighbours, a number or a tensor of one element.
        zero_point: the integer that stands for 0, a number or an int32 tensor of one element.
        quant_min: the least integer.
        quant_max: the greatest integer.

    Raises:
        RuntimeError: the bounds are in the wrong order, or the zero point is not within them.

    >>> import rgrad
    >>> rgrad.fake_quantize_per_tensor_affine(rgrad.tensor([0.26, -0.04, 9.0]), 0.1, 0, 0, 15)
    tensor([0.3000, 0.0000, 1.5000])
    """
    _check(input, quant_min, quant_max)
    if not isinstance(zero_point, Tensor):
        if not isinstance(zero_point, int):
            raise TypeError(
                f"fake_quantize_per_tensor_affine(): argument 'zero_point' must be int, not {type(zero_point).__name__}"
            )
        if not quant_min <= zero_point <= quant_max:
            raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    for x in (scale, zero_point):
        if isinstance(x, Tensor) and x.numel() != 1:
            raise RuntimeError(f"a Tensor with {x.numel()} elements cannot be converted to Scalar")
    values = [x.detach().reshape(()) if isinstance(x, Tensor) else x for x in (scale, zero_point)]
    return _FakeQuantize.apply(input, *values, quant_min, quant_max)


def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """`fake_quantize_per_tensor_affine` with a scale for each index of a dimension.

    Args:
        input: a floating-point tensor.
        scale: the distances of neighbours, float32 or bfloat16 of shape (size of the dimension,).
        zero_point: what stands for 0, of the same shape: int32, or float32 or float16 that are added before rounding.
        axis: the dimension.
        quant_min: the least integer.
        quant_max: the greatest integer.

    Raises:
        RuntimeError: a tensor is of another shape or dtype, or a value not within the bounds.
        IndexError: there is no such dimension.
    """
    _check(input, quant_min, quant_max)
    rank = input.dim()
    if not -rank <= axis < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {axis})")
    if scale.dtype not in (rgrad.float32, rgrad.bfloat16):
        found = scale.type().split(".")[-1].removesuffix("Tensor")
        raise RuntimeError(f"Scale must be Float or BFloat16, found {found}")
    if zero_point.dtype not in (rgrad.int32, rgrad.float32, rgrad.float16):
        found = zero_point.type().split(".")[-1].removesuffix("Tensor")
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {found}")
    if scale.shape != (input.shape[axis],) or zero_point.shape != scale.shape:
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input tensor")
    if bool(((zero_point < quant_min) | (zero_point > quant_max)).any()):
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    shape = [1] * rank
    shape[axis] = -1
    values = [x.detach().reshape(shape) for x in (scale, zero_point)]
    return _FakeQuantize.apply(input, *values, quant_min, quant_max)
