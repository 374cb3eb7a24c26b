"""Recorded steps, Muon, the functions, and hooks of every optimizer."""

from __future__ import annotations

import copy

import pytest
import reference
import reference_optim

import rgrad as torch
from rgrad.autograd import gradcheck
from rgrad.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from rgrad.testing import assert_close
from rgrad.utils._pytree import tree_map

VALUES = reference.read(reference_optim.__file__)


@pytest.mark.parametrize("name", reference_optim.CASES)
def test_values_are_those_of_pytorch(name):
    # Muon computes in bfloat16. PyTorch computes with counts of steps in float32.
    single = ("Muon", "functions", "recorded steps of Adam", "recorded steps of NAdam", "recorded steps of ASGD")
    tolerance = 1e-5 if name.startswith(single) else 1e-9
    reference.check(reference_optim.CASES[name](torch), VALUES[name], tolerance)


def _state(name: str) -> list[str]:
    return {
        "SGD": ["momentum_buffer"],
        "RMSprop": ["square_avg", "grad_avg", "momentum_buffer"],
        "Adagrad": ["sum"],
        "Adadelta": ["square_avg", "acc_delta"],
        "ASGD": ["ax"],
        "Adamax": ["exp_avg", "exp_inf"],
        "Rprop": ["step_size"],
    }.get(name, ["exp_avg", "exp_avg_sq"])


@pytest.mark.parametrize("name", reference_optim.SETTINGS)
def test_gradients_flow_through_a_step_to_parameter_gradient_and_state(name):
    names = _state(name)
    settings = reference_optim.SETTINGS[name][-1]

    def step(param, grad, *states):
        param = param.clone()
        param.grad = grad
        optimizer = getattr(torch.optim, name)([param], differentiable=True, **settings)
        optimizer.state[param] = optimizer._new_state(param, optimizer.param_groups[0]) | dict(
            zip(names, states, strict=True)
        )
        optimizer.step()
        return (param, *(optimizer.state[param][key] for key in names))

    values = [torch.rand(4, dtype=torch.float64) + (3.0 if "sq" in key or key == "sum" else 0.1) for key in names]
    start, force = torch.rand(2, 4, dtype=torch.float64).unbind()
    inputs = [x.detach().requires_grad_() for x in (start, force + 0.5, *values)]
    assert gradcheck(step, inputs)


def test_a_learning_rate_has_a_gradient():
    lr = torch.tensor(0.1, requires_grad=True)
    param = torch.ones(2, requires_grad=True).clone()
    param.grad = torch.tensor([1.0, 2.0])
    torch.optim.SGD([param], lr=lr, differentiable=True).step()
    param.sum().backward()
    assert lr.grad == -3


def test_a_leaf_that_requires_a_gradient_cannot_be_recorded():
    param = torch.ones(2, requires_grad=True)
    param.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        torch.optim.SGD([param], differentiable=True).step()
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        torch.optim.SGD([param * 2])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda w: torch.optim.Muon([w[0].detach()]), r"only supports 2D parameters .* torch.Size\(\[3\]\)"),
        (lambda w: torch.optim.Muon([w], lr=-1), "Learning rate should be >= 0 but is: -1"),
        (lambda w: torch.optim.Muon([w], momentum=-1), "momentum should be >= 0 but is: -1"),
        (lambda w: torch.optim.Muon([w], weight_decay=-1), "weight decay should be >= 0 but is: -1"),
        (lambda w: torch.optim.Muon([w], adjust_lr_fn="foo"), "Adjust learning rate function foo is not supported"),
        (lambda w: torch.optim.Muon([w], ns_steps=100).step(), "must be less than 100"),
        (lambda w: torch.optim.Muon([w], ns_coefficients=(1, 2)).step(), "tuple of exactly 3 values"),
        (lambda w: torch.optim.SparseAdam([w], lr=0), "Invalid learning rate: 0"),
        (lambda w: torch.optim.SparseAdam([w], eps=0), "Invalid epsilon value: 0"),
        (lambda w: torch.optim.SparseAdam([w], betas=(1, 0.1)), "Invalid beta parameter at index 0: 1"),
    ],
)
def test_settings_are_checked(make, words):
    weight = torch.ones(2, 3, requires_grad=True)
    weight.grad = torch.ones(2, 3)
    with pytest.raises(ValueError, match=words):
        make(weight)


def test_sparse_adam_refuses_dense_gradients():
    weight = torch.ones(2, 3, requires_grad=True)
    optimizer = torch.optim.SparseAdam([weight])
    optimizer.step()
    weight.grad = torch.ones(2, 3)
    with pytest.raises(RuntimeError, match="does not support dense gradients, please consider Adam"):
        optimizer.step()


def test_muon_trains_a_matrix_and_continues_from_its_state():
    torch.manual_seed(0)
    target, x = torch.randn(4, 3), torch.randn(16, 3)
    layer = torch.nn.Linear(3, 4, bias=False)
    optimizer = torch.optim.Muon(layer.parameters(), lr=0.05, weight_decay=0.0)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (layer(x) - x @ target.T).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
    other = torch.optim.Muon(layer.parameters())
    other.load_state_dict(optimizer.state_dict())
    assert torch.equal(other.state[layer.weight]["momentum_buffer"], optimizer.state[layer.weight]["momentum_buffer"])


def test_hooks_of_all_optimizers_surround_their_own():
    seen = []
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    optimizer.register_step_pre_hook(lambda *_: seen.append("own before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("own after"))
    before = register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append("before"))
    after = register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append("after"))
    with before, after:
        optimizer.step()
    assert seen == ["before", "own before", "own after", "after"]
    optimizer.step()
    assert len(seen) == 6


class Wrapped(torch.optim.Optimizer):
    def __init__(self, inner):
        self.inner = inner
        self.param_groups = inner.param_groups

    def step(self, closure=None):
        return self.inner.step(closure)


def test_a_class_that_skips_the_constructor_has_hooks():
    seen = []
    optimizer = Wrapped(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0))
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    optimizer.step()
    schedule.step()
    assert seen == ["before", "after"] and schedule.get_last_lr() == [0.5]


def test_a_step_that_was_assigned_later_can_be_wrapped():
    class Late(torch.optim.SGD):
        pass

    seen = []
    Late.step = lambda self, closure=None: seen.append("step")
    optimizer = Late([torch.zeros(1, requires_grad=True)])
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer._patch_step_function()
    optimizer.step()
    assert seen == ["before", "step"]


def test_functions_refuse_what_the_classes_do():
    functional = torch.optim.functional
    with pytest.raises(NotImplementedError, match="recorded by the classes"):
        functional.radam([], [], [], [], [], differentiable=True, lr=1, beta1=0, beta2=0, weight_decay=0, eps=0)
    with pytest.raises(RuntimeError, match="does not support dense gradients"):
        functional.sparse_adam([torch.ones(1)], [torch.ones(1)], [], [], [])


def test_muon_can_follow_the_ratio_of_sides_without_a_limit():
    def step(shape, how):
        w = torch.nn.Parameter(torch.zeros(shape))
        w.grad = torch.arange(1.0, w.numel() + 1).reshape(shape).sin()
        torch.optim.Muon([w], lr=1.0, weight_decay=0.0, adjust_lr_fn=how).step()
        return w.detach()

    torch.testing.assert_close(step((3, 12), "spectral_unclamped"), step((3, 12), "original") / 2)
    torch.testing.assert_close(step((12, 3), "spectral_unclamped"), step((12, 3), "original"))


CAPTURABLE = ["ASGD", "Adadelta", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop"]


@pytest.mark.parametrize("name", CAPTURABLE)
def test_steps_of_parameters_on_the_cpu_cannot_be_captured(name):
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = getattr(torch.optim, name)([w], capturable=True)
    optimizer.step()
    w.grad = torch.ones(2)
    with pytest.raises(AssertionError, match="If capturable=True, params and state_steps must be on supported devices"):
        optimizer.step()
    assert w.tolist() == [1, 1]
    optimizer.param_groups[0]["capturable"] = False
    optimizer.step()
    assert w.tolist() != [1, 1]


def test_fused_steps_and_functions_ask_for_the_device_as_well():
    w = torch.nn.Parameter(torch.ones(2))
    w.grad = torch.ones(2)
    torch.optim.Adam([w], fused=True, capturable=True).step()
    assert w.tolist() != [1, 1]
    lists = ([torch.ones(2)], [torch.zeros(2)], [torch.zeros(2)], [torch.zeros(())])
    settings = {"step_size_min": 0.1, "step_size_max": 1.0, "etaminus": 0.5, "etaplus": 1.2, "maximize": False}
    with pytest.raises(AssertionError, match="on the CPU"):
        torch.optim.functional.rprop([w], *lists, capturable=True, **settings)


def _trained(name, **settings):
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = getattr(torch.optim, name)([weight], **settings)
    weight.grad = torch.ones(3)
    optimizer.step()
    return weight, optimizer


@pytest.mark.parametrize("name", ["Adam", "NAdam", "ASGD", "RMSprop", "Rprop", "SGD"])
def test_states_of_early_releases_lack_later_settings_and_count_steps_in_numbers(name):
    weight, optimizer = _trained(name)
    saved = copy.deepcopy(optimizer.state_dict())
    later = {"maximize", "foreach", "capturable", "differentiable", "fused", "amsgrad"}
    saved["param_groups"] = [{k: v for k, v in group.items() if k not in later} for group in saved["param_groups"]]
    counters = ("step", "eta", "mu", "mu_product")
    saved["state"] = {
        number: {k: v.item() if k in counters and v is not None else v for k, v in entries.items()}
        for number, entries in saved["state"].items()
    }
    optimizer.step()
    expected = weight.detach().clone()
    other, second = _trained(name)
    second.load_state_dict(saved)
    second.step()
    assert torch.equal(other, expected) and second.param_groups[0]["maximize"] is False


@pytest.mark.parametrize("kind", ["state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"])
def test_a_hook_may_be_put_before_the_others(kind):
    _, optimizer = _trained("SGD")
    calls = []
    register = getattr(optimizer, f"register_{kind}_hook")
    register(lambda *a: calls.append("second"))
    handle = register(lambda *a: calls.append("first"), prepend=True)
    optimizer.load_state_dict(optimizer.state_dict())
    handle.remove()
    optimizer.load_state_dict(optimizer.state_dict())
    assert isinstance(handle, torch.utils.hooks.RemovableHandle) and calls == ["first", "second", "second"]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_fused_steps_refuse_parameters_without_memory(name):
    weight = torch.nn.Parameter(torch.ones(3, device="meta"))
    weight.grad = torch.ones(3, device="meta")
    with pytest.raises(RuntimeError, match="`fused=True` requires all the params to be floating point Tensors of supp"):
        getattr(torch.optim, name)([weight], fused=True).step()


class _Held(torch.Tensor):
    """A tensor whose class keeps the numbers in another one."""

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, requires_grad=held.requires_grad)

    def __init__(self, held):
        self.held = held.detach()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def bare(x):
            return x.held if isinstance(x, cls) else x

        result = func(*tree_map(bare, args), **tree_map(bare, kwargs or {}))
        if func.__name__.split(".")[0].endswith("_"):
            return args[0]
        return tree_map(lambda x: cls(x) if isinstance(x, torch.Tensor) else x, result)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_parameters_that_keep_their_numbers_elsewhere_are_updated_like_others(kind):
    start = torch.tensor([1.0, -2.0])
    plain, other, held = (torch.nn.Parameter(x) for x in (start.clone(), start.clone(), _Held(start.clone())))
    settings = {"lr": 0.1, "weight_decay": 0.01, **({"momentum": 0.9} if kind == "SGD" else {})}
    mixed = getattr(torch.optim, kind)([held, other], **settings)
    alone = getattr(torch.optim, kind)([plain], **settings)
    for _ in range(3):
        for p in (plain, other, held):
            grad = torch.tensor([0.5, 3.0])
            p.grad = _Held(grad) if p is held else grad
        mixed.step()
        alone.step()
    assert_close(other, plain)
    assert_close(held.held, plain.detach())
