"""The GPU from Python: devices and transfers, networks that train as on the CPU, errors after which it goes on."""

import os
import subprocess
import sys
import threading

os.environ.setdefault("RGRAD_GPU_ALLOW_CPU", "1")

import pytest

import rgrad as torch
import rgrad.nn.functional as F
from rgrad import nn

if torch.gpu.device_count() == 0:
    if os.environ.get("RGRAD_REQUIRE_GPU"):
        raise RuntimeError("no adapter was found")
    pytest.skip("no adapter", allow_module_level=True)


def test_a_tensor_goes_to_the_gpu_and_back():
    x = torch.arange(6.0).reshape(2, 3)
    y = x.to("gpu")
    assert y.is_cuda and str(y.device) == "gpu:0" and y.device == torch.device("cuda:0")
    assert torch.equal(y.t().cpu(), x.t())
    assert repr(torch.ones(2, device="gpu")) == "tensor([1., 1.], device='gpu:0')"
    assert torch.zeros(2, device="cuda").cuda().new_ones(3).device == y.device
    y.copy_(torch.ones(3))
    assert y.sum().item() == 6.0


def test_tensors_of_no_elements_stay_on_their_device():
    x = torch.ones(0, 3, device="gpu", requires_grad=True)
    for y in (x + x, x * x, x / x, x - x, x + 1, 2 * x, x**2, -x, x.exp(), x.sum(), x @ x.t(), torch.cat([x, x])):
        assert y.is_cuda
    (x * x).sum().backward()
    assert x.grad is not None and x.grad.is_cuda
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x + torch.ones(0, 3)


def test_numpy_of_a_gpu_tensor_is_refused_as_pytorch_does():
    with pytest.raises(TypeError, match="can't convert gpu:0 device type tensor to numpy. Use Tensor.cpu"):
        torch.ones(2, device="gpu").numpy()
    assert torch.ones(2, device="gpu").numpy(force=True).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("divide", [torch.floor_divide, torch.remainder, torch.fmod])
def test_an_integer_divided_by_zero_is_an_error_after_which_the_device_goes_on(divide, dtype):
    x = torch.arange(70, device="gpu").to(dtype)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divide(x, x.flip(0)).cpu()
    assert torch.equal(divide(x, x + 1).cpu(), divide(x.cpu(), x.cpu() + 1))


def test_what_depends_on_values_is_told_as_on_the_cpu():
    x = torch.tensor([0.5, -1.0], device="gpu")
    with pytest.raises(RuntimeError, match="Expected p_in >= 0 && p_in <= 1"):
        torch.bernoulli(x)
    with pytest.raises(RuntimeError, match="probability tensor contains either `inf`, `nan` or element < 0"):
        torch.multinomial(x, 1)
    with pytest.raises(RuntimeError, match="normal expects all elements of std >= 0.0"):
        torch.normal(0.0, x)
    with pytest.raises(ValueError, match="index 9 is out of bounds for array of size 6"):
        torch.unravel_index(torch.tensor([1, 9], device="gpu"), (2, 3))
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        x.repeat_interleave(torch.tensor([1, -1], device="gpu"))


def test_singular_values_of_many_matrices_make_them_up_again():
    x = torch.randn(70, 5, 3, dtype=torch.float64)
    for t in (x, x.mT):
        u, s, vh = torch.linalg.svd(t.to("gpu"), full_matrices=False)
        assert torch.allclose((u * s.unsqueeze(-2) @ vh).cpu(), t, atol=1e-12)
        assert torch.allclose(s.cpu(), torch.linalg.svdvals(t), atol=1e-12)
        u, s, vh = torch.linalg.svd(t.to("gpu"))
        eye = torch.eye(u.shape[-1], dtype=torch.float64)
        assert torch.allclose((u.mT @ u).cpu(), eye.expand(70, *eye.shape), atol=1e-12)


def test_tensors_on_two_devices_do_not_meet_unless_one_is_a_number():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(3, device="gpu") + torch.ones(3)
    bias = torch.tensor(2.0, requires_grad=True)
    (torch.ones(3, device="gpu") * bias).sum().backward()
    assert bias.grad is not None and bias.grad.device.type == "cpu" and bias.grad.item() == 3.0


def train(make, shape, classes, device, steps, optimizer):
    torch.manual_seed(0)
    model = make()
    x, y = torch.randn(*shape), torch.randint(0, classes, (shape[0],))
    model, x, y = model.to(device), x.to(device), y.to(device)
    step = optimizer(model.parameters())
    losses = []
    for _ in range(steps):
        step.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        step.step()
        losses.append(loss.item())
    return losses, model


def quickstart():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.25), nn.Linear(32, 10))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * 5 * 5, 24), nn.ReLU(), nn.Linear(24, 10),
    )  # fmt: skip


def residual():
    from rgrad.vision.models.resnet import BasicBlock, ResNet

    return ResNet(BasicBlock, [1, 1, 1, 1], num_classes=4)


CASES = [
    (quickstart, (16, 1, 8, 8), 10, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    (lenet, (4, 1, 32, 32), 10, lambda p: torch.optim.AdamW(p, lr=1e-3)),
    # Enough pixels at the end that the statistics of a batch mean something.
    (residual, (4, 3, 64, 64), 4, lambda p: torch.optim.SGD(p, lr=0.01)),
]


@pytest.mark.parametrize(("make", "shape", "classes", "optimizer"), CASES)
def test_a_network_trains_as_on_the_cpu(make, shape, classes, optimizer):
    here, _ = train(make, shape, classes, "cpu", 3, optimizer)
    there, _ = train(make, shape, classes, "gpu", 3, optimizer)
    assert there == pytest.approx(here, rel=1e-3)


def test_a_checkpoint_goes_from_one_device_to_the_other(tmp_path):
    _, model = train(quickstart, (16, 1, 8, 8), 10, "gpu", 1, CASES[0][3])
    torch.save(model.state_dict(), tmp_path / "model.pth")
    other = quickstart()
    other.load_state_dict(torch.load(tmp_path / "model.pth", map_location="cpu"))
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a.cpu(), b)


def test_a_class_out_of_range_is_told_once_and_the_device_goes_on():
    x = torch.zeros(2, 3, device="gpu")
    loss = F.cross_entropy(x, torch.tensor([0, 3], device="gpu"))
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        loss.item()
    assert F.cross_entropy(x, torch.tensor([0, 2], device="gpu")).item() == pytest.approx(1.0986123)


def test_draws_on_the_gpu_are_those_of_the_cpu():
    for draw in (torch.rand, torch.randn):
        torch.manual_seed(7)
        here = draw(5, 3)
        torch.manual_seed(7)
        there = draw(5, 3, device="gpu")
        assert torch.allclose(there.cpu(), here, rtol=1e-5, atol=1e-6)


def test_a_steady_step_makes_nothing_new():
    torch.manual_seed(0)
    model = quickstart().to("gpu")
    x, y = torch.randn(16, 1, 8, 8).to("gpu"), torch.randint(0, 10, (16,)).to("gpu")
    step = torch.optim.SGD(model.parameters(), lr=0.1)

    def run():
        step.zero_grad()
        F.cross_entropy(model(x), y).backward()
        step.step()

    for _ in range(20):
        run()
    before = torch.gpu.stats()
    for _ in range(20):
        run()
    after = torch.gpu.stats()
    made = {name: after[name] - before[name] for name in ("buffers", "bind_groups", "pipelines", "submissions")}
    assert made["buffers"] == made["bind_groups"] == made["pipelines"] == 0 and made["submissions"] <= 20


def test_a_budget_ends_in_an_error_after_which_memory_is_to_be_had_again():
    script = """
import rgrad as torch
kept = []
try:
    while len(kept) < 100:
        kept.append(torch.zeros(2**20, device="gpu"))
except torch.OutOfMemoryError as e:
    assert "Tried to allocate 4.00 MiB" in str(e), e
assert 10 < len(kept) < 17, len(kept)
kept.clear()
print(torch.ones(2**22, device="gpu").sum().item())
"""
    env = {**os.environ, "RGRAD_GPU_MEM_LIMIT": str(64 << 20)}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "4194304.0", done.stderr


def test_a_forked_child_is_told_that_the_gpu_is_not_its():
    torch.ones(1, device="gpu")
    child = os.fork()
    if child == 0:
        try:
            torch.ones(1, device="gpu")
        except RuntimeError as e:
            os._exit(0 if "forked subprocess" in str(e) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_threads_launch_side_by_side():
    results = {}

    def work(k):
        x = torch.full((100,), float(k), device="gpu")
        for _ in range(20):
            x = x + 1
        results[k] = x.sum().item()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {k: 100.0 * (k + 20) for k in range(8)}
