"""`torch.special`: from the operation table, and the rows that have a name there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rgrad import _C

_namespace = _C._special
_named = {n.removeprefix("special_"): getattr(_C, n) for n in dir(_C) if n.startswith("special_")}
_named.update({n: getattr(_namespace, n) for n in dir(_namespace) if not n.startswith("_")})
for _n in ("logsumexp", "softmax", "log_softmax", "round", "logit", "sinc"):
    if hasattr(_C, _n):
        _named.setdefault(_n, getattr(_C, _n))
__all__ = sorted(_named)
globals().update(_named)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
