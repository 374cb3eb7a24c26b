"""The levels of forward AD that are entered, for modules that must not load `_tangent_levels`."""

from __future__ import annotations

import threading

from rgrad import _C

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any

    from ._tangent_levels import _Level

# The level of `dual_level`, which all threads share; None outside of it.
level: _Level | None = None
# All levels that are entered, also those of derivatives of `torch.func` on any thread.
running: list[_Level] = []
# Sets grad mode and returns the mode before; within a level, a function that also enters or leaves a mode.
set_grad_enabled = _C._set_grad_enabled


class _Thread(threading.local):
    """What a thread does with levels."""

    # The levels of its derivatives of `torch.func`, the outermost first.
    transforms: tuple[_Level, ...] = ()
    # The levels in which tensors have tangents, where these are not all: the forward of a custom function has none.
    visible: tuple[_Level, ...] | None = None
    # The levels of `vmap` in which tangents differ and values do not.
    apart: tuple[int, ...] = ()
    # The level to whose shifts a pass runs; no gradient goes on to the values of its dual tensors.
    sweeping: _Level | None = None
    # The mode that is entered while grad mode is off, and whether it is handling a call.
    mode: Any = None
    recording = False


thread = _Thread()


def levels() -> tuple[_Level, ...]:
    """The levels in which tensors have tangents, the outermost first."""
    if not running:
        return ()
    if thread.visible is not None:
        return thread.visible
    return thread.transforms if level is None else (level, *thread.transforms)
