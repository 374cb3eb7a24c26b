"""Machine code of fused groups: the bits of eager kernels, for each instruction set, wherever operands lie."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from compile_cases import PROGRAMS, data, groups, log_of, same

import rgrad as torch


@pytest.fixture(params=["baseline", "avx2", "avx512"])
def isa(request):
    """An instruction set; the baseline has no machine code."""
    before = torch._C._set_cpu_isa()
    if torch._C._set_cpu_isa(request.param) != request.param:
        torch._C._set_cpu_isa(before)
        pytest.skip(f"this processor has no {request.param}")
    yield request.param
    torch._C._set_cpu_isa(before)


def flat(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_has_the_bits_of_eager_kernels_with_each_instruction_set(isa, program):
    x = data()
    torch.manual_seed(0)
    wanted = flat(program(x.clone()))
    torch.manual_seed(0)
    got = flat(torch.compile(program)(x.clone()))
    assert all(same(a, b) for a, b in zip(got, wanted, strict=True))


def adam(p, g, m, v):
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    p.sub_(1e-3 * (m / 0.1) / ((v / 0.001).sqrt() + 1e-8))
    return p, m, v


def centred_in_place(p, g, m, v):
    # The elements are read before and after a reduction, and then replaced.
    p.sub_(p.mean(-1, keepdim=True)).mul_(g)
    m.add_(1).copy_(m * m + v)
    return p, m


def into_itself_shifted(p, g, m, v):
    q = p.flatten()
    q[1:].copy_(q[:-1] * 2 + g.flatten()[1:])
    return p, m.add_(p)


def swapped(p, g, m, v):
    old = p + 0
    p.copy_(m * 1)
    m.copy_(old * 1)
    return p, m


@pytest.mark.parametrize("update", [adam, centred_in_place, into_itself_shifted, swapped])
@pytest.mark.parametrize("shape", [(256, 256), (67, 1001)])
def test_elements_that_are_replaced_are_read_before(isa, update, shape):
    def state():
        return [data(*shape, seed=k).abs() for k in range(4)]

    wanted, got = state(), state()
    for _ in range(3):
        expected = update(*wanted)
        results = torch.compile(update)(*got)
        assert all(same(a, b) for a, b in zip((*results, *got), (*expected, *wanted), strict=True))


def rotary(x, bias):
    y = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) + bias
    a, b = y.chunk(2, -1)
    return torch.cat([a * b - a, a + b * 0.5], -1)


def columns(x, bias):
    part = x[:, 3:-2] * 2 + bias[3:-2]
    return part.tanh() + x[:, 4:-1], (x[::2] + bias).exp()


def channels(x, bias):
    pictures = x[:66, :1000].reshape(2, 3, 11, 1000)
    return (pictures / 255 - bias[:3].view(3, 1, 1)) / bias[3:6].view(3, 1, 1)


@pytest.mark.parametrize("program", [rotary, columns, channels])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_rows_that_are_apart_in_memory_and_broadcast_rows_are_used_where_they_lie(isa, program, dtype):
    x, bias = (data(68, 1002, seed=1) * 50).to(dtype), data(1002, seed=2).to(dtype)
    assert all(same(a, b) for a, b in zip(flat(torch.compile(program)(x, bias)), flat(program(x, bias)), strict=True))


def digest() -> str:
    """Of what all programs compute."""
    hashed = hashlib.sha256()
    for program in PROGRAMS:
        torch.manual_seed(0)
        for result in flat(torch.compile(program)(data())):
            hashed.update(result.detach().to(torch.float64).contiguous().numpy().tobytes())
    return hashed.hexdigest()


def test_without_machine_code_programs_have_the_same_bits():
    here = Path(__file__).parent
    code = f"import sys; sys.path.insert(0, {str(here)!r}); import test_machine_code; print(test_machine_code.digest())"
    env = dict(os.environ, RGRAD_JIT="0")
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert found.stdout.split()[-1] == digest()


def norm_and_rotary(x):
    a, b = (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)).chunk(2, -1)
    return torch.cat([a * 3 - b, a + b * 3], -1)


def gated(x):
    a, b = (x * 2).chunk(2, -1)
    return torch.nn.functional.silu(a) * b


def thirds_of_other_lengths(x):
    y = x.exp()
    a, b, c = y.split([x.shape[1] // 2, 1, x.shape[1] - x.shape[1] // 2 - 1], -1)
    return a * 2, b + 1, c - a[:, : c.shape[1]], y


def part_with_a_value_per_row(x):
    s = x.sum(-1, keepdim=True)
    y = x * s
    return (y[:, 3:40] + s) * y[:, 40:77], y[:, 3:40].sum(-1)


def part_written_in_place(x):
    y = x * 2
    y[:, ::2] *= 3
    y[:, :5] += 1
    return y, y[:, 5:9] * 1


@pytest.mark.parametrize(
    "program",
    [norm_and_rotary, gated, thirds_of_other_lengths, part_with_a_value_per_row, part_written_in_place],
)
@pytest.mark.parametrize("shape", [(256, 128), (33, 1002), (5, 8192), (1, 4096)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_parts_of_rows_have_the_bits_of_eager_kernels(isa, program, shape, dtype):
    x = data(*shape).to(dtype)
    wanted, got = flat(program(x.clone())), flat(torch.compile(program)(x.clone()))
    assert all(same(a, b) for a, b in zip(got, wanted, strict=True))


@pytest.mark.own_region
def test_a_part_of_a_value_in_a_group_is_used_without_memory():
    results = []
    (line,) = groups(log_of(lambda x: results.append(norm_and_rotary(x)), data(256, 128)))
    assert "rsqrt → mul → mul → sub → mul → add" in line
    assert "copy_ → copy_ | 32768 float32 elements in rows of 128, 2 of 12 results stored" in line


@pytest.mark.parametrize("shape", [(4, 3, 32, 32), (2, 5, 7, 64), (3, 2, 100, 100), (8, 4, 67)])
def test_numbers_per_channel_have_the_bits_of_eager_kernels(isa, shape):
    channels = (shape[1], *[1] * (len(shape) - 2))
    mean, scale = data(*channels, seed=1), data(*channels, seed=2)
    x = (data(*shape) * 40).to(torch.uint8)

    def normalized(x):
        y = (x.float() / 255 - mean) / scale
        return y, y.mean(-1, keepdim=True) * y

    assert all(same(a, b) for a, b in zip(torch.compile(normalized)(x), normalized(x), strict=True))


@pytest.mark.parametrize("n", [63, 64, 65, 128, 1000, 1024, 8192])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_sums_of_rows_have_the_bits_of_eager_kernels(isa, n, dtype):
    def centred(x):
        y = x * 1.5
        return (y - y.mean(-1, keepdim=True)) * y.sum(-1, keepdim=True), (y * y).sum(-1), y.amax(-1)

    x = data(40, n).to(dtype)
    assert all(same(a, b) for a, b in zip(torch.compile(centred)(x), centred(x), strict=True))


@pytest.mark.parametrize("n", [1000, 1024, 2048])
def test_pieces_of_a_result_as_long_as_a_block_are_written_where_they_belong(isa, n):
    def pieces(x):
        return torch.cat([x + 1, x * 3], -1), x * 2, torch.cat([x * x, x], -1)

    x = data(35, n)
    assert all(same(a, b) for a, b in zip(torch.compile(pieces)(x), pieces(x), strict=True))


INTEGERS = {
    "arithmetic": lambda x, y: (x * y - 3) + (-x).abs() * (x - y),
    "bits": lambda x, y: ((x | y) & ~x) ^ (y << 2) ^ (x >> (y & 7)),
    "shifts by all counts": lambda x, y: (x << y) + (x >> y),
    "conditions": lambda x, y: (torch.where((x > 0) & (y < 7) | ~(x <= y), x, -y).clamp(-5, 20), (x == y) ^ (y > 3)),
    "quotients": lambda x, y: (x // y.clamp(min=1) + x % y.clamp(min=1)) * 3,
    "in place": lambda x, y: x.add_(y).mul_(3).masked_fill_(y > 5, 7),
    "other types": lambda x, y: ((x.float() * 0.5).to(x.dtype) + y, (x.to(torch.int32) + 1).to(torch.int64) * y),
    "booleans": lambda x, y: ((x > 0) & (y > 0) | (x == 3)).float().sum(),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
@pytest.mark.parametrize("program", INTEGERS.values(), ids=INTEGERS)
def test_integers_have_the_values_of_eager_kernels(isa, program, dtype):
    generator = torch.Generator().manual_seed(3)
    bounds = torch.iinfo(dtype)
    x, y = (torch.randint(bounds.min, bounds.max, (40_003,), generator=generator, dtype=dtype) for _ in range(2))
    x[::3] = x[::3] % 40
    y[::2] = y[::2] % 70
    wanted = flat(program(x.clone(), y.clone()))
    got = flat(torch.compile(program)(x.clone(), y.clone()))
    assert all(same(a, b) for a, b in zip(got, wanted, strict=True))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("wide", [torch.float32, torch.float64, torch.int64], ids=str)
def test_integers_of_other_widths_are_operands(isa, dtype, wide):
    whole = (data(601, 67) * 1e9).to(torch.int64).to(dtype)
    per_row = (data(601, 1, seed=1) * 8).to(wide)

    def program(x):
        return x.to(wide) * per_row + 3, (x.to(wide) - per_row).sum(-1)

    assert all(same(a, b) for a, b in zip(torch.compile(program)(whole), program(whole), strict=True))


def test_numbers_that_no_integer_is_become_what_they_become_in_eager_kernels():
    x = torch.tensor([float("inf"), float("nan"), 1e300, -1e10, 2.0**32, 2.5, -2.5], dtype=torch.float64).repeat(6000)

    def cast(source, dtype):
        return torch.stack([source.to(dtype), source.to(dtype) + 1])

    for dtype in (torch.int32, torch.int64):
        for source in (x, x.float()):
            assert same(torch.compile(cast)(source, dtype), cast(source, dtype))


@pytest.mark.own_region
def test_masks_and_integers_are_computed_in_groups():
    f, i = data(), torch.arange(100_000)
    kept = []
    lines = groups(log_of(lambda: kept.append(torch.where((f > 0) & ~(f > 1) | (f < -1), f * 2, f))))
    assert len(lines) == 1 and "1 of 8 results stored" in lines[0]
    lines = groups(log_of(lambda: kept.append(torch.where((i > 3) & (i < 99), i * i + 1, -i))))
    assert len(lines) == 1 and "int64 elements, 1 of 7 results stored" in lines[0]
    lines = groups(log_of(lambda: kept.append((f > 0) & (f < 1) | (f == 3))))
    assert len(lines) == 1 and "1 of 5 results stored" in lines[0]
