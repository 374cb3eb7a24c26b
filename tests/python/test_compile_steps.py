"""Kernels that `compile` queues as their steps, and what it leaves out."""

from __future__ import annotations

import os

import pytest
from compile_cases import F, data, groups, log_of, same

import rgrad as torch

# Without machine code the kernel is faster than its steps.
HAS_MACHINE_CODE = os.environ.get("RGRAD_JIT") != "0" and torch.backends.cpu.get_cpu_capability() != "DEFAULT"


def gradients(f, *args):
    leaves = [a.detach().clone().requires_grad_() for a in args]
    f(*leaves).backward()
    return [leaf.grad for leaf in leaves]


def are_close(a, b):
    """Within a few roundings of the largest element."""
    return (a - b).abs().max() <= 16 * torch.finfo(b.dtype).eps * b.abs().max()


NORMS = {
    "with weight and bias": lambda x, r, w, b: F.gelu(F.layer_norm(x + r, x.shape[-1:], w, b)),
    "with a weight": lambda x, r, w, b: F.layer_norm(x * r, x.shape[-1:], w) + b,
    "alone": lambda x, r, w, b: F.layer_norm(x, x.shape[-1:]) * w + r * b,
    "before others, larger epsilon": lambda x, r, w, b: F.layer_norm(x, x.shape[-1:], w, b, 0.1) + r,
}


@pytest.mark.own_region
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("program", NORMS.values(), ids=NORMS)
def test_layer_normalization_is_in_the_group_of_its_neighbours(program, dtype):
    for shape in ((4, 300, 256), (1500, 192), (300, 1000), (66, 4160)):
        x, r = data(*shape).to(dtype), data(*shape, seed=1).to(dtype)
        w, b = data(shape[-1], seed=2).to(dtype), data(shape[-1], seed=3).to(dtype)
        kept = []
        lines = groups(log_of(lambda args=(x, r, w, b), kept=kept: kept.append(program(*args))))
        assert same(kept[0], program(x, r, w, b)), shape
        if shape == (4, 300, 256) and HAS_MACHINE_CODE:
            assert len(lines) == 1 and lines[0].startswith("fused: ") and "layer_norm" in lines[0], lines
        factor = torch.arange(shape[-1], dtype=dtype)

        def loss(*args, factor=factor):
            return (program(*args) * factor).sum()

        found, wanted = gradients(torch.compile(loss), x, r, w, b), gradients(loss, x, r, w, b)
        # Sums over rows have another order.
        assert all(same(a, b) for a, b in zip(found[:2], wanted[:2], strict=True)), shape
        assert all(are_close(a, b) for a, b in zip(found[2:], wanted[2:], strict=True)), shape


@pytest.mark.own_region
def test_layer_normalization_of_constant_rows_and_infinities_is_the_eager_one():
    x = data(1100, 256)
    x[3], x[5, 7], x[9, 1] = 2.0, torch.inf, torch.nan
    x[11] = -0.0

    def program(x):
        return F.layer_norm(x * 1, (256,), None, None) * 2

    found, wanted = torch.compile(program)(x), program(x)
    assert torch.equal(found.view(torch.int32), wanted.view(torch.int32))


@pytest.mark.own_region
def test_a_loss_that_nobody_reads_has_no_place_in_a_group():
    x = data(512, 256)

    def step():
        leaf = x.clone().requires_grad_()
        y = torch.softmax(leaf * 2, -1)
        (y / y.sum(-1, keepdim=True)).sum().backward()
        return leaf.grad

    kept = []
    lines = [line for line in groups(log_of(lambda: kept.append(step()))) if f"| {x.numel()} " in line]
    assert same(kept[0], step())
    # The quotient too, as its sum alone reads it.
    assert lines[0].startswith("not computed, nobody reads it: div → reduction |"), lines
    # Where small operations wait too, there are more groups.
    assert "RGRAD_DEFER_FROM" in os.environ or len(lines) == 2 and lines[1].startswith("fused"), lines


@pytest.mark.own_region
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16])
def test_narrow_integers_are_stored_by_the_group_of_the_floats(dtype):
    x = data(300, 256) * 40
    for wide in (x, x.double()):

        def quantized(x):
            y = (x / 2).round().clamp(-100 if dtype.is_signed else 0, 100).to(dtype)
            return y, y.float() * 2 + 1

        kept = []
        lines = groups(log_of(lambda wide=wide, kept=kept: kept.extend(quantized(wide))))
        wanted = quantized(wide)
        assert all(same(a, b) for a, b in zip(kept, wanted, strict=True))
        assert len(lines) == 2 and "copy_" in lines[0], lines


@pytest.mark.own_region
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_of_an_extremum_does_not_run_the_queue(dtype):
    x = data(300, 200).round(decimals=1).to(dtype)
    x[5], x[7, 2:4] = 1.5, torch.nan

    def step():
        leaf = x.clone().requires_grad_()
        (torch.exp(leaf - leaf.amax(-1, keepdim=True)) * leaf.amin(0)).sum().backward()
        return leaf.grad

    kept = []
    lines = log_of(lambda: kept.append(step()))
    wanted = step()
    assert torch.equal(kept[0].isnan(), wanted.isnan()) and same(kept[0].nan_to_num(), wanted.nan_to_num())
    assert sum("operations, run by" in line for line in lines) == 1, lines


@pytest.mark.own_region
def test_one_element_for_all_is_a_number_of_the_group():
    x, one = data(300, 200), data(1, seed=1)
    for number in (one, one.double(), one.to(torch.uint8), one.half(), one[0], (x * 2).sum() / 3):
        for program in (lambda x, s: (x - s) * s.exp() + s, lambda x, s: (x * s).sum(-1) * s):
            assert same(torch.compile(program)(x, number), program(x, number)), number.dtype


@pytest.mark.own_region
@pytest.mark.parametrize("side", [34, 66, 254, 300])
def test_rows_of_pictures_within_others_are_read_in_place_with_the_eager_bits(side):
    pictures = data(6, side, side)

    def edges(p):
        across, down = p[..., 1:-1, 2:] - p[..., 1:-1, :-2], p[..., 2:, 1:-1] - p[..., :-2, 1:-1]
        return torch.sqrt(across * across + down * down + 1e-6), across.sum(-1)

    assert all(same(a, b) for a, b in zip(torch.compile(edges)(pictures), edges(pictures), strict=True))


BATCHES = {
    "in training, with weight and bias": lambda x, m, v, w, b: F.relu(F.batch_norm(x, m, v, w, b, True)),
    "in training, alone": lambda x, m, v, w, b: F.batch_norm(x, None, None, training=True) * 2 + x,
    "by given statistics": lambda x, m, v, w, b: F.relu(F.batch_norm(x * 2, m, v, w, b) + x),
    "by given statistics, with a bias": lambda x, m, v, w, b: F.batch_norm(x, m, v, None, b, eps=0.1).tanh(),
}


@pytest.mark.own_region
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("program", BATCHES.values(), ids=BATCHES)
def test_batch_normalization_is_in_the_group_of_its_neighbours(program, dtype):
    for shape in ((8, 16, 40, 40), (6, 30, 3, 300), (2000, 96), (64, 40, 7, 7)):
        x = data(*shape).to(dtype)
        m, v, w, b = (data(shape[1], seed=k).to(dtype) for k in range(1, 5))
        v = v.abs() + 0.1
        (mean, var), kept = (m.clone(), v.clone()), []
        lines = groups(log_of(lambda a=(x, mean, var, w, b), kept=kept: kept.append(program(*a))))
        wanted = program(x, m, v, w, b)
        assert all(same(a, b) for a, b in zip((kept[0], mean, var), (wanted, m, v), strict=True)), shape
        if shape == (8, 16, 40, 40) and HAS_MACHINE_CODE and "RGRAD_DEFER_FROM" not in os.environ:
            large = [line for line in lines if f"| {x.numel()} float" in line]
            assert len(large) == 1 and "batch_norm" in large[0], lines

        def loss(x, w, b, m=m, v=v):
            return (program(x, m, v, w, b) * torch.arange(x.shape[-1], dtype=dtype)).sum()

        found, wanted = gradients(torch.compile(loss), x, w, b), gradients(loss, x, w, b)
        for one, other in zip(found, wanted, strict=True):
            assert one is other is None or same(one, other), shape


GROUPS = {
    "with weight and bias": lambda x, w, b: F.silu(F.group_norm(x, 4, w, b)),
    "with a residual": lambda x, w, b: F.group_norm(x, 2, None, b, eps=0.1) * 0.5 + x,
    "of what was computed": lambda x, w, b: F.relu(F.group_norm(x * 2 + 1, 4, w)),
    "of single channels": lambda x, w, b: F.silu(F.group_norm(x, x.shape[1], w, b)),
    "of instances": lambda x, w, b: F.relu(F.instance_norm(x, weight=w, bias=b)),
}


@pytest.mark.own_region
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("program", GROUPS.values(), ids=GROUPS)
def test_group_normalization_is_in_the_group_of_what_follows(program, dtype):
    for shape in ((8, 16, 40, 40), (6, 32, 3, 300), (2, 8, 3, 129, 67), (64, 40, 7, 7), (1, 4, 100_000)):
        x = data(*shape).to(dtype)
        w, b = (data(shape[1], seed=k).to(dtype) for k in (1, 2))
        kept = []
        lines = groups(log_of(lambda a=(x, w, b), kept=kept: kept.append(program(*a))))
        assert same(kept[0], program(x, w, b)), shape
        if shape == (8, 16, 40, 40) and HAS_MACHINE_CODE and "RGRAD_DEFER_FROM" not in os.environ:
            assert any("_norm" in line and ("silu" in line or "relu" in line or "add" in line) for line in lines), lines

        def loss(x, w, b):
            return (program(x, w, b) * torch.arange(x.shape[-1], dtype=dtype)).sum()

        found, wanted = gradients(torch.compile(loss), x, w, b), gradients(loss, x, w, b)
        for one, other in zip(found, wanted, strict=True):
            assert one is other is None or same(one, other), shape


@pytest.mark.own_region
def test_groups_without_elements_are_empty():
    def program(x, s):
        return ((x * 2 + s) * s.exp()).sum(-1), (x - s).sum()

    for x in (torch.zeros(0, 3), torch.zeros(3, 0), torch.zeros(0)):
        for s in (torch.ones(1), torch.ones(()), x):
            with torch.defer():
                found = program(x + 1, s)
            assert all(same(a, b) for a, b in zip(found, program(x + 1, s), strict=True)), x.shape


@pytest.mark.own_region
@pytest.mark.parametrize("rows", [62, 90, 126, 250, 254])
def test_operands_that_repeat_themselves_every_two_rows_do_so_in_every_block(rows):
    x = data(24, 300, 100)[:, :rows, :64].unflatten(1, (rows // 2, 2))
    y = data(24, 300, 100, seed=1)[:, :rows, 3:67].unflatten(1, (rows // 2, 2))
    mask, half = data(2, 64, seed=2) > 0, data(2, 64, seed=3).half()

    def program(x, y):
        return (x.exp() + half).sin() * y + torch.where(mask, x, y)

    assert same(torch.compile(program)(x, y), program(x, y))


COLOURS = {
    "a sum": lambda x: x.sum(1) * 0.5,
    "a mean": lambda x: x - x.mean(1, keepdim=True),
    "extrema": lambda x: (x.amax(1) - x.amin(1)) / (x.amax(1).abs() + 1),
}


@pytest.mark.own_region
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("program", COLOURS.values(), ids=COLOURS)
def test_columns_of_a_few_rows_are_reduced_in_the_group_of_what_reads_them(program, dtype):
    for channels, runs in ((2, 256), (3, 224 * 224), (4, 600), (3, 65), (5, 600)):
        x = data(4, channels, runs).to(dtype)
        x[0, :, :3] = torch.tensor([-0.0, torch.nan, -torch.inf]).to(dtype)
        x[1, 0, :9], x[1, 1:, :9] = -0.0, 0.0
        kept = []
        lines = groups(log_of(lambda kept=kept, x=x: kept.append(program(x))))
        found, wanted = kept[0], program(x)
        # NaN of any bits, zeros of either sign.
        integer = torch.int64 if dtype == torch.float64 else torch.int32
        assert torch.equal(found.nan_to_num().view(integer), wanted.nan_to_num().view(integer)), (channels, runs)
        if HAS_MACHINE_CODE and channels == 3 and runs > 65 and "RGRAD_DEFER_FROM" not in os.environ:
            assert len(lines) <= 2 and lines[0].startswith("fused: reduction"), lines
        found, wanted = (gradients(lambda x, f=f: f(x).sum(), x)[0] for f in (torch.compile(program), program))
        assert torch.equal(found.nan_to_num(), wanted.nan_to_num())


SPREADS = {
    "standardized": lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5),
    "var and mean": lambda x: torch.var_mean(x * 2, -1),
    "var without correction": lambda x: x * (x.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt(),
    "std of several dimensions": lambda x: x.view(-1, 4, x.shape[-1]).std((1, 2), correction=2),
    "var of columns": lambda x: (x + 1) / x.var(0),
    "var of all": lambda x: (x * 0.5).var() * x,
    "in place": lambda x: x.clone().div_(x.var(-1, keepdim=True)),
}


@pytest.mark.own_region
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("program", SPREADS.values(), ids=SPREADS)
def test_variances_of_rows_are_in_the_group_of_their_neighbours(program, dtype):
    for shape in ((1200, 256), (4000, 67), (200, 3000), (32, 8192), (32, 8193), (60_000, 3), (70_000, 2)):
        x, kept = data(*shape).to(dtype), []
        lines = groups(log_of(lambda x=x, kept=kept: kept.append(program(x))))
        results, wanted = (r if isinstance(r, tuple) else (r,) for r in (kept[0], program(x)))
        assert all(same(a, b) for a, b in zip(results, wanted, strict=True)), shape
        if shape == (1200, 256) and program is SPREADS["standardized"] and HAS_MACHINE_CODE:
            computed = [line for line in lines if not line.startswith("not computed")]
            assert len(computed) == 1 and "moments" in computed[0], lines


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_variances_in_a_region_keep_nans_infinities_and_rows_of_equal_elements():
    x = data(3000, 64)
    x[3], x[5, 7], x[6, 1], x[7, 2] = 4.0, float("nan"), float("inf"), -float("inf")

    def program(x):
        return torch.stack([x.std(-1), x.var(-1, correction=64), x.var(-1, correction=0)])

    got, wanted = torch.compile(program)(x), program(x)
    assert same(got.nan_to_num(7), wanted.nan_to_num(7)) and same(got.isnan(), wanted.isnan())
