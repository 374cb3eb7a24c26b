"""What type checkers and editors see."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import math
from pathlib import Path

import rgrad

PACKAGE = Path(rgrad.__file__).parent
PROGRAM = PACKAGE.parents[1] / "tests" / "typing" / "user_program.py"


def test_the_package_says_that_it_has_types():
    assert (PACKAGE / "py.typed").exists()


def test_every_public_name_that_the_package_imports_is_passed_on_to_type_checkers():
    """In a package with types, only `a as a` passes an imported name on."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    blocks = [n.body for n in tree.body if isinstance(n, ast.If)]
    imports = [n for body in [tree.body, *blocks] for n in body if isinstance(n, ast.ImportFrom)]
    kept = {
        a.name
        for n in imports
        if n.module not in (None, "__future__", "typing", "rgrad")
        for a in n.names
        if not a.asname
    }
    assert kept == {"*"}


def test_a_typed_program_runs():
    spec = importlib.util.spec_from_file_location("user_program", PROGRAM)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    found = program.main()
    assert found["losses"][-1] < found["losses"][0] and math.isfinite(found["total"])
    assert found["gradients"] == 5 and found["half"] is rgrad.float16 and found["rates"] == [0.1]
    assert PROGRAM.read_text().splitlines()[1] == "# pyright: strict"


def test_operations_have_the_same_documentation_in_the_stub_and_at_run_time():
    stub = ast.parse((PACKAGE / "_C.pyi").read_text())
    documented = {
        n.name: ast.get_docstring(n) for n in stub.body if isinstance(n, ast.FunctionDef) and ast.get_docstring(n)
    }
    assert len(documented) > 500
    for name in ("add", "matmul", "softmax", "conv2d", "absolute"):
        text = " ".join(inspect.getdoc(getattr(rgrad._C, name)).split())
        assert documented[name] in text
    tensor = next(n for n in stub.body if isinstance(n, ast.ClassDef) and n.name == "Tensor")
    methods = [n.name for n in tensor.body if isinstance(n, ast.FunctionDef) and ast.get_docstring(n)]
    assert {"add", "add_", "sum", "view", "retain_grad", "backward", "detach", "shape"} <= set(methods)


def test_every_public_member_of_tensors_is_documented():
    spec = importlib.util.spec_from_file_location("generate", PACKAGE.parents[1] / "docs" / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    names = [n for n in dir(rgrad.Tensor) if not n.startswith("_")]
    assert [n for n in names if not generate.member_doc(rgrad.Tensor, n)] == []
    assert [n for n in generate.MEMBERS if inspect.getdoc(getattr(rgrad.Tensor, n))] == [], "they speak for themselves"


def test_functions_of_one_signature_show_it():
    shown = {
        rgrad.sigmoid: "(input, *, out=None)",
        rgrad.lerp: "(input, end, weight, *, out=None)",
        rgrad.Tensor.sigmoid: "(self, /)",
        rgrad.Tensor.sigmoid_: "(self, /)",
        rgrad.ones(2).cumsum: "(dim, *, dtype=None)",
        rgrad.zeros: "(*size, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, out=None)",
    }
    assert {f: str(inspect.signature(f)) for f in shown} == shown


def test_every_operation_of_one_signature_shows_one_with_its_parameters():
    for op in rgrad._C._op_table():
        if len(op["signatures"]) != 1 or not op["function"]:
            continue
        function = getattr(rgrad._C, op["name"])
        parameters = list(inspect.signature(function).parameters.values())
        given = [
            part.partition(":")[0].strip() for part in op["signatures"][0].split("->")[0].split(", ") if ":" in part
        ]
        assert [p.name.rstrip("_") for p in parameters if p.name != "out"] == given, op["name"]
        assert ("out" in [p.name for p in parameters]) == op["out"]
        assert function.__doc__.startswith(f"{op['name']}(")
