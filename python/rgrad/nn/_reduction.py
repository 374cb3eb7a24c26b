"""The older arguments ``size_average`` and ``reduce`` of losses."""

from __future__ import annotations

import warnings


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """Translates ``size_average`` and ``reduce`` into the name of a reduction."""
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    reduction = "none" if not reduce else ("mean" if size_average else "sum")
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            stacklevel=3,
        )
    return reduction


def choose(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Returns ``reduction``, unless one of the older arguments is given."""
    if size_average is None and reduce is None:
        return reduction
    return legacy_get_string(size_average, reduce)
