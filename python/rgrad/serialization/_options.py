"""How files are written and read unless a call says otherwise: byte order, checksums, mappings, and data left out."""

from __future__ import annotations

import enum
import mmap
import sys
from typing import Any


class LoadEndianness(enum.Enum):
    """The byte order of files that do not name one, as PyTorch wrote them before 2.1."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class _Options:
    endianness: LoadEndianness | None = None
    checksums = True
    mapping = getattr(mmap, "MAP_PRIVATE", None)
    skips = False


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order in which `load` reads files that name none; None is little-endian."""
    return _Options.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Sets the byte order in which `load` reads files that name none."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _Options.endianness = endianness


def is_swapped(named: bytes | None) -> bool:
    """Whether the bytes of a file's elements have another order than this machine's.

    Args:
        named: the order that the file names, if any.

    Raises:
        ValueError: it names none of the two that there are.
    """
    if named is None:
        default = {LoadEndianness.BIG: "big", LoadEndianness.NATIVE: sys.byteorder}
        order = default.get(_Options.endianness or LoadEndianness.LITTLE, "little")
    else:
        order = named.decode("ascii", "replace")
    if order not in ("little", "big"):
        raise ValueError("Unknown endianness type: " + order)
    return order != sys.byteorder


def get_crc32_options() -> bool:
    """Whether `save` computes a checksum of every record."""
    return _Options.checksums


def set_crc32_options(compute_crc32: bool) -> None:
    """Sets whether `save` computes a checksum of every record.

    Without them saving takes less time; `load` reads such a file, other programs may find it damaged.
    """
    _Options.checksums = bool(compute_crc32)


def get_default_mmap_options() -> int | None:
    """The kind of mapping that `load` makes with `mmap=True`."""
    return _Options.mapping


class set_default_mmap_options:
    """Sets the kind of mapping that `load` makes with `mmap=True`; in a `with` statement, for its block.

    Args:
        flags: `mmap.MAP_PRIVATE`, so that writes to tensors stay in memory, or `mmap.MAP_SHARED`, which writes them to
            the file.
    """

    def __init__(self, flags: int) -> None:
        known = [getattr(mmap, name, None) for name in ("MAP_PRIVATE", "MAP_SHARED")]
        if None in known:
            raise RuntimeError("Changing the default mmap options is currently not supported for Windows")
        if flags not in known:
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
                f"but got {flags}"
            )
        self._before = _Options.mapping
        _Options.mapping = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _Options.mapping = self._before


def maps_shared() -> bool:
    """Whether what is written to mapped tensors goes to the file."""
    return _Options.mapping is not None and _Options.mapping == getattr(mmap, "MAP_SHARED", None)


class skip_data:
    """Within the block `save` writes no elements, only room for them: a file to be filled in by another writer.

    Args:
        materialize_fake_tensors: accepted, without effect: there are no fake tensors.
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self._before = _Options.skips
        _Options.skips = True

    def __exit__(self, *exc: object) -> None:
        _Options.skips = self._before


def skips_data() -> bool:
    """Whether this is within the block of `skip_data`."""
    return _Options.skips


class _open_file_like:
    """A path, opened for the block, or a file that stays open; one that was written is flushed.

    Args:
        name_or_buffer: the path or the file.
        mode: as of `open`.
    """

    def __init__(self, name_or_buffer: Any, mode: str) -> None:
        self._opens = isinstance(name_or_buffer, str) or hasattr(name_or_buffer, "__fspath__")
        self._mode = mode
        self.file_like: Any = open(name_or_buffer, mode) if self._opens else name_or_buffer  # noqa: SIM115

    def __enter__(self) -> Any:
        return self.file_like

    def __exit__(self, *exc: object) -> None:
        if self._opens:
            self.file_like.close()
        elif "w" in self._mode and hasattr(self.file_like, "flush"):
            self.file_like.flush()
