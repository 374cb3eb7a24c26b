"""`compile` on a GPU: a group of operations is one launch, with the numbers of the operations one by one."""

from __future__ import annotations

import pytest

import rgrad as torch

F = torch.nn.functional
SHAPE = (256, 128)


def data(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*(shape or SHAPE), generator=torch.Generator().manual_seed(seed)).to("gpu")


def launches(f, *args) -> list[str]:
    torch.gpu.synchronize()
    with torch.gpu.profile() as profile:
        result = f(*args)
        torch.gpu.synchronize()
    del result
    return [e.op for e in profile.events if e.op != "fill"]


def gelu_chain(x, b):
    return F.gelu(x + b) * x.sigmoid() + torch.tanh(x)


def adam_by_hand(p, g, m, v):
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    p.sub_(1e-3 * (m / 0.1) / ((v / 0.001).sqrt() + 1e-8))
    return p


def chosen(x, b):
    return torch.where((x > 0) & (x < b), x * 2, -x).clamp(-1, 1)


def several(x, b):
    y = x * 2 + b
    return y, y.sin(), y.t()


def masked(x, b):
    return x.masked_fill(x > 0.5, -2.0) * b


def in_place(x, b):
    y = x * 1
    y.mul_(2).add_(b)
    y[:, 3:7].relu_()
    return y.exp_()


def half(x, b):
    return ((x * 2).half() + b.half()).float() * 2


def told(x, b):
    y = x * b
    positive = y > 0
    return positive, torch.where(positive, y, b).exp(), ~positive


def residual_norm(x, b):
    y = x + b
    m = y.mean(-1, keepdim=True)
    v = ((y - m) ** 2).mean(-1, keepdim=True)
    return (y - m) * torch.rsqrt(v + 1e-5) * b + b


def focal_loss(x, b):
    p = torch.sigmoid(x)
    t = b.sigmoid()
    return (-(t * torch.log(p + 1e-7) + (1 - t) * torch.log(1 - p + 1e-7)) * (t - p) ** 2).mean()


def values_per_row(x, b):
    y = x * b
    low, high = y.amin(-1), y.amax(-1, keepdim=True)
    spread = high - low[:, None]
    return low, spread, (y - low[:, None]) / spread, spread.sqrt()


def transposed(x, b):
    y = x.t() * 2
    return y.sum(-1), (y - y.mean(-1, keepdim=True)).t() + b


def reduced(x, b):
    y = torch.softmax(x * 2, -1) + b
    return (y - y.mean(-1, keepdim=True)).square().sum()


PROGRAMS = [
    gelu_chain,
    chosen,
    several,
    masked,
    in_place,
    half,
    told,
    residual_norm,
    focal_loss,
    values_per_row,
    transposed,
    reduced,
]


@pytest.mark.own_region
@pytest.mark.parametrize("program", PROGRAMS)
# Elements in blocks of rows, in fours, and one by one; sums in vectors of eight and not.
@pytest.mark.parametrize("shape", [SHAPE, (512, 136), (521, 132), (257, 131)])
def test_groups_on_a_gpu_have_the_numbers_of_the_operations(program, shape):
    x, b = data(*shape), data(shape[1], seed=1)
    eager, compiled = program(x, b), torch.compile(program)(x, b)
    for a, c in zip(
        *(r if isinstance(r, tuple) else (r,) for r in (eager, compiled)),
        strict=True,
    ):
        torch.testing.assert_close(c, a, rtol=1e-5, atol=1e-5)


@pytest.mark.own_region
def test_a_chain_on_a_gpu_is_one_launch():
    x, b = data(), data(128, seed=1)
    assert len(launches(gelu_chain, x, b)) > 3
    assert len(launches(torch.compile(gelu_chain), x, b)) == 1


@pytest.mark.own_region
@pytest.mark.parametrize(("program", "reductions"), [(residual_norm, 2), (values_per_row, 2)])
def test_a_reduction_on_a_gpu_computes_what_it_reduces(program, reductions):
    # A reduction of few long rows takes two passes on a GPU.
    x, b = data(4096, 64), data(64, seed=1)
    found = launches(torch.compile(program), x, b)
    assert found.count("reduction") in (reductions, 2 * reductions)
    assert set(found) == {"reduction", "fused"} and found.count("fused") <= 2


@pytest.mark.own_region
def test_a_mean_on_a_gpu_is_made_of_its_sum_in_the_same_launch():
    x, b = data(), data(seed=1)
    assert set(launches(torch.compile(focal_loss), x, b)) == {"reduction"}
    assert len(launches(torch.compile(focal_loss), x, b)) <= 2
    assert len(launches(torch.compile(lambda x: (x * 2).mean(-1).sqrt()), data(4096, 64))) == 1


@pytest.mark.own_region
def test_an_adam_step_by_hand_on_a_gpu_is_one_launch():
    def state():
        return [data(seed=k) for k in range(2)] + [torch.zeros(SHAPE, device="gpu") for _ in range(2)]

    mine, eager = state(), state()
    assert len(launches(torch.compile(adam_by_hand), *mine)) == 1
    adam_by_hand(*eager)
    for a, b in zip(mine, eager, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.own_region
def test_a_group_of_more_tensors_than_a_gpu_binds_is_divided():
    tensors = [data(seed=k) for k in range(40)]

    def f(*tensors):
        total = tensors[0] * 1
        for t in tensors[1:]:
            total = total + t * 0.5
        return total

    torch.testing.assert_close(torch.compile(f)(*tensors), f(*tensors), rtol=1e-6, atol=1e-6)
    assert len(launches(torch.compile(f), *tensors)) < 20


@pytest.mark.own_region
def test_gradients_of_a_region_on_a_gpu_are_those_of_an_eager_program():
    def run(f):
        x, b = data().requires_grad_(), data(128, seed=1).requires_grad_()
        f(x, b).square().mean().backward()
        return x.grad, b.grad

    eager, compiled = run(gelu_chain), run(torch.compile(gelu_chain))
    with torch.defer():
        whole = run(gelu_chain)
    for a, c, w in zip(eager, compiled, whole, strict=True):
        torch.testing.assert_close(c, a, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(w, a, rtol=1e-5, atol=1e-6)


@pytest.mark.own_region
def test_parts_of_one_result_are_one_launch():
    x, y = data(4, 120, 100), data(4, 120, 100, seed=1)
    for dim in range(3):
        for joined in (torch.stack, torch.cat):

            def program(x, y, dim=dim, joined=joined):
                return joined([x + y, x * y, torch.relu(x)], dim)

            compiled = torch.compile(program)
            assert torch.equal(compiled(x, y), program(x, y)), (joined, dim)
            assert len(launches(compiled, x, y)) == 1, (joined, dim)
