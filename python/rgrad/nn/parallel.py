"""Modules for several devices or processes; rgrad has one device and one process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .modules.module import Module
from .modules.parallel import DataParallel

__all__ = ["DataParallel", "DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Calls a module whose gradients are averaged over a group of processes. The group has only this process, so the
    gradients are unchanged.

    Args:
        module: the module; its parameters' names start with ``module.``.
        device_ids: None, or the device of the module.
        output_device: accepted, without effect, like the arguments after it.
        dim: see `output_device`.
        broadcast_buffers: see `output_device`.
        init_sync: see `output_device`.
        process_group: a group of this process; the default one if None.
        options: further options of gradient reduction; accepted, without effect.

    Raises:
        ValueError: there is no process group; `rgrad.distributed.init_process_group` creates one.
        RuntimeError: no parameter of the module requires a gradient.

    Example:
        >>> import rgrad as torch
        >>> torch.distributed.init_process_group(world_size=1, rank=0)
        >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
        >>> list(model.state_dict())
        ['module.weight']
        >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        **options: Any,
    ) -> None:
        from rgrad import distributed

        super().__init__()
        self.process_group = process_group or distributed._default()
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters that require a "
                "gradient."
            )
        self.module = module
        self.device_ids = device_ids
        self.output_device, self.dim, self.broadcast_buffers = output_device, dim, broadcast_buffers
        self.require_backward_grad_sync = True

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within the block, gradients are not averaged; without effect, because they never are."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(self, *args: Any, **kwargs: Any) -> Any:
        """A context manager that waits for processes with more batches; there are none."""
        return contextlib.nullcontext(self)

    def register_comm_hook(self, state: object, hook: Any) -> None:
        """Raises: gradients are not communicated."""
        from rgrad._absent import refuse

        refuse("DistributedDataParallel.register_comm_hook", "rgrad computes in one process")

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)
