"""`torch.cuda.jiterator`, which compiles kernels in CUDA C++: there are none; `rgrad.library.wgsl_op` compiles WGSL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rgrad._absent import absent_function

__all__: list[str] = []

_WHY = "there is no compiler for CUDA C++; rgrad.library.wgsl_op makes an operation from WGSL"


def _create_jit_fn(code_string: str, **kwargs: Any) -> Callable[..., Any]:
    """A function of compiled code in PyTorch; here, where nothing compiles it, one that refuses when it is called.

    Args:
        code_string: the code, which is not read.
        kwargs: the default values of its further arguments.

    Returns:
        A function that raises NotImplementedError.
    """
    return absent_function("torch.cuda.jiterator.<function of _create_jit_fn>", _WHY)


def _create_multi_output_jit_fn(code_string: str, num_outputs: int, **kwargs: Any) -> Callable[..., Any]:
    """A function of compiled code with several results in PyTorch; here one that refuses when it is called.

    Args:
        code_string: the code, which is not read.
        num_outputs: the number of results.
        kwargs: the default values of its further arguments.

    Returns:
        A function that raises NotImplementedError.
    """
    return absent_function("torch.cuda.jiterator.<function of _create_multi_output_jit_fn>", _WHY)
