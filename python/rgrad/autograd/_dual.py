"""The forward AD level that is entered, for modules that must not load `forward_ad`."""

from __future__ import annotations

from rgrad import _C

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from .forward_ad import _Level

# None outside of levels.
level: _Level | None = None
# Sets grad mode and returns the mode before; within a level, a function that also tells the level.
set_grad_enabled = _C._set_grad_enabled
