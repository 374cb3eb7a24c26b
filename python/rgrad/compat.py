"""`python -m rgrad.compat script_or_package...`: lists the PyTorch names that a program uses but rgrad lacks.

The program is parsed, not run: imports (`import torch as T`, `from torch import nn`), attribute chains
(`T.nn.functional.relu`) and names from star imports. Each finding is a line `file:line: message`. The exit status is
0 if nothing is missing, 1 if something is, 2 if a file cannot be read.

Names guarded by `hasattr` or `try` are listed as well, since only running the program shows what it does without
them. Attributes of tensors and other objects are not checked, since only names in modules and classes can be
resolved.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rgrad import _door
from rgrad._door import _names
from rgrad._door._paths import PATHS

__all__ = ["Missing", "check", "main"]


@dataclass(frozen=True, order=True)
class Missing:
    """A name that rgrad lacks.

    Attributes:
        line: the line where it is used.
        name: the full name, such as `torch.fft.rfft`.
        message: the error message of the lookup.
    """

    line: int
    name: str
    message: str


def _module(name: str) -> types.ModuleType | None:
    native = _door.native_name(name)
    assert native is not None
    if native.split(".")[-1] in ("as_torch", "__main__") or not _door._exists(native):
        return None
    return importlib.import_module(native)


def _step(path: str, value: Any, name: str) -> Any:
    """Looks up `name` in `value`, which programs call `path`; raises `LookupError` if it is missing."""
    below = f"{path}.{name}"
    row = PATHS.get(_door.table_path(path), ("", ()))
    if value is None or isinstance(value, types.ModuleType):
        if name in row[1]:
            return getattr(importlib.import_module(f"rgrad.{row[0]}"), name)
        if value is not None:
            try:
                return getattr(value, name)
            except (AttributeError, ImportError):
                pass
        found = _module(below)
        if found is not None:
            return found
        if _door._in_table(below):
            return None
        if name.startswith("__") and name.endswith("__"):
            return types.SimpleNamespace()
    elif isinstance(value, type):
        if hasattr(value, name):
            return getattr(value, name)
    else:
        return types.SimpleNamespace()
    raise LookupError(below)


def _message(path: str, value: Any, name: str) -> str:
    known = tuple(sorted(dir(value))) if value is not None else ()
    return _names.missing(path, name, _door.release(), known)


class _Reader(ast.NodeVisitor):
    """Tracks the names that refer to PyTorch's modules and classes in a file.

    A name has the same meaning in the whole file, wherever it is bound; if it is bound several times, the last
    binding is used.
    """

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.found: set[Missing] = set()

    def resolve(self, path: str, line: int) -> bool:
        """Looks up a dotted name, and records the first part that is missing."""
        root, *rest = path.split(".")
        value: Any = _module(root)
        for part in rest:
            try:
                following = _step(root, value, part)
            except LookupError:
                self.found.add(Missing(line, f"{root}.{part}", _message(root, value, part)))
                return False
            root, value = f"{root}.{part}", following
            if not (value is None or isinstance(value, (types.ModuleType, type))):
                break
        return True

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            root = alias.name.partition(".")[0]
            if _door.native_name(root) is not None:
                self.names[alias.asname or root] = alias.name if alias.asname else root
                self.resolve(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or node.module is None or _door.native_name(node.module) is None:
            return
        if not self.resolve(node.module, node.lineno):
            return
        for alias in node.names:
            if alias.name == "*":
                self._star(node.module)
            elif self.resolve(f"{node.module}.{alias.name}", node.lineno):
                self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def _star(self, path: str) -> None:
        module = _module(path)
        names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
        names = [*names, *PATHS.get(_door.table_path(path), ("", ()))[1]]
        self.names.update({name: f"{path}.{name}" for name in names if not hasattr(builtins, name)})

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts = [node.attr]
        value = node.value
        while isinstance(value, ast.Attribute):
            parts.append(value.attr)
            value = value.value
        if isinstance(value, ast.Name) and value.id in self.names:
            if isinstance(node.ctx, ast.Load):
                self.resolve(".".join([self.names[value.id], *reversed(parts)]), node.lineno)
        else:
            self.generic_visit(node)


class _Bindings(_Reader):
    """Collects imports only, so that names are known before their uses are checked."""

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.generic_visit(node)


def check(source: str, filename: str = "<string>") -> list[Missing]:
    """The PyTorch names that a program uses but rgrad lacks, in the order of lines.

    Args:
        source: the program's text.
        filename: for the message of a `SyntaxError`.

    Example:
        >>> from rgrad import compat
        >>> [(m.line, m.name) for m in compat.check("import torch as T\\nT.no_such_name(T.ones(1))")]
        [(2, 'torch.no_such_name')]
    """
    tree = ast.parse(source, filename)
    bindings, reader = _Bindings(), _Reader()
    bindings.visit(tree)
    reader.names = bindings.names
    reader.visit(tree)
    return sorted(reader.found)


def _files(argument: str) -> Iterator[Path]:
    path = Path(argument)
    if path.is_dir():
        yield from sorted(path.rglob("*.py"))
    elif path.exists() or os.sep in argument or argument.endswith(".py"):
        yield path
    else:
        # The name of an installed package or module. This may import its parents, but not the module itself.
        spec = importlib.util.find_spec(argument)
        if spec is None:
            raise FileNotFoundError(f"no file, folder or module {argument!r}")
        for folder in spec.submodule_search_locations or ():
            yield from sorted(Path(folder).rglob("*.py"))
        if not spec.submodule_search_locations and spec.origin:
            yield Path(spec.origin)


def main(arguments: list[str]) -> int:
    """Prints the missing names in files, folders and packages; returns the exit status."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if arguments else 2
    found, broken, files = 0, 0, 0
    for argument in arguments:
        try:
            for path in _files(argument):
                files += 1
                try:
                    missing = check(path.read_text(encoding="utf-8"), str(path))
                except (SyntaxError, ValueError, OSError) as error:
                    print(f"{path}: {error}", file=sys.stderr)
                    broken += 1
                    continue
                found += len(missing)
                for item in missing:
                    print(f"{path}:{item.line}: {item.message}")
        except (FileNotFoundError, ModuleNotFoundError) as error:
            print(error, file=sys.stderr)
            broken += 1
    print(f"{found} missing in {files} file{'' if files == 1 else 's'}")
    return 2 if broken else int(found > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
