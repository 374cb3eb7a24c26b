"""Machine code of fused groups: the bits of eager kernels, for each instruction set, wherever operands lie."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from compile_cases import PROGRAMS, data, same

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
    assert all(
        same(a, b) for a, b in zip(flat(torch.compile(program)(x, bias)), flat(program(x, bias)), strict=True)
    )


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
