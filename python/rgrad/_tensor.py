"""Methods of Tensor implemented in Python, and functions that query the type of an object."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from rgrad import _C, _storage_methods
from rgrad._C import Tensor

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any

# What programs ask before they call functions that PyTorch takes from libraries. Matrices can be factorized here.
LIBRARIES = {"has_lapack": True, "has_mkl": False, "has_openmp": False, "has_spectral": False}


def __getattr__(name: str) -> Any:
    # Pickles name it here; what it needs is imported with it.
    if name == "_rebuild_from_type_v2":
        from rgrad._utils import _rebuild_from_type_v2

        return _rebuild_from_type_v2
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _set(self: Tensor, values: Any) -> Tensor:
    """Stores Python numbers in the order of the elements."""
    code = "d" if self.dtype.is_floating_point else "q"
    made = array(code, values)
    if made:
        flat = _C.frombuffer(made, dtype=_C.float64 if code == "d" else _C.int64)
        self.detach().copy_(flat.view(self.shape))
    return self


def _check(self: Tensor, name: str, function: Any) -> None:
    if self.requires_grad:
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    if not callable(function):
        raise TypeError(f"'{type(function).__name__}' object is not callable")


def _operand(self: Tensor, name: str, parameter: str, position: int, value: Any) -> list[Any]:
    if not isinstance(value, Tensor):
        found = type(value).__name__
        raise TypeError(f"{name}(): argument '{parameter}' (position {position}) must be Tensor, not {found}")
    if value.dtype != self.dtype:
        raise TypeError(f"{name}: expected {self.type()} for '{parameter}' (got {value.type()})")
    return value.detach().expand(self.shape).flatten().tolist()


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replaces each element by `callable` of it. Slow, since it calls Python per element."""
    _check(self, "apply_", callable)
    return _set(self, [callable(x) for x in self.flatten().tolist()])


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replaces each element by `callable` of it and the corresponding element of `tensor`, which is broadcast."""
    others = _operand(self, "map_", "other", 1, tensor)
    _check(self, "map_", callable)
    return _set(self, [callable(x, y) for x, y in zip(self.flatten().tolist(), others, strict=True)])


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """As `map_`, with two tensors."""
    first, second = _operand(self, "map2_", "x", 1, x), _operand(self, "map2_", "y", 2, y)
    _check(self, "map2_", callable)
    if x.requires_grad or y.requires_grad:
        raise RuntimeError("Can't call map2_() on Variable that requires grad. Use var.detach().map2_() instead.")
    triples = zip(self.flatten().tolist(), first, second, strict=True)
    return _set(self, [callable(*values) for values in triples])


def storage(self: Tensor) -> Any:
    """The storage of this tensor, shared with its views, as elements of its dtype; see `untyped_storage`."""
    from .storage import of_tensor

    return of_tensor(self)


def _typed_storage(self: Tensor) -> Any:
    """As `storage`, without its warning."""
    from .storage import TypedStorage

    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype)


def pinverse(self: Tensor, rcond: float = 1e-15) -> Tensor:
    """The pseudo-inverse of each matrix; see `rgrad.pinverse`."""
    from . import linalg

    return linalg.pinverse(self, rcond)


def __complex__(self: Tensor) -> complex:
    return complex(self.item())


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Whether `obj` is a storage object."""
    return type(obj).__name__ in ("TypedStorage", "UntypedStorage")


def is_inference(input: Tensor) -> bool:
    """Whether the tensor was created in inference mode."""
    return input.is_inference()


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is floating-point."""
    return input.is_floating_point()


def from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> _C.UntypedStorage:
    """A storage over the bytes of a file; see `rgrad.storage.from_file`."""
    from .storage import from_file

    return from_file(filename, shared, nbytes)


_item = vars(_C.UntypedStorage)["__getitem__"]


def _slice_or_item(self: _C.UntypedStorage, index: Any) -> Any:
    """A byte, or a storage over some of the bytes."""
    if self.device.type == "meta":
        raise NotImplementedError("Not available for 'meta' device type")
    if not isinstance(index, slice):
        return _item(self, index)
    from .storage import part_of

    return part_of(self, index)


def _storage_from_buffer(
    buffer: Any, byte_order: str | None = None, count: int = -1, offset: int = 0, *, dtype: _C.dtype = _C.uint8
) -> _C.UntypedStorage:
    """A storage with a copy of the elements of a buffer; see `rgrad.storage.from_buffer`."""
    from .storage import from_buffer

    return from_buffer(buffer, byte_order, count, offset, dtype=dtype)


def _storage_size(self: _C.UntypedStorage) -> int:
    """The size in memory: that of the object and of the bytes."""
    return object.__sizeof__(self) + self.nbytes()


def storage_type(self: Tensor) -> Any:
    """The legacy type of the storage, such as `rgrad.FloatStorage`."""
    from .storage import type_of

    return type_of(self)


def _fix_weakref(self: Tensor) -> None:
    """Nothing: a weak reference here never leads to an object without its tensor."""


def is_shared(self: Tensor) -> bool:
    """Whether other processes can map the memory: after `share_memory_`, and always on a GPU."""
    from . import _shared

    return _shared.is_shared(self)


def share_memory_(self: Tensor) -> Tensor:
    """Moves the tensor to memory that processes share, and returns it.

    Views that were made before keep the memory that they had.
    """
    from . import _shared

    return _shared.share_memory_(self)


def _storage_is_shared(self: _C.UntypedStorage) -> bool:
    """Whether other processes can map the memory."""
    from . import _shared

    return _shared.storage_is_shared(self)


def _log_api_usage_once(event: str) -> None:
    """Nothing is logged."""


def _get_cpu_capability() -> str:
    """The instruction set in use, as PyTorch names it: "DEFAULT", "AVX2" or "AVX512"."""
    isa = _C._set_cpu_isa()
    return "DEFAULT" if isa == "baseline" else isa.upper()


def install() -> None:
    """Adds the methods to Tensor, and some to its storages."""
    _C.UntypedStorage.from_file = staticmethod(from_file)  # type: ignore[attr-defined]
    _C.UntypedStorage.from_buffer = staticmethod(_storage_from_buffer)  # type: ignore[attr-defined]
    _C.UntypedStorage.__sizeof__ = _storage_size  # type: ignore[method-assign]
    _C.UntypedStorage.is_shared = _storage_is_shared  # type: ignore[attr-defined]
    _C.UntypedStorage.__getitem__ = _slice_or_item  # type: ignore[method-assign]
    _storage_methods.install()
    _C._log_api_usage_once = _log_api_usage_once  # type: ignore[attr-defined]
    _C._get_cpu_capability = _get_cpu_capability  # type: ignore[attr-defined]
    for name, present in LIBRARIES.items():
        setattr(_C, name, present)
    _C._TensorMeta = type(Tensor)  # type: ignore[attr-defined]
    for method in (
        apply_,
        map_,
        map2_,
        storage,
        _typed_storage,
        pinverse,
        storage_type,
        is_shared,
        share_memory_,
        __complex__,
        _fix_weakref,
    ):
        setattr(Tensor, method.__name__, method)
