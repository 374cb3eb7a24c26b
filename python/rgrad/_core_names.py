"""Functions that programs look up in `torch._C`, and whose answer is the same for every program here."""

from __future__ import annotations

from rgrad import _C
from rgrad._absent import absent_class


def _get_tracing_state() -> None:
    """The trace that records what runs; always None, as `jit.trace` records nothing."""
    return None


def _are_functorch_transforms_active() -> bool:
    """Whether tensors are wrapped by a transform; always False, as `func`'s transforms pass ordinary tensors."""
    return False


def _get_default_device() -> str:
    """The type of the device that new tensors are made on."""
    from rgrad._defaults import get_default_device

    return get_default_device().type


def _get_privateuse1_backend_name() -> str:
    """The name of the device type that other packages may define; there is none, so it is PyTorch's own."""
    return "privateuseone"


def install() -> None:
    """Puts them into the core's module."""
    for name in ("Graph", "Value"):  # annotations of functions that describe operations to an exporter
        setattr(_C, name, absent_class(f"torch._C.{name}", "models are exported to no other format"))
    for function in (
        _get_tracing_state,
        _are_functorch_transforms_active,
        _get_default_device,
        _get_privateuse1_backend_name,
    ):
        setattr(_C, function.__name__, function)
