"""The README's examples run and print what they say; so do the examples in docstrings."""

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
from pathlib import Path

import pytest

import rgrad

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```\n```\n(.*?)```", README, re.S)

MODULES = ["rgrad", *(m.name for m in pkgutil.walk_packages(rgrad.__path__, "rgrad.") if m.name != "rgrad._C")]


@pytest.mark.parametrize("code,output", BLOCKS, ids=range(len(BLOCKS)))
def test_readme_examples_print_what_they_say(code, output):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {})
    assert out.getvalue() == output


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_hold(name):
    result = doctest.testmod(importlib.import_module(name), extraglobs={"rgrad": rgrad})
    assert result.failed == 0


def test_the_readme_has_examples():
    assert len(BLOCKS) >= 2
