"""Batch normalization, and instance normalization, which shares its state."""

from __future__ import annotations

import warnings
from typing import Any

import rgrad
from rgrad import _C

from .. import _core, init
from .. import functional as F
from ..parameter import Parameter
from .module import Module

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
]

_batch_norm = _core.batch_norm


class _NormBase(Module):
    """Scale, shift and running statistics of ``num_features`` channels."""

    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        place = {"device": device, "dtype": dtype}
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(name, Parameter(rgrad.empty(num_features, **place)) if wanted else None)
        self.register_buffer("running_mean", rgrad.zeros(num_features, **place) if track_running_stats else None)
        self.register_buffer("running_var", rgrad.ones(num_features, **place) if track_running_stats else None)
        counter = rgrad.tensor(0, dtype=rgrad.int64, device=device) if track_running_stats else None
        self.register_buffer("num_batches_tracked", counter)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forgets the statistics seen so far."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Sets scale 1 and shift 0, and forgets the statistics."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: _C.Tensor) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        version = local_metadata.get("version")
        counter = prefix + "num_batches_tracked"
        # Version 1 of the state had no counter.
        if (version is None or version < 2) and self.track_running_stats and counter not in state_dict:
            known = self.num_batches_tracked
            is_number = known is not None and not known.is_meta
            state_dict[counter] = known if is_number else rgrad.tensor(0, dtype=rgrad.int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    def forward(self, input: _C.Tensor) -> _C.Tensor:
        self._check_input_dim(input)
        if self.training and self.eps <= 0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {self.eps}")
        momentum = 0.0 if self.momentum is None else self.momentum
        use_running = not self.training or self.track_running_stats
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                # All batches so far have equal weight.
                momentum = 1.0 / float(self.num_batches_tracked)
        return _batch_norm(
            input,
            self.running_mean if use_running else None,
            self.running_var if use_running else None,
            self.weight,
            self.bias,
            self.training or (self.running_mean is None and self.running_var is None),
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Normalizes every channel over the batch; the arguments are those of :class:`BatchNorm2d`.

    Shape:
        Input and output: ``(N, C)`` or ``(N, C, L)``.
    """

    def _check_input_dim(self, input: _C.Tensor) -> None:
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d(_BatchNorm):
    """Normalizes every channel over the batch and both spatial dimensions.

    In training the batch's own mean and variance are used and the running ones updated; in evaluation the
    running ones are used.

    Args:
        num_features: number of channels C.
        eps: added to the variance.
        momentum: weight of the new batch in the running statistics; None gives every batch the same weight.
        affine: whether scale and shift are learned.
        track_running_stats: whether running statistics are kept.
        bias: whether the shift is learned (with ``affine``).

    Shape:
        Input and output: ``(N, C, H, W)``.

    Example:
        >>> norm = rgrad.nn.BatchNorm2d(3)
        >>> norm(rgrad.zeros(2, 3, 4, 4)).shape
        torch.Size([2, 3, 4, 4])
    """

    def _check_input_dim(self, input: _C.Tensor) -> None:
        if input.dim() != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d(_BatchNorm):
    """Normalizes every channel over the batch and three spatial dimensions; see :class:`BatchNorm2d`.

    Shape:
        Input and output: ``(N, C, D, H, W)``.
    """

    def _check_input_dim(self, input: _C.Tensor) -> None:
        if input.dim() != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


class _InstanceNorm(_NormBase):
    _spatial: int

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self) -> int:
        """The number of dimensions of an input without a batch."""
        return self._spatial + 1

    def _check_input_dim(self, input: _C.Tensor) -> None:
        unbatched, batched = self._spatial + 1, self._spatial + 2
        if input.dim() not in (unbatched, batched):
            raise ValueError(f"expected {unbatched}D or {batched}D input (got {input.dim()}D input)")

    def forward(self, input: _C.Tensor) -> _C.Tensor:
        self._check_input_dim(input)
        unbatched = input.dim() == self._spatial + 1
        dim = 0 if unbatched else 1
        if input.size(dim) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features "
                    f"({self.num_features}), but got: {input.size(dim)}."
                )
            warnings.warn(
                f"input's size at dim={dim} does not match num_features ({self.num_features}), "
                "which is not used because affine=False.",
                stacklevel=2,
            )
        result = F.instance_norm(
            input.unsqueeze(0) if unbatched else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result.squeeze(0) if unbatched else result


class InstanceNorm1d(_InstanceNorm):
    """Normalizes every channel of every sample by itself; see :class:`BatchNorm2d` for the arguments.

    Shape:
        Input and output: ``(N, C, L)`` or ``(C, L)``.
    """

    _spatial = 1


class InstanceNorm2d(_InstanceNorm):
    """Normalizes every channel of every sample by itself; see :class:`BatchNorm2d` for the arguments.

    Shape:
        Input and output: ``(N, C, H, W)`` or ``(C, H, W)``.
    """

    _spatial = 2


class InstanceNorm3d(_InstanceNorm):
    """Normalizes every channel of every sample by itself; see :class:`BatchNorm2d` for the arguments.

    Shape:
        Input and output: ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
    """

    _spatial = 3
