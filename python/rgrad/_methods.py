"""Methods of Tensor that functions of other modules provide, which are loaded when one is first called."""

from __future__ import annotations

import importlib

from rgrad._C import Tensor

TYPE_CHECKING = False  # as that of typing; see Note [Importing without typing]
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# The methods by module; each calls the function of its name with the tensor first.
NAMES_OF = {
    "_functions.histograms": ("histogram",),
    "_linalg.householder": ("geqrf", "orgqr", "ormqr"),
    "_linalg.matrix_functions": ("matrix_exp",),
    "_linalg.older": ("cholesky", "eig", "lstsq", "lu", "lu_solve", "solve", "symeig", "triangular_solve"),
    "_special.bessel": ("i0", "i0_"),
    "_special.gamma": ("igamma", "igamma_", "igammac", "igammac_", "mvlgamma", "mvlgamma_"),
    "_special.methods": ("polygamma", "polygamma_"),
}
NAMES = {name for names in NAMES_OF.values() for name in names}


def _method(module: str, name: str) -> Callable[..., Any]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(f"rgrad.{module}"), name)(self, *args, **kwargs)

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"Calls `rgrad.{name}` with this tensor."
    return method


def install() -> None:
    """Adds the methods to Tensor."""
    for module, names in NAMES_OF.items():
        for name in names:
            setattr(Tensor, name, _method(module, name))
