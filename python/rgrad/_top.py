"""Functions of the top level that are no operations: seeds, limits of dtypes, defaults."""

from __future__ import annotations

from typing import Any

from rgrad import _C
from rgrad._C import Generator, Tensor

from ._size import Size


class _Named:
    """A constant with a name: memory formats and layouts."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


contiguous_format = _Named("contiguous_format")
preserve_format = _Named("preserve_format")
channels_last = _Named("channels_last")
channels_last_3d = _Named("channels_last_3d")
strided = _Named("strided")

default_generator: Generator = _C._default_generator()


def manual_seed(seed: int) -> Generator:
    """Starts the default generator's stream of a seed.

    >>> import rgrad
    >>> _ = rgrad.manual_seed(0)
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Starts a stream that differs from call to call and returns its seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator started from."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state, as a uint8 tensor."""
    return _generator_state(default_generator)


def set_rng_state(state: Tensor) -> None:
    """Sets the default generator's state."""
    _set_generator_state(default_generator, state)


def _generator_state(self: Generator) -> Tensor:
    return _C.tensor(list(self._state()), dtype=_C.uint8)


def _set_generator_state(self: Generator, state: Tensor) -> Generator:
    if state.dtype != _C.uint8:
        raise TypeError("RNG state must be a torch.ByteTensor")
    self._set_state(bytes(state.tolist()))
    return self


Generator.get_state = _generator_state  # type: ignore[attr-defined]
Generator.set_state = _set_generator_state  # type: ignore[attr-defined]


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Whether `obj` is a storage object."""
    return type(obj).__name__ == "UntypedStorage"


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floating point numbers."""
    return input.is_floating_point()


def typename(obj: Any) -> str:
    """The qualified name of an object's class; a tensor's type."""
    if isinstance(obj, Tensor):
        return obj.type()
    cls = obj if isinstance(obj, type) else type(obj)
    module = "" if cls.__module__ in ("builtins", "__builtin__") else cls.__module__ + "."
    return module + cls.__qualname__


def promote_types(type1: _C.dtype, type2: _C.dtype) -> _C.dtype:
    """The smallest dtype that both convert to."""
    return _C._promote_types(type1, type2)


def result_type(tensor1: Any, tensor2: Any) -> _C.dtype:
    """The dtype of arithmetic between two tensors or numbers."""
    return _C._result_type(tensor1, tensor2)


def can_cast(from_: _C.dtype, to: _C.dtype) -> bool:
    """Whether PyTorch's rules allow the conversion: never to a lower category."""

    def rank(d: _C.dtype) -> int:
        return 2 if d.is_floating_point else 0 if d == _C.bool else 1

    if rank(from_) > rank(to):
        return False
    return not (rank(from_) == rank(to) == 1 and from_.is_signed and not to.is_signed)


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that the given shapes broadcast to."""
    out: list[int] = []
    for shape in shapes:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        out = [1] * (len(shape) - len(out)) + out
        for i in range(-1, -len(shape) - 1, -1):
            if shape[i] == 1 or shape[i] == out[i]:
                continue
            if out[i] != 1:
                raise RuntimeError(
                    "Shape mismatch: objects cannot be broadcast to a single shape"
                )
            out[i] = shape[i]
    return Size(out)


class finfo:
    """Limits of a floating point dtype.

    >>> import rgrad
    >>> rgrad.finfo(rgrad.float32).eps
    1.1920928955078125e-07
    """

    _LIMITS = {
        "float16": (16, 2.0**-10, 65504.0, 2.0**-14, 0.001, 2.0**-24),
        "bfloat16": (16, 2.0**-7, 3.3895313892515355e38, 2.0**-126, 0.01, 2.0**-133),
        "float32": (32, 2.0**-23, 3.4028234663852886e38, 2.0**-126, 1e-06, 2.0**-149),
        "float64": (64, 2.0**-52, 1.7976931348623157e308, 2.0**-1022, 1e-15, 5e-324),
    }

    def __init__(self, type: _C.dtype | None = None) -> None:
        d = _C.get_default_dtype() if type is None else type
        if not isinstance(d, _C.dtype) or not d.is_floating_point:
            raise TypeError(
                f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{d!r}'"
            )
        self.dtype = repr(d).removeprefix("torch.")
        self.bits, self.eps, self.max, self.tiny, self.resolution, self.smallest_subnormal = self._LIMITS[self.dtype]
        self.min = -self.max
        self.smallest_normal = self.tiny

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.tiny:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer dtype."""

    def __init__(self, type: _C.dtype) -> None:
        if not isinstance(type, _C.dtype) or type.is_floating_point:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type!r}'")
        self.dtype = repr(type).removeprefix("torch.")
        self.bits = type.itemsize * 8
        self.min = -(2 ** (self.bits - 1)) if type.is_signed else 0
        self.max = 2 ** (self.bits - (1 if type.is_signed else 0)) - 1

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Changes how tensors are printed; profiles are "default", "short" and "full"."""
    options = get_printoptions()
    if profile is not None:
        options.update(
            {
                "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
                "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
                "full": {"precision": 4, "threshold": float("inf"), "edgeitems": 3, "linewidth": 80},
            }[profile]
        )
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    options.update({k: v for k, v in given.items() if v is not None})
    options["sci_mode"] = sci_mode
    _C._set_printoptions(**options)


def get_printoptions() -> dict[str, Any]:
    """How tensors are printed."""
    names = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")
    return dict(zip(names, _C._get_printoptions(), strict=True))


def set_default_tensor_type(t: Any) -> None:
    """Sets the default dtype by the name of a tensor type, such as "torch.DoubleTensor"."""
    names = {"Float": _C.float32, "Double": _C.float64, "Half": _C.float16, "BFloat16": _C.bfloat16}
    key = str(t).rsplit(".", 1)[-1].removesuffix("Tensor")
    if key not in names:
        raise TypeError(f"invalid type object: {t!r}")
    _C.set_default_dtype(names[key])


def set_default_device(device: Any) -> None:
    """Where new tensors are made from now on; None for the CPU."""
    _C._set_default_device("cpu" if device is None else device)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accepted: every operation here is deterministic."""


def are_deterministic_algorithms_enabled() -> bool:
    """True: every operation here is deterministic."""
    return True


def compiled_with_cxx11_abi() -> bool:
    """False: nothing here is compiled from C++."""
    return False
