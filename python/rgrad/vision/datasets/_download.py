"""Downloading files that have checksums."""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from typing import Any

_CHUNK = 1 << 16
_TIMEOUT = 30.0


def _progress(name: str, total: int | None) -> Any:
    """A tqdm bar if tqdm is installed, else None."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm(total=total, unit="B", unit_scale=True, desc=name)


def has_checksum(path: str, md5: str) -> bool:
    """Whether there is a file with this MD5 checksum."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return hashlib.file_digest(file, _md5).hexdigest() == md5


def _md5() -> Any:
    return hashlib.md5(usedforsecurity=False)


def download(url: str, target: str, md5: str) -> None:
    """Downloads a file, and moves it to its path only if it is complete and its checksum is correct.

    Args:
        url: the URL.
        target: the path; the folder must exist.
        md5: its MD5 checksum.
    """
    digest = _md5()
    descriptor, part = tempfile.mkstemp(prefix=".", suffix=".part", dir=os.path.dirname(target))
    try:
        with os.fdopen(descriptor, "wb") as file, urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
            length = response.headers.get("Content-Length")
            bar = _progress(os.path.basename(target), int(length) if length else None)
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                digest.update(chunk)
                if bar is not None:
                    bar.update(len(chunk))
            if bar is not None:
                bar.close()
        if digest.hexdigest() != md5:
            raise RuntimeError(f"File not found or corrupted: {url} does not have the checksum {md5}")
        os.replace(part, target)
    finally:
        if os.path.exists(part):
            os.remove(part)


def download_from(mirrors: list[str], name: str, folder: str, md5: str) -> None:
    """Downloads a file from the first mirror that provides it."""
    reasons = []
    for mirror in mirrors:
        url = mirror + name
        try:
            download(url, os.path.join(folder, name), md5)
            return
        except (urllib.error.URLError, OSError, RuntimeError) as error:
            reasons.append(f"{url}: {error}")
    raise RuntimeError(f"Error downloading {name}. Is this machine online?\n" + "\n".join(reasons))
