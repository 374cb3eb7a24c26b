"""The version string with numeric comparison."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion"]


class TorchVersion(str):
    """A version string that compares numerically with strings, tuples and `packaging`'s versions.

    Example:
        >>> from rgrad.torch_version import TorchVersion
        >>> TorchVersion("2.15.0+rgrad") >= "2.9", TorchVersion("2.15.0+rgrad") < (2, 15, 1)
        (True, True)
    """

    def _key(self, other: Any) -> tuple[list[int], list[int]] | None:
        numbers = [_release(self), _release(other)]
        if None in numbers:
            return None
        length = max(len(n) for n in numbers if n is not None)
        mine, theirs = ([*n, *[0] * (length - len(n))] for n in numbers if n is not None)
        return mine, theirs

    def __lt__(self, other: Any) -> Any:
        key = self._key(other)
        return NotImplemented if key is None else key[0] < key[1]

    def __le__(self, other: Any) -> Any:
        key = self._key(other)
        return NotImplemented if key is None else key[0] <= key[1]

    def __gt__(self, other: Any) -> Any:
        key = self._key(other)
        return NotImplemented if key is None else key[0] > key[1]

    def __ge__(self, other: Any) -> Any:
        key = self._key(other)
        return NotImplemented if key is None else key[0] >= key[1]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and str.__eq__(self, other):
            return True
        key = self._key(other)
        # Versions with and without a local part differ.
        local = "+" in str(other) if not isinstance(other, (tuple, list)) else True
        return key is not None and key[0] == key[1] and local == ("+" in str(self)) and not isinstance(other, str)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _release(version: Any) -> list[int] | None:
    """The numbers of a version; None if it is not a version."""
    if isinstance(version, (tuple, list)):
        return [int(part) for part in version if str(part).isdigit()]
    match = re.match(r"\s*v?(\d+(?:\.\d+)*)", str(version))
    return [int(part) for part in match[1].split(".")] if match else None
