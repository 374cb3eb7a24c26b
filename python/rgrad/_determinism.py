"""`use_deterministic_algorithms` and related functions. Of the settings only `fill_uninitialized_memory` changes what
operations do: their algorithms are deterministic anyway.
"""

from __future__ import annotations

from rgrad import _C


class _Deterministic:
    """The stored settings. Every operation here is deterministic anyway."""

    enabled = False
    warn_only = False
    fills = True


def get_fill_uninitialized_memory() -> bool:
    """Whether memory is filled that would have unspecified contents, while deterministic algorithms are requested."""
    return _Deterministic.fills


def set_fill_uninitialized_memory(mode: bool) -> None:
    """Sets whether such memory is filled; see `rgrad.utils.deterministic`."""
    _Deterministic.fills = mode
    _C._set_fills_uninitialized(_Deterministic.enabled and mode)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Requests deterministic algorithms, which all operations here use anyway.

    While they are requested, `empty` and functions like it fill their result, unless
    `utils.deterministic.fill_uninitialized_memory` is False.
    """
    for text, value in (("'mode' (position 1)", mode), ("'warn_only'", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(
                f"_set_deterministic_algorithms(): argument {text} must be bool, not {type(value).__name__}"
            )
    _Deterministic.enabled = bool(mode)
    _Deterministic.warn_only = bool(warn_only)
    _C._set_fills_uninitialized(_Deterministic.enabled and _Deterministic.fills)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms` requested them."""
    return _Deterministic.enabled


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` requested warnings rather than errors."""
    return _Deterministic.warn_only


_DEBUG_MODES = {"default": 0, "warn": 1, "error": 2}


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Another form of `use_deterministic_algorithms`: 0 or "default", 1 or "warn", 2 or "error"."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _DEBUG_MODES:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
            )
        debug_mode = _DEBUG_MODES[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: see `set_deterministic_debug_mode`."""
    if not _Deterministic.enabled:
        return 0
    return 1 if _Deterministic.warn_only else 2
