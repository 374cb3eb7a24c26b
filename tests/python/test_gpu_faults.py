"""What goes wrong on a GPU is told, and the process goes on; so does the device unless it is lost."""

import os
import resource
import subprocess
import sys
import threading

import pytest

import rgrad as torch
import rgrad.nn.functional as F
from rgrad import nn

pytestmark = pytest.mark.usefixtures("gpu")


def run(script, **environment):
    """What a process of its own prints."""
    env = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def works():
    return (torch.arange(5.0, device="gpu") * 2).sum().item() == 20.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, i: x[i], r"dimension 0 with size 3 \('index' on gpu:0: index 7, bound 3\)"),
        (lambda x, i: x.index_select(0, i), r"in self \('index_select' on gpu:0: index 7, bound 3\)"),
        (lambda x, i: F.embedding(i, x), r"in self \('embedding' on gpu:0: index 7, bound 3\)"),
        (lambda x, i: x.take(i), r"on a tensor of 3 elements. \('take' on gpu:0: index 7, bound 3\)"),
        (lambda x, i: F.cross_entropy(x.expand(2, 3), i), r"Target 7 is .* \('nll_loss' on gpu:0: index 7, bound 3\)"),
    ],
)
def test_an_index_out_of_range_in_forward_is_an_error_by_the_next_read(call, message):
    x, i = torch.ones(3, device="gpu"), torch.tensor([0, 7], device="gpu")
    if "embedding" in call.__code__.co_names:
        x = x.reshape(3, 1)
    # Software tells at the call, a GPU at the next read.
    with pytest.raises(IndexError, match=message):
        call(x, i).cpu()
    assert works()


def test_an_index_out_of_range_in_backward_is_an_error_by_the_next_read():
    class Pick(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g[torch.tensor([0, 1, 9], device="gpu")]

    x = torch.ones(3, device="gpu", requires_grad=True)
    with pytest.raises(IndexError, match="index 9 is out of bounds for dimension 0 with size 3"):
        Pick.apply(x).sum().backward()
        x.grad.cpu()
    assert works()


def test_an_index_out_of_range_is_told_by_synchronize_once():
    wrong = F.cross_entropy(torch.zeros(1, 3, device="gpu"), torch.tensor([5], device="gpu"))
    with pytest.raises(IndexError, match="Target 5"):
        torch.gpu.synchronize()
    assert wrong.shape == ()
    torch.gpu.synchronize()
    assert works()


def test_an_error_of_memory_names_the_largest_owners():
    told = run(
        """
import rgrad as torch
from rgrad import nn
model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 512)).to("gpu")
step = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
model(torch.ones(4, 1024, device="gpu")).sum().backward()
step.step()
kept = []
try:
    while len(kept) < 100:
        kept.append(torch.zeros(3, 2**18, device="gpu"))
except torch.OutOfMemoryError as e:
    print(e)
kept.clear()
assert torch.ones(2**22, device="gpu").sum().item() == 2**22
""",
        RGRAD_GPU_MEM_LIMIT=str(64 << 20),
    )
    first, *owners = told.splitlines()
    assert "Tried to allocate 3.00 MiB" in first and "the limit of 64.00 MiB is reached" in first
    assert any(line.split() == ["4.00", "MiB", "Sequential.0.weight"] for line in owners), told
    assert any(line.endswith("Sequential.0.weight.grad") for line in owners)
    assert any(line.endswith("SGD.momentum_buffer of Sequential.0.weight") for line in owners)
    assert any("a tensor of shape (3, 262144) and dtype torch.float32" in line for line in owners)


def test_memory_that_is_kept_for_reuse_is_given_up_before_memory_runs_out():
    run(
        """
import rgrad as torch
for n in range(1, 40):
    torch.ones(n, 2**18, device="gpu")
    assert torch.gpu.memory_reserved() <= 64 << 20
assert torch.gpu.memory_allocated() == 0
""",
        RGRAD_GPU_MEM_LIMIT=str(64 << 20),
    )


def test_a_shader_that_the_device_does_not_take_is_an_error_after_which_it_goes_on():
    half = "enable f16;\nfn half(x: f32) -> f32 { return f32(f16(x)); }"
    op = torch.library.wgsl_op("half", half)
    with pytest.raises(RuntimeError, match="the kernel of 'half' does not compile on"):
        op(torch.ones(3, device="gpu"))
    assert works()


def test_a_lost_device_raises_on_its_tensors_and_can_be_opened_again():
    run(
        """
import rgrad as torch

def refused(call):
    try:
        call()
    except RuntimeError as e:
        assert "the device was lost" in str(e) and "rgrad.gpu.reset(0) opens it again" in str(e), e
    else:
        raise AssertionError("no error")

x = torch.ones(3, device="gpu")
y = x + 1
torch._C._gpu_lose(0)
for call in (lambda: x + 1, x.cpu, y.sum, lambda: y.copy_(torch.ones(3)), lambda: torch.ones(1, device="gpu"),
             torch.gpu.synchronize, torch.gpu.stats):
    refused(call)
torch.gpu.reset()
z = torch.ones(3, device="gpu")
assert (z + z).tolist() == [2.0, 2.0, 2.0]
refused(x.cpu)
refused(lambda: z + x)
assert torch.gpu.memory_allocated() > 0
del x, y
assert z.sum().item() == 3.0
"""
    )


def test_eight_threads_train_side_by_side():
    losses = {}

    def work(k):
        torch.manual_seed(0)
        w = torch.full((4, 4), 0.5, device="gpu", requires_grad=True)
        x = torch.full((4, 4), 1.0 + k, device="gpu")
        for _ in range(10):
            loss = ((x @ w) ** 2).mean()
            (g,) = torch.autograd.grad(loss, w)
            with torch.no_grad():
                w -= 0.001 * g
        losses[k] = loss.item()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(8):
        # All sixteen weights stay alike; d loss / d w = 4 · 2 · 4 · w · (1 + k)² / 4 for each of four, of sixteen.
        w = 0.5
        for _ in range(10):
            loss = (4 * w * (1 + k)) ** 2
            w -= 0.001 * 2 * w * (4 * (1 + k)) ** 2 / 4 / 4
        assert losses[k] == pytest.approx(loss, rel=1e-4)


def test_a_forked_child_cannot_use_the_gpu_nor_what_it_inherits():
    x = torch.ones(3, device="gpu")
    torch.gpu.synchronize()
    calls = [lambda: torch.ones(1, device="gpu"), x.tolist, torch.gpu.synchronize, lambda: x.copy_(torch.ones(3))]
    child = os.fork()
    if child == 0:
        told = 0
        for call in calls:
            try:
                call()
            except RuntimeError as e:
                told += "forked subprocess" in str(e)
        os._exit(0 if told == len(calls) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_memory_stays_flat_over_ten_thousand_steps():
    model = nn.Linear(4, 1).to("gpu")
    x, y = torch.randn(8, 4).to("gpu"), torch.randn(8, 1).to("gpu")
    step = torch.optim.SGD(model.parameters(), lr=0.01)

    def train(steps):
        for _ in range(steps):
            step.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            step.step()
        return loss.item()

    first = train(300)
    # Whatever the first loss kept from being reused is free by now.
    train(300)
    before, resident = torch.gpu.stats(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert train(9400) < first
    after = torch.gpu.stats()
    for name in ("buffers", "bind_groups", "pipelines", "allocated_bytes", "reserved_bytes", "peak_bytes"):
        assert after[name] == before[name], name
    # Kibibytes on Linux.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident < 16 * 1024
