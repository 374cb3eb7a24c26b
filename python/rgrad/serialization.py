"""Saving and loading in PyTorch's zip format, without PyTorch and without running code from the file.

Note [The file format]
~~~~~~~~~~~~~~~~~~~~~~
A `.pth` file is an uncompressed zip archive. Below one folder, named after the file, it holds

* `data.pkl`: the object, pickled. A tensor is a call of `torch._utils._rebuild_tensor_v2` with its storage,
  offset, shape and strides, where the storage is a persistent id `("storage", torch.FloatStorage, "0", "cpu",
  12)`: dtype, key, location and number of elements;
* `data/0`, `data/1`, ...: the bytes of each storage, aligned to 64 so that they can be mapped. Tensors that
  share a storage refer to the same key and share one again after loading;
* `byteorder` and `version`.

The pickle is read by `rgrad._weights_unpickler`, which knows the few callables such files need and nothing
else.
"""

from __future__ import annotations

import contextlib
import io
import mmap as mmap_module
import os
import pickle
import struct
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import IO, Any

import rgrad
from rgrad import _C
from rgrad._utils import dtype_name
from rgrad._weights_unpickler import (
    StorageType,
    WeightsUnpickler,
    add_safe_globals,
    clear_safe_globals,
    full_unpickler,
    get_safe_globals,
    safe_globals,
    unsafe_names,
)
from rgrad.storage import TypedStorage, UntypedStorage, elements_of

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "safe_globals",
    "save",
]

_ALIGNMENT = 64
_STORAGE_NAMES = {
    "float64": "DoubleStorage",
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
}

PathOrFile = str | os.PathLike[str] | IO[bytes]


# Saving


class _TorchGlobal:
    """A name that PyTorch's side will import: written to the pickle as it is, since there is nothing here
    behind it.
    """

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self) -> None:
        """Pickle wants a callable in the place of the function that rebuilds an object."""


_REBUILD_TENSOR = _TorchGlobal("torch._utils", "_rebuild_tensor_v2")
_REBUILD_PARAMETER = _TorchGlobal("torch._utils", "_rebuild_parameter")
_SIZE = _TorchGlobal("torch", "Size")
_DEVICE = _TorchGlobal("torch", "device")
_STORAGE_GLOBALS = {dtype: _TorchGlobal("torch", name) for dtype, name in _STORAGE_NAMES.items()}
_DTYPE_GLOBALS = {dtype: _TorchGlobal("torch", dtype) for dtype in _STORAGE_NAMES}


class _StorageRef:
    """Stands in the pickled arguments for a storage that goes to a record of its own."""

    def __init__(self, persistent_id: tuple[Any, ...]) -> None:
        self.persistent_id = persistent_id


# Untyped: the standard stubs leave out the parts of Python's own pickler that subclasses build on.
_PythonPickler: Any = pickle._Pickler


class _Pickler(_PythonPickler):
    """Writes tensors as PyTorch does and gathers their storages.

    It is Python's own pickler rather than the one in C because only that lets names through which can't be
    imported.
    """

    dispatch = _PythonPickler.dispatch.copy()

    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: list[Any] = []
        self._keys: dict[int, tuple[str, str]] = {}

    def persistent_id(self, obj: Any) -> tuple[Any, ...] | None:
        if isinstance(obj, (TypedStorage, UntypedStorage)):
            obj = self._storage(elements_of(obj))
        return obj.persistent_id if isinstance(obj, _StorageRef) else None

    def _save_torch_global(self, obj: _TorchGlobal) -> None:
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    dispatch[_TorchGlobal] = _save_torch_global

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, rgrad.nn.Parameter):
            return _REBUILD_PARAMETER, (obj.detach(), obj.requires_grad, OrderedDict())
        if isinstance(obj, rgrad.Tensor):
            if obj.requires_grad and not obj.is_leaf:
                obj = obj.detach().requires_grad_()
            layout = (obj.storage_offset(), tuple(obj.shape), tuple(obj.stride()), obj.requires_grad)
            return _REBUILD_TENSOR, (self._storage(obj), *layout, OrderedDict())
        if isinstance(obj, rgrad.Size):
            return _SIZE, (tuple(obj),)
        if isinstance(obj, rgrad.device):
            return _DEVICE, (str(obj),)
        if isinstance(obj, rgrad.dtype):
            # save_reduce has no form for a bare global, so that a dtype is written by `save` below.
            raise pickle.PicklingError(f"can't pickle {obj}")
        return NotImplemented

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if isinstance(obj, rgrad.dtype):
            obj = _DTYPE_GLOBALS[dtype_name(obj)]
            found = self.memo.get(id(obj))
            if found is None:
                self._save_torch_global(obj)
            else:
                self.write(self.get(found[0]))
            return
        super().save(obj, save_persistent_id)

    def _storage(self, tensor: Any) -> _StorageRef:
        storage = tensor.untyped_storage()
        dtype = dtype_name(tensor.dtype)
        address = storage.data_ptr()
        key, saved_dtype = (
            self._keys.get(address, (str(len(self.storages)), dtype)) if address else (None, dtype)
        )
        if saved_dtype != dtype:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different types"
            )
        if key is None or int(key) == len(self.storages):
            key = str(len(self.storages))
            self._keys[address] = (key, dtype)
            # The tensor stays referenced, so that its address can't be given to another storage meanwhile.
            self.storages.append(tensor.detach())
        count = storage.nbytes() // tensor.dtype.itemsize
        return _StorageRef(("storage", _STORAGE_GLOBALS[dtype], key, _location(tensor.device), count))


def _location(device: Any) -> str:
    """PyTorch's name of a device, which it can load from and remap."""
    return f"cuda:{device.index or 0}" if device.type == "gpu" else str(device)


def save(
    obj: Any,
    f: PathOrFile,
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Save an object, such as a model's `state_dict`, to a file that PyTorch can load as well.

    Args:
        obj: tensors, numbers, strings and containers of them; other objects need `weights_only=False` to
        load.
        f: a path or a binary file open for writing.
        pickle_module: must be `pickle`.
        pickle_protocol: pickle's protocol, 2 as PyTorch's.
        _use_new_zipfile_serialization: False for the format of PyTorch before 1.6.

    Example:
        >>> import io
        >>> import rgrad as torch
        >>> file = io.BytesIO()
        >>> torch.save({"weight": torch.ones(2)}, file)
        >>> _ = file.seek(0)
        >>> torch.load(file)
        {'weight': tensor([1., 1.])}
    """
    if pickle_module is not pickle:
        raise ValueError("pickle_module must be the standard library's pickle")
    is_path = isinstance(f, (str, os.PathLike))
    if not is_path and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    if not _use_new_zipfile_serialization:
        from rgrad._legacy_file import save_legacy

        with open(f, "wb") if is_path else contextlib.nullcontext(f) as file:  # type: ignore[arg-type]
            save_legacy(obj, file, pickle_protocol)
        return
    pickled = io.BytesIO()
    pickler = _Pickler(pickled, pickle_protocol)
    pickler.dump(obj)
    root = os.path.splitext(os.path.basename(os.fspath(f)))[0] if is_path else "archive"  # type: ignore[arg-type]
    if is_path:
        parent = os.path.dirname(os.path.abspath(os.fspath(f)))  # type: ignore[arg-type]
        if not os.path.isdir(parent):
            raise RuntimeError(f"Parent directory {parent} does not exist.")
        if os.path.isdir(f):
            raise RuntimeError("open file failed with strerror: Is a directory")
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[arg-type]
        _write_record(archive, f"{root}/data.pkl", pickled.getbuffer())
        _write_record(archive, f"{root}/byteorder", b"little")
        for key, tensor in enumerate(pickler.storages):
            host = tensor if str(tensor.device) == "cpu" else tensor.cpu()
            _write_record(archive, f"{root}/data/{key}", _C._storage_bytes(host))
        _write_record(archive, f"{root}/version", b"3\n")


def _write_record(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    """Write a record whose bytes begin at a multiple of 64, padded by an extra field as PyTorch's writer
    does it.
    """
    info = zipfile.ZipInfo(name)  # its date is fixed: the same object makes the same file
    size = memoryview(data).nbytes
    zip64_extra = 20 if size * 1.05 > zipfile.ZIP64_LIMIT else 0
    start = archive.fp.tell() + 30 + len(name.encode()) + 4 + zip64_extra  # type: ignore[union-attr]
    padding = -start % _ALIGNMENT
    info.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
    archive.writestr(info, data)


# Loading


def _unreadable(what: str) -> RuntimeError:
    """The error for a zip file that is not one of ours, or not whole."""
    return RuntimeError(
        f"PytorchStreamReader failed {what}. This is an internal miniz error. If you are seeing this error, there is a "
        "high likelihood that your checkpoint file is corrupted. This can happen if the checkpoint was not saved "
        "properly, was transferred incorrectly, or the file was modified after saving."
    )


class _Archive:
    """The records of a zip file, checked before any of their bytes are used.

    Args:
        buffer: the whole file.
    """

    def __init__(self, buffer: Any) -> None:
        self.view = memoryview(buffer)
        try:
            with zipfile.ZipFile(_Reader(self.view)) as archive:
                infos = archive.infolist()
        except (zipfile.BadZipFile, OSError, ValueError, struct.error, NotImplementedError):
            why = "failed finding central directory" if len(self.view) > 21 else "not a ZIP archive"
            raise _unreadable(f"reading zip archive: {why}") from None
        if any(info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 for info in infos):
            raise _unreadable("reading zip archive: compressed or encrypted records")
        # Stored records can't be larger together than the file unless they overlap, as in a zip bomb.
        if sum(info.file_size for info in infos) > len(self.view):
            raise _unreadable("reading zip archive: records exceed the file")
        self.infos: dict[str, zipfile.ZipInfo] = {}
        roots = [name.filename[: -len("data.pkl")] for name in infos if name.filename.endswith("/data.pkl")]
        if not roots:
            raise _unreadable("locating file data.pkl: file not found")
        for info in infos:
            if info.filename.startswith(roots[0]):
                self.infos[info.filename[len(roots[0]) :]] = info

    def record(self, name: str, check: bool = True) -> memoryview:
        """The bytes of a record, without copying; `check` also compares their checksum."""
        info = self.infos.get(name)
        if info is None:
            raise _unreadable(f"locating file {name}: file not found")
        header = info.header_offset
        if (
            header < 0
            or header + 30 > len(self.view)
            or bytes(self.view[header : header + 4]) != b"PK\x03\x04"
        ):
            raise _unreadable(f"reading file {name}: no local header")
        name_length, extra_length = struct.unpack_from("<HH", self.view, header + 26)
        start = header + 30 + name_length + extra_length
        if info.file_size < 0 or start + info.file_size > len(self.view):
            raise _unreadable(f"reading file {name}: file is truncated")
        data = self.view[start : start + info.file_size]
        if check and zlib.crc32(data) != info.CRC:
            raise _unreadable(f"reading file {name}: checksum mismatch")
        return data


class _Reader(io.RawIOBase):
    """A file over a buffer, for `zipfile`, that copies only what is read."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: len(self._view)}[whence]
        if base + offset < 0:
            raise OSError("seek before the start of the file")
        self._place = base + offset
        return self._place

    def readinto(self, buffer: Any) -> int:
        data = self._view[self._place : self._place + len(buffer)]
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)


class _Storages:
    """Makes the storages that a pickle refers to; each once, so that tied tensors stay tied."""

    def __init__(self, archive: _Archive, map_location: Any, mapped: bool) -> None:
        self._archive = archive
        self._map_location = map_location
        self._mapped = mapped
        self._loaded: dict[str, tuple[Any, str]] = {}

    def __call__(self, persistent_id: Any) -> Any:
        """The storage that `persistent_id` names."""
        is_tuple = isinstance(persistent_id, tuple) and len(persistent_id) in (5, 6)
        if not (is_tuple and persistent_id[0] == "storage" and persistent_id[5:] in ((), (None,))):
            raise pickle.UnpicklingError("Only persistent_load of storage is allowed")
        _, kind, key, location, count = persistent_id[:5]
        if not (
            isinstance(kind, StorageType)
            and isinstance(key, str)
            and isinstance(location, str)
            and type(count) is int
            and count >= 0
        ):
            raise pickle.UnpicklingError(f"malformed storage with {count!r} elements"[:200])
        if key not in self._loaded:
            self._loaded[key] = (self._load(kind, key, location, count), kind.dtype)
        tensor, dtype = self._loaded[key]
        if dtype != kind.dtype or tensor.numel() != count:
            raise pickle.UnpicklingError(f"storage {key} is referred to with different types or sizes")
        return TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype)

    def _load(self, kind: StorageType, key: str, location: str, count: int) -> Any:
        dtype = getattr(rgrad, kind.dtype)
        data = self._archive.record(f"data/{key}", check=not self._mapped)
        if data.nbytes != count * dtype.itemsize:
            raise pickle.UnpicklingError(
                f"storage {key} should have {count} elements of {dtype}, but its record has {data.nbytes} "
                "bytes"
            )
        if self._mapped and count > 0:
            tensor = _C._tensor_from_buffer(data, dtype, 0, count)
        else:
            tensor = rgrad.empty(count, dtype=dtype, device="cpu")
            if count > 0:
                _C._storage_bytes(tensor)[: data.nbytes] = data
        return self.place(tensor, location)

    def place(self, tensor: Any, location: str) -> Any:
        """The tensor on the device that the file, or `map_location`, wants it on."""
        chosen = self._map_location
        if callable(chosen):
            storage: Any = chosen(tensor.untyped_storage(), location)
            if storage is not None:
                return rgrad.empty(0, dtype=tensor.dtype, device=storage.device).set_(storage.untyped())
            target = location
        elif isinstance(chosen, dict):
            target = str(next((chosen[name] for name in (location, _other_name(location)) if name in chosen), location))
        else:
            target = location if chosen is None else str(chosen)
        if target == "cpu":
            return tensor
        try:
            return tensor.to(_other_name(target) if target.startswith("cuda") else target)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            name = target.partition(":")[0]
            if name not in ("cuda", "gpu", "xpu", "mps"):
                raise RuntimeError(
                    f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {target})"
                ) from None
            raise RuntimeError(
                f"Attempting to deserialize object on a {name.upper()} device but torch.{name}.is_available() is "
                "False. If you are running on a CPU-only machine, please use torch.load with "
                f"map_location=torch.device('cpu') to map your storages to the CPU. ({error})"
            ) from None


def _other_name(location: str) -> str:
    """What else a GPU is called: files name it as PyTorch does, here it is one of any vendor."""
    kind, colon, index = location.partition(":")
    return {"cuda": "gpu", "gpu": "cuda"}.get(kind, kind) + colon + index


def load(
    f: PathOrFile,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Load an object that `save`, or PyTorch's, wrote.

    Args:
        f: a path or a binary file open for reading.
        map_location: where to put storages: a device, a dict of devices, or a function of a storage and its
            location that returns the storage to keep it where it is or None for its own location.
        pickle_module: with `weights_only=False`, another module with an `Unpickler`.
        weights_only: whether to refuse everything but tensors and plain data; True by default. With False,
            the file can run any code: do that only with files you trust.
        mmap: map the file and read storages only when they are used; `f` must be a path.

    Returns:
        The object.
    """
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a file path in order to use the mmap argument")
    if weights_only is None:
        weights_only = True
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    start = 0 if isinstance(f, (str, os.PathLike)) or not hasattr(f, "tell") else f.tell()
    buffer = _contents(f, bool(mmap))
    if not _looks_zipped(buffer):
        from rgrad._legacy_file import load_legacy

        if mmap:
            raise RuntimeError(
                "mmap can only be used with files saved with "
                f"`torch.save({f}, _use_new_zipfile_serialization=True), "
                "please torch.save your checkpoint with this option in order to use mmap."
            )
        unrestricted = None if weights_only else (pickle_module or pickle, pickle_load_args)
        with _weights_errors() if weights_only else contextlib.nullcontext():
            value, end = load_legacy(memoryview(buffer), map_location, unrestricted)
        if not isinstance(f, (str, os.PathLike)):
            # Another object may follow in the file.
            f.seek(start + end)
        return value
    archive = _Archive(buffer)
    if "byteorder" in archive.infos and bytes(archive.record("byteorder")) != b"little":
        raise RuntimeError("the file was saved on a big-endian machine, which is not supported")
    storages = _Storages(archive, map_location, bool(mmap))
    data = archive.record("data.pkl")
    if not weights_only:
        return full_unpickler(pickle_module or pickle, io.BytesIO(data), storages, pickle_load_args).load()
    with _weights_errors():
        return WeightsUnpickler(bytes(data), storages).load()


def get_unsafe_globals_in_checkpoint(f: PathOrFile) -> list[str]:
    """The names in a file that `load` would refuse, as far as they stand there literally.

    Args:
        f: a path or a binary file that `save` wrote.
    """
    buffer = _contents(f, False)
    if not _looks_zipped(buffer):
        raise ValueError("Expected input to be a checkpoint returned by torch.save")
    return unsafe_names(bytes(_Archive(buffer).record("data.pkl")))


def _looks_zipped(buffer: Any) -> bool:
    head = bytes(memoryview(buffer)[:2])
    return head == b"PK" or head == b"P"


_UNSAFE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to "
    "`True`. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in "
    "arbitrary code execution. Do it only if you got the file from a trusted source."
)


def _explained(message: str) -> str:
    """What can be done about an error of the restricted unpickler."""
    if "was not an allowed global by default" in message:
        return (
            "Weights only load failed. This file can still be loaded, to do so you have two options, "
            "\033[1mdo those steps only if you trust the source of the checkpoint\033[0m. "
            f"\n\t(1) {_UNSAFE}\n\t(2) Alternatively, to load with `weights_only=True` please check the recommended "
            f"steps in the following error message.\n\tWeightsUnpickler error: {message}"
        )
    asked = (
        "Please file an issue with the following so that we can make `weights_only=True` compatible with your use "
        "case: WeightsUnpickler error: "
    )
    if message.endswith("is blocked."):
        asked = ""
    return f"Weights only load failed. {_UNSAFE}\n{asked}\n\n{message}"


@contextlib.contextmanager
def _weights_errors() -> Iterator[None]:
    """Tell with an error of the restricted unpickler what one can do about it."""
    try:
        yield
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(_explained(str(error))) from None


def _contents(f: Any, mapped: bool) -> Any:
    """The whole file as a buffer; mapped, if asked for, copy on write."""
    if not isinstance(f, (str, os.PathLike)):
        if not hasattr(f, "read"):
            raise AttributeError(
                f"{type(f).__name__!r} object has no attribute 'seek'. You can only torch.load from a file that is "
                "seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
            )
        return f.read()
    with open(f, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise EOFError("Ran out of input")
        access = mmap_module.ACCESS_COPY if mapped else mmap_module.ACCESS_READ
        return mmap_module.mmap(file.fileno(), 0, access=access)
