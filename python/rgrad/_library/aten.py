"""`torch.ops.aten`: the library's own operations, as packages name them that register functions for them."""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad._absent import absent_function
from rgrad._C import Tensor
from rgrad._functions.derivatives import convolution_backward
from rgrad._ops import OpOverload as _OpOverload
from rgrad._ops import OpOverloadPacket as _OpOverloadPacket
from rgrad._out import write_exactly, write_out

_FAMILIES = ("linalg", "special", "fft")


def _alias(self: Tensor) -> Tensor:
    return self.view(self.shape)


def _is_strides_like_format(self: Tensor, memory_format: Any) -> bool:
    from rgrad._dispatch.policies import asked

    answer = asked(self, "stride", "is_strides_like_format.default", memory_format)
    return Tensor.is_contiguous(self, memory_format=memory_format) if answer is None else answer


def _is_non_overlapping_and_dense(self: Tensor) -> bool:
    from rgrad._dispatch.policies import asked

    answer = asked(self, "stride", "is_non_overlapping_and_dense.default")
    if answer is not None:
        return answer
    expected = 1
    for stride, size in sorted(zip(Tensor.stride(self), self.shape, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _index(self: Tensor, indices: list[Tensor | None]) -> Tensor:
    return self[tuple(slice(None) if index is None else index for index in indices)]


def _rsub(self: Tensor, other: Any, alpha: Any = 1) -> Tensor:
    return other - self * alpha


def _slice(self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    return self[(slice(None),) * (dim % self.dim()) + (slice(start, end, step),)]


def _to_copy(self: Tensor, **kwargs: Any) -> Tensor:
    return self.to(copy=True, **{name: value for name, value in kwargs.items() if value is not None})


def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    n = input.dim() - 2
    if transposed:
        function = getattr(rgrad, f"conv_transpose{n}d")
        return function(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return getattr(rgrad, f"conv{n}d")(input, weight, bias, stride, padding, dilation, groups)


def _normalized(name: str) -> Callable[..., Any]:
    return lambda self, dim, half_to_float=False: getattr(rgrad, name)(
        self, dim, dtype=rgrad.float32 if half_to_float else None
    )


def _pads(mode: str, dims: int = 0) -> Callable[..., Any]:
    def call(self: Tensor, padding: Any) -> Tensor:
        if dims and len(padding) != 2 * dims:
            raise RuntimeError(f"padding size is expected to be {2 * dims}, but got: {len(padding)}")
        return rgrad.nn.functional.pad(self, padding, mode)

    return call


def _upsampled(mode: str, dims: int, antialias: bool = False) -> Callable[..., Any]:
    """Resampling as operations have it: the sizes or factors of all dimensions in one list, or also one by one."""
    smooth = "nearest" not in mode

    def call(self: Tensor, output_size: Any = None, *rest: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
        corners = kwargs.pop("align_corners", None)
        if smooth and corners is None:
            corners, rest = bool(rest[0]), rest[1:]
        scales = (*rest, *kwargs.values())
        factors = scales[0] if scales and isinstance(scales[0], (list, tuple)) else None
        given = factors if output_size is None else output_size
        if given is None:
            raise RuntimeError("Must specify exactly one of output_size and scale_factors")
        if len(given) != dims:
            raise RuntimeError(f"It is expected output_size equals to {dims}, but got size {len(given)}")
        sizes: dict[str, Any] = {"size" if output_size is not None else "scale_factor": tuple(given)}
        value = rgrad.nn.functional.interpolate(
            self, **sizes, mode=mode, align_corners=corners, antialias=antialias
        )
        return value if out is None else out.resize_(value.shape).copy_(value)

    return call


def _plain_convolution(dims: int) -> Callable[..., Any]:
    """A convolution whose kernel's size is an argument, too."""

    def call(
        self: Tensor, weight: Tensor, kernel_size: Any, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0
    ) -> Tensor:
        for name, value in (("kernel_size", kernel_size), ("stride", stride), ("padding", padding)):
            if not isinstance(value, int) and len(value) not in (1, dims):
                raise RuntimeError(f"{dims}D {name} expected")
        if weight.numel() == 0 or weight.dim() not in (2, dims + 2):
            raise RuntimeError(
                f"non-empty 2D or {dims + 2}D weight tensor expected, but got: {list(weight.shape)}"
            )
        size = (kernel_size,) * dims if isinstance(kernel_size, int) else tuple(kernel_size)
        kernel = weight.reshape((weight.size(0), -1, *size))
        return getattr(rgrad, f"conv{dims}d")(self, kernel, bias, stride, padding)

    return call


def _pools(dims: int) -> Callable[..., Any]:
    return lambda self, output_size: getattr(rgrad.nn.functional, f"adaptive_avg_pool{dims}d")(self, output_size)


def _elu(self: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    return scale * rgrad.where(self > 0, self, alpha * (self.clamp(max=0) * input_scale).expm1())


def _loss(name: str, *between: str) -> Callable[..., Any]:
    """A loss whose reduction is a number, as operations have it: 0 for none, 1 for the mean, 2 for the sum.

    Args:
        name: of the function in `torch.nn.functional`.
        between: the parameters after the target, in the order of the operation.
    """
    names = between or ("reduction",)

    def function(self: Tensor, target: Tensor, *args: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
        if len(args) > len(names):
            raise TypeError(f"aten::{name} takes at most {2 + len(names)} arguments, but {2 + len(args)} were given")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        given["reduction"] = ("none", "mean", "sum")[given.get("reduction", 1)]
        value = getattr(rgrad.nn.functional, name)(self, target, **given)
        return value if out is None else write_out(name, value, out)

    return function


def _with_out(name: str, function: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A function of `torch.nn.functional` that writes its result to `out`, too."""

    def call(self: Tensor, *args: Any, out: Tensor | None = None, **kwargs: Any) -> Tensor:
        value = (function or getattr(rgrad.nn.functional, name))(self, *args, **kwargs)
        return value if out is None else write_exactly(name, value, out)

    return call


# Operations that policies of selective checkpointing compare with (`_library.calls`), which have more results than the
# functions that compute them here; the functions of `torch.nn.functional` to call in their place.
_ONLY_COMPARED = {
    **{
        f"_scaled_dot_product_{kind}": "scaled_dot_product_attention"
        for kind in ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")
    },
    **{f"nll_loss{dims}_forward": "nll_loss" for dims in ("", "2d")},
}

# Those that have no function of their own here, or one of another form.
_OTHERS: dict[str, Callable[..., Any]] = {
    "_to_copy": _to_copy,
    "_unsafe_view": Tensor.view,
    "_pin_memory": lambda self, device=None: self.pin_memory(),
    "_sparse_addmm": absent_function("torch.ops.aten._sparse_addmm", "there are no sparse tensors"),
    "_sparse_mm_reduce_impl": absent_function("torch.ops.aten._sparse_mm_reduce_impl", "there are no sparse tensors"),
    **{
        name: absent_function(f"torch.ops.aten.{name}", f"only its name is; call torch.nn.functional.{instead}")
        for name, instead in _ONLY_COMPARED.items()
    },
    **{f"_adaptive_avg_pool{n}d": _pools(n) for n in (2, 3)},
    **{f"reflection_pad{n}d": _pads("reflect", n) for n in (1, 2, 3)},
    **{f"replication_pad{n}d": _pads("replicate", n) for n in (1, 2, 3)},
    **{f"upsample_nearest{n}d": _upsampled("nearest", n) for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": _upsampled("nearest-exact", n) for n in (1, 2, 3)},
    **{
        f"upsample_{mode}{n}d": _upsampled(mode, n)
        for mode, n in (("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3))
    },
    **{f"_upsample_{mode}2d_aa": _upsampled(mode, 2, antialias=True) for mode in ("bilinear", "bicubic")},
    "thnn_conv2d": _plain_convolution(2),
    "slow_conv3d": _plain_convolution(3),
    "_pad_circular": _pads("circular"),
    "convolution": _convolution,
    "convolution_backward": convolution_backward,
    "_local_scalar_dense": Tensor.item,
    **{f"_{name}": _normalized(name) for name in ("softmax", "log_softmax")},
    "elu": _with_out("elu", _elu),
    "log_sigmoid": _with_out("logsigmoid"),
    **{
        name: _with_out(name)
        for name in ("glu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "silu")
    },
    **{name: _loss(name) for name in ("l1_loss", "mse_loss", "multilabel_margin_loss", "soft_margin_loss")},
    "binary_cross_entropy": _loss("binary_cross_entropy", "weight", "reduction"),
    "huber_loss": _loss("huber_loss", "reduction", "delta"),
    "multi_margin_loss": _loss("multi_margin_loss", "p", "margin", "weight", "reduction"),
    "nll_loss": _loss("nll_loss", "weight", "reduction", "ignore_index"),
    "smooth_l1_loss": _loss("smooth_l1_loss", "reduction", "beta"),
    "alias": _alias,
    "sym_size": Tensor.size,
    "sym_stride": Tensor.stride,
    "sym_numel": Tensor.numel,
    "sym_storage_offset": Tensor.storage_offset,
    "is_strides_like_format": _is_strides_like_format,
    "is_non_overlapping_and_dense": _is_non_overlapping_and_dense,
    "index": _index,
    "rsub": _rsub,
    "slice": _slice,
}


class Handled(threading.local):
    """The operations whose handlers run on a thread, and what each of them calls then: see `rgrad._dispatch`."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Callable[..., Any]]] = []


handled = Handled()


class OpOverload(_OpOverload):
    """One form of an operation. Calling it chooses the form by the arguments, so that all forms compute alike."""

    def __init__(self, packet: OpOverloadPacket, overload: str) -> None:
        self._overloadpacket, self._overloadname = packet, overload
        self.namespace = packet._namespace
        self.__name__ = self.__qualname__ = f"{packet.__name__}.{overload}"
        self.__module__ = packet.__module__

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """The operation of which it is a form."""
        return self._overloadpacket

    def name(self) -> str:
        """The full name, without `.default`."""
        suffix = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self.namespace}::{self._overloadpacket.__name__}{suffix}"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if handled.calls and handled.calls[-1][0] is self:
            return handled.calls[-1][1](*args, **kwargs)
        return self._overloadpacket(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._overloadpacket, self._overloadname)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._overloadpacket.__name__}', overload='{self._overloadname}')>"


class OpOverloadPacket(_OpOverloadPacket):
    """An operation. Its attributes are its forms; names of forms are not checked, as no table of them is kept."""

    def __init__(self, name: str, function: Callable[..., Any], namespace: str = "aten") -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = f"torch._ops.{namespace}"
        self._namespace = namespace
        self._qualified_op_name = f"{namespace}::{name}"
        self._function = function

    def __getattr__(self, name: str) -> OpOverload:
        if name.startswith("_") or not name.isidentifier():
            raise AttributeError(f"The underlying op of 'aten.{self.__name__}' has no overload name '{name}'")
        made = vars(self)[name] = OpOverload(self, name)
        return made

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return packet if self._namespace == "aten" else property_packet, (self.__name__,)

    def __str__(self) -> str:
        return f"{self._namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._namespace}.{self.__name__}')>"


def _function(name: str) -> Callable[..., Any] | None:
    if name in _OTHERS:
        return _OTHERS[name]
    family, _, rest = name.partition("_")
    if family in _FAMILIES and rest:
        return getattr(getattr(rgrad, family), rest, None)
    for place in (rgrad, Tensor, rgrad.nn.functional):
        # A method such as `Tensor.to`, but no property: operations can be called.
        found = getattr(place, name, None)
        if callable(found) and not isinstance(found, type):
            return found
    return None


@functools.cache
def packet(name: str) -> OpOverloadPacket | None:
    """The operation of a name; None where there is none."""
    function = None if name.startswith("__") else _function(name)
    return None if function is None else OpOverloadPacket(name, function)


@functools.cache
def property_packet(name: str) -> OpOverloadPacket | None:
    """The operation of `torch.ops.prim` that reads a property of tensors; None for others."""
    return OpOverloadPacket(name, operator.attrgetter(name), "prim") if name in ("device", "dtype", "layout") else None


@functools.cache
def shown(name: str) -> OpOverloadPacket:
    """As `packet`; one that can be called in a handler of `__torch_dispatch__` alone where there is none."""
    found = packet(name)
    if found is None:
        why = "it is the name of a step, which a handler of __torch_dispatch__ can call"
        found = OpOverloadPacket(name, absent_function(f"torch.ops.aten.{name}", why))
    return found
