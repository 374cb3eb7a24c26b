"""What the definitions of networks share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from rgrad import nn

__all__ = ["IntermediateLayerGetter", "initialize"]


def _make_divisible(v: float, divisor: int, min_value: int | None = None) -> int:
    """The multiple of a divisor that is nearest to a number of channels and not more than 10 % below it."""
    rounded = int(v + divisor / 2) // divisor * divisor
    least = divisor if min_value is None else min_value
    return max(least, rounded) if max(least, rounded) >= 0.9 * v else max(least, rounded) + divisor


def _ovewrite_named_param(kwargs: dict[str, Any], param: str, new_value: Any) -> None:  # torchvision's spelling
    """Sets an argument of a network, which a caller may have given only with that value."""
    kwargs[param] = _ovewrite_value_param(param, kwargs.get(param), new_value)


def _ovewrite_value_param(param: str, actual: Any, expected: Any) -> Any:
    """The expected value of an argument; ValueError if another one was given."""
    if actual is not None and actual != expected:
        raise ValueError(f"The parameter '{param}' expected value {expected} but got {actual} instead.")
    return expected


def initialize(
    model: nn.Module,
    conv: Callable[[Any], Any] | None = None,
    linear: Callable[[Any], Any] | None = None,
    norm: bool = True,
    biases: bool = True,
) -> None:
    """Sets the values with which training begins, module by module.

    Args:
        model: the network.
        conv: sets the weight of a 2D convolution; None to leave convolutions as they are.
        linear: sets the weight of a linear layer; None to leave linear layers as they are.
        norm: whether the weights of batch and group normalizations become one.
        biases: whether the biases of all these become zero.
    """
    kinds: list[tuple[Any, Callable[[Any], Any]]] = []
    if conv is not None:
        kinds.append((nn.Conv2d, conv))
    if linear is not None:
        kinds.append((nn.Linear, linear))
    if norm:
        kinds.append(((nn.BatchNorm2d, nn.GroupNorm), nn.init.ones_))
    for module in model.modules():
        for kind, function in kinds:
            if isinstance(module, kind) and module.weight is not None:
                function(module.weight)
                if biases and module.bias is not None:
                    nn.init.zeros_(module.bias)


class IntermediateLayerGetter(nn.ModuleDict):
    """The first children of a network up to the last of those whose results are wanted.

    Args:
        model: a network whose children run in their order, each on the result of the one before.
        return_layers: the names of children, and under which name the result of each is returned.

    Example:
        >>> import rgrad as torch
        >>> from rgrad.vision.models._utils import IntermediateLayerGetter
        >>> body = IntermediateLayerGetter(torch.vision.models.resnet18(), {"layer1": "a", "layer2": "b"})
        >>> {name: tuple(value.shape) for name, value in body(torch.zeros(1, 3, 32, 32)).items()}
        {'a': (1, 64, 8, 8), 'b': (1, 128, 4, 4)}
    """

    def __init__(self, model: nn.Module, return_layers: dict[str, str]) -> None:
        children = dict(model.named_children())
        if not return_layers.keys() <= children.keys():
            raise ValueError("return_layers are not present in model")
        last = max((list(children).index(name) for name in return_layers), default=-1)
        super().__init__(OrderedDict(list(children.items())[: last + 1]))
        self.return_layers = {str(name): str(wanted) for name, wanted in return_layers.items()}

    def forward(self, x: Any) -> OrderedDict[str, Any]:
        """Maps an input to the wanted results."""
        results: OrderedDict[str, Any] = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                results[self.return_layers[name]] = x
        return results
