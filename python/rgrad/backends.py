"""`torch.backends`: what scripts query before they choose a device."""

from __future__ import annotations

import warnings


class _Absent:
    """A backend that this build does not have."""

    enabled = False
    benchmark = False
    deterministic = True
    allow_tf32 = False

    @staticmethod
    def version() -> None:
        """None."""

    @staticmethod
    def is_available() -> bool:
        """False."""
        return False

    @staticmethod
    def is_built() -> bool:
        """False."""
        return False


class _Mps(_Absent):
    """The GPU of a machine of Apple's."""

    @staticmethod
    def is_available() -> bool:
        """Whether the name "mps" means a GPU."""
        from rgrad import mps

        return mps.is_available()


class _Products:
    """Settings of products that scripts make: those of this library are never less exact than they ask for."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True


class _Cuda(_Absent):
    """The libraries of one vendor."""

    def __init__(self) -> None:
        self.matmul = _Products()


cuda = _Cuda()
cudnn = _Absent()
mps = _Mps()
mkl = _Absent()
mkldnn = _Absent()
openmp = _Absent()

_matmul_precision = "highest"


def set_float32_matmul_precision(precision: str) -> None:
    """How little precision products of float32 matrices may have; all here have the full one."""
    global _matmul_precision
    if precision not in ("highest", "high", "medium"):
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current"
            "setFloat32MatmulPrecision call has no effect.",
            stacklevel=2,
        )
        return
    _matmul_precision = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was last given."""
    return _matmul_precision
