"""Files of pipes, and streams that close with the last reference to them."""

from __future__ import annotations

import contextlib
import fnmatch
import os
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = [
    "StreamWrapper",
    "get_file_binaries_from_pathnames",
    "get_file_pathnames_from_root",
    "match_masks",
]


def match_masks(name: str, masks: str | list[str]) -> bool:
    """Whether a name fits one of several patterns of the shell; without patterns every name does.

    Example:
        >>> from rgrad.utils.data.datapipes.utils.common import match_masks
        >>> match_masks("a.txt", ["*.png", "*.txt"])
        True
    """
    if not masks:
        return True
    return any(fnmatch.fnmatch(name, mask) for mask in ([masks] if isinstance(masks, str) else masks))


def _raise(error: OSError) -> None:
    raise error


def get_file_pathnames_from_root(
    root: str, masks: str | list[str], recursive: bool = False, abspath: bool = False, non_deterministic: bool = False
) -> Iterator[str]:
    """The paths of the files in a folder, or of the file that is there.

    Args:
        root: a folder or a file.
        masks: patterns of the shell, one of which the names must fit.
        recursive: whether files in folders below are listed too.
        abspath: whether paths begin at the root of the file system.
        non_deterministic: whether the order may be that of the file system; else names are sorted.

    Raises:
        OSError: a folder can't be read.
    """
    if os.path.isfile(root):
        if match_masks(os.path.basename(root), masks):
            yield os.path.abspath(root) if abspath else root
        return
    for folder, folders, names in os.walk(root, onerror=_raise):
        if not non_deterministic:
            folders.sort()
            names.sort()
        for name in names:
            if match_masks(name, masks):
                yield os.path.join(os.path.abspath(folder) if abspath else folder, name)
        if not recursive:
            return


def get_file_binaries_from_pathnames(
    pathnames: Iterable[str], mode: str, encoding: str | None = None
) -> Iterator[tuple[str, StreamWrapper]]:
    """Pairs of a path and the opened file.

    Args:
        pathnames: one path, or several.
        mode: as of `open`; "b" and "t" open for reading.
        encoding: of files of text.

    Raises:
        TypeError: a path is not a string.
    """
    for pathname in (pathnames,) if isinstance(pathnames, str) else pathnames:
        if not isinstance(pathname, str):
            raise TypeError(f"Expected string type for pathname, but got {type(pathname)}")
        # The wrapper closes it.
        opened = open(pathname, f"r{mode}" if mode in ("b", "t") else mode, encoding=encoding)  # noqa: SIM115
        yield pathname, StreamWrapper(opened, name=pathname)


class StreamWrapper:
    """A file that is closed when the last reference to this object goes.

    Args:
        file_obj: the file.
        parent_stream: a wrapped file that this one is a part of, which is closed after its last part.
        name: what the representation calls it.

    Example:
        >>> import io
        >>> from rgrad.utils.data.datapipes.utils.common import StreamWrapper
        >>> stream = StreamWrapper(io.BytesIO(b"abc"))
        >>> stream.read()
        b'abc'
    """

    session_streams: dict[Any, int] = {}
    debug_unclosed_streams = False

    def __init__(self, file_obj: Any, parent_stream: Any = None, name: str | None = None) -> None:
        if parent_stream is not None and not isinstance(parent_stream, StreamWrapper):
            raise RuntimeError(f"Parent stream should be StreamWrapper, {type(parent_stream)} was given")
        self.file_obj = file_obj
        self.child_counter = 0
        self.parent_stream = parent_stream
        self.close_on_last_child = False
        self.name = name
        self.closed = False
        if parent_stream is not None:
            parent_stream.child_counter += 1

    @classmethod
    def close_streams(cls, v: Any, depth: int = 0) -> None:
        """Closes the wrapped files in a value, in containers up to ten levels deep."""
        if depth > 10:
            return
        if isinstance(v, StreamWrapper):
            v.close()
        elif isinstance(v, (dict, list, tuple)):
            for item in v.values() if isinstance(v, dict) else v:
                cls.close_streams(item, depth + 1)

    def __getattr__(self, name: str) -> Any:
        if name == "file_obj":
            raise AttributeError(name)
        return getattr(self.file_obj, name)

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Closes the file, and then that which it is the last part of."""
        if self.closed:
            return
        with contextlib.suppress(AttributeError):
            self.file_obj.close(*args, **kwargs)
        self.closed = True
        parent = self.parent_stream
        if parent is not None:
            parent.child_counter -= 1
            if not parent.child_counter and parent.close_on_last_child:
                parent.close()

    def autoclose(self) -> None:
        """Closes the file as soon as none of its parts is open."""
        self.close_on_last_child = True
        if self.child_counter == 0:
            self.close()

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self.file_obj)})

    def __del__(self) -> None:
        if "file_obj" in vars(self) and not self.closed:
            self.close()

    def __iter__(self) -> Iterator[Any]:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __enter__(self) -> StreamWrapper:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        inner = repr(self.file_obj) if self.name is None else f"{self.name},{self.file_obj!r}"
        return f"StreamWrapper<{inner}>"

    def __getstate__(self) -> Any:
        # Pickle says why a file can't be pickled.
        return {name: value for name, value in vars(self).items() if name != "parent_stream"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, parent_stream=None)
