"""Learning rate schedules against their closed forms."""

import math
import warnings

import pytest

import rgrad as torch
from rgrad import optim
from rgrad.optim import SGD, Adam
from rgrad.optim import lr_scheduler as schedules


def optimizer(lr=0.1):
    return SGD([torch.zeros(1, requires_grad=True)], lr=lr, momentum=0.9)


def rates(scheduler, steps, *metrics):
    """The rate before the first step and after each."""
    seen = [scheduler.optimizer.param_groups[0]["lr"]]
    for step in range(steps):
        scheduler.optimizer.step()
        scheduler.step(*(metric[step] for metric in metrics))
        seen.append(scheduler.get_last_lr()[0])
    return seen


CASES = {
    "step": (lambda o: schedules.StepLR(o, 3, 0.5), lambda e: 0.5 ** (e // 3)),
    "multi": (lambda o: schedules.MultiStepLR(o, [2, 2, 5], 0.5), lambda e: 0.5 ** (2 * (e >= 2) + (e >= 5))),
    "exponential": (lambda o: schedules.ExponentialLR(o, 0.9), lambda e: 0.9**e),
    "cosine": (lambda o: schedules.CosineAnnealingLR(o, 4), lambda e: (1 + math.cos(math.pi * e / 4)) / 2),
    "lambda": (lambda o: schedules.LambdaLR(o, lambda e: 1 / (1 + e)), lambda e: 1 / (1 + e)),
    "multiplicative": (lambda o: schedules.MultiplicativeLR(o, lambda e: 0.5), lambda e: 0.5**e),
    "constant": (lambda o: schedules.ConstantLR(o, 0.25, 4), lambda e: 0.25 if e < 4 else 1),
    "linear": (lambda o: schedules.LinearLR(o, 0.2, 0.8, 5), lambda e: 0.2 + 0.6 * min(e, 5) / 5),
    "polynomial": (lambda o: schedules.PolynomialLR(o, 8, 2), lambda e: (1 - min(e, 8) / 8) ** 2),
    "restarts": (
        lambda o: schedules.CosineAnnealingWarmRestarts(o, 2, 2),
        lambda e: (1 + math.cos(math.pi * (e / 2 if e < 2 else (e - 2) / 4 if e < 6 else (e - 6) / 8))) / 2,
    ),
    "cycles": (
        lambda o: schedules.CyclicLR(o, 0.1, 0.5, step_size_up=2, step_size_down=3, cycle_momentum=False),
        lambda e: [1, 3, 5, 1 + 8 / 3, 1 + 4 / 3][e % 5],
    ),
    "halved cycles": (
        lambda o: schedules.CyclicLR(o, 0.1, 0.5, 2, mode="triangular2", cycle_momentum=False),
        lambda e: 1 + [0, 2, 4, 2][e % 4] / 2 ** (e // 4),
    ),
    "weight averaging": (
        lambda o: optim.swa_utils.SWALR(o, swa_lr=0.05, anneal_epochs=4, anneal_strategy="linear"),
        lambda e: max(0.5, 1 - e / 8),
    ),
    "sequence": (
        lambda o: schedules.SequentialLR(o, [schedules.ConstantLR(o, 0.5, 9), schedules.ExponentialLR(o, 0.5)], [3]),
        lambda e: 0.5 if e < 3 else 0.5 ** (e - 3),
    ),
    "chain": (
        lambda o: schedules.ChainedScheduler([schedules.ConstantLR(o, 0.5, 3), schedules.ExponentialLR(o, 0.9)]),
        lambda e: (0.5 if e < 3 else 1) * 0.9**e,
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:The epoch parameter")
def test_a_schedule_follows_its_closed_form(name):
    make, factor = CASES[name]
    for epoch, rate in enumerate(rates(make(optimizer(0.1)), 10)):
        assert rate == pytest.approx(0.1 * factor(epoch), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_a_state_dict_continues_a_schedule(name):
    make, _ = CASES[name]
    first, second = make(optimizer()), make(optimizer())
    rates(first, 4)
    second.load_state_dict(first.state_dict())
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    assert rates(second, 5) == rates(first, 5)


def test_one_cycle_rises_to_the_top_and_falls_with_momentum_against_it():
    scheduler = schedules.OneCycleLR(optimizer(), max_lr=1.0, total_steps=12, pct_start=0.5)
    group = scheduler.optimizer.param_groups[0]
    assert group["lr"] == pytest.approx(1 / 25) and group["momentum"] == pytest.approx(0.95)
    seen = rates(scheduler, 11)
    assert max(seen) == seen[5] == pytest.approx(1.0)
    assert seen[-1] == pytest.approx(1 / 25 / 1e4) and group["momentum"] == pytest.approx(0.95)
    scheduler.optimizer.step()
    scheduler.step()
    with pytest.raises(ValueError, match="Tried to step 13 times. The specified number of total steps is 12"):
        scheduler.step()


def test_one_cycle_moves_the_first_beta_of_adam():
    adam = Adam([torch.zeros(1, requires_grad=True)])
    schedules.OneCycleLR(adam, 1.0, total_steps=10)
    assert adam.param_groups[0]["betas"] == (pytest.approx(0.95), 0.999)


def test_a_plateau_lowers_the_rate_after_its_patience():
    scheduler = schedules.ReduceLROnPlateau(optimizer(1.0), factor=0.5, patience=1, cooldown=1)
    assert rates(scheduler, 7, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.1]) == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25]


def test_a_plateau_may_watch_a_tensor_that_should_grow():
    scheduler = schedules.ReduceLROnPlateau(optimizer(1.0), mode="max", patience=0, min_lr=0.05)
    assert rates(scheduler, 4, [torch.tensor(1.0), 2.0, 2.0, 2.0]) == [1, 1, 1, 0.1, 0.05]


def test_stepping_the_schedule_first_warns():
    scheduler = schedules.StepLR(optimizer(), 3)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        scheduler.step()


def test_the_right_order_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = rates(schedules.StepLR(optimizer(), 3), 3)
    assert seen == pytest.approx([0.1, 0.1, 0.1, 0.01])


def test_asking_for_get_lr_outside_of_a_step_warns():
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        schedules.StepLR(optimizer(), 3).get_lr()


def test_bad_settings_are_refused():
    with pytest.raises(TypeError, match="list is not an Optimizer"):
        schedules.StepLR([], 3)
    with pytest.raises(KeyError, match="initial_lr"):
        schedules.StepLR(optimizer(), 3, last_epoch=4)
    with pytest.raises(ValueError, match="Expected 1 lr_lambdas, but got 2"):
        schedules.LambdaLR(optimizer(), [abs, abs])
    with pytest.raises(ValueError, match="expected to be between 0 and 1"):
        schedules.ConstantLR(optimizer(), factor=2)
    with pytest.raises(ValueError, match="Factor should be < 1.0."):
        schedules.ReduceLROnPlateau(optimizer(), factor=1.0)
    with pytest.raises(ValueError, match="You must define either total_steps"):
        schedules.OneCycleLR(optimizer(), 1.0)
    with pytest.raises(ValueError, match="Expected positive integer T_0"):
        schedules.CosineAnnealingWarmRestarts(optimizer(), 0)


def test_cycles_move_the_momentum_against_the_rate():
    parameter = torch.zeros(1, requires_grad=True)
    o = optim.SGD([parameter], lr=0.1, momentum=0.5)
    scheduler = schedules.CyclicLR(o, 0.1, 0.5, step_size_up=2, base_momentum=0.6, max_momentum=0.9)
    seen = []
    for _ in range(4):
        seen.append(o.param_groups[0]["momentum"])
        o.step()
        scheduler.step()
    assert seen == pytest.approx([0.9, 0.75, 0.6, 0.75])
    with pytest.raises(ValueError, match="optimizer must support momentum or beta1"):
        schedules.CyclicLR(optim.Adagrad([parameter]), 0.1, 0.5)
    with pytest.raises(ValueError, match="mode is invalid and scale_fn is None"):
        schedules.CyclicLR(o, 0.1, 0.5, mode="square")


def test_a_schedule_may_derive_from_the_former_name_of_the_base():
    class Halved(schedules._LRScheduler):
        def get_lr(self):
            return [group["lr"] * (0.5 if self.last_epoch else 1.0) for group in self.optimizer.param_groups]

    assert rates(Halved(optimizer()), 2) == [0.1, 0.05, 0.025]
    assert not issubclass(schedules.StepLR, schedules._LRScheduler)


def test_warnings_of_the_order_of_steps_say_where_to_read_about_it():
    parameter = torch.nn.Parameter(torch.ones(1))
    for change in (False, True):
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        if change:
            optimizer.step = lambda: None
        with pytest.warns(UserWarning, match="how-to-adjust-learning-rate"):
            scheduler.step()


def test_later_changes_of_the_tensors_that_settings_were_given_as_do_not_change_a_schedule():
    rate, top, low, high = (torch.tensor(x) for x in (0.25, 0.5, 0.5, 1.0))
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=torch.tensor(0.25))
    schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, rate, top, base_momentum=low, max_momentum=high)
    for setting in (rate, top, low, high):
        setting.mul_(0.5)
    group = optimizer.param_groups[0]
    assert schedule.base_lrs == [0.25] and schedule.max_lrs == [0.5]
    assert group["base_momentum"] == 0.5 and group["max_momentum"] == 1.0


class _Halving:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, cycle):
        return self.factor**cycle


def test_the_state_of_a_cycle_has_the_attributes_of_an_amplitude_that_is_an_object():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.9)

    def schedule(amplitude):
        return torch.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 1.0, scale_fn=amplitude)

    saved = schedule(_Halving(0.5)).state_dict()
    assert saved["_scale_fn_custom"] == {"factor": 0.5}
    assert schedule(lambda x: 1.0).state_dict()["_scale_fn_custom"] is None
    other = _Halving(0.25)
    schedule(other).load_state_dict(saved)
    assert other.factor == 0.5


def test_one_cycle_continues_from_a_state_that_brings_its_function():
    def schedule():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.9)
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, 10, anneal_strategy="linear")

    old, expected = schedule(), schedule()
    del old._anneal_func_type
    old.load_state_dict({"anneal_func": torch.optim.lr_scheduler.OneCycleLR._annealing_linear})
    for each in (old, expected):
        each.optimizer.step()
        each.step()
    assert old.get_last_lr() == expected.get_last_lr()
