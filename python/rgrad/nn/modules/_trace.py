"""Adds to an error's traceback the module of the network in which it occurred."""

from __future__ import annotations

from typing import Any

_PREFIX = "In module "


def note_module(error: Exception, module: Any) -> None:
    """Adds the path of ``module`` to the notes of ``error``, which a traceback prints below the message.

    Each module call that the error propagates through prepends one name to the path, so the outermost call completes
    it: ``In module Net.block.fc1: Linear(in_features=400, out_features=120, bias=True)``.
    """
    path, summary, child = getattr(error, "_module_trace", ((), "", None))
    if child is None:
        summary = _summary(module)
    else:
        members = module.__dict__.get("_modules", {})
        name = next((name for name, member in members.items() if member is child), type(child).__name__)
        path = (name, *path)
    error.__dict__["_module_trace"] = (path, summary, module)
    notes = [note for note in getattr(error, "__notes__", ()) if not note.startswith(_PREFIX)]
    error.__notes__ = [*notes, f"{_PREFIX}{'.'.join((type(module).__name__, *path))}: {summary}"]


def _summary(module: Any) -> str:
    try:
        extra = module.extra_repr()
    except Exception:
        # The error may come from the module's own repr; the original error must still be raised.
        extra = "..."
    return f"{type(module).__name__}({extra})"
