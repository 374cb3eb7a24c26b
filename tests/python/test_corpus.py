"""PyTorch's reference vectors, for every operation of the table, and function written in Python, that they know.

Where the corpus lies, and what happens without it, the fixture `corpus` says.
"""

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

import rgrad

# Operations that do not pass in full yet, each with its reason. An entry that passes must go.
OPEN: dict[str, str] = json.loads((Path(__file__).parent / "corpus_open.json").read_text())


def _known(path: Path, names: set[str]) -> bool:
    """Whether the vectors of a file are those of an operation in the table."""
    with zipfile.ZipFile(path) as z:
        cases = json.loads(z.read("index.json"))["cases"]
    calls = {call["fn"].rsplit(".", 1)[1].strip("_") for case in cases[:1] for call in case["calls"]}
    return bool(calls & names)


def operations_of(corpus: Path, also: Iterable[str] = ()) -> list[str]:
    """The files of the corpus that are about operations of the table, or functions that are named."""
    table = {n.strip("_") for op in rgrad._C._op_table() for n in (op["name"], *op["aliases"])}
    names = table | {name.strip("_") for name in also}
    files = sorted(p for tier in ("tier1", "tier2", "tier3") for p in (corpus / "public" / tier).glob("*.zip"))
    return [p.stem for p in files if _known(p, names)]


def test_every_operation_agrees_with_pytorchs_reference_vectors(corpus, tmp_path):
    report = tmp_path / "report.json"
    in_python = {*rgrad._FROM, *rgrad.linalg.__all__, *rgrad.special.__all__}
    command = [sys.executable, str(corpus / "run_corpus.py"), "--target", "rgrad"]
    command += ["--corpus", str(corpus / "public"), "--slack"]
    subprocess.run(
        [*command, "--op", ",".join(operations_of(corpus, in_python)), "--json", str(report)],
        check=False,
        capture_output=True,
    )
    ops = json.loads(report.read_text())["ops"]
    assert len(ops) > 100
    failing = {o["op"]: o["failures"][:1] for o in ops if not o["passing"]}
    assert {op: why for op, why in failing.items() if op not in OPEN} == {}
    assert sorted(set(OPEN) - set(failing)) == [], "these pass now: take them out of corpus_open.json"
