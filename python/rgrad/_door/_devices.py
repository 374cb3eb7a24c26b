"""The name of a GPU while the door is open: PyTorch's, of whom programs ask for it.

The core parses "cuda" and "mps" itself (`RGRAD_GPU_ALIASES`). What it prints are its own names; here `torch.device` and
the repr of tensors get PyTorch's. Messages of the core's errors still say `gpu:0`.
"""

from __future__ import annotations

import sys
from typing import Any

from rgrad import _C

GPU = "mps" if sys.platform == "darwin" else "cuda"

_type: Any = vars(_C.device)["type"].__get__
_str = _C.device.__str__
_repr = _C.device.__repr__
_tensor_repr = _C.Tensor.__repr__


def _renamed(text: str, before: str) -> str:
    return text.replace(f"{before}gpu", f"{before}{GPU}")


def _kind(self: Any) -> str:
    kind = _type(self)
    return GPU if kind == "gpu" else kind


def _show(self: Any) -> str:
    text = _str(self)
    return GPU + text[3:] if text.startswith("gpu") else text


def _represent(self: Any) -> str:
    return _renamed(_repr(self), "'")


def _represent_tensor(self: Any, **options: Any) -> str:
    text = _tensor_repr(self, **options)
    # Only the suffix names a device, and only there does a quote come before one.
    return _renamed(text, "device='") if "device='gpu" in text else text


def rename() -> None:
    """Devices and tensors give PyTorch's name of a GPU from here on."""
    device: Any = _C.device
    device.type = property(_kind, doc="The kind of device.")
    device.__str__ = _show
    device.__repr__ = _represent
    tensor: Any = _C.Tensor
    tensor.__repr__ = _represent_tensor
