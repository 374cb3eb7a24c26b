"""Which kind of kernel computes a convolution, in the terms by which programs ask: `torch._C._select_conv_backend`."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from rgrad import _C

Tensor = _C.Tensor


class _ConvBackend(enum.IntEnum):
    """The kinds of kernels that PyTorch distinguishes, with its numbers.

    Those of vendors' libraries are never chosen. ``Slow…`` are the library's own; PyTorch calls them so in comparison.
    """

    CudaDepthwise2d = 0
    CudaDepthwise3d = 1
    Cudnn = 2
    CudnnTranspose = 3
    Empty = 4
    Miopen = 5
    MiopenDepthwise = 6
    MiopenTranspose = 7
    Mkldnn = 8
    MkldnnEmpty = 10
    NnpackSpatial = 11
    Overrideable = 12
    Slow2d = 13
    Slow3d = 14
    SlowDilated2d = 15
    SlowDilated3d = 16
    SlowTranspose2d = 17
    SlowTranspose3d = 18
    Winograd3x3Depthwise = 19
    Xnnpack2d = 20
    Mps = 21
    MpsTranspose = 22


def _select_conv_backend(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    bias_sizes: Sequence[int] | None = None,
) -> _ConvBackend:
    """The kind of kernel for these arguments of `torch.convolution`. One dimension is computed as two.

    Raises:
        RuntimeError: the input has other than one to three spatial dimensions.
    """
    spatial = input.dim() - 2
    if spatial not in (1, 2, 3):
        raise RuntimeError(f"a convolution has one to three spatial dimensions, but the input has {input.dim()} in all")
    if 0 in (input.size(0), input.size(1)):
        return _ConvBackend.Empty
    kind = "Transpose" if transposed else "Dilated" if any(step != 1 for step in dilation) else ""
    return _ConvBackend[f"Slow{kind}{max(spatial, 2)}d"]


# Where programs look them up.
_C._ConvBackend = _ConvBackend  # type: ignore[attr-defined]
_C._select_conv_backend = _select_conv_backend  # type: ignore[attr-defined]
