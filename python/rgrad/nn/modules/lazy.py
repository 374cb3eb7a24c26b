"""Modules that take the size of their input from the first input that they are called with.

Until then their parameters are placeholders, and `repr` shows the size as 0. The first forward pass gives the
parameters their shapes and initial values, and the module becomes one of the ordinary class.
"""

from typing import Any

from rgrad import _C

from ..parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from .batchnorm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    _NormBase,
)
from .conv import Conv1d, Conv2d, Conv3d, _ConvNd
from .conv_transpose import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .linear import Linear
from .module import Module

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
]


class LazyModuleMixin(Module):
    """Base class of the lazy modules; it comes before the ordinary class among the bases."""

    cls_to_become: type[Module] | None = None

    def _wait(self, device: Any, dtype: Any) -> None:
        """Replaces the parameters and buffers that depend on the input by placeholders."""
        for name, param in list(self._parameters.items()):
            if param is not None:
                self._parameters[name] = UninitializedParameter(device=device, dtype=dtype)
        for name, buffer in list(self._buffers.items()):
            if buffer is not None and buffer.dim() > 0:
                self._buffers[name] = UninitializedBuffer(device=device, dtype=dtype)
        self._initialize_hook = self.register_forward_pre_hook(_infer, with_kwargs=True)

    def has_uninitialized_params(self) -> bool:
        """Whether some parameter or buffer has no shape yet."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def reset_parameters(self) -> None:
        """Draws new initial values, unless parameters are still placeholders."""
        if not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: _C.Tensor) -> None:
        """Gives parameters and buffers the shapes that follow from an input."""
        raise NotImplementedError

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            loaded = state_dict.get(prefix + name)
            if is_lazy(tensor) and isinstance(loaded, _C.Tensor) and not is_lazy(loaded):
                tensor.materialize(loaded.shape)  # type: ignore[union-attr]
        super()._load_from_state_dict(state_dict, prefix, *rest)


class _LazyLayer(LazyModuleMixin):
    """A lazy module of this package: defines the sizes that it infers, and the shapes that follow from them."""

    def initialize_parameters(self, input: _C.Tensor, *args: Any, **kwargs: Any) -> None:
        # Transposed convolutions also get the size of their output.
        if not self.has_uninitialized_params():
            self._recall_sizes(input)
            return
        self._infer_sizes(input)
        for name, shape in self._shapes().items():
            tensor = getattr(self, name)
            if is_lazy(tensor):
                tensor.materialize(shape)
        self.reset_parameters()

    def _recall_sizes(self, input: _C.Tensor) -> None:
        """Sets the sizes from parameters whose shapes come from a loaded checkpoint."""
        raise NotImplementedError

    def _infer_sizes(self, input: _C.Tensor) -> None:
        """Sets the sizes from an input."""
        raise NotImplementedError

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every parameter and buffer that may be a placeholder, by name."""
        raise NotImplementedError


def _infer(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
    """The pre-hook of the first forward pass."""
    module.initialize_parameters(*args, **(kwargs or {}))
    if module.has_uninitialized_params():
        raise RuntimeError(f"module {type(module).__name__} has not been fully initialized")
    module._initialize_hook.remove()
    del module._initialize_hook
    module.__class__ = module.cls_to_become


class LazyLinear(_LazyLayer, Linear):
    """:class:`Linear` whose `in_features` is the size of the first input's last dimension.

    Example:
        >>> layer = rgrad.nn.LazyLinear(3)
        >>> layer
        LazyLinear(in_features=0, out_features=3, bias=True)
        >>> layer(rgrad.zeros(2, 5)).shape
        torch.Size([2, 3])
        >>> layer
        Linear(in_features=5, out_features=3, bias=True)
    """

    cls_to_become = Linear
    weight: Any
    bias: Any

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(1, out_features, bias, device, dtype)
        self.in_features = 0
        self._wait(device, dtype)

    def _recall_sizes(self, input: _C.Tensor) -> None:
        self.in_features = self.weight.shape[-1]

    def _infer_sizes(self, input: _C.Tensor) -> None:
        self.in_features = input.shape[-1]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.out_features, self.in_features), "bias": (self.out_features,)}


class _LazyConv(_LazyLayer, _ConvNd):
    """Base class of the lazy convolutions: the arguments are those of the ordinary class without `in_channels`."""

    weight: Any
    bias: Any
    in_channels: Any

    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options: dict[str, Any] = {"padding_mode": padding_mode, "device": device, "dtype": dtype}
        # `in_channels` is a temporary value; it must be a multiple of `groups`, so `groups` is passed.
        super().__init__(groups, out_channels, kernel_size, stride, padding, dilation, groups, bias, **options)
        self.in_channels = 0
        self._wait(device, dtype)

    def _recall_sizes(self, input: _C.Tensor) -> None:
        self.in_channels = self.weight.shape[0] if self.transposed else self.weight.shape[1] * self.groups

    def _infer_sizes(self, input: _C.Tensor) -> None:
        n = len(self.kernel_size)
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, but got input of "
                f"size: {input.shape}"
            )
        self.in_channels = input.shape[-n - 1]
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": self._weight_shape(), "bias": (self.out_channels,)}


class _LazyConvTranspose(_LazyConv):
    """Base class of the lazy transposed convolutions."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = (groups, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation)
        options: dict[str, Any] = {"padding_mode": padding_mode, "device": device, "dtype": dtype}
        # This skips the constructor of `_LazyConv`, which takes its arguments in the order of a plain convolution.
        super(_LazyConv, self).__init__(*sizes, **options)
        self.in_channels = 0
        self._wait(device, dtype)


class _LazyNorm(_LazyLayer, _NormBase):
    """Base class of the lazy norms: the arguments are those of the ordinary class without `num_features`."""

    num_features: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(1, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.num_features = 0
        self._wait(device, dtype)

    def reset_running_stats(self) -> None:
        if not self.has_uninitialized_params():
            super().reset_running_stats()

    def _recall_sizes(self, input: _C.Tensor) -> None:
        known = self.weight if self.weight is not None else self.running_mean
        self.num_features = input.shape[1] if known is None else known.shape[0]

    def _infer_sizes(self, input: _C.Tensor) -> None:
        self._check_input_dim(input)
        self.num_features = input.shape[1]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: (self.num_features,) for name in ("weight", "bias", "running_mean", "running_var")}


class LazyConv1d(_LazyConv, Conv1d):
    """:class:`Conv1d` whose `in_channels` is taken from the first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """:class:`Conv2d` whose `in_channels` is taken from the first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """:class:`Conv3d` whose `in_channels` is taken from the first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """:class:`ConvTranspose1d` whose `in_channels` is taken from the first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """:class:`ConvTranspose2d` whose `in_channels` is taken from the first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """:class:`ConvTranspose3d` whose `in_channels` is taken from the first input."""

    cls_to_become = ConvTranspose3d


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """:class:`BatchNorm1d` whose `num_features` is taken from the first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """:class:`BatchNorm2d` whose `num_features` is taken from the first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """:class:`BatchNorm3d` whose `num_features` is taken from the first input."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """:class:`InstanceNorm1d` whose `num_features` is taken from the first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """:class:`InstanceNorm2d` whose `num_features` is taken from the first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """:class:`InstanceNorm3d` whose `num_features` is taken from the first input."""

    cls_to_become = InstanceNorm3d
