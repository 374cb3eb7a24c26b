"""`torch.backends.cuda`: the libraries of one vendor, which this build does not use."""

from __future__ import annotations

import types

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
