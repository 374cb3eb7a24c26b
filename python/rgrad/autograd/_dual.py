"""The forward AD level that is entered, for modules that must not load `forward_ad`."""

from __future__ import annotations

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from .forward_ad import _Level

# None outside of levels.
level: _Level | None = None
