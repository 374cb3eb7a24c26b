"""Constants, exceptions and classes that programs look up in `torch` and that say what rgrad is."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from rgrad._absent import absent_class
from rgrad._core_names import StorageBase as StorageBase
from rgrad._tensor import LIBRARIES

_COMPLEX = "there are no complex tensors"
_QUANTIZED = "there are no quantized tensors"

ComplexDoubleStorage = absent_class("torch.ComplexDoubleStorage", _COMPLEX)
ComplexFloatStorage = absent_class("torch.ComplexFloatStorage", _COMPLEX)
QInt8Storage = absent_class("torch.QInt8Storage", _QUANTIZED)
QInt32Storage = absent_class("torch.QInt32Storage", _QUANTIZED)
QUInt2x4Storage = absent_class("torch.QUInt2x4Storage", _QUANTIZED)
QUInt4x2Storage = absent_class("torch.QUInt4x2Storage", _QUANTIZED)
QUInt8Storage = absent_class("torch.QUInt8Storage", _QUANTIZED)
FileCheck = absent_class("torch.FileCheck", "it reads the code of compilers")
DispatchKeySet = absent_class("torch.DispatchKeySet", "rgrad has no dispatcher with keys")
FunctionSchema = absent_class("torch.FunctionSchema", "signatures of operations are text here")
TensorType = absent_class("torch.TensorType", "functions run as Python")


has_lapack = LIBRARIES["has_lapack"]
has_mkl = LIBRARIES["has_mkl"]
has_openmp = LIBRARIES["has_openmp"]
has_spectral = LIBRARIES["has_spectral"]
USE_GLOBAL_DEPS = False
USE_RTLD_GLOBAL_WITH_LIBTORCH = False


class AcceleratorError(RuntimeError):
    """An error of a GPU's driver; never raised, as rgrad's are RuntimeErrors."""


class JITException(RuntimeError):
    """An error in a compiled function; never raised, as functions run as Python."""


class FatalError(RuntimeError):
    """An error after which nothing works; never raised."""


class Tag(enum.Enum):
    """Properties of operations that `torch.library` takes and that a compiler would ask for."""

    core = 0
    data_dependent_output = 1
    dynamic_output_shape = 2
    flexible_layout = 3
    generated = 4
    inplace_view = 5
    maybe_aliasing_or_mutating = 6
    needs_contiguous_strides = 7
    needs_exact_strides = 8
    needs_fixed_stride_order = 9
    nondeterministic_bitwise = 10
    nondeterministic_seeded = 11
    pointwise = 12
    pt2_compliant_tag = 13
    view_copy = 14


class qscheme:  # noqa: N801 - PyTorch's name
    """How quantized tensors are scaled: names to compare with, as there are no such tensors."""

    __module__ = "rgrad"
    _name: str

    def __new__(cls) -> qscheme:
        raise TypeError("cannot create 'torch.qscheme' instances")

    @classmethod
    def _make(cls, name: str) -> qscheme:
        self = object.__new__(cls)
        self._name = name
        return self

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


per_channel_affine = qscheme._make("per_channel_affine")
per_channel_affine_float_qparams = qscheme._make("per_channel_affine_float_qparams")
per_channel_symmetric = qscheme._make("per_channel_symmetric")
per_tensor_affine = qscheme._make("per_tensor_affine")
per_tensor_symmetric = qscheme._make("per_tensor_symmetric")


class classproperty:  # noqa: N801 - PyTorch's name
    """A property of a class.

    Args:
        func: computes it from the class.
    """

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self.func(owner)


def init_num_threads() -> None:
    """Has no effect: `set_num_threads` sets the number of threads."""


def is_vulkan_available() -> bool:
    """False: a GPU that is reached by Vulkan is called "gpu" or "cuda", not "vulkan"."""
    return False


def cudnn_is_acceptable(input: Any) -> bool:
    """False: there is no cuDNN."""
    return False


def autocast_increment_nesting() -> int:
    """0: casts of weights are not kept, so nested autocast blocks are not counted."""
    return 0


autocast_decrement_nesting = autocast_increment_nesting
