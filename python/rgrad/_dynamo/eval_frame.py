"""The class of compiled modules."""

from __future__ import annotations

from typing import Any

from rgrad.nn.modules.module import Module


class OptimizedModule(Module):
    """A module whose calls run compiled: what :func:`torch.compile` returns for a module.

    Parameters, buffers and attributes are those of the original module, which is ``_orig_mod`` here and in names of
    states. Settings of attributes reach the original module.

    Args:
        mod: the original module.
        settings: the keyword arguments of :func:`torch.compile`.
    """

    _own = frozenset({"_orig_mod", "_settings", "_compiled"})

    def __init__(self, mod: Module, settings: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__["_settings"] = settings
        self._modules["_orig_mod"] = mod
        self.__dict__["training"] = mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the original module in a region of deferred operations."""
        from rgrad.compiler import run

        return run(self._modules["_orig_mod"], args, kwargs, self._settings)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "training":
            self.__dict__["training"] = value
        if name in self.__dict__ and name != "training":
            super().__setattr__(name, value)
        else:
            setattr(self._modules["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._modules["_orig_mod"], name)

    def __len__(self) -> int:
        return len(self._modules["_orig_mod"])  # type: ignore[arg-type]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._modules["_orig_mod"])})
