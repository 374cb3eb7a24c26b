"""What the two networks of Inception modules share."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import nn


class BasicConv2d(nn.Module):
    """A convolution without bias, a normalization and ReLU.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        **kwargs: arguments of `Conv2d`.
    """

    def __init__(self, in_channels: int, out_channels: int, **kwargs: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Any) -> Any:
        """Maps (N, in_channels, H, W) to (N, out_channels, H', W')."""
        return nn.functional.relu(self.bn(self.conv(x)), inplace=True)


# Images that were normalized with ImageNet's mean and standard deviation, normalized with 0.5 instead.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def renormalized(x: Any) -> Any:
    """Images in the range that these networks were trained on, (N, 3, H, W)."""
    parts = [x[:, c : c + 1] * (_STD[c] / 0.5) + (_MEAN[c] - 0.5) / 0.5 for c in range(3)]
    return rgrad.cat(parts, 1)


def begin(model: nn.Module, std: float) -> None:
    """Sets weights of convolutions and linear layers to a normal distribution within ±2, those of norms to 1.

    Args:
        model: the network.
        std: the standard deviation, where a layer has no attribute `stddev`.
    """
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.trunc_normal_(module.weight, mean=0.0, std=float(getattr(module, "stddev", std)), a=-2, b=2)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)


def loaded_with_branches(weights: Any, options: dict[str, Any]) -> None:
    """The arguments of a network for published weights, which include the branches that only training uses."""
    for name, value in (("transform_input", True), ("init_weights", False)):
        if options.setdefault(name, value) != value:
            raise ValueError(f"The parameter '{name}' expected value {value} but got {options[name]} instead.")
    options["aux_logits"] = True
