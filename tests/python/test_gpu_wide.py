"""int64 where an adapter has none: shaders compute with pairs of words, and give the CPU's numbers all the same."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("gpu")


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    """Runs a program in a process that leaves the driver's int64 alone, and returns what it prints."""
    folder = tmp_path_factory.mktemp("cache")

    def run(program, *arguments):
        env = os.environ | {"RGRAD_CACHE_DIR": str(folder)}
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    run("import rgrad\nassert rgrad._C._gpu_avoid(0, ['int64'])")
    return run


PARITY = """
import sys
import rgrad as torch
from rgrad._parity import check
from rgrad._samples import LAYOUTS, samples

has = torch.gpu.get_device_properties()
assert "int64" in has["avoided"] or not has["int64"]
part, parts = map(int, sys.argv[1:])
agrees = 0
for number, op in list(enumerate(torch._C._op_table()))[part::parts]:
    for sample in samples(op):
        verdict = check(sample, "int64", "gpu", LAYOUTS[number % len(LAYOUTS)])
        agrees += verdict.kind == "agrees"
        if verdict.kind in ("wrong", "unsupported"):
            print(sample.name, sample.args, verdict.why)
print(agrees)
"""
