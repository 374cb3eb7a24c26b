"""The examples of the README, of the other pages and of all docstrings run and print what they say."""

import ast
import contextlib
import doctest
import io
import re
from pathlib import Path

import pytest

import rgrad

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(rgrad.__file__).parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(code, output, id=f"{page.name}:{number}")
    for page in PAGES
    for number, (code, output) in enumerate(
        re.findall(r"```python\n(.*?)```\n(?:```\n(.*?)```)?", page.read_text(), re.S)
    )
]


@pytest.mark.parametrize("code, output", BLOCKS)
def test_examples_of_pages_print_what_they_say(code, output):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "an example", "exec"), {})
    assert out.getvalue() == output


def test_the_readme_has_examples():
    assert sum(block.id.startswith("README") for block in BLOCKS) >= 2


def _docstrings(path):
    """The name, line and text of each docstring that has examples: by syntax, so that it counts wherever it ends up."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text and ">>>" in text:
                yield getattr(node, "name", path.stem), node.body[0].lineno, text


EXAMPLES = {
    f"{path.relative_to(PACKAGE)}:{name}": (path, line, text)
    for path in sorted(PACKAGE.rglob("*.py"))
    for name, line, text in _docstrings(path)
}


def _own_region(name):
    """Examples that print what a region computes together open it themselves."""
    return pytest.param(name, marks=pytest.mark.own_region) if name.startswith("compiler.py") else name


@pytest.mark.parametrize("name", [_own_region(name) for name in EXAMPLES])
def test_examples_of_docstrings_hold(name):
    path, line, text = EXAMPLES[name]
    # Nothing else is in scope than what the example imports, as for a reader who copies it.
    test = doctest.DocTestParser().get_doctest(text, {"rgrad": rgrad}, name, str(path), line - 1)
    report = io.StringIO()
    result = doctest.DocTestRunner().run(test, out=report.write)
    assert result.failed == 0, report.getvalue()


def test_no_example_stands_where_it_is_not_run():
    written = sum(len(re.findall(r"^\s*>>> ", path.read_text(), re.M)) for path in PACKAGE.rglob("*.py"))
    run = sum(len(doctest.DocTestParser().get_examples(text)) for _, _, text in EXAMPLES.values())
    assert run == written > 200


ELSEWHERE = re.compile(
    r"pytorch\.org/(docs|tutorials)|docs\.pytorch\.org|github\.com/pytorch/pytorch|(file|open) an issue|feature request"
    r"|PyTorch \d|OpInfo|derivatives\.yaml|torchscript",
    re.IGNORECASE,
)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_messages_speak_of_this_project(path):
    """None sends its reader to the pages, files or versions of another one."""
    tree = ast.parse(path.read_text())
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    strings = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    assert not [s.value for s in strings if s not in docstrings and ELSEWHERE.search(s.value)]
