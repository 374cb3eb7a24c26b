"""PyTorch's reference vectors, for every operation of the table that they know; where the corpus is at hand.

The corpus lies beside the project, in ../shared/corpus, or where RGRAD_CORPUS says.
"""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import rgrad

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("RGRAD_CORPUS", ROOT.parent / "shared" / "corpus"))
RUNNER = CORPUS / "run_corpus.py"

# Operations of the table that do not pass in full yet, each with its reason. An entry that passes must go.
OPEN: dict[str, str] = json.loads((Path(__file__).parent / "corpus_open.json").read_text())


def _known(path: Path, names: set[str]) -> bool:
    """Whether the vectors of a file are those of an operation in the table."""
    with zipfile.ZipFile(path) as z:
        cases = json.loads(z.read("index.json"))["cases"]
    calls = {call["fn"].rsplit(".", 1)[1].strip("_") for case in cases[:1] for call in case["calls"]}
    return bool(calls & names)


def _operations() -> list[str]:
    names = {n.strip("_") for op in rgrad._C._op_table() for n in (op["name"], *op["aliases"])}
    files = sorted(p for tier in ("tier1", "tier2", "tier3") for p in (CORPUS / "public" / tier).glob("*.zip"))
    return [p.stem for p in files if _known(p, names)]


@pytest.mark.skipif(not RUNNER.exists(), reason="the corpus is not beside the project")
def test_every_operation_agrees_with_pytorchs_reference_vectors(tmp_path):
    report = tmp_path / "report.json"
    command = [sys.executable, str(RUNNER), "--target", "rgrad", "--corpus", str(CORPUS / "public"), "--slack"]
    subprocess.run(
        [*command, "--op", ",".join(_operations()), "--json", str(report)], check=False, capture_output=True
    )
    ops = json.loads(report.read_text())["ops"]
    assert len(ops) > 100
    failing = {o["op"]: o["failures"][:1] for o in ops if not o["passing"]}
    assert {op: why for op, why in failing.items() if op not in OPEN} == {}
    assert sorted(set(OPEN) - set(failing)) == [], "these pass now: take them out of corpus_open.json"
