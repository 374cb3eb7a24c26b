"""The zip archive of a file: records are written at aligned offsets and checked before they are read."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import Any

_ALIGNMENT = 64


def write_record(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    """Writes a record whose bytes begin at a multiple of 64. The padding is in an extra field, as in PyTorch's
    writer.
    """
    info = zipfile.ZipInfo(name)  # its date is fixed: the same object makes the same file
    size = memoryview(data).nbytes
    zip64_extra = 20 if size * 1.05 > zipfile.ZIP64_LIMIT else 0
    start = archive.fp.tell() + 30 + len(name.encode()) + 4 + zip64_extra  # type: ignore[union-attr]
    padding = -start % _ALIGNMENT
    info.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
    archive.writestr(info, data)


def _unreadable(what: str) -> RuntimeError:
    """The error for a zip file that `save` did not write, or that is incomplete."""
    return RuntimeError(
        f"PytorchStreamReader failed {what}. This is an internal miniz error. If you are seeing this error, there is a "
        "high likelihood that your checkpoint file is corrupted. This can happen if the checkpoint was not saved "
        "properly, was transferred incorrectly, or the file was modified after saving."
    )


class Archive:
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
        # Stored records can only be larger in total than the file if they overlap, as in a zip bomb.
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
        """The bytes of a record, without copying; with `check`, their checksum is verified."""
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


class PyTorchFileReader:
    """The records of a file that `save` wrote.

    Args:
        file: a path, or a file that is open for reading bytes.
    """

    def __init__(self, file: Any) -> None:
        if hasattr(file, "read"):
            data = file.read()
        else:
            with open(file, "rb") as opened:
                data = opened.read()
        self._archive = Archive(data)

    def get_all_records(self) -> list[str]:
        """Their names."""
        return list(self._archive.infos)

    def has_record(self, name: str) -> bool:
        """Whether there is one of a name."""
        return name in self._archive.infos

    def get_record(self, name: str) -> bytes:
        """The bytes of one."""
        return bytes(self._archive.record(name))

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Any:
        """The bytes of one as a vector of elements."""
        from rgrad import _C

        data = self._archive.record(name)
        if numel * dtype.itemsize > len(data):
            raise RuntimeError(f"record {name} has {len(data)} bytes, which are no {numel} elements of {dtype}")
        made = _C.empty(numel, dtype=dtype)
        if numel:
            _C._storage_bytes(made)[:] = data[: numel * dtype.itemsize]
        return made


class _Reader(io.RawIOBase):
    """A file object on a buffer, for `zipfile`, that copies only the bytes that are read."""

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
