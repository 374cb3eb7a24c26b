"""Maps with weights that are composed of others."""

from __future__ import annotations

from rgrad import _C

Tensor = _C.Tensor
_nn = _C._nn


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
    return _nn.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)
