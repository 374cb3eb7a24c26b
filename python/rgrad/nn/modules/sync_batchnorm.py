"""Batch normalization across processes; rgrad trains in one process, so it covers only that."""

from __future__ import annotations

from typing import Any

from rgrad import _C
from rgrad.nn.modules.batchnorm import _BatchNorm
from rgrad.nn.modules.module import Module


class SyncBatchNorm(_BatchNorm):
    """Normalizes every channel over the batch and the dimensions after the channels.

    In a single process this is the computation of :class:`BatchNorm2d`, for inputs of any rank.

    Args:
        num_features: channels of the input, (N, num_features, ...).
        eps: added to the variance.
        momentum: weight of the new batch in the running statistics; None for a cumulative average.
        affine: whether the module has `weight` and `bias`.
        track_running_stats: whether the module has `running_mean` and `running_var`.
        process_group: None, or a group of `rgrad.distributed`, which has this process alone.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Example:
        >>> import rgrad as torch
        >>> torch.nn.SyncBatchNorm(3)(torch.ones(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if process_group is not None and process_group.size() != 1:
            raise NotImplementedError("SyncBatchNorm: statistics are those of one process")
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)
        self.process_group = process_group

    def _check_input_dim(self, input: _C.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replaces every batch normalization in a module by an instance of this class with the same parameters."""
        made = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            made = cls(
                module.num_features,
                module.eps,
                module.momentum,
                affine=False,
                track_running_stats=module.track_running_stats,
                process_group=process_group,
            )
            made.affine = module.affine
            made.weight, made.bias = module.weight, module.bias
            made.running_mean, made.running_var = module.running_mean, module.running_var
            made.num_batches_tracked = module.num_batches_tracked
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made
