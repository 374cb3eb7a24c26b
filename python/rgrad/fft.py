"""`torch.fft`: names that packages import. Transforms are of complex numbers, which rgrad has no tensors of."""

from __future__ import annotations

from rgrad._absent import absent_function

_WHY = "there are no complex tensors"
_NAMES = (
    *(f"{kind}fft{dims}" for kind in ("", "i", "r", "ir", "h", "ih") for dims in ("", "2", "n")),
    *("fftfreq", "rfftfreq", "fftshift", "ifftshift"),
)

__all__ = list(_NAMES)  # pyright: ignore[reportUnsupportedDunderAll]

globals().update({name: absent_function(f"torch.fft.{name}", _WHY) for name in _NAMES})
