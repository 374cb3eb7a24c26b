"""What every adapter can do: no float64, no native halves, small workgroups. SwiftShader runs these too."""

import pytest

import rgrad as torch
import rgrad.nn.functional as F
from rgrad import nn
from rgrad.doctor.parity import check
from rgrad.doctor.samples import DTYPES, LAYOUTS, samples

pytestmark = pytest.mark.usefixtures("gpu")


def same(f, *tensors, rtol=2e-5):
    """Calls `f` on both devices and compares its result and the gradients of floats."""

    def run(device):
        args = [t.detach().to(device) for t in tensors]
        leaves = [t.requires_grad_() for t in args if t.dtype.is_floating_point]
        out = f(*args)
        found = [out.detach().cpu()]
        if out.requires_grad:
            (out.float() * out.float()).sum().backward()
            found += [t.grad.cpu() for t in leaves if t.grad is not None]
        return found

    for there, here in zip(run("gpu"), run("cpu"), strict=True):
        assert there.dtype == here.dtype and torch.allclose(
            there, here, rtol=rtol, atol=rtol * max(1.0, here.abs().max().item())
        )


def floats(*shape):
    return torch.randn(*shape)


@pytest.mark.parametrize(
    "f",
    [
        torch.exp, torch.tanh, torch.sigmoid, torch.erf, torch.sin, F.gelu, F.softplus, torch.neg,
        lambda x: x.abs().log1p(), lambda x: x.abs().add(0.1).rsqrt(), lambda x: x * x.t()[0, 0] + x[0],
        lambda x: x.transpose(0, 1) * 2, lambda x: x[::2, 1:].clone(), lambda x: x.expand(3, 5, 7).contiguous(),
        lambda x: torch.where(x > 0, x, -x), lambda x: x.clamp(-0.5, 0.5), lambda x: torch.cat([x, x * 2], 1),
    ],
)  # fmt: skip
def test_pointwise_operations_and_copies(f):
    same(f, floats(5, 7))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.sum(), lambda x: x.mean(0), lambda x: x.sum(1), lambda x: x.detach().amax(1), lambda x: x.var(0),
        lambda x: x.softmax(1), lambda x: x.log_softmax(0), lambda x: x.cumsum(1), lambda x: x.logsumexp(1),
        lambda x: F.layer_norm(x, (300,)), lambda x: x.norm(),
    ],
)  # fmt: skip
def test_reductions_and_norms(f):
    same(f, floats(4, 300), rtol=1e-4)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (3, 5, 7), (33, 64, 31), (70, 40, 90)])
def test_products(m, k, n):
    same(torch.matmul, floats(m, k), floats(k, n), rtol=1e-4)
    same(lambda a, b: a @ b.t(), floats(m, k), floats(n, k), rtol=1e-4)
    same(torch.bmm, floats(2, m, k), floats(2, k, n), rtol=1e-4)
    same(F.linear, floats(m, k), floats(n, k), floats(n), rtol=1e-4)


def test_windows_over_pictures():
    x, w = floats(2, 3, 8, 8), floats(4, 3, 3, 3)
    same(lambda x, w: F.conv2d(x, w, stride=2, padding=1), x, w, rtol=1e-4)
    same(lambda x: F.avg_pool2d(x, 2), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.uint8, torch.bool])
def test_packed_elements(dtype):
    x = (floats(3, 5) * 4).abs().to(dtype)
    assert torch.equal(x.to("gpu").cpu(), x)
    assert torch.equal(x.to("gpu").t().contiguous().cpu(), x.t())
    assert torch.equal(torch.maximum(x.to("gpu"), x.t().to("gpu")[0, 0]).cpu(), torch.maximum(x, x[0, 0]))
    assert torch.equal(x.to("gpu").to(torch.float32).cpu(), x.to(torch.float32))


def test_special_numbers():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([nan, inf, -inf, 0.0, -0.0, 1.0, -1.0])
    for f in (torch.exp, torch.tanh, torch.relu, torch.abs, torch.isnan, torch.sign, torch.floor, torch.log1p):
        assert torch.allclose(f(x.to("gpu")).float().cpu(), f(x).float(), rtol=1e-6, atol=0, equal_nan=True)
    for f in (torch.maximum, torch.eq, torch.ne, torch.lt):
        there, here = f(x.to("gpu"), x.flip(0).to("gpu")), f(x, x.flip(0))
        assert torch.allclose(there.float().cpu(), here.float(), equal_nan=True)


def test_a_network_trains_as_on_the_cpu():
    def train(device):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
        x, y = torch.randn(24, 6).to(device), torch.randn(24, 2).to(device)
        step, losses = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), []
        for _ in range(5):
            step.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            step.step()
            losses.append(loss.item())
        return losses

    assert train("gpu") == pytest.approx(train("cpu"), rel=1e-4)


def test_types_that_the_adapter_lacks_are_refused_by_name():
    has = torch.gpu.get_device_properties()
    x = torch.ones(3, dtype=torch.float64).to("gpu")
    assert x.tolist() == [1, 1, 1]
    if has["float64"] and has["int64"] and not has["avoided"]:
        assert (x + x).tolist() == [2, 2, 2]
    else:
        with pytest.raises(NotImplementedError, match="'add' is not implemented for torch.float64 on .*cpu"):
            x + x


def test_int64_is_there_on_every_adapter():
    x = torch.tensor([2**40 + 1, -5, 7])
    for f in (lambda x: x * x, lambda x: x // 3, lambda x: x.sum(), lambda x: x.float(), lambda x: x < 0):
        assert torch.equal(f(x.to("gpu")).cpu(), f(x))


def _flushes():
    """Whether the adapter takes denormal numbers for zero, as WGSL lets it."""
    return (torch.tensor([1e-40], device="gpu") * 1.0).item() == 0.0


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "float64"])
def test_every_operation_gives_the_numbers_of_the_cpu(dtype):
    if torch.gpu.get_device_properties()["int64"]:
        pytest.skip("an adapter that has more is run through in test_gpu_parity.py")
    flushes, agrees, wrong = _flushes(), 0, []
    for number, op in enumerate(torch._C._op_table()):
        for sample in samples(op):
            if flushes and sample.shape == "special values":
                continue
            layout = LAYOUTS[(number + DTYPES.index(dtype)) % len(LAYOUTS)]
            verdict = check(sample, dtype, "gpu", layout)
            agrees += verdict.kind == "agrees"
            # A few go through float64.
            refused = verdict.kind == "unsupported" and "torch.float64" not in verdict.why
            if verdict.kind == "wrong" or refused:
                wrong.append(f"{sample.name} {sample.args} {layout}: {verdict.why}")
    assert wrong == []
    assert agrees > 500
