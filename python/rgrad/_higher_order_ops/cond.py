"""`cond`, under the names by which programs import it."""

from __future__ import annotations

from rgrad._functions.control import cond

__all__ = ["cond", "cond_op"]

# What handlers of `__torch_dispatch__` compare operations with: they see those of the branch taken, and never this.
cond_op = cond
