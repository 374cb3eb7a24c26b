"""`torch.cuda.jiterator`, which compiles kernels in CUDA C++: there are none; `rgrad.library.wgsl_op` compiles WGSL."""

from __future__ import annotations

from rgrad._absent import absent_function

__all__: list[str] = []

_WHY = "there is no compiler for CUDA C++; rgrad.library.wgsl_op makes an operation from WGSL"

_create_jit_fn = absent_function("torch.cuda.jiterator._create_jit_fn", _WHY)
_create_multi_output_jit_fn = absent_function("torch.cuda.jiterator._create_multi_output_jit_fn", _WHY)
