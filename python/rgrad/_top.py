"""Functions of the top level that are no operations: seeds, names, printing."""

from __future__ import annotations

import warnings
from types import ModuleType

from rgrad import _C
from rgrad._C import Generator, Tensor

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any, Self


class _Named:
    """A constant with a name, one of a closed set."""

    _name: str

    def __new__(cls) -> _Named:
        raise TypeError(f"cannot create 'torch.{cls.__name__}' instances")

    @classmethod
    def _make(cls, name: str) -> Self:
        self = object.__new__(cls)
        self._name = name
        return self

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class layout(_Named):
    """How a tensor's elements are kept: `strided` is the only one here."""


strided = layout._make("strided")

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
    if not isinstance(state, _C.Tensor):
        raise TypeError(f"expected a torch.ByteTensor, but got {type(state).__name__}")
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
    return type(obj).__name__ in ("TypedStorage", "UntypedStorage")


def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode."""
    return input.is_inference()


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
    profiles = {
        "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
        "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
        "full": {"precision": 4, "threshold": float("inf"), "edgeitems": 3, "linewidth": 80},
    }
    options.update(profiles.get(profile or "", {}))
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    options.update({k: v for k, v in given.items() if v is not None})
    options["sci_mode"] = sci_mode
    _C._set_printoptions(**options)


def get_printoptions() -> dict[str, Any]:
    """How tensors are printed."""
    names = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")
    return dict(zip(names, _C._get_printoptions(), strict=True))


def get_device_module(device: Any = None) -> ModuleType:
    """The module of a kind of device: `rgrad.cpu`, or `rgrad.cuda` for a GPU by any of its names.

    Args:
        device: A device or its name; by default the GPU where there is one, else the CPU.
    """
    from . import accelerator, cpu, cuda

    if device is None:
        return cuda if accelerator.is_available() else cpu
    if not isinstance(device, str | _C.device):
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    return cpu if _C.device(device).type == "cpu" else cuda


def set_default_tensor_type(t: Any) -> None:
    """Sets the default dtype by a tensor type or its name, such as "torch.DoubleTensor"."""
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives.",
        stacklevel=2,
    )
    from ._tensor_types import TYPES

    name = t.rpartition(".")[2] if isinstance(t, str) else getattr(t, "__name__", None)
    if name not in TYPES:
        raise TypeError(f"invalid type object: {t!r}")
    dtype = TYPES[name].dtype
    if not dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _C.set_default_dtype(dtype)


def compiled_with_cxx11_abi() -> bool:
    """False: nothing here is compiled from C++."""
    return False
