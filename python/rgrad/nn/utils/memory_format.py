"""The memory format of weights of convolutions."""

from __future__ import annotations

from typing import Any

from rgrad import memory_format as MemoryFormat

from ..modules.conv import Conv2d, Conv3d
from ..modules.conv_transpose import ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Module, kinds: tuple[type[Module], ...], memory_format: MemoryFormat) -> Any:
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: MemoryFormat) -> Any:
    """Converts the weights of all 2-dimensional convolutions in a module.

    Args:
        module: the module; it is changed and returned.
        memory_format: like `channels_last`.

    >>> layer = rgrad.nn.utils.convert_conv2d_weight_memory_format(rgrad.nn.Conv2d(2, 3, 3), rgrad.channels_last)
    >>> layer.weight.is_contiguous(memory_format=rgrad.channels_last)
    True
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format: MemoryFormat) -> Any:
    """Converts the weights of all 3-dimensional convolutions in a module.

    Args:
        module: the module; it is changed and returned.
        memory_format: like `channels_last_3d`.
    """
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
