"""Resizing with a low-pass filter, as image libraries do it: two products with matrices of weights.

Note [Antialiased resampling]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Let s be the input's size over the output's. Output element i lies at c = s (i + 1/2) of the input. Its weights are
those of a filter f of support r around c, widened by s where the image shrinks:

    w_j = f((j + 1/2 - c) / max(s, 1)) for |j + 1/2 - c| < r max(s, 1), divided by their sum.

The filter is a triangle (bilinear, r = 1), Keys' cubic with a = -1/2 (r = 2) or a windowed sinc (Lanczos, r = 3). Both
dimensions are resampled by a product with a dense matrix: derivatives of every order come from those of the products,
and the products are fast although most weights are zero.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import rgrad
from rgrad import _C

from ._distance import scalar_type
from ._ntuple import _pair
from ._windows import laid_like

Tensor = _C.Tensor


def _triangle(x: float) -> float:
    return max(0.0, 1.0 - abs(x))


def _cubic(x: float) -> float:
    a, x = -0.5, abs(x)
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


def _lanczos(x: float) -> float:
    if x == 0:
        return 1.0
    if abs(x) >= 3:
        return 0.0
    p = math.pi * x
    return 3 * math.sin(p) * math.sin(p / 3) / (p * p)


_FILTERS: dict[str, tuple[float, Callable[[float], float]]] = {
    "bilinear": (1.0, _triangle),
    "bicubic": (2.0, _cubic),
    "lanczos": (3.0, _lanczos),
}
MODES = tuple(_FILTERS)


def weights(mode: str, size: int, output: int, scale: float) -> list[list[float]]:
    """The matrix that resamples a dimension; see Note [Antialiased resampling].

    Args:
        mode: name of the filter.
        size: of the input.
        output: size of the result.
        scale: elements of the input per element of the result.

    Returns:
        One row of `size` weights per element of the result.
    """
    reach, kernel = _FILTERS[mode]
    stretch = max(scale, 1.0)
    rows = []
    for i in range(output):
        center = scale * (i + 0.5)
        first = max(int(center - reach * stretch + 0.5), 0)
        last = min(int(center + reach * stretch + 0.5), size)
        row = [0.0] * size
        row[first:last] = [kernel((j + 0.5 - center) / stretch) for j in range(first, last)]
        total = sum(row)
        rows.append([w / total for w in row] if total else row)
    return rows


def _scale(size: int, output: int, factor: float | None, align_corners: bool) -> float:
    if align_corners:
        return (size - 1) / (output - 1) if output > 1 else 0.0
    return 1.0 / factor if factor else size / output


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Enlarges or shrinks the spatial dimensions.

    Args:
        input: ``(N, C, *)``, of a floating point dtype or uint8.
        size: sizes of the result, one number or one per dimension; or
        scale_factor: factors of the sizes, one number or one per dimension.
        mode: ``'nearest'``, ``'nearest-exact'``, ``'linear'``, ``'bilinear'``, ``'bicubic'``, ``'trilinear'``,
            ``'area'``, and ``'lanczos'`` with `antialias`.
        align_corners: whether the centers of corner elements stay at the corners, in modes that interpolate.
        recompute_scale_factor: whether the factor is computed again from the rounded size.
        antialias: whether to filter what the smaller image cannot show; for images ``(N, C, H, W)``.

    Returns:
        A tensor of the input's dtype with other sizes after C.

    Raises:
        ValueError: arguments contradict each other.

    >>> rgrad.nn.functional.interpolate(rgrad.eye(4).view(1, 1, 4, 4), 2, mode="bilinear", antialias=True).shape
    torch.Size([1, 1, 2, 2])
    """
    if antialias:
        return _filtered(input, size, scale_factor, mode, align_corners, recompute_scale_factor)
    if mode == "lanczos":
        raise ValueError("Lanczos mode requires antialias=True")
    if isinstance(size, (tuple, list)) and any(isinstance(n, float) for n in size):
        _refuse_fractions(size)
    if mode in ("nearest", "nearest-exact") and not (input.is_floating_point() or input.dtype == rgrad.uint8):
        kernel = f"upsample_{mode.replace('-', '_')}{input.dim() - 2}d"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_type(input)}'")
    return _C._nn.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor)


def _per_dimension(name: str, given: Any) -> tuple[Any, ...]:
    both = _pair(given)
    if len(both) != 2:
        shape = "output size of" if name == "size" else "scale_factor of shape"
        raise ValueError(
            f"Input and {'output' if name == 'size' else name} must have the same number of spatial dimensions, but "
            f"got an input of 2 and {shape} {both}"
        )
    if name == "size" and any(isinstance(n, float) for n in both):
        _refuse_fractions(both)
    return both


def _refuse_fractions(size: Sequence[Any]) -> NoReturn:
    raise TypeError(
        "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got size with "
        f"types {[*map(type, size)]}"
    )


def _filtered(
    input: Tensor, size: Any, scale_factor: Any, mode: str, align_corners: bool | None, recompute: bool | None
) -> Tensor:
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    if (size is None) == (scale_factor is None):
        raise ValueError(
            "only one of size or scale_factor should be defined"
            if size is not None
            else "either size or scale_factor should be defined"
        )
    if size is not None and recompute:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if mode not in MODES or input.dim() != 4:
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes, and to images (N, C, H, W)"
        )
    if mode == "lanczos" and align_corners:
        raise ValueError("Lanczos mode does not support align_corners=True")
    if input.dtype not in (rgrad.float32, rgrad.float64, rgrad.uint8):
        name = str(input.dtype).removeprefix("torch.")
        raise NotImplementedError(f"\"compute_index_ranges_weights\" not implemented for '{name}'")
    factors: tuple[float | None, ...] = (None, None)
    if size is not None:
        output = _per_dimension("size", size)
    else:
        given = _per_dimension("scale_factor", scale_factor)
        output = tuple(math.floor(n * factor) for n, factor in zip(input.shape[2:], given, strict=True))
        factors = factors if recompute else given
    height, width = input.shape[2:]
    if min(height, width, *output) < 1:
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input (H: {height}, W: {width}) "
            f"output (H: {output[0]}, W: {output[1]})"
        )
    rows, columns = (
        _matrix(mode, n, out, _scale(n, out, factor, bool(align_corners)))
        for n, out, factor in zip((height, width), output, factors, strict=True)
    )
    integers = input.dtype == rgrad.uint8
    x = input.float() if integers else input
    result = _product(x, columns, transposed=True) if width != output[1] or not integers else x
    if integers:
        # Images are rounded after each pass, as where a pass writes bytes.
        result = result.add(0.5).floor().clamp(0, 255)
    result = _product(result, rows, transposed=False)
    if integers:
        result = result.add(0.5).floor().clamp(0, 255).to(rgrad.uint8)
    return laid_like(result, input)


@functools.lru_cache(maxsize=32)
def _matrix(mode: str, size: int, output: int, scale: float) -> Tensor:
    """The weights as a tensor: pictures of one size are often resized in a row."""
    # Not a tensor of inference mode, in which the first call may be: later ones may record.
    with rgrad.inference_mode(False):
        return rgrad.tensor(weights(mode, size, output, scale), dtype=rgrad.float64, device="cpu")


def _product(x: Tensor, matrix: Tensor, transposed: bool) -> Tensor:
    w = matrix.to(device=x.device, dtype=x.dtype)
    return x @ w.t() if transposed else w @ x


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
) -> Tensor:
    """The older name of :func:`interpolate`."""
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """The older name of :func:`interpolate` with mode ``nearest``."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """The older name of :func:`interpolate` with mode ``bilinear`` and aligned corners."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
