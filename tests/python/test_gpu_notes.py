"""Programs as PyTorch's notes have them run on the GPU as on the CPU: devices under all their names, and training."""

import os
import subprocess
import sys

import pytest

import rgrad as torch
import rgrad.nn.functional as F
from rgrad import nn

pytestmark = pytest.mark.usefixtures("gpu")


def on_both(program):
    """Runs a program on each device; the lists of numbers it returns must agree."""
    torch.manual_seed(0)
    here = program("cpu")
    torch.manual_seed(0)
    there = program("gpu")
    assert there == pytest.approx(here, rel=2e-4, abs=1e-5)
    return there


# ---- devices


def test_every_name_of_the_gpu_means_it():
    found = torch.accelerator.current_accelerator()
    for name in ("gpu", "gpu:0", "cuda", "cuda:0", "mps", torch.device("cuda", 0), found):
        x = torch.ones(2, device=name)
        assert str(x.device) == "gpu:0" and x.is_cuda
    for x in (torch.ones(2).cuda(), torch.ones(2).cuda(0), torch.ones(2).to(torch.device("gpu"), non_blocking=True)):
        assert x.is_cuda and not x.cpu().is_cuda
    assert nn.Linear(2, 2).cuda().weight.is_cuda
    assert torch.ones(2).pin_memory().to("gpu").tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(2, device="gpu:9")


def test_a_program_that_asks_for_an_accelerator_finds_the_gpu():
    assert torch.cuda.is_available() and torch.accelerator.is_available() and torch.gpu.is_available()
    count = torch.gpu.device_count()
    assert torch.cuda.device_count() == torch.accelerator.device_count() == count >= 1
    assert torch.accelerator.current_accelerator().type == "gpu"
    assert torch.accelerator.current_device_index() == torch.cuda.current_device() == torch.gpu.current_device() == 0
    torch.accelerator.synchronize()
    torch.cuda.synchronize()
    torch.gpu.synchronize("gpu:0")
    with torch.gpu.device(0):
        assert torch.ones(1, device="gpu").device.index == 0
    with pytest.raises(RuntimeError, match="gpu:9: invalid device ordinal"):
        torch.gpu.set_device(9)


def test_what_scripts_ask_of_cuda_and_its_kin_has_an_answer():
    assert torch.device(0) == torch.device("cuda:0") and torch.ones(1).to(0).is_cuda
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    with torch.cuda.stream(torch.cuda.Stream()), torch.accelerator.device_index(0):
        y = torch.ones(8, device="cuda") + 1
    end.record()
    assert start.elapsed_time(end) > 0 and end.query()
    torch.cuda.current_stream().synchronize()
    with pytest.raises(ValueError, match="enable_timing=True"):
        torch.cuda.Event().elapsed_time(end)
    assert torch.cuda.is_bf16_supported() and torch.version.cuda is None
    assert torch.get_device_module() is torch.get_device_module("mps") is torch.cuda
    assert torch.cuda.get_device_properties(0).name == torch.cuda.get_device_name()
    current = torch.cuda.memory_stats()["allocated_bytes.all.current"]
    assert torch.accelerator.memory_allocated() == torch.mps.current_allocated_memory() == current >= y.nbytes
    assert len(torch.cuda.memory_summary(abbreviated=True).splitlines()) == 3
    state = torch.cuda.get_rng_state()
    first = torch.rand(3, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(torch.rand(3, device="cuda"), first)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.benchmark = True
    assert torch.backends.cuda.matmul.allow_tf32
    with pytest.warns(FutureWarning, match="torch.amp.autocast"), torch.cuda.amp.autocast():
        assert (torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")).dtype == torch.float16
    with pytest.warns(FutureWarning, match="torch.amp.GradScaler"):
        assert torch.cuda.amp.GradScaler().get_scale() == 65536.0
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        torch.cuda.set_device("cpu")


def test_the_type_of_a_tensor_names_its_device():
    x = torch.tensor([1, 2]).type("torch.cuda.FloatTensor")
    assert x.is_cuda and x.dtype == torch.float32 and x.type() == "torch.cuda.FloatTensor"
    assert x.type("torch.IntTensor").type() == "torch.IntTensor"
    assert x.type(torch.float16).is_cuda and x.type(torch.float16).dtype == torch.float16


def test_what_lies_on_the_cpu_indexes_and_is_written_where_pytorch_lets_it():
    x = torch.arange(6.0, device="gpu").reshape(2, 3)
    keep = torch.tensor([[True, False, True], [False, True, False]])
    assert x[keep].tolist() == [0.0, 2.0, 4.0] and x[torch.tensor([1])].tolist() == [[3.0, 4.0, 5.0]]
    x[0] = torch.tensor([7.0, 8.0, 9.0])
    x[1, 1] = torch.tensor(5.0)
    x[keep] = torch.tensor(1.0)
    assert x.tolist() == [[1.0, 8.0, 1.0], [3.0, 1.0, 5.0]]
    value = torch.ones(3, requires_grad=True)
    y = torch.zeros(2, 3, device="gpu")
    y[1] = value
    (y * 2).sum().backward()
    assert value.grad is not None and value.grad.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x[torch.tensor([0])] = torch.ones(1, 3)
    with pytest.raises(RuntimeError, match=r"either on cpu or on the same device as the indexed tensor \(cpu\)"):
        torch.ones(3)[torch.tensor([0], device="gpu")]
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x.masked_select(keep)
    with pytest.raises(RuntimeError, match="a gradient with device type 'cpu' to a tensor with device type 'gpu'"):
        nn.Parameter(x).grad = torch.ones(2, 3)


def test_a_variable_takes_the_other_names_away():
    script = """
import rgrad as torch
assert not torch.cuda.is_available() and torch.cuda.device_count() == 0 and torch.gpu.is_available()
try:
    torch.ones(1, device="cuda")
except RuntimeError as e:
    print(e)
"""
    env = {**os.environ, "RGRAD_GPU_ALIASES": "0"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert "No device of type 'cuda' is available" in done.stdout


def test_without_a_driver_everything_imports_and_nothing_is_held():
    script = """
import rgrad as torch
assert not (torch.gpu.is_available() or torch.cuda.is_available() or torch.accelerator.is_available())
assert torch.accelerator.current_accelerator() is None and torch.get_device_module() is torch.cpu
assert torch.cuda.memory_allocated() == torch.gpu.max_memory_allocated() == torch.accelerator.memory_reserved() == 0
torch.cuda.empty_cache(), torch.gpu.empty_cache(), torch.accelerator.empty_cache()
try:
    torch.ones(1).cuda()
except RuntimeError as e:
    print(e)
"""
    env = {**os.environ, "VK_ICD_FILENAMES": "/nonexistent", "VK_DRIVER_FILES": "/nonexistent"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert "No GPU is available: no Vulkan, Metal or DX12 driver" in done.stdout, done.stderr


def test_software_is_refused_and_an_adapter_chosen_by_variables():
    def count(**environment):
        env = {k: v for k, v in os.environ.items() if k != "RGRAD_GPU_ADAPTER"} | environment
        script = "import rgrad\nprint(rgrad.gpu.device_count(), *(p['type'] for p in map("
        script += "rgrad.gpu.get_device_properties, range(rgrad.gpu.device_count()))))"
        done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert "Cpu" not in count(RGRAD_GPU_ALLOW_CPU="0")
    assert count(RGRAD_GPU_ADAPTER="no such adapter") == ["0"]
    name = torch.gpu.get_device_name()
    assert int(count(RGRAD_GPU_ADAPTER=name.lower()[:5])[0]) >= 1
    assert count(RGRAD_GPU_ADAPTER="0")[0] == "1"


@pytest.mark.own_region
def test_a_gpu_says_what_it_is_and_what_it_holds():
    properties = torch.gpu.get_device_properties()
    assert {"name", "vendor", "driver", "backend", "type", "max_buffer_size", "max_binding_size"} <= set(properties)
    assert torch.gpu.get_device_name() == properties["name"] == torch.cuda.get_device_name(0)
    torch.gpu.empty_cache()
    torch.gpu.reset_peak_memory_stats()
    before = torch.gpu.memory_allocated()
    kept = torch.empty(2**20, device="gpu")
    assert torch.gpu.memory_allocated() == before + 2**22 == torch.cuda.memory_allocated()
    assert torch.gpu.max_memory_allocated() >= before + 2**22 and torch.gpu.memory_reserved() >= before + 2**22
    assert "a tensor of shape (1048576,)" in torch.gpu.memory_summary()
    del kept
    assert torch.gpu.memory_allocated() == before
    assert torch.gpu.memory_reserved() >= before + 2**22
    torch.gpu.empty_cache()
    assert torch.gpu.memory_reserved() < before + 2**22


def test_new_tensors_are_made_on_the_default_device():
    with torch.device("gpu"):
        made = [torch.ones(2), torch.tensor([1.0]), torch.arange(3), torch.rand(2), torch.zeros(2, 2), torch.eye(2)]
        assert all(t.is_cuda for t in made) and not torch.ones(2, device="cpu").is_cuda
        assert nn.Linear(2, 2).weight.is_cuda and torch.get_default_device().type == "gpu"
        with torch.device("cpu"):
            assert not torch.ones(2).is_cuda
        assert torch.ones(2).is_cuda
    assert not torch.ones(2).is_cuda
    torch.set_default_device("gpu")
    assert torch.ones(2).is_cuda and torch.get_default_device() == torch.device("gpu:0")
    torch.set_default_device(None)
    assert not torch.ones(2).is_cuda


# ---- autograd


def test_hooks_and_retained_gradients():
    def program(device):
        x = torch.arange(1.0, 4.0, device=device, requires_grad=True)
        seen = []
        x.register_hook(lambda g: g * 2)
        y = x * x
        y.retain_grad()
        y.register_hook(lambda g: seen.extend(g.tolist()))
        y.grad_fn.register_hook(lambda gi, go: seen.extend(gi[0].tolist()))
        y.sum().backward()
        return seen + x.grad.tolist() + y.grad.tolist()

    on_both(program)


def test_module_hooks():
    def program(device):
        layer, seen = nn.Linear(3, 2).to(device), []
        layer.register_forward_hook(lambda m, i, o: seen.extend(o.flatten().tolist()))
        layer.register_full_backward_hook(lambda m, gi, go: seen.extend(go[0].flatten().tolist()))
        layer(torch.randn(4, 3).to(device).requires_grad_()).pow(2).mean().backward()
        return seen + layer.weight.grad.flatten().tolist()

    on_both(program)


def test_in_place_operations_and_their_errors():
    def program(device):
        x = torch.arange(6.0, device=device).reshape(2, 3).requires_grad_()
        y = x * 2
        y[0].mul_(3)
        y.add_(1)[1, 1:] = 0
        y.clamp_(max=9).sum().backward()
        z = (x * 2).exp()
        z.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()
        return x.grad.flatten().tolist()

    on_both(program)


def test_gradients_accumulate_over_small_batches():
    def program(device):
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
        x, y = torch.randn(12, 4).to(device), torch.randn(12, 1).to(device)
        F.mse_loss(model(x), y).backward()
        whole = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        for part in range(3):
            F.mse_loss(model(x[part::3]), y[part::3]).div(3).backward()
        for p, w in zip(model.parameters(), whole, strict=True):
            assert torch.allclose(p.grad, w, rtol=1e-4, atol=1e-6)
        return [v for w in whole for v in w.flatten().tolist()]

    on_both(program)


def test_second_derivatives_and_checkpointed_regions():
    from rgrad.utils.checkpoint import checkpoint

    def program(device):
        x = torch.linspace(-1, 1, 5, device=device).requires_grad_()
        (g,) = torch.autograd.grad(x.tanh().pow(2).sum(), x, create_graph=True)
        g.pow(2).sum().backward()
        first = x.grad.tolist()
        x.grad = None
        checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False).sum().backward()
        return first + x.grad.tolist()

    on_both(program)


# ---- mixed precision


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_on_the_gpu_runs_products_in_a_half_type(dtype):
    a = torch.ones(2, 2, device="gpu")
    with torch.autocast(device_type="gpu", dtype=dtype):
        assert (a @ a).dtype == dtype and F.linear(a, a).dtype == dtype
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
        assert torch.is_autocast_enabled("gpu") and not torch.is_autocast_enabled("cpu")
        with torch.autocast("cuda", enabled=False):
            assert (a @ a).dtype == torch.float32
    assert (a @ a).dtype == torch.float32
    with torch.autocast("cpu"):
        assert (a @ a).dtype == torch.float32
    with torch.autocast("cuda"):
        assert (a @ a).dtype == torch.float16


def test_autocast_on_the_gpu_computes_in_float32_what_a_half_type_is_too_coarse_for():
    x, full = torch.rand(2, 3, device="gpu").half(), torch.ones(2, 3, device="gpu")
    y = torch.tensor([0, 1], device="gpu")
    with torch.autocast("gpu"):
        for f in (
            lambda x: F.cross_entropy(x, y),
            lambda x: x.softmax(1),
            lambda x: F.layer_norm(x, (3,)),
            lambda x: x.sum(),
            lambda x: x**2,
            lambda x: x.exp(),
            lambda x: x.cumsum(0),
            lambda x: x.norm(),
            lambda x: F.cosine_similarity(x, x),
            lambda x: F.poisson_nll_loss(x, x),
        ):
            assert f(x).dtype == torch.float32
        assert (x + x).dtype == F.gelu(x).dtype == x.relu().dtype == x.mean().dtype == torch.float16
        assert torch.mv(full, full[0]).dtype == torch.bmm(full[None], full.t()[None]).dtype == torch.float16
        assert torch.scatter_add(full, 0, y[:, None], x).dtype == torch.float32
        with pytest.raises(RuntimeError, match="BCELoss are unsafe to autocast"):
            F.binary_cross_entropy(x, x)
    # 70,000 is more than float16 holds.
    with torch.autocast("gpu"):
        assert torch.ones(70_000, device="gpu").half().sum().item() == 70_000


def mixed_precision_losses(device, dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
    x, y = torch.randn(32, 8).to(device), torch.randint(0, 3, (32,)).to(device)
    step = torch.optim.SGD(model.parameters(), lr=0.5)
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, enabled=dtype == torch.float16)
    losses = []
    for _ in range(30):
        step.zero_grad()
        with torch.autocast(device, dtype=dtype):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(step)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(step)
        scaler.update()
        losses.append(loss.item())
    assert all(p.dtype == p.grad.dtype == torch.float32 for p in model.parameters())
    return losses


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_network_trains_in_mixed_precision_as_on_the_cpu(dtype):
    losses = mixed_precision_losses("gpu", dtype)
    assert losses[-1] < 0.7 * losses[0]
    assert losses == pytest.approx(mixed_precision_losses("cpu", torch.bfloat16), abs=0.01)


def test_a_step_whose_gradients_overflow_is_skipped():
    w = torch.ones(1, device="gpu", requires_grad=True)
    step, scaler = torch.optim.SGD([w], lr=1.0), torch.amp.GradScaler("gpu", init_scale=4.0)
    scaler.scale(w * float("inf")).backward()
    scaler.step(step)
    scaler.update()
    assert w.item() == 1.0 and scaler.get_scale() == 2.0


# ---- checkpoints


@pytest.mark.parametrize(("there", "here"), [("gpu", "cpu"), ("cpu", "gpu")])
def test_training_goes_on_on_the_other_device_from_a_checkpoint(tmp_path, there, here):
    def setup(device):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)).to(device)
        return model, torch.optim.AdamW(model.parameters(), lr=0.05)

    def train(model, step, device, steps):
        x, y = torch.linspace(-1, 1, 20).reshape(5, 4).to(device), torch.tensor([0, 1, 0, 1, 1]).to(device)
        for _ in range(steps):
            step.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            step.step()
        return loss.item()

    whole = train(*setup(here), here, 6)
    model, step = setup(there)
    train(model, step, there, 3)
    torch.save({"model": model.state_dict(), "step": step.state_dict()}, tmp_path / "c.pth")
    model, step = setup(here)
    saved = torch.load(tmp_path / "c.pth", map_location=here)
    assert all(v.device.type == here for v in saved["model"].values())
    model.load_state_dict(saved["model"])
    step.load_state_dict(saved["step"])
    assert all(v.device.type == here for s in step.state.values() for k, v in s.items() if k != "step")
    assert train(model, step, here, 3) == pytest.approx(whole, rel=1e-4)


def test_a_checkpoint_without_a_map_goes_back_to_the_device_it_was_saved_from(tmp_path):
    torch.save(torch.arange(3.0, device="gpu"), tmp_path / "t.pth")
    t = torch.load(tmp_path / "t.pth")
    assert t.is_cuda and t.tolist() == [0.0, 1.0, 2.0]
    assert torch.load(tmp_path / "t.pth", map_location=torch.device("cpu")).device.type == "cpu"


def test_a_file_names_the_gpu_as_pytorch_does_and_a_map_may_name_it_either_way(tmp_path):
    torch.save(torch.arange(3.0, device="gpu"), tmp_path / "t.pth")
    seen = []
    torch.load(tmp_path / "t.pth", map_location=lambda storage, location: seen.append(location))
    assert seen == ["cuda:0"]
    for names in ({"cuda:0": "cpu"}, {"gpu:0": "cpu"}):
        assert torch.load(tmp_path / "t.pth", map_location=names).device.type == "cpu"
    assert torch.load(tmp_path / "t.pth", map_location={"cuda:1": "cpu"}).is_cuda


def test_resnet18_is_tuned_on_small_pictures():
    from rgrad.vision.models import resnet18

    def program(device):
        torch.manual_seed(0)
        model = resnet18()
        for p in model.parameters():
            p.requires_grad = False
        model.fc = nn.Linear(model.fc.in_features, 2)
        model = model.to(device).eval()
        x, y = torch.randn(4, 3, 32, 32).to(device), torch.tensor([0, 1, 1, 0]).to(device)
        step, losses = torch.optim.SGD(model.fc.parameters(), lr=0.01, momentum=0.9), []
        for _ in range(3):
            step.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            step.step()
            losses.append(loss.item())
        assert model.conv1.weight.grad is None
        return losses

    losses = on_both(program)
    assert losses[-1] < losses[0]
