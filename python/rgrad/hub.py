"""`torch.hub`: parameter files that are downloaded once and cached in a folder."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from typing import Any
from urllib.parse import urlparse

import rgrad
from rgrad._absent import absent_function

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_WHY = "code of repositories is not downloaded and run; load_state_dict_from_url gets parameters"

load = absent_function("torch.hub.load", _WHY)
list = absent_function("torch.hub.list", _WHY)
help = absent_function("torch.hub.help", _WHY)

_dir: str | None = None


def _get_torch_home() -> str:
    """The folder of all caches: `$TORCH_HOME`, or `torch` in the user's folder of caches."""
    cache = os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache"))
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The cache folder: the argument of `set_dir`, `$TORCH_HOME/hub`, or `hub` in the user's cache of torch."""
    return os.path.join(_get_torch_home(), "hub") if _dir is None else _dir


def set_dir(d: str | os.PathLike[str]) -> None:
    """Sets the cache folder."""
    global _dir
    _dir = os.path.expanduser(d)


def download_url_to_file(url: str, dst: Any, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Downloads a file, which appears under its name only once it is complete and its hash was verified.

    Args:
        url: the URL of the file.
        dst: the path to write.
        hash_prefix: the first digits of the file's SHA-256.
        progress: accepted, but ignored: nothing is printed.
    """
    import urllib.request

    digest = hashlib.sha256()
    folder = os.path.dirname(os.path.abspath(dst))
    with urllib.request.urlopen(url) as source, tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        try:
            while chunk := source.read(1 << 17):
                digest.update(chunk)
                file.write(chunk)
            file.close()
            if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')
            shutil.move(file.name, dst)
        finally:
            file.close()
            if os.path.exists(file.name):
                os.remove(file.name)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """Loads a parameter file, which is downloaded if it is not in the cache.

    Args:
        url: the URL of the file.
        model_dir: the folder, by default `checkpoints` in `get_dir()`.
        map_location: as for `rgrad.load`.
        progress: accepted, but ignored.
        check_hash: whether the part of the name between `-` and `.` are the first digits of the file's SHA-256.
        file_name: its name in the folder, by default that of the URL.
        weights_only: as for `rgrad.load`.
    """
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    if not os.path.exists(path):
        match = HASH_REGEX.search(os.path.basename(path)) if check_hash else None
        download_url_to_file(url, path, match[1] if match else None, progress)
    return rgrad.load(path, map_location=map_location, weights_only=weights_only)
