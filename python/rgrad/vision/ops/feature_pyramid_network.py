"""Features of several sizes that each know of the larger ones (Lin et al., 2016)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from rgrad import Tensor, nn
from rgrad.vision.ops.misc import Conv2dNormActivation

__all__ = ["ExtraFPNBlock", "FeaturePyramidNetwork", "LastLevelMaxPool", "LastLevelP6P7"]


class ExtraFPNBlock(nn.Module):
    """What adds results of further sizes; the base class of such blocks."""

    def forward(self, results: list[Tensor], x: list[Tensor], names: list[str]) -> tuple[list[Tensor], list[str]]:
        """Returns the results and their names, with those that it adds.

        Args:
            results: the pyramid's.
            x: the pyramid's inputs.
            names: the names of the results.
        """
        raise NotImplementedError


class FeaturePyramidNetwork(nn.Module):
    """Brings features of several sizes to one number of channels, and adds to each what comes from the smaller one.

    Args:
        in_channels_list: channels of each input, from the largest to the smallest.
        out_channels: channels of all results.
        extra_blocks: adds further results.
        norm_layer: makes a normalization after each convolution; None for none.

    Example:
        >>> import rgrad as torch
        >>> pyramid = torch.vision.ops.FeaturePyramidNetwork([4, 8], 6)
        >>> sizes = {"a": torch.zeros(1, 4, 8, 8), "b": torch.zeros(1, 8, 4, 4)}
        >>> {name: tuple(value.shape) for name, value in pyramid(sizes).items()}
        {'a': (1, 6, 8, 8), 'b': (1, 6, 4, 4)}
    """

    _version = 2

    def __init__(
        self,
        in_channels_list: list[int],
        out_channels: int,
        extra_blocks: ExtraFPNBlock | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        if 0 in in_channels_list:
            raise ValueError("in_channels=0 is currently not supported")
        around: Any = {"norm_layer": norm_layer, "activation_layer": None}
        self.inner_blocks = nn.ModuleList(
            Conv2dNormActivation(channels, out_channels, kernel_size=1, padding=0, **around)
            for channels in in_channels_list
        )
        self.layer_blocks = nn.ModuleList(
            Conv2dNormActivation(out_channels, out_channels, kernel_size=3, **around) for _ in in_channels_list
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight, a=1)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        self.extra_blocks = extra_blocks

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        # In the first version a block was its convolution.
        for name in ("inner_blocks", "layer_blocks"):
            for place in range(len(self.inner_blocks)):
                for kind in ("weight", "bias"):
                    old = f"{prefix}{name}.{place}.{kind}"
                    if old in state_dict:
                        state_dict[f"{prefix}{name}.{place}.0.{kind}"] = state_dict.pop(old)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def forward(self, x: dict[str, Tensor]) -> OrderedDict[str, Tensor]:
        """Maps features by name, from the largest to the smallest, to results of the same sizes."""
        names, inputs = list(x), list(x.values())
        results: list[Tensor] = []
        above: Tensor | None = None
        for place in reversed(range(len(inputs))):
            here = self.inner_blocks[place](inputs[place])
            if above is not None:
                here = here + nn.functional.interpolate(above, size=here.shape[-2:], mode="nearest")
            above = here
            results.insert(0, self.layer_blocks[place](here))
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, inputs, names)
        return OrderedDict(zip(names, results, strict=True))


class LastLevelMaxPool(ExtraFPNBlock):
    """Adds the smallest result at half the size."""

    def forward(self, results: list[Tensor], x: list[Tensor], names: list[str]) -> tuple[list[Tensor], list[str]]:
        """Adds a result called "pool"."""
        small = nn.functional.max_pool2d(results[-1], kernel_size=1, stride=2, padding=0)
        return [*results, small], [*names, "pool"]


class LastLevelP6P7(ExtraFPNBlock):
    """Adds two results, each by a convolution of half the size.

    Args:
        in_channels: channels of what the first is made of: of the last input, if they are not `out_channels`.
        out_channels: channels of the results.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.p6, self.p7 = (nn.Conv2d(width, out_channels, 3, 2, 1) for width in (in_channels, out_channels))
        for module in (self.p6, self.p7):
            nn.init.kaiming_uniform_(module.weight, a=1)
            nn.init.zeros_(module.bias)
        self.use_P5 = in_channels == out_channels

    def forward(self, results: list[Tensor], x: list[Tensor], names: list[str]) -> tuple[list[Tensor], list[str]]:
        """Adds results called "p6" and "p7"."""
        p6 = self.p6(results[-1] if self.use_P5 else x[-1])
        return [*results, p6, self.p7(nn.functional.relu(p6))], [*names, "p6", "p7"]
