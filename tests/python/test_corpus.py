"""PyTorch's reference vectors, for every operation of the table that they know; where the corpus is at hand.

The corpus lies beside the project, in ../shared/corpus, or where RGRAD_CORPUS says.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rgrad

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("RGRAD_CORPUS", ROOT.parent / "shared" / "corpus"))
RUNNER = CORPUS / "run_corpus.py"

# Reference vectors whose name is not the operation's: OpInfo's variants.
SPELLED = {"nn_functional_": ("nn",), "special_": ("special",), "linalg_": ("linalg",)}


def _table_names() -> set[str]:
    names = set()
    for op in rgrad._C._op_table():
        for n in (op["name"], *op["aliases"]):
            if op["method"] or op["function"]:
                names.add(n)
            if op["nn"]:
                names.add("nn_functional_" + n)
            if op["linalg"]:
                names.add("linalg_" + n)
            if op["special"]:
                names.add("special_" + n)
    return names


@pytest.mark.skipif(not RUNNER.exists(), reason="the corpus is not beside the project")
def test_every_operation_agrees_with_pytorchs_reference_vectors(tmp_path):
    known = _table_names()
    expected = json.loads((Path(__file__).parent / "corpus_passing.json").read_text())
    report = tmp_path / "report.json"
    command = [sys.executable, str(RUNNER), "--target", "rgrad", "--corpus", str(CORPUS / "public"), "--slack"]
    subprocess.run([*command, "--op", ",".join(expected), "--json", str(report)], check=False, capture_output=True)
    ops = json.loads(report.read_text())["ops"]
    failing = {o["op"]: o["failures"][:2] for o in ops if not o["passing"]}
    assert failing == {}
    assert len(ops) == len(expected)
    assert known
