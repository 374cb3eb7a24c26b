"""An exception of another thread or process, as a message that can be sent and raised again."""

from __future__ import annotations

import sys
import traceback
from typing import Any, NoReturn

__all__ = ["ExceptionWrapper"]


class ExceptionWrapper:
    """Keeps the type of an exception and its traceback as text, not the exception, whose frames keep their objects.

    Args:
        exc_info: as `sys.exc_info()` returns it; of the exception being handled if None.
        where: where it was raised, for the message.
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        exc_type, error, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = exc_type
        self.exc_msg = "".join(traceback.format_exception(exc_type, error, trace))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raises an exception of the type, with the traceback in its message."""
        message: Any = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            # Its message is shown as repr, which would hide the lines.
            message = _Lines(message)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=message)
        try:
            error = self.exc_type(message)
        except Exception:
            # The type takes other arguments than a message.
            raise RuntimeError(message) from None
        raise error


class _Lines(str):
    """A message whose repr has its lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
