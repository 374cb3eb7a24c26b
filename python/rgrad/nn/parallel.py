"""Modules for several devices or processes; rgrad has one device and one process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from rgrad import Tensor, cat

from .modules.module import Module
from .modules.parallel import DataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "gather", "scatter"]


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


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Parts of tensors, one for each device, in the containers that they came in; other values go to all.

    Args:
        inputs: tensors in tuples, lists and dictionaries.
        target_gpus: the devices, or the numbers of GPUs.
        dim: along which tensors are cut.
    """
    count = len(target_gpus)

    def cut(value: Any) -> list[Any]:
        if isinstance(value, Tensor):
            devices = [f"cuda:{d}" if isinstance(d, int) else d for d in target_gpus]
            parts = value.chunk(count, dim)
            return [part.to(device) for part, device in zip(parts, devices, strict=False)]
        if isinstance(value, (tuple, list)) and value:
            return [type(value)(parts) for parts in zip(*map(cut, value), strict=False)]
        if isinstance(value, dict) and value:
            return [dict(zip(value, parts, strict=True)) for parts in zip(*map(cut, value.values()), strict=False)]
        return [value] * count

    return cut(inputs)


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """As `scatter`, of arguments by position and by name; both have as many parts."""
    args = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(args), len(named))
    return (
        tuple(args + [()] * (count - len(args))),
        tuple(named + [{}] * (count - len(named))),
    )


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Joins what several devices made on one of them.

    Args:
        outputs: tensors, or tuples, lists or dictionaries of them, one for each device.
        target_device: the device, or the number of a GPU.
        dim: along which tensors are joined; those of no dimensions make a vector.
    """
    first = outputs[0]
    device = f"cuda:{target_device}" if isinstance(target_device, int) else target_device
    if isinstance(first, Tensor):
        return cat([(t if t.dim() else t.view(1)).to(device) for t in outputs], dim if first.dim() else 0)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((key, gather([o[key] for o in outputs], target_device, dim)) for key in first)
    return type(first)(gather(parts, target_device, dim) for parts in zip(*outputs, strict=True))
