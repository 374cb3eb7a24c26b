"""Modules that several devices or processes would share: here one device, and one process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .modules.module import Module
from .modules.parallel import DataParallel

__all__ = ["DataParallel", "DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Calls a module whose gradients are averaged over a group of processes: over this one, where they are what they
    are.

    Args:
        module: the module; its parameters' names start with ``module.``.
        device_ids: None or the one device of the module.
        output_device: accepted, without effect, as are the arguments after it.
        dim: see `output_device`.
        broadcast_buffers: see `output_device`.
        init_sync: see `output_device`.
        process_group: a group of this process; the default one if None.
        options: accepted, without effect: they say how gradients are gathered.

    Raises:
        ValueError: there is no group: `rgrad.distributed.init_process_group` makes one.
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
        """A block whose gradients are not averaged: there is nothing to average."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(self, *args: Any, **kwargs: Any) -> Any:
        """A block that waits for processes with more batches: there are none."""
        return contextlib.nullcontext(self)

    def register_comm_hook(self, state: object, hook: Any) -> None:
        """Refuses: gradients go nowhere."""
        from rgrad._absent import refuse

        refuse("DistributedDataParallel.register_comm_hook", "rgrad computes in one process")

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)
