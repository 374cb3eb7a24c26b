"""Every test starts from the same seed, default dtype and grad mode; those of the GPU run where there is an adapter."""

import os
from pathlib import Path

# The tests of the GPU run on software where there is no other, on memory that holds NaNs before it is written, and
# leave nothing on disk.
os.environ.setdefault("RGRAD_GPU_ALLOW_CPU", "1")
os.environ.setdefault("RGRAD_GPU_POISON", "1")
os.environ.setdefault("RGRAD_CACHE_DIR", "")

import pytest

import rgrad


@pytest.fixture(autouse=True)
def _same_start():
    rgrad.manual_seed(0)
    yield
    rgrad.set_default_dtype(rgrad.float32)
    rgrad.set_default_device(None)
    rgrad._C._set_grad_enabled(True)


@pytest.fixture(autouse=True)
def _region(_same_start, request):
    """With `RGRAD_TEST_REGIONS=1` every test runs inside a region of deferred operations, `make slow` does so.

    Tests that look at where a region begins and ends open their own: `own_region`.
    """
    if os.environ.get("RGRAD_TEST_REGIONS") != "1" or request.node.get_closest_marker("own_region"):
        yield
        return
    rgrad._C._enter_region()
    try:
        yield
    finally:
        rgrad._C._exit_region()


@pytest.fixture(scope="session")
def corpus():
    """PyTorch's reference vectors: beside the project in ../shared/corpus, or where `RGRAD_CORPUS` says.

    Where they are missing, tests that need them are skipped; in CI, where the environment has `CI`, they fail.
    """
    beside = Path(__file__).resolve().parents[3] / "shared" / "corpus"
    path = Path(os.environ.get("RGRAD_CORPUS", beside))
    if not (path / "run_corpus.py").exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"there is no corpus at {path}")
    return path


@pytest.fixture(scope="session")
def gpu():
    """Ends a test where there is no adapter; where `RGRAD_REQUIRE_GPU` is set, there must be one."""
    if rgrad.gpu.device_count() == 0:
        if os.environ.get("RGRAD_REQUIRE_GPU"):
            raise RuntimeError("no adapter was found")
        pytest.skip("no adapter")
    return rgrad.device("gpu")


def pytest_terminal_summary(terminalreporter):
    """Says how many tests of the GPU ran, and on what."""
    ran = sum("gpu" in r.nodeid for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, []))
    if ran:
        terminalreporter.write_line(f"{ran} tests of the GPU ran on {rgrad.gpu.get_device_name()}")
    elif rgrad.gpu.device_count() == 0 and any("gpu" in r.nodeid for r in terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line("no test of the GPU ran: no adapter was found")
