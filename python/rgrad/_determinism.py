"""`use_deterministic_algorithms` and related functions.

Algorithms here are deterministic anyway. What the settings change is `fill_uninitialized_memory`, and that `max_unpool`
is refused, as in PyTorch: which of several values for one position its result has is left open.
"""

from __future__ import annotations

from rgrad import _C


class _Deterministic:
    """The stored settings."""

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
    """Requests deterministic algorithms, which operations here use anyway.

    While they are requested, `empty` and functions like it fill their result, unless
    `utils.deterministic.fill_uninitialized_memory` is False. `nn.functional.max_unpool1d` and its like, whose result is
    left open where an index occurs twice, raise.

    Args:
        mode: whether they are requested.
        warn_only: whether operations warn instead.

    >>> import rgrad as torch
    >>> torch.use_deterministic_algorithms(True)
    >>> torch.are_deterministic_algorithms_enabled()
    True
    >>> torch.use_deterministic_algorithms(False)
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


def alert_not_deterministic(operation: str) -> None:
    """Raises, or warns, if deterministic algorithms are requested of an operation that leaves its result open.

    Args:
        operation: PyTorch's name of it.

    Raises:
        RuntimeError: they are requested, and not with `warn_only`.
    """
    if not _Deterministic.enabled:
        return
    what = f"{operation} does not have a deterministic implementation, but you set "
    if _Deterministic.warn_only:
        import warnings  # imported here, so that importing the package stays fast

        warnings.warn(f"{what}'torch.use_deterministic_algorithms(True, warn_only=True)'.", stacklevel=3)
    else:
        raise RuntimeError(
            f"{what}'torch.use_deterministic_algorithms(True)'. Call it with determinism off, or set warn_only=True."
        )


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
