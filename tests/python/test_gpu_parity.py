"""The GPU gives the CPU's numbers: every operation of the table, by dtype and layout, forward and backward."""

import os
from itertools import product

import pytest

import rgrad as torch
from rgrad.doctor.parity import check
from rgrad.doctor.recipes import RECIPES
from rgrad.doctor.samples import DTYPES, LAYOUTS, parameters, samples

if torch.gpu.device_count() == 0:
    if os.environ.get("RGRAD_REQUIRE_GPU"):
        raise RuntimeError("no adapter was found")
    pytest.skip("no adapter", allow_module_level=True)

OPS = torch._C._op_table()
PARTS = 12

# More than 65,535 workgroups of 64 invocations, if each does one element; test_gpu_limits.py does the same to all.
LARGE = (65_537, 65)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_operation_gives_the_numbers_of_the_cpu(part):
    wrong, calls = [], 0
    for op in OPS[part::PARTS]:
        for sample in samples(op):
            for dtype, layout in product(DTYPES, LAYOUTS):
                verdict = check(sample, dtype, "gpu", layout)
                calls += verdict.kind == "agrees"
                # What an adapter cannot do at all is a dtype that it lacks.
                refused = verdict.kind == "unsupported" and "has no such type" not in verdict.why
                if verdict.kind == "wrong" or refused:
                    wrong.append(f"{sample.name} {sample.args} {dtype} {layout}: {verdict.why}")
    assert calls > 500
    assert wrong == []


def test_every_operation_that_takes_tensors_has_a_sample_that_runs():
    missing, refused = set(), set()
    for op in OPS:
        calls = list(samples(op))
        kinds = {kind for signature in op["signatures"] for _, kind, _, _ in parameters(signature)}
        if not calls and any(kind.startswith(("Tensor", "Operand")) for kind in kinds):
            missing.add(op["name"])
        if calls and not any(_runs(s, d) for s in calls for d in ("float32", "int64", "float64")):
            refused.add(op["name"])
    assert refused == set()
    # Of these the recipes say that a comparison of numbers would say nothing.
    assert missing == {name.rpartition(".")[2] for name, calls in RECIPES.items() if calls is None}


def _runs(sample, dtype):
    try:
        return bool(sample.call(dtype, "cpu").results)
    except Exception:
        return False


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + 1,
        lambda x: x * x[0],
        lambda x: x.t().exp(),
        lambda x: x.to(torch.float16),
        lambda x: x.half() + x[:, :1].half(),
        lambda x: x.long(),
        lambda x: x.sum(1),
        lambda x: x.sum(0),
        lambda x: x.amax(1),
        lambda x: x.argmax(1),
        lambda x: x.cumsum(1),
        lambda x: x.softmax(1),
        lambda x: x.gather(1, torch.arange(x.shape[1], device=x.device).flip(0).expand(x.shape)),
        lambda x: x.index_select(0, torch.arange(x.shape[0], device=x.device).flip(0)),
        lambda x: x.masked_select(x > 0),
        lambda x: torch.cat([x, x], 1),
        lambda x: torch.where(x > 0, x, -x),
        lambda x: x @ x[:5].t(),
        lambda x: torch.nn.functional.layer_norm(x, (x.shape[1],)),
        lambda x: torch.nn.functional.max_pool1d(x, 2),
    ],
)
def test_more_workgroups_than_a_dimension_holds_are_all_run(call):
    x = (torch.arange(LARGE[0] * LARGE[1]) * 7 % 1001).reshape(LARGE).float() / 250 - 2
    want, got = call(x), call(x.to("gpu")).cpu()
    assert want.dtype == got.dtype
    assert torch.allclose(want.float(), got.float(), rtol=1e-4, atol=1e-4)
