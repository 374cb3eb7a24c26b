"""How tensors are pickled for other processes; see Note [Shared memory]."""

from __future__ import annotations

from typing import Any

from rgrad._shared import init_reductions, rebuild_storage, rebuild_tensor, reduce_storage, reduce_tensor

__all__ = ["StorageWeakRef", "init_reductions", "rebuild_storage", "rebuild_tensor", "reduce_storage", "reduce_tensor"]


class StorageWeakRef:
    """Which memory a storage is: equal to another one exactly if both storages share theirs.

    Args:
        storage: the storage, which is not kept alive.
    """

    __slots__ = ("cdata",)

    def __init__(self, storage: Any) -> None:
        self.cdata = storage._cdata

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, StorageWeakRef) and self.cdata == other.cdata)
