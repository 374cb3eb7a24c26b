"""Modules for networks that process images."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import Tensor

__all__ = ["FrozenBatchNorm2d"]


class FrozenBatchNorm2d(rgrad.nn.Module):
    """Batch normalization whose statistics and affine parameters are fixed: all of them are buffers.

    Args:
        num_features: channels of the input, (N, num_features, H, W).
        eps: added to the variance.

    Example:
        >>> import rgrad as torch
        >>> norm = torch.vision.ops.FrozenBatchNorm2d(3)
        >>> norm, list(norm.parameters()), norm(torch.ones(1, 3, 2, 2)).shape
        (FrozenBatchNorm2d(3, eps=1e-05), [], torch.Size([1, 3, 2, 2]))
    """

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", rgrad.ones(num_features))
        self.register_buffer("bias", rgrad.zeros(num_features))
        self.register_buffer("running_mean", rgrad.zeros(num_features))
        self.register_buffer("running_var", rgrad.ones(num_features))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        # The state of a BatchNorm2d includes a batch counter, which is not needed here.
        state_dict.pop(prefix + "num_batches_tracked", None)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def forward(self, x: Tensor) -> Tensor:
        """Scales and shifts every channel."""
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.weight.shape[0]}, eps={self.eps})"
