"""Handles of hooks."""

from __future__ import annotations

from rgrad.nn.modules._hooks import RemovableHandle

__all__ = ["RemovableHandle"]
