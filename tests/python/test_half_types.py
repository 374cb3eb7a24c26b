"""Large tensors of half types, which machine code computes, beside small ones, which the compiled loops compute."""

from __future__ import annotations

import pytest

import rgrad as torch

F = torch.nn.functional

# Fewer elements than machine code is used for.
FEW = 1 << 12

CALLS = {
    "sum": lambda x, y: x + y,
    "product with a number": lambda x, y: x * 0.3,
    "number first": lambda x, y: 2.5 - x,
    "quotient": lambda x, y: x / y,
    "scaled sum": lambda x, y: torch.add(x, y, alpha=0.7),
    "relu": lambda x, y: F.relu(x),
    "gelu": lambda x, y: F.gelu(x),
    "silu": lambda x, y: F.silu(x),
    "tanh": lambda x, y: torch.tanh(x),
    "exp": lambda x, y: torch.exp(x),
    "sine, which is not emitted": lambda x, y: torch.sin(x),
    "choice": lambda x, y: torch.where(x > y, x, y),
    "bounds": lambda x, y: x.clamp(-0.5, 0.75),
    "greater": lambda x, y: torch.maximum(x, y),
    "power": lambda x, y: x.abs() ** 1.5,
    "root": lambda x, y: x.abs().sqrt(),
    "remainder": lambda x, y: torch.remainder(x, y),
    "three operands": lambda x, y: torch.addcmul(x, y, x, value=0.5),
    "the same twice": lambda x, y: x * x,
    "in place": lambda x, y: x.clone().mul_(y),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_large_tensors_have_the_bits_of_small_ones(call, dtype):
    # Not a whole number of vectors, and every number of the type among them.
    count = (1 << 16) + 11
    bits = torch.arange(count).to(torch.int16)
    x = bits.view(dtype)
    y = bits.flip(0).contiguous().view(dtype)
    found = call(x, y)
    wanted = torch.cat([call(a, b) for a, b in zip(x.split(FEW), y.split(FEW), strict=True)])
    # Which of two NaNs a sum is depends on their order in an instruction.
    same = (found.view(torch.int16) == wanted.view(torch.int16)) | (found.isnan() & wanted.isnan())
    assert same.all(), (x[~same], y[~same], found[~same], wanted[~same])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_operands_of_other_layouts_and_types(dtype):
    x = torch.randn(300, 257).to(dtype)
    row, column = torch.randn(257).to(dtype), torch.randn(300, 1).to(dtype)
    by_row = torch.stack([x[i] * row + column[i] for i in range(300)])
    assert torch.equal(x * row + column, by_row)
    assert torch.equal(x.t() + x.t(), (x + x).t())
    assert torch.equal((x[:, ::2] * 3)[7], x[7, ::2] * 3)
    chosen = torch.where(x > 0, x, torch.zeros((), dtype=dtype))
    assert torch.equal(chosen, F.relu(x))
    # A result that overlaps an operand.
    z = torch.cat([x.flatten(), x.flatten()])
    wanted = z[:-1] + z[1:]
    shifted = z.clone()
    torch.add(shifted[:-1], z[1:], out=shifted[:-1])
    assert torch.equal(shifted[:-1], wanted)


def test_gradients_of_large_half_tensors():
    x = torch.randn(200, 300).bfloat16().requires_grad_()
    F.silu(x * 2).sum().backward()
    parts = []
    for row in x.detach():
        row.requires_grad_()
        F.silu(row * 2).sum().backward()
        parts.append(row.grad)
    assert torch.equal(x.grad, torch.stack(parts))


def test_sums_of_bfloat16_are_those_of_float32():
    x = torch.randn(300, 1000).bfloat16()
    for dims in (0, 1, (0, 1)):
        assert torch.equal(x.sum(dims), x.float().sum(dims).bfloat16())
        assert torch.equal(x.mean(dims), x.float().mean(dims).bfloat16())
    assert torch.equal(x.t().sum(1), x.float().t().sum(1).bfloat16())
    assert torch.equal(x[:, 1:].sum(1), x[:, 1:].float().sum(1).bfloat16())
