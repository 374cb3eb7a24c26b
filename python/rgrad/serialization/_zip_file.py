"""The zip archive of a file: records are written at aligned offsets and checked before they are read."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import Any

_ALIGNMENT = 64


# The least number that a field of 4 bytes doesn't hold: it says that the number is in an extra field, of 8 bytes.
_ESCAPE = 0xFFFFFFFF
# 1 January 1980, the first day that there is: the same object makes the same file.
_DATE = 0x21
_VERSION, _VERSION_ZIP64 = 20, 45
_UTF8_NAME = 0x800


class ZipWriter:
    """Writes an archive of stored records from the first byte to the last.

    It only writes, so that the file may be anything with a `write`; `zipfile` goes back to fill in checksums. (The
    format: PKWARE, APPNOTE.TXT, 4.3.)

    Args:
        file: a binary file open for writing.
        root: the folder of all records.
        checksums: whether the archive has checksums of the records.
    """

    def __init__(self, file: Any, root: str = "archive", checksums: bool = True) -> None:
        self._file = file
        self._root = root
        self._checksums = checksums
        self._place = 0
        self._directory: list[bytes] = []

    def _write(self, data: Any) -> None:
        self._file.write(data)
        self._place += len(data)

    def write_record(self, name: str, data: Any, size: int | None = None) -> None:
        """Writes a record whose bytes begin at a multiple of 64; padding is in an extra field, as in PyTorch's files.

        Args:
            name: of the record.
            data: its bytes, or text.
            size: how many of them, all if None.
        """
        view = memoryview(data.encode() if isinstance(data, str) else data).cast("B")[:size]
        name = f"{self._root}/{name}"
        crc = zlib.crc32(view) if self._checksums else 0
        encoded, count, offset = name.encode(), len(view), self._place
        large = count >= _ESCAPE
        wide = struct.pack("<HHQQ", 1, 16, count, count) if large else b""
        padding = -(offset + 30 + len(encoded) + len(wide) + 4) % _ALIGNMENT
        extra = wide + b"FB" + struct.pack("<H", padding) + b"Z" * padding
        flags = 0 if name.isascii() else _UTF8_NAME
        shown = _ESCAPE if large else count
        about = (flags, 0, 0, _DATE, crc, shown, shown, len(encoded))
        needed = _VERSION_ZIP64 if large else _VERSION
        self._write(struct.pack("<4sHHHHHIIIHH", b"PK\3\4", needed, *about, len(extra)) + encoded + extra)
        self._write(view)
        numbers = ([count, count] if large else []) + ([offset] if offset >= _ESCAPE else [])
        wide = struct.pack(f"<HH{len(numbers)}Q", 1, 8 * len(numbers), *numbers) if numbers else b""
        needed = _VERSION_ZIP64 if numbers else _VERSION
        rest = (len(wide), 0, 0, 0, 0, min(offset, _ESCAPE))
        entry = struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", needed, needed, *about, *rest)
        self._directory.append(entry + encoded + wide)

    def write_record_metadata(self, name: str, size: int) -> None:
        """Writes a record of `size` zeros, as room for bytes that something else will put there."""
        checksums, self._checksums = self._checksums, False
        self.write_record(name, memoryview(bytes(size)))
        self._checksums = checksums

    def close(self) -> None:
        """Writes the directory at the end."""
        start, count = self._place, len(self._directory)
        for entry in self._directory:
            self._write(entry)
        size, end = self._place - start, self._place
        if start >= _ESCAPE or size >= _ESCAPE or count >= 0xFFFF:
            versions = (_VERSION_ZIP64, _VERSION_ZIP64)
            self._write(struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, *versions, 0, 0, count, count, size, start))
            self._write(struct.pack("<4sIQI", b"PK\6\7", 0, end, 1))
        shown = min(count, 0xFFFF)
        numbers = (0, 0, shown, shown, min(size, _ESCAPE), min(start, _ESCAPE), 0)
        self._write(struct.pack("<4sHHHHIIH", b"PK\5\6", *numbers))


def _unreadable(what: str) -> RuntimeError:
    """The error for a zip file that `save` did not write, or that is incomplete."""
    return RuntimeError(
        f"PytorchStreamReader failed {what}. This is an internal miniz error. If you are seeing this error, there is a "
        "high likelihood that your checkpoint file is corrupted. This can happen if the checkpoint was not saved "
        "properly, was transferred incorrectly, or the file was modified after saving."
    )


def _common_folder(names: list[str]) -> str:
    """The folder that all names are in, with the slash; "" if there is none."""
    folders = {name.partition("/")[0] + "/" for name in names}
    folder = folders.pop() if len(folders) == 1 else ""
    return folder if all(name.startswith(folder) for name in names) else ""


class Archive:
    """The records of a zip file, checked before any of their bytes are used.

    Args:
        buffer: the whole file.
        pickled: whether there must be an object; records are then named as they are in its folder.
    """

    def __init__(self, buffer: Any, pickled: bool = True) -> None:
        self.view = memoryview(buffer)
        try:
            with zipfile.ZipFile(ByteReader(self.view)) as archive:
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
        if not roots and pickled:
            raise _unreadable("locating file data.pkl: file not found")
        root = roots[0] if roots else "" if pickled else _common_folder([info.filename for info in infos])
        for info in infos:
            if info.filename.startswith(root):
                self.infos[info.filename[len(root) :]] = info

    def record(self, name: str, check: bool = True) -> memoryview:
        """The bytes of a record, without copying; with `check`, their checksum is verified."""
        start = self.place(name)
        info = self.infos[name]
        if info.file_size < 0 or start + info.file_size > len(self.view):
            raise _unreadable(f"reading file {name}: file is truncated")
        data = self.view[start : start + info.file_size]
        # A checksum of 0 says that none was computed.
        if check and info.CRC and zlib.crc32(data) != info.CRC:
            raise _unreadable(f"reading file {name}: checksum mismatch")
        return data

    def place(self, name: str) -> int:
        """Where in the file the bytes of a record begin."""
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
        return header + 30 + name_length + extra_length


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
        self._archive = Archive(data, pickled=False)

    def get_all_records(self) -> list[str]:
        """Their names."""
        return list(self._archive.infos)

    def has_record(self, name: str) -> bool:
        """Whether there is one of a name."""
        return name in self._archive.infos

    def get_record(self, name: str) -> bytes:
        """The bytes of one."""
        return bytes(self._archive.record(name))

    def get_record_offset(self, name: str) -> int:
        """Where in the file the bytes of one begin."""
        return self._archive.place(name)

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


class ByteReader(io.RawIOBase):
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
