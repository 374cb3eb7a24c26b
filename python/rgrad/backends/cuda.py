"""`torch.backends.cuda`: the libraries of one vendor, which this build does not use."""

from __future__ import annotations

import contextlib
import enum
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


class _LinalgBackend(enum.Enum):
    """Libraries of linear algebra that a program may prefer."""

    Default = 0
    Cusolver = 1
    Magma = 2


_preferred = _LinalgBackend.Default


def preferred_linalg_library(backend: None | str | _LinalgBackend = None) -> _LinalgBackend:
    """The library that a program prefers for linear algebra, kept without effect: there is a single one.

    Args:
        backend: "default", "cusolver" or "magma", or a value as it is returned; None leaves the preference as it is.

    Returns:
        The preference.
    """
    global _preferred
    if isinstance(backend, str):
        found = _LinalgBackend.__members__.get(backend.capitalize())
        if found is None:
            raise RuntimeError("Unknown input value. Choose from: default, cusolver, magma.")
        _preferred = found
    elif isinstance(backend, _LinalgBackend):
        _preferred = backend
    elif backend is not None:
        raise RuntimeError("Unknown input value type.")
    return _preferred


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
