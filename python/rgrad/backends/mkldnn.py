"""`torch.backends.mkldnn`: a vendor's library of kernels, which this build does not use."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator

# Set by programs; without effect here.
enabled = False
benchmark = False
deterministic = True
allow_tf32 = False
fp32_precision = "none"
conv = types.SimpleNamespace(fp32_precision="none")
matmul = types.SimpleNamespace(fp32_precision="none")
rnn = types.SimpleNamespace(fp32_precision="none")
_SETTINGS = ("enabled", "deterministic", "allow_tf32", "fp32_precision")


def is_available() -> bool:
    """False: this build does not have it."""
    return False


def is_built() -> bool:
    """False: nothing of it is in this build."""
    return False


def version() -> None:
    """None: this build does not have it."""


@contextlib.contextmanager
def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"
) -> Iterator[None]:
    """A context with other settings, which have no effect here."""
    settings = globals()
    before = {name: settings[name] for name in _SETTINGS}
    settings.update(
        enabled=enabled, deterministic=deterministic, allow_tf32=allow_tf32, fp32_precision=fp32_precision
    )
    try:
        yield
    finally:
        settings.update(before)
