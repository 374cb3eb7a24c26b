"""`torch.linalg`: from the operation table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rgrad import _C

_namespace = _C._linalg
__all__ = [n for n in dir(_namespace) if not n.startswith("_")]
globals().update({n: getattr(_namespace, n) for n in __all__})

LinAlgError = _C._LinAlgError
__all__ += ["LinAlgError"]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
