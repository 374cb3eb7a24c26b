"""Saving and loading in PyTorch's zip format, without PyTorch and without executing code from the file.

Note [The file format]
~~~~~~~~~~~~~~~~~~~~~~
A `.pth` file is an uncompressed zip archive. Below one folder, named after the file, it holds

* `data.pkl`: the object, pickled. A tensor is a call of `torch._utils._rebuild_tensor_v2` with its storage,
  offset, shape and strides, where the storage is a persistent id `("storage", torch.FloatStorage, "0", "cpu",
  12)`: dtype, key, location and number of elements;
* `data/0`, `data/1`, ...: the bytes of each storage, aligned to 64 so that they can be mapped. Tensors that
  share a storage refer to the same key, and share a storage again after loading;
* `byteorder` and `version`.

The pickle is read by `_weights_unpickler`, which supports only the few callables that such files need.
"""

from __future__ import annotations

import contextlib
import io
import mmap as mmap_module
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import IO, Any

from rgrad import _C
from rgrad.serialization._legacy_file import load_legacy, save_legacy
from rgrad.serialization._options import (
    LoadEndianness,
    _open_file_like,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    is_swapped,
    maps_shared,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
    skips_data,
)
from rgrad.serialization._pickler import TensorPickler
from rgrad.serialization._safe_globals import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from rgrad.serialization._storages import Storages
from rgrad.serialization._weights_unpickler import WeightsUnpickler, full_unpickler, unsafe_names
from rgrad.serialization._zip_file import Archive, PyTorchFileReader, ZipWriter

__all__ = [
    "LoadEndianness",
    "SourceChangeWarning",
    "add_safe_globals",
    "clear_safe_globals",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]

for _public in (
    *(add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals),
    *(LoadEndianness, get_crc32_options, set_crc32_options, get_default_load_endianness, set_default_load_endianness),
    *(get_default_mmap_options, set_default_mmap_options, skip_data, _open_file_like),
):
    _public.__module__ = __name__

PathOrFile = FILE_LIKE = str | os.PathLike[str] | IO[bytes]
DEFAULT_PROTOCOL = 2  # of pickle
MAP_LOCATION = Callable[[Any, str], Any] | _C.device | str | dict[str, str] | None


class SourceChangeWarning(Warning):
    """Of a class whose source is not that of the file; never issued here, as sources are not compared."""


def save(
    obj: Any,
    f: PathOrFile,
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Saves an object, such as a model's `state_dict`, to a file that PyTorch can also load.

    Args:
        obj: tensors, numbers, strings and containers of them; other objects need `weights_only=False` to
        load.
        f: a path or a binary file open for writing.
        pickle_module: must be `pickle`.
        pickle_protocol: the pickle protocol; 2 by default, as in PyTorch.
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
        if skips_data():
            raise RuntimeError("skip_data is not supported with _use_new_zipfile_serialization=False")
        with _opened_for_writing(f) as file:
            save_legacy(obj, file, pickle_protocol)
        return
    pickled = io.BytesIO()
    pickler = TensorPickler(pickled, pickle_protocol)
    pickler.dump(obj)
    if is_path:
        parent = os.path.dirname(os.path.abspath(os.fspath(f)))  # type: ignore[arg-type]
        if not os.path.isdir(parent):
            raise RuntimeError(f"Parent directory {parent} does not exist.")
        if os.path.isdir(f):
            raise RuntimeError("open file failed with strerror: Is a directory")
    with _open_zipfile_writer(f) as archive:
        archive.write_record("data.pkl", pickled.getbuffer())
        archive.write_record("byteorder", sys.byteorder.encode())
        for key, tensor in enumerate(pickler.storages):
            if skips_data():
                archive.write_record_metadata(f"data/{key}", tensor.untyped_storage().nbytes())
                continue
            host = tensor if str(tensor.device) == "cpu" else tensor.cpu()
            archive.write_record(f"data/{key}", _C._storage_bytes(host))
        archive.write_record("version", b"3\n")


def load(
    f: PathOrFile,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Loads an object that was saved by `save` or by PyTorch.

    Args:
        f: a path or a binary file open for reading.
        map_location: where to put storages: a device, a dict of devices, or a function of a storage and its
            location that returns the storage to leave it there, or None for the location in the file.
        pickle_module: with `weights_only=False`, another module with an `Unpickler`.
        weights_only: whether to refuse everything but tensors and plain data; True by default, unless
            `pickle_module` is given. With False, the file can execute any code: use it only with files that you trust.
            A truthy `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` in the environment changes the default to False, a truthy
            `TORCH_FORCE_WEIGHTS_ONLY_LOAD` makes every call one with True.
        mmap: map the file and read storages only when they are used; `f` must be a path.
        **pickle_load_args: `encoding`, of the strings of Python 2: "utf-8" by default, "bytes" leaves them bytes. With
            `weights_only=False`, also the other options of an `Unpickler`.

    Returns:
        The object.
    """
    if skips_data():
        raise RuntimeError("Please call torch.load outside the skip_data context manager: it reads elements")
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a file path in order to use the mmap argument")
    weights_only = _only_weights(weights_only, pickle_module)
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    start = 0 if isinstance(f, (str, os.PathLike)) or not hasattr(f, "tell") else f.tell()
    encoding = pickle_load_args.setdefault("encoding", "utf-8")
    buffer = _contents(f, bool(mmap))
    if not _looks_zipped(buffer):
        if mmap:
            raise RuntimeError(
                "mmap can only be used with files saved with "
                f"`torch.save({f}, _use_new_zipfile_serialization=True), "
                "please torch.save your checkpoint with this option in order to use mmap."
            )
        unrestricted = None if weights_only else (pickle_module or pickle, pickle_load_args)
        with _weights_errors() if weights_only else contextlib.nullcontext():
            value, end = load_legacy(memoryview(buffer), map_location, unrestricted, encoding)
        if not isinstance(f, (str, os.PathLike)):
            # Another object may follow in the file.
            f.seek(start + end)
        return value
    archive = Archive(buffer)
    order = bytes(archive.record("byteorder")) if "byteorder" in archive.infos else None
    storages = Storages(archive, map_location, bool(mmap), is_swapped(order))
    data = archive.record("data.pkl")
    if not weights_only:
        return full_unpickler(pickle_module or pickle, io.BytesIO(data), storages, pickle_load_args).load()
    with _weights_errors():
        return WeightsUnpickler(bytes(data), storages, encoding=encoding).load()


def _only_weights(asked: bool | None, pickle_module: Any) -> bool:
    """Whether `load` takes only weights: what a call asks for, unless the environment decides."""
    forced, released = (
        os.environ.get(name, "0").lower() in ("1", "y", "yes", "true")
        for name in ("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    )
    if forced and released:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set"
        )
    if forced or asked is not None:
        return forced or bool(asked)
    if released:
        warnings.warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the `weights_only` argument was not "
            "explicitly passed to `torch.load`, forcing weights_only=False.",
            stacklevel=3,
        )
    return not released and pickle_module is None


def get_unsafe_globals_in_checkpoint(f: PathOrFile) -> list[str]:
    """The names in a file that `load` would refuse, if they appear in the pickle literally.

    Args:
        f: a path or a binary file that `save` wrote.
    """
    buffer = _contents(f, False)
    if not _looks_zipped(buffer):
        raise ValueError("Expected input to be a checkpoint returned by torch.save")
    return unsafe_names(bytes(Archive(buffer).record("data.pkl")))


def _looks_zipped(buffer: Any) -> bool:
    head = bytes(memoryview(buffer)[:2])
    return head == b"PK" or head == b"P"


_UNSAFE = (
    "`torch.load` builds only what tensors and their containers are made of, unless `weights_only=False` is given. "
    "Then it calls whatever the file names, so that whoever wrote the file can run code here."
)


@contextlib.contextmanager
def _weights_errors() -> Iterator[None]:
    """Adds to errors of the restricted unpickler what the user can do about them."""
    try:
        yield
    except pickle.UnpicklingError as error:
        message = f"Weights only load failed. {_UNSAFE}\n\nWeightsUnpickler error: {error}"
        raise pickle.UnpicklingError(message) from None


@contextlib.contextmanager
def _opened_for_writing(f: Any) -> Iterator[Any]:
    """The file of a path, or a file that is open; what was written has left its buffer afterwards."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "wb") as file:
            yield file
        return
    yield f
    if hasattr(f, "flush"):
        f.flush()


@contextlib.contextmanager
def _open_zipfile_writer(name_or_buffer: Any) -> Iterator[ZipWriter]:
    """A writer of the records of a new file, which is complete at the end of the block."""
    is_path = isinstance(name_or_buffer, (str, os.PathLike))
    root = os.path.splitext(os.path.basename(os.fspath(name_or_buffer)))[0] if is_path else "archive"
    with _opened_for_writing(name_or_buffer) as file:
        writer = ZipWriter(file, root, get_crc32_options())
        yield writer
        writer.close()


@contextlib.contextmanager
def _open_zipfile_reader(name_or_buffer: Any) -> Iterator[PyTorchFileReader]:
    """A reader of the records of a file."""
    yield PyTorchFileReader(name_or_buffer)


def _is_zipfile(f: Any) -> bool:
    """Whether the file begins, where it is, as an archive does that `save` wrote; it stays there."""
    start = f.tell()
    head = f.read(4)
    f.seek(start)
    return head == b"PK\3\4"


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[Any, ...], error_if_malformed: bool = True
) -> bool:
    """Whether the version of a module is at least another one, part by part.

    Args:
        module: with a `__version__`.
        req_version_tuple: the parts, of types to which those of the module are converted.
        error_if_malformed: what to do with a version that has other parts: raise, or warn and say that it is.
    """
    try:
        parts = zip(str(module.__version__).split("."), req_version_tuple, strict=False)
        found = tuple(type(required)(part) for part, required in parts)
    except (ValueError, AttributeError) as error:
        message = f"'{module.__name__}' module version is malformed and can't be compared with {req_version_tuple}"
        if error_if_malformed:
            raise RuntimeError(message) from error
        warnings.warn(f"{message}, but continuing assuming that requirement is met", stacklevel=2)
        return True
    return found >= req_version_tuple


def _rest(f: Any) -> Any:
    """The bytes of an open file from where it is, without a copy where it reads into a buffer."""
    # What BytesIO reads from its beginning shares its memory until it is written; its `getbuffer` would keep it from
    # being closed.
    if type(f) is io.BytesIO or not hasattr(f, "readinto"):
        return f.read()
    start = f.tell()
    f.seek(0, io.SEEK_END)
    buffer = bytearray(f.tell() - start)
    f.seek(start)
    view, filled = memoryview(buffer), 0
    while filled < len(buffer):
        count = f.readinto(view[filled:])
        if not count:
            break
        filled += count
    return view[:filled]


def _contents(f: Any, mapped: bool) -> Any:
    """The whole file as a buffer; if `mapped`, a mapping, of which tensors write a copy unless it is shared."""
    if not isinstance(f, (str, os.PathLike)):
        if not all(hasattr(f, name) for name in ("read", "seek", "tell")):
            raise AttributeError(
                f"{type(f).__name__!r} object lacks one of 'read', 'seek' and 'tell'. You can only torch.load from a "
                "file that is seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it "
                "instead."
            )
        return _rest(f)
    shared = mapped and maps_shared()
    with open(f, "r+b" if shared else "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise EOFError("Ran out of input")
        access = mmap_module.ACCESS_COPY if mapped else mmap_module.ACCESS_READ
        if shared:
            access = mmap_module.ACCESS_WRITE
        return mmap_module.mmap(file.fileno(), 0, access=access)
