"""The door: while it is open, `torch` and `torchvision` are the modules of rgrad.

Note [The door]
~~~~~~~~~~~~~~~
`install` puts a finder before all others. It answers for three kinds of names:

* `torch`, `torch.…`, `torchvision`, `torchvision.…`: the loader imports rgrad's module and puts that very object under
  the other name too, so that classes, settings and caches exist once. Real PyTorch, which comes later on the path, is
  never reached.
* paths that PyTorch has and rgrad has no file for (`_paths`): small modules that look their names up.
* `rgrad` and `rgrad.…`: found as always, but "dressed" after they ran. Those that were loaded before are dressed at
  once.

Dressing a module enters it under its other name, gives it and what it defines PyTorch's `__name__` and `__module__`,
and a `__getattr__` that finds the table's names and PyTorch's submodules and says of all others that rgrad lacks them.
`__spec__` and `__package__` stay rgrad's: relative imports and `importlib.reload` go by them.

Children get the door by the environment: `RGRAD_AS_TORCH` asks for it, and `PYTHONPATH` begins with `site/`, whose
`sitecustomize` opens it before anything else runs. That needs nothing installed and so works for a source checkout as
for a wheel.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import inspect
import opcode
import os
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import rgrad
from rgrad._door import _names
from rgrad._door._paths import PATHS, home

TORCH_VERSION = "2.15.0+rgrad"
TORCHVISION_VERSION = "0.29.2+rgrad"
VARIABLE = "RGRAD_AS_TORCH"
_SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")

# Modules of rgrad that PyTorch has nothing like, and that are not to be loaded under its name.
_OWN = ("rgrad._door", "rgrad.as_torch", "rgrad.compat", "rgrad.__main__")

_IMPORT_FROM = opcode.opmap["IMPORT_FROM"]

_native_version = rgrad.__version__
_finder: _Finder | None = None


def release() -> str:
    """The first two parts of rgrad's version, as messages give it."""
    return ".".join(_native_version.split(".")[:2])


def native_name(name: str) -> str | None:
    """The module of rgrad that a name means, whether or not it exists; None for names of others."""
    root, dot, rest = name.partition(".")
    if root == "torch":
        return "rgrad" + dot + rest
    if root == "torchvision":
        return "rgrad.vision" + dot + rest
    if root == "functorch":
        return "rgrad.functorch" + dot + rest
    return None


def torch_name(native: str) -> str:
    """The name under which programs know a module of rgrad."""
    if native == "rgrad.vision" or native.startswith("rgrad.vision."):
        return "torchvision" + native[len("rgrad.vision") :]
    if native == "rgrad.functorch" or native.startswith("rgrad.functorch."):
        return native[len("rgrad.") :]
    return "torch" + native[len("rgrad") :]


def table_path(name: str) -> str:
    """Where the table has a name of PyTorch's: `vision.transforms` for `torchvision.transforms`."""
    return (native_name(name) or "")[len("rgrad.") :]


def _is_own(native: str) -> bool:
    return any(native == own or native.startswith(own + ".") for own in _OWN)


def _has_rows_below(name: str) -> bool:
    """Whether the table has paths below a name of PyTorch's."""
    path = table_path(name)
    return bool(path) and any(row.startswith(path + ".") for row in PATHS)


def _in_table(name: str) -> bool:
    """Whether a name of PyTorch's is a row of the table or a parent of one."""
    return table_path(name) in PATHS or _has_rows_below(name)


def _table_name(path: str, name: str) -> Any:
    """What a row of the table has under a name."""
    source, names = PATHS.get(path, ("", ()))
    if name not in names:
        raise KeyError(name)
    return getattr(importlib.import_module(f"rgrad.{source}"), name)


def _exists(native: str) -> bool:
    if native in sys.modules:
        return True
    try:
        return not _is_own(native) and importlib.util.find_spec(native) is not None
    except (ImportError, ValueError):
        return False


def _missing(path: str, name: str) -> Exception:
    text = _names.missing(path, name, release())
    # `from torch import foo` shows the error of the lookup only if that is no AttributeError.
    frame = sys._getframe(2)
    if frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM:
        return ImportError(text, name=path)
    return AttributeError(text, name=name)


def _getattr_of(name: str, inner: Callable[[str], Any] | None) -> Callable[[str], Any]:
    """The `__getattr__` of a module that programs know as `name`.

    Args:
        name: the module's name.
        inner: its own `__getattr__`.
    """
    path = table_path(name)

    def __getattr__(attribute: str) -> Any:
        said = ""
        if inner is not None:
            try:
                return inner(attribute)
            except AttributeError as error:
                said = str(error)
        if attribute.startswith("__"):
            raise AttributeError(f"module '{name}' has no attribute '{attribute}'")
        try:
            value = _table_name(path, attribute)
        except KeyError:
            pass
        else:
            vars(sys.modules[name])[attribute] = value
            return value
        if attribute == "torch" and name.startswith("torch"):
            # What modules of PyTorch import is seen as an attribute of them; programs find the package there.
            return sys.modules["torch"]
        below = f"{name}.{attribute}"
        if below in sys.modules:
            return sys.modules[below]
        native = native_name(below)
        # Private files of rgrad are no submodules of PyTorch's.
        if _in_table(below) or (not attribute.startswith("_") and native is not None and _exists(native)):
            return importlib.import_module(below)
        error = _missing(name, attribute)
        if said and not said.startswith("module '"):
            error.args = (f"{error.args[0]}: {said}",)
        raise error

    __getattr__._of_the_door = True  # type: ignore[attr-defined]
    return __getattr__


class _Alias:
    """Loads a module of rgrad under another name, or makes one of the table's."""

    def __init__(self, native: str | None) -> None:
        self._native = native
        self._spec: Any = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """rgrad's module itself, so that both names give one object."""
        if self._native is None:
            return types.ModuleType(spec.name)
        module = importlib.import_module(self._native)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Undoes what the import system changed of rgrad's module; fills a module of the table."""
        if self._native is not None:
            module.__spec__ = self._spec
            return
        path = table_path(module.__name__)
        module.__doc__ = f"Names that PyTorch has in {module.__name__}."
        names: dict[str, Any] = vars(module)
        names["__getattr__"] = _getattr_of(module.__name__, None)
        names["__all__"] = list(PATHS.get(path, ("", ()))[1])


class _Dressing:
    """A loader that dresses the module which another one has run."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        """As the loader behind it."""
        return self._inner.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        """As the loader behind it, which the module keeps."""
        spec = module.__spec__
        assert spec is not None
        spec.loader = module.__loader__ = self._inner
        self._inner.exec_module(module)
        _dress(module, spec.name)


class _Finder:
    """Stands first in `sys.meta_path`: see Note [The door]."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module of rgrad under any of its names."""
        if name == "rgrad" or name.startswith("rgrad."):
            spec = importlib.machinery.PathFinder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None and not _is_own(name):
                loader: Any = _Dressing(spec.loader)
                spec.loader = loader
            return spec
        native = native_name(name)
        if native is None:
            return None
        if _exists(native):
            loader = _Alias(native)
        elif _in_table(name):
            loader = _Alias(None)
        else:
            return None
        package = loader._native is None and _has_rows_below(name)
        return importlib.machinery.ModuleSpec(name, loader, origin="rgrad", is_package=package)  # type: ignore[arg-type]

    def find_distributions(self, context: Any = None) -> Iterable[Any]:
        """The distributions `torch` and `torchvision`, before those that may be installed."""
        from rgrad._door._metadata import StandIn

        wanted = getattr(context, "name", None)
        for name, version in (("torch", TORCH_VERSION), ("torchvision", TORCHVISION_VERSION)):
            if wanted is None or wanted.lower() == name:
                yield StandIn(name, version)

    def invalidate_caches(self) -> None:
        """Nothing is kept."""


def _dress(module: types.ModuleType, native: str) -> None:
    """Gives a module of rgrad the names that programs know it and its contents by."""
    if _is_own(native):
        return
    name = torch_name(native)
    sys.modules[name] = module
    below = native[len("rgrad.") :]
    names: dict[str, Any] = vars(module)
    for key, value in list(names.items()):
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == native:
            private = any(part.startswith("_") for part in below.split("."))
            row = home(below, key)
            if row is not None:
                value.__module__ = torch_name(f"rgrad.{row}")
            elif not private:
                value.__module__ = name
    if "__path__" not in names and _has_rows_below(name):
        # Where the table has paths below it, PyTorch's module is a package.
        names["__path__"] = []
    if native.startswith("rgrad._"):
        return
    module.__name__ = name
    before = names.get("__getattr__")
    if not getattr(before, "_of_the_door", False):
        names["__getattr__"] = _getattr_of(name, before)
    if native == "rgrad":
        names["__version__"] = _torch_version()
        names["torch"] = module  # as PyTorch's has itself, which programs reach by `torch.torch`
        _dress_core(module)
    elif native == "rgrad.vision":
        names["__version__"] = TORCHVISION_VERSION
    elif native == "rgrad.version":
        names["__version__"] = TORCH_VERSION


def _dress_core(module: types.ModuleType) -> None:
    """The classes that stand in the top namespace and are defined in the core or in private files."""
    for key, value in list(vars(module).items()):
        if inspect.isclass(value) and value.__name__ == key and value.__module__.partition(".")[0] == "rgrad":
            value.__module__ = "torch"


def _torch_version() -> str:
    from rgrad.torch_version import TorchVersion

    return TorchVersion(TORCH_VERSION)


def _export() -> None:
    """Processes that this one starts find the door open."""
    os.environ[VARIABLE] = "1"
    others = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part and part != _SITE]
    os.environ["PYTHONPATH"] = os.pathsep.join([_SITE, *others])


def is_open() -> bool:
    """Whether `torch` is rgrad in this process."""
    return _finder is not None


def install() -> None:
    """Opens the door: from here on `torch` and `torchvision` are rgrad.

    Raises:
        ImportError: another `torch` or `torchvision` has been imported already.
    """
    global _finder
    if _finder is not None:
        return
    for root in ("torch", "torchvision"):
        loaded = sys.modules.get(root)
        if loaded is not None:
            where = getattr(loaded, "__file__", None) or "unknown place"
            raise ImportError(
                f"{root} was imported before rgrad could take its name (from {where}): put `import rgrad.as_torch` "
                "before the first import of it, or run the program by `python -m rgrad`",
                name=root,
            )
    _finder = _Finder()
    finders: list[Any] = sys.meta_path
    finders.insert(0, _finder)
    from rgrad._door import _devices

    _devices.rename()
    for native, module in list(sys.modules.items()):
        if (native == "rgrad" or native.startswith("rgrad.")) and module is not None:
            _dress(module, native)
    _export()
