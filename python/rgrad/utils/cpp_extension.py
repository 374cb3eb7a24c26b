"""`torch.utils.cpp_extension` without compilation: extensions are built for the C++ interface of PyTorch."""

from __future__ import annotations

from rgrad._absent import absent_class, absent_function

__all__ = ["BuildExtension", "CUDAExtension", "CppExtension", "include_paths", "load", "load_inline"]

_WHY = "extensions in C++ use PyTorch's own C++ interface; rgrad.library.custom_op defines operations in Python"

# Where the compilers of other devices are: nowhere, as none is used.
CUDA_HOME: str | None = None
ROCM_HOME: str | None = None

BuildExtension = absent_class("torch.utils.cpp_extension.BuildExtension", _WHY)
CppExtension = absent_function("torch.utils.cpp_extension.CppExtension", _WHY)
CUDAExtension = absent_function("torch.utils.cpp_extension.CUDAExtension", _WHY)
include_paths = absent_function("torch.utils.cpp_extension.include_paths", _WHY)
load = absent_function("torch.utils.cpp_extension.load", _WHY)
load_inline = absent_function("torch.utils.cpp_extension.load_inline", _WHY)
