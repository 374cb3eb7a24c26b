"""Whether packages are installed."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from types import ModuleType


def _check_module_exists(name: str) -> bool:
    """Whether a module can be found; the module itself is not run, the packages around it are.

    Args:
        name: its full name.

    Returns:
        False also where a package around it is missing.

    >>> from rgrad.utils._import_utils import _check_module_exists
    >>> _check_module_exists("math"), _check_module_exists("no_such_package.part")
    (True, False)
    """
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


@functools.lru_cache
def import_dill() -> ModuleType | None:
    """The package `dill`, or None if it is not installed."""
    if not _check_module_exists("dill"):
        return None
    dill = importlib.import_module("dill")
    # Importing dill registers picklers for classes, which `dill.extend(use_dill=False)` removes.
    dill.extend(use_dill=False)
    return dill
