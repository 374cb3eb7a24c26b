"""Every test starts from the same seed, the same default dtype and grad mode."""

import os

# The tests of the GPU run on software where there is no other.
os.environ.setdefault("RGRAD_GPU_ALLOW_CPU", "1")

import pytest

import rgrad


@pytest.fixture(autouse=True)
def _same_start():
    rgrad.manual_seed(0)
    yield
    rgrad.set_default_dtype(rgrad.float32)
    rgrad._C._set_grad_enabled(True)
