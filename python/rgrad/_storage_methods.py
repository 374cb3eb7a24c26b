"""Methods of `UntypedStorage` that need nothing of the core."""

from __future__ import annotations

import sys

from rgrad import _C

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from typing import Any, NoReturn

UntypedStorage = _C.UntypedStorage

_CASTS = ("float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool")


def _bytes_of(storage: UntypedStorage) -> _C.Tensor:
    """The memory as a vector of bytes."""
    return _C.empty(0, dtype=_C.uint8, device=storage.device).set_(storage)


def byteswap(self: UntypedStorage, dtype: _C.dtype) -> None:
    """Reverses the bytes of every number in place.

    Args:
        dtype: of the elements, which says how many bytes a number has; a complex one is two numbers.
    """
    size = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    if self.nbytes() % size:
        raise RuntimeError(f"the length of data is not a multiple of {size}")
    if size > 1:
        elements = _bytes_of(self).view(-1, size)
        elements.copy_(elements.flip(1))


def is_pinned(self: UntypedStorage, device: Any = "cuda") -> bool:
    """Whether the memory is locked for transfers to a GPU: never, they go through buffers of their own."""
    return False


def pin_memory(self: UntypedStorage, device: Any = "cuda") -> UntypedStorage:
    """The storage itself: memory need not be locked for transfers."""
    if self.device.type != "cpu":
        raise TypeError("cannot pin 'torch.storage.UntypedStorage' only CPU memory can be pinned")
    return self


def get_device(self: UntypedStorage) -> int:
    """The number of the GPU; -1 on the CPU."""
    return -1 if self.device.type == "cpu" else int(self.device.index or 0)


def _not_on(device: str) -> NoReturn:
    raise NotImplementedError(
        f"this storage on {device} can't move to shared memory: Tensor.share_memory_ moves the tensor that uses it"
    )


def _share_fd_cpu_(self: UntypedStorage) -> tuple[int, int]:
    """The descriptor and the size of the file that the memory is a mapping of, if it is shared already."""
    if self.device.type != "cpu":
        raise RuntimeError("_share_fd_: only available on CPU")
    from ._shared import mapping_of

    mapping = mapping_of(self)
    return (mapping.descriptor, self.nbytes()) if mapping is not None else _not_on(str(self.device))


def _share_filename_cpu_(self: UntypedStorage) -> NoReturn:
    """Refuses: the files of shared memory have no names."""
    if self.device.type != "cpu":
        raise RuntimeError("_share_filename_: only available on CPU")
    _not_on(str(self.device))


def _share_memory_(self: UntypedStorage) -> UntypedStorage:
    """The storage itself: tensors are shared, by `Tensor.share_memory_`."""
    if self.device.type not in ("cpu", "gpu", "cuda", "mps"):
        raise RuntimeError("_share_fd_: only available on CPU")
    return self


def _write_file(self: UntypedStorage, f: Any, is_real_file: bool, save_size: bool, element_size: int) -> None:
    """Writes the bytes to a file, after the number of elements if `save_size`."""
    if self.device.type == "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if save_size:
        f.write((self.nbytes() // element_size).to_bytes(8, sys.byteorder))
    f.write(bytes(self.cpu()))
    f.flush()


def _filename(self: UntypedStorage) -> Any:
    """The path of the file that writes to this memory change, or None: see `from_file`."""
    from .storage import filename_of

    return filename_of(self)


def _fix_weakref(self: UntypedStorage) -> None:
    """Does nothing: a weak reference to a storage is valid as long as the storage."""


def __copy__(self: UntypedStorage) -> UntypedStorage:  # noqa: N807
    """A copy with its own memory."""
    return self.clone()


def _cast(name: str) -> Any:
    def cast(self: UntypedStorage) -> Any:
        return getattr(_bytes_of(self), name)().storage()

    cast.__name__ = name
    cast.__doc__ = f"The bytes as numbers of the dtype that `Tensor.{name}` names."
    return cast


def install() -> None:
    """Adds them to the class."""
    for method in (
        byteswap,
        is_pinned,
        pin_memory,
        get_device,
        _share_fd_cpu_,
        _share_filename_cpu_,
        _write_file,
        _fix_weakref,
        __copy__,
        *map(_cast, _CASTS),
    ):
        setattr(UntypedStorage, method.__name__, method)
    UntypedStorage.filename = property(_filename)  # type: ignore[attr-defined]
    UntypedStorage.share_memory_ = _share_memory_  # type: ignore[method-assign]
