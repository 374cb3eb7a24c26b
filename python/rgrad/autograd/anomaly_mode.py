"""Anomaly mode, under the name of PyTorch's module."""

from __future__ import annotations

from .grad_mode import detect_anomaly, set_detect_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]
