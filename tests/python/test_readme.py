"""What the README and the pages beside it say of rgrad is true."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

import rgrad

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
ROWS = [
    line.strip("|").split(" | ")
    for line in re.search(r"\| area \| runs \| missing \|\n\| [-| ]+\|\n((?:\|.*\n)+)", README)[1].splitlines()
]


def names(text):
    return re.findall(r"`(torch\.[\w.]+)`", text)


def find(name):
    """What a program finds under a name, by attributes or by import."""
    found = rgrad
    for i, part in enumerate(name.split(".")[1:]):
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module("rgrad." + ".".join(name.split(".")[1 : i + 2]))
    return found


@pytest.mark.parametrize("name", [n for row in ROWS for n in names(row[1])])
def test_what_is_said_to_run_is_there(name):
    assert find(name) is not None


@pytest.mark.parametrize("name", [n for row in ROWS for n in names(row[2]) if n != "torch.distributed"])
def test_what_is_said_to_be_missing_is_missing_or_refuses(name):
    """When one of these tests fails, something was added: say so in the README."""
    try:
        found = find(name)
    except (AttributeError, ImportError):
        return
    with pytest.raises((NotImplementedError, RuntimeError)):
        found(rgrad.ones(2), "nowhere")


def test_a_group_of_processes_is_of_one():
    assert not rgrad.distributed.is_available()


def test_every_package_and_every_example_is_named():
    programs = {p.stem for p in (ROOT / "tests" / "packages").glob("*.py")} - {"run", "_values"}
    assert {p.split("_")[0] for p in programs} <= set(re.findall(r"\w+", README))
    scripts = {p.name for p in (ROOT / "examples").glob("*.py")} - {"common.py", "make_fashion_mnist_subset.py"}
    assert scripts == set(re.findall(r"^\| `examples/([\w.]+)` \|", README, re.M))


def test_paths_and_links_lead_to_files():
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    paths = re.findall(r"`((?:src|python|docs|tests|examples)/[\w./]*)`", README)
    assert links and paths and not [p for p in links + paths if not (ROOT / p).exists()]


def test_the_figures_are_those_of_the_record():
    spec = importlib.util.spec_from_file_location("figures", ROOT / "docs" / "figures.py")
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    stale = [str(p) for p, text in figures.outputs().items() if p.read_text() != text]
    assert not stale, f"run `make gen`: {stale}"
    assert "slower than PyTorch | \n" not in README and README.count("geometric mean") == 1


def test_the_two_commands_stand_by_themselves():
    assert "```\nmake demo\nmake test\n```" in README
