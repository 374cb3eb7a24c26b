"""How tensors are pickled for other processes; see Note [Shared memory]."""

from __future__ import annotations

from rgrad._shared import init_reductions, rebuild_storage, rebuild_tensor, reduce_storage, reduce_tensor

__all__ = ["init_reductions", "rebuild_storage", "rebuild_tensor", "reduce_storage", "reduce_tensor"]
