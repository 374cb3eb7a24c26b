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


REDUCTIONS = {
    "sum": lambda x: x.sum(1),
    "total": lambda x: x.sum(),
    "columns": lambda x: x.sum(0),
    "mean": lambda x: x.mean(1),
    "product": lambda x: x.prod(1),
    "norm": lambda x: x.norm(dim=1),
    "logsumexp": lambda x: x.logsumexp(1),
    "maximum": lambda x: x.amax(1),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
    "softmax of columns": lambda x: x.softmax(0),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("call", REDUCTIONS.values(), ids=REDUCTIONS)
def test_rows_are_computed_in_float32_and_rounded_once(call, dtype):
    for shape in [(3, 4), (70, 1001), (1001, 33), (2, 50_000)]:
        x = (torch.randn(shape) * 0.1).to(dtype)
        assert torch.equal(call(x), call(x.float()).to(dtype)), shape
        leaf, wide = x.clone().requires_grad_(), x.float().requires_grad_()
        g = torch.randn_like(call(x))
        if call is not REDUCTIONS["product"]:  # whose gradient is composed of operations that round
            call(leaf).backward(g)
            # From the result that was rounded, which the gradients of softmax are computed from.
            exact = torch.autograd.grad(call(wide), wide, g.float())[0]
            assert ((leaf.grad.float() - exact).abs() <= 0.02 * exact.abs() + 0.02).all(), shape
        wide = torch.zeros(shape[0], 2 * shape[1], dtype=dtype)[:, ::2].copy_(x)
        assert torch.equal(call(wide), call(x)), shape


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("sizes", [(2, 3, 5), (1, 256, 130), (4, 256, 301), (40, 128, 70), (200, 130, 90), (33, 5, 1)])
def test_products_are_rounded_once(sizes, dtype):
    m, k, n = sizes
    x, w, bias = (torch.randn(s).to(dtype) for s in [(m, k), (n, k), (n,)])
    lefts = {"rows": x, "columns": x.t().contiguous().t(), "every other": torch.stack([x, x], -1)[..., 0]}
    wanted = x.double() @ w.double().t()

    def near(found, wanted):
        assert found.dtype == dtype
        assert ((found.double() - wanted).abs() <= wanted.abs() / 250 + 1e-4).all()

    for left in lefts.values():
        near(F.linear(left, w, bias), wanted + bias.double())
        near(left @ w.t(), wanted)
        near(left @ w.t().contiguous(), wanted)
        near(torch.compile(lambda a, b: a @ b.t())(left, w), wanted)
        near(torch.bmm(torch.stack([left, x]), torch.stack([w.t(), w.t()]))[1], wanted)
    near(w @ x[0], wanted[0])


def test_gradients_of_bfloat16_products_are_products():
    x, w = torch.randn(24, 40).bfloat16().requires_grad_(), torch.randn(50, 40).bfloat16().requires_grad_()
    bias = torch.randn(50).bfloat16().requires_grad_()
    g = torch.randn(24, 50).bfloat16()
    F.linear(x, w, bias).backward(g)
    exact = g.double()
    for found, wanted in [
        (x.grad, exact @ w.double()), (w.grad, exact.t() @ x.double()), (bias.grad, exact.sum(0)),
    ]:  # fmt: skip
        assert ((found.double() - wanted).abs() <= wanted.abs() / 250 + 1e-4).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("parameters", ["of the same type", "of float32"])
def test_layer_norm_of_half_types_has_the_gradients_of_float32(dtype, parameters):
    rows, n = 300, 72
    x, g = torch.randn(rows, n).to(dtype), torch.randn(rows, n).to(dtype)
    kept = dtype if parameters == "of the same type" else torch.float32
    w, b = torch.randn(n).to(kept), torch.randn(n).to(kept)

    def gradients(x, w, b, g):
        leaves = [t.clone().requires_grad_() for t in (x, w, b)]
        y = F.layer_norm(leaves[0], (n,), *leaves[1:])
        return [y.detach(), *torch.autograd.grad(y, leaves, g)]

    wide = gradients(x.float(), w.float(), b.float(), g.float())
    for found, wanted, to in zip(gradients(x, w, b, g), wide, [dtype, dtype, kept, kept], strict=True):
        assert found.dtype == to
        assert torch.equal(found, wanted.to(to))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("options", [{}, {"reduction": "sum", "ignore_index": 3}, {"reduction": "none"}], ids=str)
def test_cross_entropy_of_half_types_is_near_that_of_float32(dtype, options):
    x, target = torch.randn(70, 300).to(dtype), torch.randint(0, 300, (70,))
    weight = torch.rand(300).to(dtype)
    for more in [{}, {"weight": weight}]:
        leaf, wide = x.clone().requires_grad_(), x.float().requires_grad_()
        loss = F.cross_entropy(leaf, target, **options, **more)
        wanted = F.cross_entropy(wide, target, **options, **{k: v.float() for k, v in more.items()})
        assert loss.dtype == dtype
        assert ((loss.float() - wanted).abs() <= 0.02 * wanted.abs() + 0.02).all()
        loss.sum().backward()
        wanted.sum().backward()
        assert ((leaf.grad.float() - wide.grad).abs() <= 0.03 * wide.grad.abs() + 0.002).all()
    with pytest.raises(IndexError, match="out of bounds"):
        F.cross_entropy(x, target + 300)
