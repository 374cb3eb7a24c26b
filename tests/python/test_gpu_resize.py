"""Resizing on a GPU against the CPU, forward and backward."""

import os

os.environ.setdefault("RGRAD_GPU_ALLOW_CPU", "1")

import numpy as np
import pytest

import rgrad
import rgrad.nn.functional as F

if rgrad.gpu.device_count() == 0:
    if os.environ.get("RGRAD_REQUIRE_GPU"):
        raise RuntimeError("no adapter was found")
    pytest.skip("no adapter", allow_module_level=True)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("size", [(5, 7), (13, 9), (4, 11), (8, 6)])
def test_images_are_resized_as_on_the_cpu(mode, size):
    x = rgrad.tensor(np.random.default_rng(0).standard_normal((2, 3, 8, 6)).astype("float32"))

    def run(device):
        t = x.to(device).detach().requires_grad_()
        out = F.interpolate(t, size=size, mode=mode)
        out.pow(2).sum().backward()
        return out.detach().cpu().numpy(), t.grad.cpu().numpy()

    for found, expected in zip(run("gpu"), run("cpu"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_vectors_and_volumes_are_resized_by_a_factor():
    for shape, mode in (((2, 3, 10), "linear"), ((1, 2, 4, 5, 6), "trilinear"), ((1, 2, 4, 5, 6), "nearest")):
        x = rgrad.tensor(np.random.default_rng(1).standard_normal(shape).astype("float32"))
        found = F.interpolate(x.to("gpu"), scale_factor=1.7, mode=mode).cpu()
        np.testing.assert_allclose(found.numpy(), F.interpolate(x, scale_factor=1.7, mode=mode).numpy(), atol=1e-5)
