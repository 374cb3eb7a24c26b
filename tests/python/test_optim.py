"""Optimizers: their arithmetic against NumPy, their state, groups, hooks and errors."""

import copy
import math

import numpy as np
import pytest

import rgrad as torch
from rgrad import optim


def parameters():
    first = torch.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
    second = torch.tensor([0.25, -0.75, 2.0], dtype=torch.float64, requires_grad=True)
    return [first, second]


def train(make, steps=4):
    """Run an optimizer on a fixed sequence of gradients; gives the parameters' values."""
    params = parameters()
    optimizer = make(params)
    for step in range(steps):
        for param in params:
            param.grad = (param.detach() * 0.5 + (step - 1) * 0.3).to(param.dtype)
        optimizer.step()
    return [param.detach().numpy() for param in params], optimizer


def reference(update, steps=4):
    """The same gradients with an update rule in NumPy: `update(p, g, state, t)` gives the new p."""
    results = []
    for param in parameters():
        p, state = param.detach().numpy().astype(np.float64), {}
        for step in range(steps):
            p = update(p, p * 0.5 + (step - 1) * 0.3, state, step + 1)
        results.append(p)
    return results


def same(make, update):
    for got, expected in zip(train(make)[0], reference(update), strict=True):
        np.testing.assert_allclose(got, expected, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_sgd_follows_its_formula(nesterov, maximize):
    def update(p, g, state, t):
        g = (-g if maximize else g) + 0.1 * p
        b = state["b"] = state["b"] * 0.9 + g if t > 1 else g
        return p - 0.05 * (g + 0.9 * b if nesterov else b)

    same(lambda ps: optim.SGD(ps, 0.05, 0.9, 0, 0.1, nesterov, maximize=maximize), update)


def test_sgd_with_dampening_follows_its_formula():
    def update(p, g, state, t):
        state["b"] = state["b"] * 0.8 + 0.5 * g if t > 1 else g
        return p - 0.05 * state["b"]

    same(lambda ps: optim.SGD(ps, 0.05, momentum=0.8, dampening=0.5), update)


def test_plain_sgd_keeps_no_state():
    assert not train(lambda ps: optim.SGD(ps, 0.05))[1].state


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("decoupled", [False, True])
def test_adam_and_adamw_follow_their_formula(amsgrad, decoupled):
    def update(p, g, state, t):
        if decoupled:
            p = p * (1 - 0.1 * 0.2)
        else:
            g = g + 0.2 * p
        m = state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
        v = state["v"] = 0.95 * state.get("v", 0) + 0.05 * g * g
        u = state["u"] = np.maximum(state.get("u", 0), v) if amsgrad else v
        return p - 0.1 / (1 - 0.9**t) * m / (np.sqrt(u) / math.sqrt(1 - 0.95**t) + 1e-8)

    cls = optim.AdamW if decoupled else optim.Adam
    same(lambda ps: cls(ps, 0.1, (0.9, 0.95), weight_decay=0.2, amsgrad=amsgrad), update)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("momentum", [0, 0.7])
def test_rmsprop_follows_its_formula(centered, momentum):
    def update(p, g, state, t):
        s = state["s"] = 0.9 * state.get("s", 0) + 0.1 * g * g
        a = state["a"] = 0.9 * state.get("a", 0) + 0.1 * g
        d = np.sqrt(s - a * a if centered else s) + 1e-3
        b = state["b"] = momentum * state.get("b", 0) + g / d
        return p - 0.01 * b

    same(lambda ps: optim.RMSprop(ps, alpha=0.9, eps=1e-3, momentum=momentum, centered=centered), update)


def test_adagrad_follows_its_formula():
    def update(p, g, state, t):
        s = state["s"] = state.get("s", 0.5) + g * g
        return p - 0.1 / (1 + (t - 1) * 0.2) * g / (np.sqrt(s) + 1e-10)

    same(lambda ps: optim.Adagrad(ps, 0.1, lr_decay=0.2, initial_accumulator_value=0.5), update)


def test_adadelta_follows_its_formula():
    def update(p, g, state, t):
        s = state["s"] = 0.9 * state.get("s", 0) + 0.1 * g * g
        d = np.sqrt(state.get("a", 0) + 1e-6) / np.sqrt(s + 1e-6) * g
        state["a"] = 0.9 * state.get("a", 0) + 0.1 * d * d
        return p - d

    same(optim.Adadelta, update)


def test_adamax_follows_its_formula():
    def update(p, g, state, t):
        m = state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
        u = state["u"] = np.maximum(0.999 * state.get("u", 0), np.abs(g) + 1e-8)
        return p - 0.002 / (1 - 0.9**t) * m / u

    same(optim.Adamax, update)


def test_nadam_follows_its_formula():
    def update(p, g, state, t):
        mu = 0.9 * (1 - 0.5 * 0.96 ** (t * 4e-3))
        following = 0.9 * (1 - 0.5 * 0.96 ** ((t + 1) * 4e-3))
        product = state["product"] = state.get("product", 1) * mu
        m = state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
        v = state["v"] = 0.999 * state.get("v", 0) + 0.001 * g * g
        d = np.sqrt(v / (1 - 0.999**t)) + 1e-8
        return p - 0.002 * ((1 - mu) / (1 - product) * g + following / (1 - product * following) * m) / d

    same(optim.NAdam, update)


def test_radam_follows_its_formula_before_and_after_rectifying():
    def update(p, g, state, t):
        m = state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
        v = state["v"] = 0.999 * state.get("v", 0) + 0.001 * g * g
        limit = 2 / (1 - 0.999) - 1
        rho = limit - 2 * t * 0.999**t / (1 - 0.999**t)
        step = m / (1 - 0.9**t)
        if rho > 5:
            step *= math.sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho))
            step *= math.sqrt(1 - 0.999**t) / (np.sqrt(v) + 1e-8)
        return p - 0.01 * step

    results, _ = train(lambda ps: optim.RAdam(ps, 0.01), steps=9)
    for got, expected in zip(results, reference(update, steps=9), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


ALL = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam"]


@pytest.mark.parametrize("name", ALL)
def test_a_state_dict_continues_where_the_optimizer_was(name):
    options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
    make = lambda ps: getattr(optim, name)(ps, lr=0.1, **options)  # noqa: E731
    params = parameters()
    optimizer = make(params)

    def step(params, optimizer):
        for param in params:
            param.grad = param.detach() * 0.5 + 0.1
        optimizer.step()

    step(params, optimizer)
    copies = [param.detach().clone().requires_grad_() for param in params]
    second = make(copies)
    second.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    step(params, optimizer)
    step(copies, second)
    for param, other in zip(params, copies, strict=True):
        assert torch.allclose(param, other, rtol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_parameters_without_a_gradient_are_left_alone(name):
    params = parameters()
    before = params[0].detach().clone()
    params[1].grad = torch.ones(3, dtype=torch.float64)
    getattr(optim, name)(params).step()
    assert torch.equal(params[0], before)
    assert not torch.equal(params[1], torch.tensor([0.25, -0.75, 2.0], dtype=torch.float64))


def test_a_state_dict_has_pytorchs_form():
    _, optimizer = train(lambda ps: optim.Adam(ps, lr=0.1), steps=2)
    state = optimizer.state_dict()
    assert list(state) == ["state", "param_groups"]
    assert list(state["state"]) == [0, 1]
    assert list(state["state"][0]) == ["step", "exp_avg", "exp_avg_sq"]
    assert state["state"][0]["step"].item() == 2.0
    assert state["param_groups"][0]["params"] == [0, 1]
    assert state["param_groups"][0]["betas"] == (0.9, 0.999)


def test_changes_of_state_and_groups_by_hand_count():
    param = torch.zeros(2, requires_grad=True)
    optimizer = optim.SGD([param], lr=1.0, momentum=0.5)
    param.grad = torch.ones(2)
    optimizer.step()
    optimizer.state[param]["momentum_buffer"] = torch.full((2,), 10.0)
    optimizer.param_groups[0]["lr"] = 0.1
    optimizer.step()
    np.testing.assert_allclose(param.detach().numpy(), -1.0 - 0.1 * 6.0)


def test_groups_have_settings_of_their_own():
    one, two = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimizer = optim.SGD([{"params": [one]}, {"params": two, "lr": 0.5}], lr=0.1)
    one.grad = two.grad = torch.ones(1)
    optimizer.step()
    np.testing.assert_allclose([one.item(), two.item()], [-0.1, -0.5], rtol=1e-6)


def test_a_parameter_listed_twice_is_warned_of_and_updated_twice():
    param = torch.zeros(1, requires_grad=True)
    with pytest.warns(UserWarning, match="duplicate parameters: a step updates a parameter as often as it is listed"):
        optimizer = optim.SGD([param, param], lr=0.5)
    param.grad = torch.ones(1)
    optimizer.step()
    assert param.item() == -1.0


@pytest.mark.parametrize(
    ("entry", "error"),
    [([0.0], TypeError), ([torch.zeros(1, requires_grad=True) * 2], ValueError), ({torch.zeros(1)}, TypeError)],
)
def test_a_refused_group_is_left_as_it_was(entry, error):
    optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    group = {"params": entry, "momentum": 0.5}
    with pytest.raises(error):
        optimizer.add_param_group(group)
    assert group == {"params": entry, "momentum": 0.5} and len(optimizer.param_groups) == 1


def test_named_parameters_keep_their_names():
    optimizer = optim.SGD([("w", torch.zeros(1, requires_grad=True))])
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["w"]


def test_zero_grad_drops_or_zeroes():
    param = torch.zeros(2, requires_grad=True)
    optimizer = optim.SGD([param])
    param.grad = torch.ones(2)
    kept = param.grad
    optimizer.zero_grad(set_to_none=False)
    assert kept.tolist() == [0, 0] and param.grad is not None
    optimizer.zero_grad()
    assert param.grad is None


def test_a_closure_runs_with_gradients_and_its_loss_is_returned():
    param = torch.ones(1, requires_grad=True)
    optimizer = optim.SGD([param], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (param * param).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == 1.0
    assert param.item() == 0.0


def test_hooks_run_around_the_step_and_can_be_removed():
    param = torch.zeros(1, requires_grad=True)
    optimizer = optim.SGD([param])
    calls = []
    before = optimizer.register_step_pre_hook(lambda opt, args, kwargs: calls.append("before"))
    optimizer.register_step_post_hook(lambda opt, args, kwargs: calls.append("after"))
    optimizer.step()
    before.remove()
    optimizer.step()
    assert calls == ["before", "after", "after"]


def test_the_repr_lists_the_settings_of_each_group():
    optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    assert repr(optimizer) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    "
        "fused: None\n"
        "    lr: 0.1\n    maximize: False\n    momentum: 0\n    nesterov: False\n    weight_decay: 0\n)"
    )


def test_bad_parameters_are_refused():
    leaf = torch.zeros(2, requires_grad=True)
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        optim.SGD([])
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        optim.SGD([leaf * 2])
    with pytest.raises(TypeError, match="params argument given to the optimizer should be an iterable of Tensors"):
        optim.SGD(leaf)
    with pytest.raises(TypeError, match="optimizer can only optimize Tensors, but one of the params is int"):
        optim.SGD([3])
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        optim.SGD([{"params": [leaf]}, {"params": [leaf]}])
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([leaf, leaf])
    with pytest.raises(TypeError, match="param_group must be a dict"):
        optim.SGD([leaf]).add_param_group([leaf])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda ps: optim.SGD(ps, lr=-1), "Invalid learning rate: -1"),
        (lambda ps: optim.SGD(ps, momentum=-1), "Invalid momentum value: -1"),
        (lambda ps: optim.SGD(ps, nesterov=True), "Nesterov momentum requires a momentum and zero dampening"),
        (lambda ps: optim.Adam(ps, eps=-1), "Invalid epsilon value: -1"),
        (lambda ps: optim.Adam(ps, betas=(1.0, 0.9)), "Invalid beta parameter at index 0: 1.0"),
        (lambda ps: optim.Adam(ps, betas=(torch.tensor(0.9),) * 2, foreach=True), r"betas\[0\] as a Tensor is not"),
        (lambda ps: optim.AdamW(ps, weight_decay=-2), "Invalid weight_decay value: -2"),
        (lambda ps: optim.Adadelta(ps, rho=1.5), "Invalid rho value: 1.5"),
        (lambda ps: optim.RMSprop(ps, alpha=-0.5), "Invalid alpha value: -0.5"),
        (lambda ps: optim.Adagrad(ps, lr_decay=-1), "Invalid lr_decay value: -1"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make(parameters())


def test_a_state_dict_of_another_shape_is_refused():
    optimizer = optim.SGD(parameters())
    state = optim.SGD(parameters()[:1]).state_dict()
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optimizer.load_state_dict(state)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimizer.load_state_dict({"state": {}, "param_groups": []})


def test_asgd_follows_its_formula_and_averages_from_t0_on():
    def update(p, g, state, t):
        g = g + 0.1 * p
        rate = 0.05 / (1 + 0.2 * 0.05 * (t - 1)) ** 0.75 if t > 1 else 0.05
        return p * (1 - 0.2 * rate) - rate * g

    make = lambda ps: optim.ASGD(ps, 0.05, lambd=0.2, t0=2, weight_decay=0.1)  # noqa: E731
    same(make, update)
    params, optimizer = parameters(), None
    optimizer, seen = make(params), []
    for _ in range(4):
        params[1].grad = torch.ones_like(params[1])
        optimizer.step()
        seen.append(params[1].detach().clone())
    # Up to the third step the average is the parameter itself; the fourth is the first to be averaged in.
    expected = seen[2] + (seen[3] - seen[2]) * 1.0
    torch.testing.assert_close(optimizer.state[params[1]]["ax"], expected)
    assert optimizer.state[params[1]]["mu"].item() == 0.5


def test_rprop_grows_its_steps_and_turns_back_without_one():
    def update(p, g, state, t):
        size, before = state.get("size", np.full_like(p, 0.1)), state.get("g", np.zeros_like(p))
        agreement = g * before
        size = np.clip(size * np.where(agreement > 0, 1.2, np.where(agreement < 0, 0.5, 1.0)), 1e-6, 50)
        g = np.where(agreement < 0, 0, g)
        state.update(size=size, g=g)
        return p - np.sign(g) * size

    same(lambda ps: optim.Rprop(ps, 0.1), update)


def test_adafactor_keeps_the_second_moment_of_rows_and_columns():
    def update(p, g, state, t):
        def rms(a):
            return np.sqrt((a * a).mean())

        keep = t**-0.8
        rate = max(1e-3, rms(p)) * min(0.1, t**-0.5)
        p = p * (1 - 0.1 * 0.2)
        if g.ndim > 1:
            rows, columns = state.get("r", 0) * 1.0, state.get("c", 0) * 1.0
            rows = state["r"] = rows + keep * ((g * g).mean(1, keepdims=True) - rows)
            columns = state["c"] = columns + keep * ((g * g).mean(0, keepdims=True) - columns)
            variance = rows @ columns / rows.mean()
        else:
            old = state.get("v", 0)
            variance = state["v"] = old + keep * (g * g - old)
        update = g / np.sqrt(variance)
        return p - rate * update / max(1, rms(update) / 1.5)

    same(lambda ps: optim.Adafactor(ps, 0.1, d=1.5, weight_decay=0.2), update)


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
@pytest.mark.parametrize("maximize", [False, True])
def test_lbfgs_finds_the_bottom_of_a_quadratic_bowl(line_search, maximize):
    x = torch.tensor([3.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
    scale, bottom = torch.tensor([1.0, 10.0, 0.3]).double(), torch.tensor([1.0, 2.0, -1.0]).double()
    rate = 0.1 if line_search is None else 1
    optimizer = optim.LBFGS([x], lr=rate, max_iter=100, line_search_fn=line_search, maximize=maximize)
    calls = 0

    def closure():
        nonlocal calls
        calls += 1
        optimizer.zero_grad()
        loss = (scale * (x - bottom) ** 2).sum() * (-1 if maximize else 1)
        loss.backward()
        return loss

    first = optimizer.step(closure)
    assert abs(first.item()) == pytest.approx(4 + 160 + 0.3 * 2.25)
    assert optimizer.state_dict()["state"][0]["func_evals"] == calls
    torch.testing.assert_close(x.detach(), bottom, rtol=0, atol=1e-2 if line_search is None else 1e-4)


def test_lbfgs_descends_the_valley_of_rosenbrock_with_few_evaluations():
    x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], max_iter=60, max_eval=100, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    optimizer.step(closure)
    torch.testing.assert_close(x.detach(), torch.ones(2).double(), rtol=0, atol=1e-4)


def test_lbfgs_continues_from_its_state():
    def run(split):
        x = torch.tensor([3.0, -2.0], requires_grad=True)
        make = lambda: optim.LBFGS([x], lr=0.2, max_iter=3, history_size=2)  # noqa: E731
        optimizer = make()

        def closure():
            optimizer.zero_grad()
            loss = (x**4).sum() + (x[0] * x[1]) ** 2
            loss.backward()
            return loss

        optimizer.step(closure)
        if split:
            state = copy.deepcopy(optimizer.state_dict())
            optimizer = make()
            optimizer.load_state_dict(state)
        optimizer.step(closure)
        return x.tolist()

    assert run(False) == run(True)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda ps: optim.Rprop(ps, etas=(1.2, 0.5)), "Invalid eta values: 1.2, 0.5"),
        (lambda ps: optim.ASGD(ps, lr=-1), "Invalid learning rate: -1"),
        (lambda ps: optim.ASGD(ps, lambd=-1), "Invalid lambd value: -1"),
        (lambda ps: optim.ASGD(ps, alpha=-1), "Invalid alpha value: -1"),
        (lambda ps: optim.Adafactor(ps, lr=-1), "Learning rate should be >= 0 but is: -1"),
        (lambda ps: optim.Adafactor(ps, d=0.5), "Clipping threshold d should be >= 1 but is: 0.5"),
        (lambda ps: optim.LBFGS([{"params": ps[:1]}, {"params": ps[1:]}]), "LBFGS doesn't support per-parameter"),
    ],
)
def test_settings_of_the_rarer_optimizers_are_checked(make, words):
    with pytest.raises(ValueError, match=words):
        make(parameters())


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW, optim.Adagrad])
def test_fused_and_foreach_exclude_each_other(make):
    with pytest.raises(RuntimeError, match="^`fused` and `foreach` cannot be `True` together.$"):
        make(parameters(), fused=True, foreach=True)


def test_groups_are_set_apart_in_the_repr():
    first, second = parameters()
    text = repr(optim.ASGD([{"params": first}, {"params": second, "lr": 1.0}]))
    assert "\n    weight_decay: 0\n\nParameter Group 1\n    alpha: 0.75\n" in text


def test_an_averaged_model_holds_the_mean_of_all_weights():
    model = torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False), torch.nn.BatchNorm1d(1))
    mean = optim.swa_utils.AveragedModel(model)
    moving = optim.swa_utils.AveragedModel(model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.9))
    for value in (1.0, 2.0, 6.0):
        with torch.no_grad():
            model[0].weight.fill_(value)
        model[1].running_mean.fill_(value)
        mean.update_parameters(model)
        moving.update_parameters(model)
    assert mean.n_averaged.item() == 3
    torch.testing.assert_close(mean.module[0].weight.detach(), torch.full((1, 2), 3.0))
    torch.testing.assert_close(moving.module[0].weight.detach(), torch.full((1, 2), 0.9 * 1.1 + 0.6))
    # Buffers are copied.
    assert mean.module[1].running_mean.item() == 6.0
    assert set(mean.state_dict()) == {"n_averaged", *(f"module.{name}" for name in model.state_dict())}
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn should be provided"):
        optim.swa_utils.AveragedModel(model, avg_fn=max, multi_avg_fn=max)


def test_update_bn_takes_the_statistics_of_all_batches():
    model = torch.nn.BatchNorm1d(2).eval()
    first, second = torch.tensor([[1.0, 2.0], [3.0, 6.0]]), torch.tensor([[5.0, 0.0], [7.0, 4.0]])
    optim.swa_utils.update_bn([(first, None), (second, None)], model)
    assert model.running_mean.tolist() == [4.0, 3.0]
    assert model.num_batches_tracked.item() == 2
    assert model.momentum == 0.1 and not model.training


def test_a_class_around_an_optimizer_that_skips_the_constructor_steps_and_is_scheduled():
    class Around(torch.optim.Optimizer):
        def __init__(self, inner):
            self.inner, self.steps = inner, 0

        @property
        def param_groups(self):
            return self.inner.param_groups

        def step(self, closure=None):
            self.steps += 1
            self.inner.step(closure)

    weight = torch.ones(1, requires_grad=True)
    optimizer = Around(torch.optim.SGD([weight], lr=0.5))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    weight.grad = torch.ones(1)
    optimizer.step()
    schedule.step()
    assert weight.item() == 0.5 and optimizer.steps == 1 and optimizer.param_groups[0]["lr"] == 0.05


def test_zero_grad_fills_a_gradient_that_is_a_view():
    param = torch.ones(2, requires_grad=True)
    both = torch.ones(2, 2)
    param.grad = both[0]
    optim.SGD([param], lr=0.1).zero_grad(set_to_none=False)
    assert both.tolist() == [[0.0, 0.0], [1.0, 1.0]] and not param.grad.requires_grad
    (param.grad,) = torch.autograd.grad((param**3).sum(), param, create_graph=True)
    optim.SGD([param], lr=0.1).zero_grad(set_to_none=False)
    assert param.grad.tolist() == [0.0, 0.0] and param.grad.grad_fn is None
