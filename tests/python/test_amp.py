"""Autocast and the gradient scaler."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

import rgrad as torch
import rgrad.nn.functional as F
from rgrad.amp import GradScaler, autocast
from rgrad.optim import SGD


def product():
    return (torch.ones(2, 2) @ torch.ones(2, 2)).dtype


def test_autocast_makes_matrix_products_bfloat16_inside_only():
    with autocast("cpu"):
        assert product() == torch.bfloat16
        with autocast("cpu", enabled=False):
            assert product() == torch.float32
        assert product() == torch.bfloat16
    assert product() == torch.float32


def test_autocast_decorates_and_ends_with_an_error():
    @autocast("cpu", dtype=torch.bfloat16)
    def compute(fail):
        if fail:
            raise KeyError
        return product()

    assert compute(False) == torch.bfloat16
    with pytest.raises(KeyError):
        compute(True)
    assert product() == torch.float32


def test_gradients_of_an_autocast_forward_have_the_weights_dtype():
    weight = torch.ones(2, 2, requires_grad=True)
    with autocast("cpu"):
        loss = (torch.ones(2, 2) @ weight).float().sum()
    loss.backward()
    assert weight.grad.dtype == torch.float32 and weight.grad.tolist() == [[2, 2], [2, 2]]


FULL_ON_THE_CPU = {
    "prod": lambda x: x.prod(),
    "mse_loss": lambda x: F.mse_loss(x, x),
    "l1_loss": lambda x: F.l1_loss(x, x),
    "nll_loss": lambda x: F.nll_loss(x, torch.tensor([0, 1])),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.tensor([0, 1])),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(x, x),
    "soft_margin_loss": lambda x: F.soft_margin_loss(x, target=x),
    "cdist": lambda x: torch.cdist(x, x),
    "trace": lambda x: x.trace(),
    "quantile": lambda x: x.quantile(0.5),
}


@pytest.mark.parametrize("name", FULL_ON_THE_CPU)
def test_what_bfloat16_is_too_coarse_for_runs_in_float32(name):
    x = torch.rand(2, 3).bfloat16().requires_grad_()
    with autocast("cpu"):
        result = FULL_ON_THE_CPU[name](x)
    assert result.dtype == torch.float32
    result.sum().backward()
    assert x.grad.dtype == torch.bfloat16


LOWER = {
    "mm": lambda x: torch.mm(x, x),
    "addmm": lambda x: torch.addmm(x, x, x),
    "bmm": lambda x: torch.bmm(x[None], x[None]),
    "baddbmm": lambda x: torch.baddbmm(x[None], x[None], x[None]),
    "einsum": lambda x: torch.einsum("ij,jk", x, x),
    "tensordot": lambda x: torch.tensordot(x, x, 1),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "prelu": lambda x: F.prelu(x, torch.ones(1)),
}


@pytest.mark.parametrize("name", LOWER)
def test_products_by_name_run_in_the_half_type(name):
    with autocast("cpu"):
        assert LOWER[name](torch.rand(3, 3)).dtype == torch.bfloat16


@pytest.mark.parametrize("name", ["cov", "corrcoef", "inner"])
def test_products_inside_an_operation_run_in_the_half_type(name):
    x = torch.rand(3, 3)
    with autocast("cpu"):
        assert (torch.inner(x, x) if name == "inner" else getattr(torch, name)(x)).dtype == torch.bfloat16


def test_products_of_backward_functions_run_in_the_half_type():
    x, weight = torch.rand(4, 4), torch.rand(4, 4, requires_grad=True)
    y = ((x @ weight) ** 2).sum()
    y.backward(retain_graph=True)
    fine, weight.grad = weight.grad, None
    with autocast("cpu"):
        y.backward()
    assert weight.grad.dtype == torch.float32
    assert not torch.equal(weight.grad, fine) and torch.allclose(weight.grad, fine, rtol=0.05)


def test_autocast_leaves_alone_what_is_in_place_float64_or_given_a_result():
    x, double = torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64)
    with autocast("cpu"):
        assert torch.mm(double, double).dtype == torch.float64
        assert torch.mm(x, x, out=torch.empty(2, 2)).dtype == torch.float32
        assert x.addmm_(x, x).dtype == torch.float32
        assert (x.bfloat16() + x).dtype == torch.float32
        assert x.bfloat16().softmax(0).dtype == torch.bfloat16


def test_autocast_of_another_thread_and_after_its_end_is_not_felt():
    x = torch.ones(2, 2)
    with autocast("cpu"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: torch.mm(x, x).dtype).result() == torch.float32
        assert torch.mm(x, x).dtype == torch.bfloat16
    assert torch.mm(x, x).dtype == torch.float32


def test_autocast_refuses_what_it_does_not_know():
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'toaster'"):
        autocast("toaster")
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        autocast(0)
    with pytest.warns(UserWarning, match="target dtype is not supported. Disabling autocast"):
        context = autocast("cpu", dtype=torch.float64)
    with context:
        assert product() == torch.float32


def setup(**options):
    weight = torch.ones(1, requires_grad=True)
    return weight, SGD([weight], lr=1.0), GradScaler("cpu", **options)


def test_a_step_sees_unscaled_gradients():
    weight, optimizer, scaler = setup(init_scale=8.0)
    loss = scaler.scale(weight.sum() * 0.25)
    assert loss.item() == 2.0
    loss.backward()
    assert weight.grad.item() == 2.0
    scaler.step(optimizer)
    scaler.update()
    assert weight.item() == 0.75 and scaler.get_scale() == 8.0


def test_an_overflow_skips_the_step_and_halves_the_scale():
    weight, optimizer, scaler = setup(init_scale=8.0)
    scaler.scale(weight.sum()).backward()
    weight.grad = torch.full((1,), float("inf"))
    scaler.step(optimizer)
    scaler.update()
    assert weight.item() == 1.0 and scaler.get_scale() == 4.0


def test_the_scale_grows_after_an_interval_without_overflow():
    weight, optimizer, scaler = setup(init_scale=8.0, growth_interval=2)
    seen = []
    for _ in range(4):
        optimizer.zero_grad()
        scaler.scale(weight.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        seen.append(scaler.get_scale())
    assert seen == [8, 16, 16, 32]


def test_unscaling_by_hand_happens_once():
    weight, optimizer, scaler = setup(init_scale=8.0)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    assert weight.grad.item() == 1.0
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert weight.item() == 0.0
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step\(\)"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called since the last update\(\)"):
        scaler.step(optimizer)


def test_steps_before_scaling_and_updates_without_steps_are_refused():
    _, optimizer, scaler = setup()
    with pytest.raises(AssertionError, match="Attempted step but _scale is None"):
        scaler.step(optimizer)
    scaler.scale(torch.ones(1))
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update."):
        scaler.update()


def test_a_disabled_scaler_stays_out_of_the_way():
    weight, optimizer, scaler = setup(enabled=False)
    loss = weight.sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.item() == 0.0 and scaler.get_scale() == 1.0 and scaler.state_dict() == {}


def test_the_state_is_pytorchs_and_can_be_loaded():
    _, _, scaler = setup(init_scale=32.0)
    assert scaler.state_dict() == {
        "scale": 32.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2000,
        "_growth_tracker": 0,
    }
    _, _, other = setup()
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 32.0
    with pytest.raises(RuntimeError, match="The source state dict is empty"):
        other.load_state_dict({})


@pytest.mark.parametrize("cast", [None, torch.float32])
def test_functions_choose_whether_autocast_reaches_them(cast):
    seen = []

    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=cast)
        def forward(ctx, x):
            seen.append((x.dtype, torch.is_autocast_enabled("cpu")))
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            seen.append((g.dtype, torch.is_autocast_enabled("cpu")))
            return g * 2

    x = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = Double.apply(x)
    y.sum().backward()
    dtype, on = (torch.bfloat16, True) if cast is None else (torch.float32, False)
    assert seen == [(dtype, on), (dtype, on)] and x.grad.tolist() == [2.0, 2.0]


def test_a_scaler_keeps_its_state_under_pytorchs_names_and_is_pickled():
    weight, optimizer, scaler = setup(init_scale=4.0)
    assert scaler._growth_tracker is None and scaler._init_growth_tracker == 0
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    assert weight.grad.item() == 1.0
    assert [found.item() for found in scaler._found_inf_per_device(optimizer).values()] == [0.0]
    with pytest.raises(AssertionError, match="may be pickled at the beginning of an iteration"):
        pickle.dumps(scaler)
    scaler.step(optimizer)
    scaler.update()
    assert scaler._growth_tracker.item() == 1
    loaded = pickle.loads(pickle.dumps(scaler))
    assert loaded._scale is None and loaded.get_scale() == 4.0 and loaded.state_dict() == scaler.state_dict()
    assert loaded._per_optimizer_states["any"] == torch.amp.grad_scaler._refresh_per_optimizer_state()


def test_an_optimizer_that_unscales_by_itself_finds_the_scale_in_its_attributes():
    seen = {}

    class Scaled(torch.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None):
            seen.update(scale=self.grad_scale, found=self.found_inf)

    weight, _, scaler = setup(init_scale=8.0)
    optimizer = Scaled([weight], lr=1.0)
    for unscaled in (False, True):
        weight.grad = None
        scaler.scale(weight.sum() * (torch.inf if unscaled else 1)).backward()
        if unscaled:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        assert not hasattr(optimizer, "grad_scale")
        assert seen["found"].item() == float(unscaled)
        assert (seen["scale"] is None) == unscaled
        assert unscaled or (weight.grad.item() == 8.0 and seen["scale"].item() == 8.0)


def test_a_subclass_of_the_scaler_replaces_the_optimizers_step():
    class Counting(torch.amp.GradScaler):
        steps = 0

        def _maybe_opt_step(self, optimizer, optimizer_state, *args, **kwargs):
            self.steps += 1
            return super()._maybe_opt_step(optimizer, optimizer_state, *args, **kwargs)

    weight = torch.ones(1, requires_grad=True)
    optimizer, scaler = torch.optim.SGD([weight], lr=1.0), Counting("cpu")
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    assert scaler.steps == 1 and weight.item() == 0.0


def test_the_scaler_of_cpu_amp_is_one_for_the_cpu_and_warns():
    with pytest.warns(FutureWarning, match=r"Please use `torch.amp.GradScaler\('cpu', args...\)`"):
        scaler = torch.cpu.amp.GradScaler(init_scale=2.0)
    assert isinstance(scaler, GradScaler) and scaler.scale(torch.ones(1)).item() == 2.0
    with torch.cpu.amp.autocast():
        assert product() == torch.bfloat16
