"""Pipes of files and of what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rgrad.utils.data.datapipes._decorator import functional_datapipe
from rgrad.utils.data.datapipes.datapipe import IterDataPipe, no_length
from rgrad.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe
from rgrad.utils.data.datapipes.utils.common import (
    get_file_binaries_from_pathnames,
    get_file_pathnames_from_root,
)

_MODES = ("b", "t", "rb", "rt", "r")


@functional_datapipe("list_files")
class FileListerIterDataPipe(IterDataPipe[str]):
    """The paths of the files in folders, or those of files; the method `list_files`.

    Args:
        root: a folder, several, or a pipe of them.
        masks: patterns of the shell, one of which the names of files must fit.
        recursive: whether files in folders below are listed too.
        abspath: whether paths begin at the root of the file system.
        non_deterministic: whether the order may be that of the file system; else names are sorted.
        length: the number of files, if it is known.

    Example:
        >>> import os, tempfile
        >>> from rgrad.utils.data.datapipes.iter import FileLister
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     open(os.path.join(folder, "a.txt"), "w").close()
        ...     [os.path.basename(path) for path in FileLister(folder)]
        ['a.txt']
    """

    def __init__(
        self,
        root: str | Sequence[str] | IterDataPipe[str] = ".",
        masks: str | list[str] = "",
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
    ) -> None:
        roots: Any = [root] if isinstance(root, str) else root
        self.datapipe = roots if isinstance(roots, IterDataPipe) else IterableWrapperIterDataPipe(roots)
        self.masks = masks
        self.recursive = recursive
        self.abspath = abspath
        self.non_deterministic = non_deterministic
        self.length = length

    def __iter__(self) -> Iterator[str]:
        for root in self.datapipe:
            yield from get_file_pathnames_from_root(
                root, self.masks, self.recursive, self.abspath, self.non_deterministic
            )

    def __len__(self) -> int:
        return self.length if self.length >= 0 else no_length(self)


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe[Any]):
    """Pairs of a path and the opened file; the method `open_files`.

    Files are closed when nothing refers to them any more.

    Args:
        datapipe: a pipe of paths.
        mode: as of `open`, for reading; "b" and "t" are short for "rb" and "rt".
        encoding: of files of text.
        length: the number of files, if it is known.

    Raises:
        ValueError: the mode is not for reading, or bytes have an encoding.
    """

    def __init__(
        self, datapipe: Iterable[str], mode: str = "r", encoding: str | None = None, length: int = -1
    ) -> None:
        if mode not in _MODES:
            raise ValueError(f"Invalid mode {mode}")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")
        self.datapipe = datapipe
        self.mode = mode
        self.encoding = encoding
        self.length = length

    def __iter__(self) -> Iterator[Any]:
        yield from get_file_binaries_from_pathnames(self.datapipe, self.mode, self.encoding)

    def __len__(self) -> int:
        return self.length if self.length >= 0 else no_length(self)


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe[Any]):
    """Pairs of a name and what is in the file that follows it; the method `read_from_stream`.

    Args:
        datapipe: a pipe of pairs of a name and an opened file, which is closed after it was read.
        chunk: how much is read at once, so that several pairs have the name; everything if None.

    Example:
        >>> import io
        >>> from rgrad.utils.data.datapipes.iter import IterableWrapper
        >>> files = IterableWrapper([("a", io.BytesIO(b"123"))])
        >>> list(files.read_from_stream(chunk=2))
        [('a', b'12'), ('a', b'3')]
    """

    def __init__(self, datapipe: IterDataPipe[Any], chunk: int | None = None) -> None:
        self.datapipe = datapipe
        self.chunk = chunk

    def __iter__(self) -> Iterator[Any]:
        for name, stream in self.datapipe:
            while data := stream.read(self.chunk):
                yield name, data
            if hasattr(stream, "close"):
                stream.close()
