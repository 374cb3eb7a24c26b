"""Comparison of a device with the CPU, call by call; used by tests, the doctor and docs/gpu-parity.md."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import rgrad
from rgrad import Tensor

from .samples import LAYOUTS, Layout, Outcome, Sample

# The tolerated error in units in the last place: of elementwise results, and of sums, for which the unit is that of
# the tensor's largest element.
ELEMENT_ULPS = 8
SUM_ULPS = 64

# Functions with zeros, near which relative errors are large.
LOOSE = {"lgamma": 32, "digamma": 32, "logaddexp": 32, "logaddexp2": 32}

# With identical rows the derivative is zero, and rounding leaves different remainders on each device.
_LEVEL_WHERE_ALIKE = {"corrcoef"}

# Calls that move their result to the CPU.
_TO_THE_CPU = {"Tensor.cpu"}

# Calls whose derivative is not unique, or unbounded for equal singular values.
_NO_GRADIENT = {"svd", "linalg.svd"}


@dataclass(frozen=True)
class Verdict:
    """The result of comparing a call.

    Attributes:
        kind: `agrees`, `wrong`, `unsupported` (the device raises), or `refused` (the CPU raises as well).
        ulps: The error of the worst element, in units in the last place.
        why: What is wrong, or the device's error.
    """

    kind: str
    ulps: float = 0.0
    why: str = ""

    def __str__(self) -> str:
        if self.kind == "agrees":
            return "exact" if self.ulps == 0 else f"within {math.ceil(self.ulps)} ULP"
        return self.kind


def check(sample: Sample, dtype: str, device: str = "gpu", layout: Layout = "contiguous", grad: bool = True) -> Verdict:
    """Runs a call on the CPU and on a device, forward and backward, and compares.

    Args:
        sample: The call.
        dtype: The dtype of its data.
        device: The device to run it on.
        layout: The memory layout of its tensors.
        grad: Whether to compare gradients too, if the dtype has them.
    """
    with warnings.catch_warnings():
        # Some warnings are given once per process, hence only on the first device.
        warnings.simplefilter("ignore")
        return _checked(sample, dtype, device, layout, grad)


def _checked(sample: Sample, dtype: str, device: str, layout: Layout, grad: bool) -> Verdict:
    grad = grad and getattr(rgrad, dtype).is_floating_point and sample.name not in _NO_GRADIENT
    grad = grad and not (layout == "broadcast" and sample.name in _LEVEL_WHERE_ALIKE)
    try:
        want = sample.call(dtype, "cpu", layout, grad)
    except Exception as e:
        return _refusal(sample, dtype, device, layout, grad, e)
    try:
        got = sample.call(dtype, device, layout, grad)
        kind = rgrad.device(device).type
        if sample.name not in _TO_THE_CPU and any(t.device.type != kind for t in got.results + got.gradients):
            return Verdict("wrong", math.inf, "a result is not on the device")
        got = Outcome([t.cpu() for t in got.results], [t.cpu() for t in got.gradients])
    except NotImplementedError as e:
        return Verdict("unsupported", why=str(e))
    except Exception as e:
        return Verdict("wrong", math.inf, f"{type(e).__name__}: {e}")
    if len(got.gradients) != len(want.gradients):
        return Verdict("wrong", math.inf, f"{len(got.gradients)} gradients, not {len(want.gradients)}")
    verdict = _compare_outcomes(sample, got, want)
    if verdict.kind == "wrong" and dtype == "float32" and math.isfinite(verdict.ulps):
        # Both sums have errors, so each is compared with the sum of the same numbers in float64.
        true = sample.call(dtype, "cpu", layout, grad, wide=True)
        narrow = [[t.to(g.dtype) for t, g in zip(ts, gs, strict=True)] for ts, gs in (
            (true.results, got.results), (true.gradients, got.gradients),
        )]  # fmt: skip
        verdict = _compare_outcomes(sample, got, Outcome(*narrow))
    return verdict


def _compare_outcomes(sample: Sample, got: Outcome, want: Outcome) -> Verdict:
    limit = LOOSE.get(sample.name, ELEMENT_ULPS) if sample.is_elementwise else None
    verdict = worst(_compare(g, w, limit) for g, w in zip(got.results, want.results, strict=True))
    # A gradient is a sum if an operand was broadcast or used twice.
    return worst([verdict, *(_compare(g, w) for g, w in zip(got.gradients, want.gradients, strict=True))])


def check_layouts(sample: Sample, dtype: str, device: str = "gpu", grad: bool = True) -> Verdict:
    """The worst verdict of a call over all layouts of its tensors."""
    return worst(check(sample, dtype, device, layout, grad) for layout in LAYOUTS)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The most severe verdict: wrong, then unsupported, then the largest error."""
    order = ("refused", "agrees", "unsupported", "wrong")
    return max(verdicts, key=lambda v: (order.index(v.kind), v.ulps), default=Verdict("agrees"))


def _refusal(sample: Sample, dtype: str, device: str, layout: Layout, grad: bool, refused: Exception) -> Verdict:
    """Checks that the device raises the same error as the CPU."""
    try:
        for t in sample.call(dtype, device, layout, grad).results:
            t.cpu()
    except Exception as e:
        if isinstance(e, NotImplementedError) or type(e) is type(refused):
            return Verdict("refused", why=str(refused))
        return Verdict("wrong", math.inf, f"{type(e).__name__}: {e}; on the CPU {type(refused).__name__}: {refused}")
    return Verdict("wrong", math.inf, f"no error; on the CPU {type(refused).__name__}: {refused}")


def _compare(got: Tensor, want: Tensor, element_limit: int | None = None) -> Verdict:
    if got.dtype != want.dtype or got.shape != want.shape:
        return Verdict("wrong", math.inf, f"{got.dtype} {tuple(got.shape)}, not {want.dtype} {tuple(want.shape)}")
    if not want.is_floating_point():
        if rgrad.equal(got, want):
            return Verdict("agrees")
        return Verdict("wrong", math.inf, f"{int((got != want).sum())} of {want.numel()} elements differ")
    off = ulps(got, want, element_limit is not None)
    limit = SUM_ULPS if element_limit is None else element_limit
    return Verdict("agrees" if off <= limit else "wrong", off, "" if off <= limit else f"off by {off:.3g} ULP")


def ulps(got: Tensor, want: Tensor, by_element: bool = True) -> float:
    """The largest difference of two tensors, in units in the last place of each element or of the largest one.

    Args:
        got: A tensor of floating-point numbers.
        want: Another of the same dtype and shape.
        by_element: Whether the unit is that of each element.
    """
    info, (g, w) = rgrad.finfo(want.dtype), (got.detach().double(), want.detach().double())
    same = (g == w) | (g.isnan() & w.isnan())
    if not want.numel() or bool(same.all()):
        return 0.0
    if not bool((same | (g.isfinite() & w.isfinite())).all()):
        return math.inf
    g, w = g.where(~same, 0), w.where(~same, 0)
    size = w.abs() if by_element else want.detach().double().nan_to_num(0, 0, 0).abs().max()
    size = rgrad.maximum(size, rgrad.tensor(info.tiny, dtype=rgrad.float64))
    unit = rgrad.exp2(size.log2().floor()) * info.eps
    return float(((g - w).abs() / unit).max())
