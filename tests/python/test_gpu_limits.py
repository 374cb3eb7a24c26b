"""What is larger than an adapter takes at once: tensors above the limit of a binding, grids above that of a dimension.

The limits are made small by variables, in processes of their own, so that small tensors meet them.
"""

import os
import subprocess
import sys
from itertools import product

import pytest

import rgrad as torch
import rgrad.nn.functional as F

pytestmark = pytest.mark.usefixtures("gpu")


def floats(*shape):
    return torch.randn(*shape)


def below(n, *shape):
    return torch.randint(0, n, shape)


def assigned(x, index):
    y = x.clone()
    y[index] = 2.0
    return y


def masked(x):
    return x.masked_scatter(x > 0, x.flatten().flip(0))


def optimized(name, **settings):
    """What three steps make of a large parameter beside a small one."""

    def run(x):
        w, v = x.detach().clone().requires_grad_(), torch.ones(3, device=x.device, requires_grad=True)
        optimizer = getattr(torch.optim, name)([w, v], lr=0.1, **settings)
        for _ in range(3):
            optimizer.zero_grad()
            ((w**2).sum() + (v**3).sum()).backward()
            torch.nn.utils.clip_grad_norm_([w, v], 5.0)
            optimizer.step()
        return w.detach()

    return run


# By name: a function of tensors, and what makes those. All have more than 16,384 elements somewhere.
CALLS = {
    "rows of a product": (torch.matmul, lambda: [floats(600, 70), floats(70, 40)]),
    "rows, columns and depth": (torch.matmul, lambda: [floats(300, 301), floats(301, 302)]),
    "turned operands": (lambda a, b: a.t() @ b.t(), lambda: [floats(301, 300), floats(302, 301)]),
    "a large result": (torch.outer, lambda: [floats(300), floats(200)]),
    "great depth": (torch.matmul, lambda: [floats(3, 30_000), floats(30_000, 3)]),
    "many columns": (torch.matmul, lambda: [floats(3, 30), floats(30, 10_001)]),
    "a vocabulary": (F.linear, lambda: [floats(100, 20), floats(1000, 20), floats(1000)]),
    "a batch of products": (torch.bmm, lambda: [floats(20, 40, 50), floats(20, 50, 60)]),
    "large products of a batch": (torch.bmm, lambda: [floats(3, 140, 150), floats(3, 150, 160)]),
    "a matrix for a batch": (torch.matmul, lambda: [floats(9, 100, 50), floats(50, 60)]),
    "a matrix and a vector": (torch.mv, lambda: [floats(500, 300), floats(300)]),
    "products of integers": (torch.matmul, lambda: [below(9, 150, 151), below(9, 151, 152)]),
    "attention": (F.scaled_dot_product_attention, lambda: [floats(2, 4, 70, 32) for _ in range(3)]),
    "a convolution": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        lambda: [floats(9, 3, 40, 40), floats(5, 3, 3, 3), floats(5)],
    ),
    "a transposed convolution": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        lambda: [floats(9, 3, 30, 30), floats(3, 4, 3, 3)],
    ),
    "a depthwise convolution": (
        lambda x, w: F.conv2d(x, w, groups=3),
        lambda: [floats(9, 3, 50, 50), floats(6, 1, 3, 3)],
    ),
    "cross entropy": (F.cross_entropy, lambda: [floats(100, 700), below(700, 100)]),
    "cross entropy by sample": (
        lambda x, y: F.cross_entropy(x, y, reduction="none", label_smoothing=0.1),
        lambda: [floats(100, 700), below(700, 100)],
    ),
    "weighted cross entropy": (
        lambda x, y, w: F.cross_entropy(x, y, w.detach(), ignore_index=3),
        lambda: [floats(100, 700), below(700, 100), torch.rand(700)],
    ),
    "cumsum": (lambda x: x.cumsum(1), lambda: [floats(100, 700)]),
    "cumsum of an inner dimension": (lambda x: x.cumsum(1), lambda: [floats(5, 140, 100)]),
    "cummax": (lambda x: x.cummax(1), lambda: [floats(100, 700)]),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), lambda: [floats(100, 700)]),
    "sort": (lambda x: x.sort(1), lambda: [floats(100, 700)]),
    "sort of bytes": (lambda x: x.sort(1), lambda: [below(200, 500, 333).to(torch.uint8)]),
    "topk": (lambda x: x.topk(5, 0), lambda: [floats(100, 700)]),
    "median": (lambda x: x.median(1), lambda: [floats(101, 701)]),
    "argmax of all": (torch.argmax, lambda: [floats(70_001)]),
    "argmax of columns": (lambda x: x.argmax(0), lambda: [floats(7001, 10)]),
    "max of an inner dimension": (lambda x: x.max(1), lambda: [floats(3, 2500, 11)]),
    "argmin of halves": (lambda x: x.half().argmin(), lambda: [floats(70_001)]),
    "rows of a large table": (F.embedding, lambda: [below(5000, 40), floats(5000, 30)]),
    "many rows of a large table": (F.embedding, lambda: [below(5000, 70, 30), floats(5000, 30)]),
    "rows by frequency": (
        lambda i, w: F.embedding(i, w, padding_idx=3, scale_grad_by_freq=True),
        lambda: [below(50, 70, 300), floats(50, 30)],
    ),
    "index_select of columns": (lambda x, i: x.index_select(1, i), lambda: [floats(500, 100), below(100, 77)]),
    "elements": (lambda x, i, j: x[i, -j], lambda: [floats(500, 99), below(500, 30_000), below(99, 30_000)]),
    "rows of halves": (lambda x, i: x[i], lambda: [floats(5000, 33).half(), below(5000, 3001)]),
    "rows of bools": (lambda x, i: x[i], lambda: [floats(5000, 33) > 0, below(5000, 3001)]),
    "columns of bytes": (lambda x, i: x[:, i], lambda: [below(9, 5000, 33).to(torch.int8), below(33, 17)]),
    "gather of rows": (lambda x, i: x.gather(0, i), lambda: [floats(500, 100), below(500, 400, 90)]),
    "gather of columns": (lambda x, i: x.gather(1, i), lambda: [floats(500, 100), below(100, 500, 70)]),
    "take": (torch.take, lambda: [floats(500, 100), below(50_000, 700)]),
    "scatter": (
        lambda x, s: x.scatter(1, torch.arange(70, device=x.device).expand(500, 70), s),
        lambda: [floats(500, 100), floats(500, 80)],
    ),
    "scatter_add": (
        lambda x, i, s: x.scatter_add(0, i, s),
        lambda: [floats(500, 100), below(500, 400, 90), floats(400, 100)],
    ),
    "scatter_reduce": (
        lambda x, i, s: x.scatter_reduce(0, i, s, "amax"),
        lambda: [below(99, 500, 100), below(500, 400, 90), below(99, 400, 100)],
    ),
    "index_add": (
        lambda x, i, s: x.index_add(0, i, s),
        lambda: [floats(5000, 30), below(5000, 3000), floats(3000, 30)],
    ),
    "index_add of integers": (
        lambda x, i, s: x.index_add(0, i, s),
        lambda: [below(9, 5000, 30), below(5000, 3000), below(9, 3000, 30)],
    ),
    "assignment to rows": (assigned, lambda: [floats(5000, 30), below(5000, 3000)]),
    "assignment to columns": (assigned, lambda: [floats(500, 100), floats(500, 100) > 0]),
    "masked_select": (lambda x: x[x > 0], lambda: [floats(300, 100)]),
    "masked_scatter": (masked, lambda: [floats(300, 100)]),
    "nonzero": (torch.nonzero, lambda: [below(2, 300, 100)]),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), lambda: [floats(9, 4, 50, 50)]),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), lambda: [floats(9, 4, 50, 50)]),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 7), lambda: [floats(9, 4, 50, 50)]),
    "interpolation": (
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        lambda: [floats(9, 4, 30, 30)],
    ),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (100,), w, b),
        lambda: [floats(1000, 100), floats(100), floats(100)],
    ),
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        lambda: [floats(20, 5, 40, 40), floats(5), floats(5)],
    ),
    "softmax": (lambda x: x.softmax(1), lambda: [floats(500, 100)]),
    "dropout": (F.dropout, lambda: [floats(1000, 100)]),
    "uniform numbers": (torch.rand_like, lambda: [floats(1000, 101)]),
    "normal numbers": (torch.randn_like, lambda: [floats(1000, 101)]),
    "integers": (lambda x: torch.randint(0, 99, (50_001,), device=x.device), lambda: [floats(1)]),
    "a permutation": (lambda x: torch.randperm(20_001, device=x.device), lambda: [floats(1)]),
    "coins": (lambda x: torch.bernoulli(torch.full((100_001,), 0.3, device=x.device)), lambda: [floats(1)]),
    "a triangle": (lambda x: x.tril(-3), lambda: [floats(300, 100)]),
    "triangles": (lambda x: x.triu(2), lambda: [floats(30, 50, 50)]),
    "cat": (lambda a, b: torch.cat([a, b], 1), lambda: [floats(300, 100), floats(300, 30)]),
    "unfold": (lambda x: F.unfold(x, 3), lambda: [floats(9, 3, 30, 30)]),
    "sgd": (optimized("SGD", momentum=0.9), lambda: [floats(300, 101)]),
    "adamw": (optimized("AdamW"), lambda: [floats(300, 101)]),
    "rmsprop": (optimized("RMSprop"), lambda: [floats(300, 101)]),
}


def results(f, tensors, device):
    """What a call gives on a device, and the gradients of its arguments."""
    torch.manual_seed(1)
    here = [t.detach().clone().to(device) for t in tensors]
    leaves = [t.requires_grad_() for t in here if t.is_floating_point()]
    found = f(*here)
    found = list(found) if isinstance(found, tuple) else [found]
    if found[0].requires_grad:
        weights = torch.linspace(0, 1, found[0].numel(), device=device).reshape(found[0].shape)
        (found[0] * weights).sum().backward()
    return [t.detach().cpu() for t in (*found, *(x.grad for x in leaves if x.grad is not None))]


def compare_all():
    """Prints the calls that do not give the numbers of the CPU."""
    for name, (f, make) in CALLS.items():
        torch.manual_seed(0)
        tensors = make()
        for here, there in zip(results(f, tensors, "cpu"), results(f, tensors, "gpu"), strict=True):
            size = max(1.0, here.abs().max().item()) if here.dtype != torch.bool else 1.0
            tolerance = 2e-3 if here.dtype == torch.float16 else 1e-4
            if here.dtype != there.dtype or not torch.allclose(
                here.float(), there.float(), rtol=tolerance, atol=tolerance * size
            ):
                print(f"{name}: {(here.float() - there.float()).abs().max().item()}")


def compare_elementwise():
    """Prints the operations that do not give the numbers of the CPU for some thousand elements, in any dtype."""
    from rgrad.doctor.parity import SUM_ULPS, ulps
    from rgrad.doctor.samples import DTYPES, samples

    def agree(there, here):
        if not here.is_floating_point():
            return torch.equal(there, here)
        # So many elements lie near zeros of functions, too: what counts is the size of the largest.
        return ulps(there, here, by_element=False) <= SUM_ULPS

    calls = 0
    for op in torch._C._op_table():
        for sample in (s for s in samples(op, large=(37, 65)) if s.shape == "large"):
            for dtype, layout in product(DTYPES, ("contiguous", "transposed")):
                try:
                    want = sample.call(dtype, "cpu", layout, grad=dtype == "float32")
                except (RuntimeError, NotImplementedError):
                    continue
                got = sample.call(dtype, "gpu", layout, grad=dtype == "float32")
                calls += 1
                pairs = zip(got.results + got.gradients, want.results + want.gradients, strict=True)
                if not all(agree(there.cpu(), here) for there, here in pairs):
                    print(f"{sample.name} {dtype} {layout}")
    assert calls > 1000


def told(function, **environment):
    """What a process of its own prints that calls a function of this file."""
    script = f"import test_gpu_limits\ntest_gpu_limits.{function}()"
    env = {**os.environ, **environment}
    paths = [os.path.dirname(__file__), env.get("PYTHONPATH", "")]
    env["PYTHONPATH"] = os.pathsep.join(paths)
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_family_works_in_windows_on_tensors_above_the_limit_of_a_binding():
    assert told("compare_all", RGRAD_GPU_MAX_BINDING="65536") == ""


def test_every_family_works_in_grids_of_two_dimensions():
    assert told("compare_all", RGRAD_GPU_MAX_GROUPS="3") == ""


def test_every_elementwise_operation_works_in_grids_of_two_dimensions_in_every_dtype():
    assert told("compare_elementwise", RGRAD_GPU_MAX_GROUPS="3") == ""
