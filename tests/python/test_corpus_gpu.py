"""PyTorch's reference vectors on a GPU, for every operation of the table.

Every operation runs in float32 and in int64; of the other dtypes each operation runs some here, and all where
RGRAD_CORPUS_ALL is set.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_corpus import operations_of

import rgrad

if rgrad.gpu.device_count() == 0:
    if os.environ.get("RGRAD_REQUIRE_GPU"):
        raise RuntimeError("no adapter was found")
    pytest.skip("no adapter", allow_module_level=True)

# Operations that a GPU does not do in full, each with its reason. An entry that passes must go.
OPEN: dict[str, str] = json.loads((Path(__file__).parent / "corpus_gpu_open.json").read_text())

# Dtypes that run together, and of how many operations one runs them.
SHARDS = {
    "float32": 1,
    "int64": 1,
    "float64,bool": 4,
    "float16,int32": 4,
    "bfloat16,uint8": 4,
    "int8,int16": 4,
}


@pytest.mark.parametrize("dtypes", SHARDS)
def test_every_operation_agrees_with_pytorchs_reference_vectors_on_the_gpu(dtypes, corpus, tmp_path):
    whole = os.environ.get("RGRAD_CORPUS_ALL")
    start = list(SHARDS).index(dtypes) % SHARDS[dtypes]
    operations = operations_of(corpus)
    operations = operations if whole else operations[start :: SHARDS[dtypes]]
    report = tmp_path / "report.json"
    command = [sys.executable, str(corpus / "run_corpus.py"), "--target", "rgrad"]
    command += ["--corpus", str(corpus / "public"), "--slack"]
    subprocess.run(
        [*command, "--device", "gpu", "--dtype", dtypes, "--op", ",".join(operations), "--json", str(report)],
        check=False,
        capture_output=True,
    )
    ops = json.loads(report.read_text())["ops"]
    assert len(ops) == len(operations)
    failing = {o["op"]: o["failures"][:1] for o in ops if not o["passing"]}
    assert {op: why for op, why in failing.items() if op not in OPEN} == {}
    if dtypes == "float32":
        assert sorted(set(OPEN) - set(failing)) == [], "these pass now: take them out of corpus_gpu_open.json"
