"""`torch.backends.xnnpack`: a library of kernels for phones, which this build does not use."""

from __future__ import annotations

enabled = False
