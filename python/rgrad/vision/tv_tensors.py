"""Tensors that tell transforms what they hold.

>>> import rgrad as torch
>>> from rgrad.vision.tv_tensors import Image
>>> picture = Image(torch.zeros(3, 4, 4))
>>> type(picture.clone()).__name__, type(picture + 1).__name__
('Image', 'Tensor')
"""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import _C
from rgrad._absent import absent_class
from rgrad.vision.transforms._kinds import is_pil

__all__ = ["BoundingBoxes", "Image", "KeyPoints", "Mask", "TVTensor", "Video", "wrap"]

_KEEPING = ("clone", "to", "detach", "requires_grad_", "__deepcopy__")


class TVTensor(rgrad.Tensor):
    """The base class. Results of operations are plain tensors, except for copies."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not all(issubclass(cls, kind) for kind in types):
            return NotImplemented
        result = _C._disabled_torch_function_impl(func, types, args, kwargs or {})
        name = getattr(func, "__name__", None)
        if not isinstance(result, rgrad.Tensor):
            return result
        if name in _KEEPING and isinstance(args[0], cls):
            return result if isinstance(result, cls) else result.as_subclass(cls)
        return result.as_subclass(rgrad.Tensor) if type(result) is cls and result is not args[0] else result

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return repr(self.as_subclass(rgrad.Tensor)).replace("tensor", type(self).__name__, 1)


class Image(TVTensor):
    """A tensor of shape (..., C, H, W) that is an image.

    Args:
        data: a tensor, numbers, or a Pillow image; one of two dimensions becomes one of one channel.
        dtype: the dtype, by default that of the data.
        device: the device, by default that of the data.
        requires_grad: whether gradients of it are computed, by default as for the data.

    Raises:
        ValueError: the data has fewer than two dimensions.
    """

    def __new__(cls, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool | None = None) -> Image:
        from rgrad.vision.transforms.functional import pil_to_tensor

        if is_pil(data):
            data = pil_to_tensor(data)
        if requires_grad is None:
            requires_grad = isinstance(data, rgrad.Tensor) and data.requires_grad
        tensor = rgrad.as_tensor(data, dtype=dtype, device=device).as_subclass(rgrad.Tensor)
        if tensor.dim() < 2:
            raise ValueError(f"Tensor must be 2D or higher, got {tensor.dim()}D tensor.")
        tensor = tensor.requires_grad_(requires_grad) if tensor.is_leaf else tensor
        return (tensor.unsqueeze(0) if tensor.dim() == 2 else tensor).as_subclass(cls)


_WHY = "transforms take images, as tensors and Pillow images, and leave other parts of a sample as they are"
BoundingBoxes = absent_class("torchvision.tv_tensors.BoundingBoxes", _WHY)
KeyPoints = absent_class("torchvision.tv_tensors.KeyPoints", _WHY)
Mask = absent_class("torchvision.tv_tensors.Mask", _WHY)
Video = absent_class("torchvision.tv_tensors.Video", _WHY)


def wrap(wrappee: rgrad.Tensor, *, like: Any) -> Any:
    """A tensor as one of the class of another.

    Args:
        wrappee: the tensor.
        like: a `TVTensor`.

    Returns:
        A tensor of that class with the same memory.
    """
    return wrappee.as_subclass(type(like))
