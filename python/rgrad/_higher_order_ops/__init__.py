"""Loops over tensors as functions: here each is an ordinary loop, and its steps are recorded like any operations."""

from __future__ import annotations

from rgrad._functions.control import while_loop
from rgrad._higher_order_ops.associative_scan import associative_scan
from rgrad._higher_order_ops.cond import cond
from rgrad._higher_order_ops.scan import scan

__all__ = ["associative_scan", "cond", "scan", "while_loop"]
