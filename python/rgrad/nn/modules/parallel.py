"""`DataParallel` for a single device."""

from __future__ import annotations

from typing import Any

from .module import Module

__all__ = ["DataParallel"]


class DataParallel(Module):
    """Calls a module. As in PyTorch with one device, batches are not split.

    Args:
        module: the module; its parameters' names start with ``module.``.
        device_ids: accepted, without effect, as are the arguments after it.
        output_device: see `device_ids`.
        dim: see `device_ids`.
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)
