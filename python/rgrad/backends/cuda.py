"""`torch.backends.cuda`: the libraries of one vendor, which this build does not use."""

from __future__ import annotations

import contextlib
import types
import warnings
from collections.abc import Iterator

# Settings of matrix products, which rgrad always computes at least as precisely as requested.
matmul = types.SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    fp32_precision="none",
)


def is_available() -> bool:
    """False: this build does not have it."""
    return False


def is_built() -> bool:
    """False: this build does not include it."""
    return False


def flash_sdp_enabled() -> bool:
    """False: there is a single attention kernel."""
    return False


mem_efficient_sdp_enabled = cudnn_sdp_enabled = flash_sdp_enabled


def math_sdp_enabled() -> bool:
    """True."""
    return True


def enable_flash_sdp(enabled: bool) -> None:
    """Accepted, but ignored: there is a single attention kernel."""


enable_mem_efficient_sdp = enable_math_sdp = enable_cudnn_sdp = enable_flash_sdp


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[dict[str, bool]]:
    """A context in which other kernels of attention are allowed, without effect here: there is a single one.

    Prefer :func:`rgrad.nn.attention.sdpa_kernel`.
    """
    warnings.warn(
        "`torch.backends.cuda.sdp_kernel()` is deprecated. `torch.nn.attention.sdpa_kernel()` is the context manager "
        "that replaces it, with another signature.",
        FutureWarning,
        stacklevel=3,
    )
    yield {}


def is_flash_attention_available() -> bool:
    """False: there is a single attention kernel."""
    return False
