"""Autocast and the gradient scaler."""

import pytest

import rgrad as torch
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
