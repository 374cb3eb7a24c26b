"""How the package hangs together: what an import loads, who imports whom, and what editors see."""

from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import rgrad

PACKAGE = Path(rgrad.__file__).parent


def _modules() -> dict[str, Path]:
    """The file of every module of the package, by its name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()


def _run_at_import(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements that an import runs: those of functions and those for type checkers are left out."""
    found = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            found += _run_at_import(node.orelse)
            continue
        found.append(node)
        for part in ("body", "orelse", "finalbody"):
            found += _run_at_import(getattr(node, part, []))
        for handler in getattr(node, "handlers", []):
            found += _run_at_import(handler.body)
    return found


def _imports(name: str, path: Path) -> set[str]:
    """The modules of the package that a module's import statements name, at module level."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    named = set()
    for node in _run_at_import(ast.parse(path.read_text()).body):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            # `from package import module` uses the module; the core is one that stands in no file.
            known = {*MODULES, "rgrad._C"}
            named |= {f"{source}.{a.name}" if f"{source}.{a.name}" in known else source for a in node.names}
    return (named & MODULES.keys()) - {name}


def test_no_modules_import_each_other_in_a_circle():
    graph = {name: _imports(name, path) for name, path in MODULES.items()}
    assert {"rgrad._dtypes", "rgrad._tensor", "rgrad.functional"} <= graph["rgrad"]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"modules import each other: {' → '.join(reversed(error.args[1]))}")


def _seen_by_type_checkers() -> tuple[set[str], set[str]]:
    """What `rgrad/__init__.py` imports for type checkers: submodules, and names of other modules."""
    modules, names = set(), set()
    for node in ast.parse(Path(rgrad.__file__).read_text()).body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for statement in node.body:
                assert isinstance(statement, ast.ImportFrom)
                if statement.level:
                    (names if statement.module else modules).update(a.name for a in statement.names)
    return modules, names


def test_type_checkers_see_every_module_and_every_name_that_is_loaded_at_its_first_use():
    modules, names = _seen_by_type_checkers()
    public = {m.name for m in pkgutil.iter_modules(rgrad.__path__) if not m.name.startswith("_")}
    # The doctor's package can be called, which type checkers learn from its function.
    assert modules | {"doctor"} == public
    assert names - {"doctor"} == rgrad._FROM.keys()


def test_what_a_directory_of_the_package_names_is_there():
    missing = [name for name in dir(rgrad) if not hasattr(rgrad, name)]
    assert missing == []
    assert {"nn", "load", "FloatTensor", "doctor"} <= set(dir(rgrad))


@pytest.mark.parametrize("name", ["no_such_thing", "_no_such_thing", "not an identifier", "nn.functional"])
def test_what_is_not_there_is_no_attribute(name):
    with pytest.raises(AttributeError, match=f"module 'rgrad' has no attribute '{name}'"):
        getattr(rgrad, name)


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_an_import_loads_neither_numpy_nor_typing_nor_what_is_used_seldom():
    # `site` may have loaded some of them before.
    code = "import sys; before = set(sys.modules); import rgrad; print(*sorted(set(sys.modules) - before))"
    loaded = set(_python(code).split())
    assert "rgrad._C" in loaded
    seldom = {"numpy", "typing", "inspect", "rgrad.nn", "rgrad.optim", "rgrad.serialization", "rgrad.gpu"}
    assert loaded & seldom == set()


def test_the_doctor_can_be_called_however_it_was_imported():
    code = "import rgrad; import rgrad.doctor.samples; from rgrad.doctor import doctor"
    code += "; print(rgrad.doctor.doctor is doctor, callable(rgrad.doctor), rgrad.doctor.samples.FLOATS[0])"
    assert _python(code) == "True True float32"
