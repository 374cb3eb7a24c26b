"""Modules that take the size of their input from the first input."""

import copy

import pytest

import rgrad as torch
from rgrad import nn


@pytest.mark.parametrize(
    ("make", "shape", "text"),
    [
        (lambda: nn.LazyLinear(3), (2, 5), "Linear(in_features=5, out_features=3, bias=True)"),
        (
            lambda: nn.LazyConv2d(4, 3, groups=2),
            (1, 6, 5, 5),
            "Conv2d(6, 4, kernel_size=(3, 3), stride=(1, 1), groups=2)",
        ),
        (lambda: nn.LazyConvTranspose1d(4, 3), (1, 6, 5), "ConvTranspose1d(6, 4, kernel_size=(3,), stride=(1,))"),
        (
            lambda: nn.LazyBatchNorm1d(),
            (3, 6),
            "BatchNorm1d(6, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)",
        ),
    ],
)
def test_lazy_modules_take_their_size_from_the_first_input(make, shape, text):
    lazy = make()
    weight = lazy.weight
    assert lazy.has_uninitialized_params() and repr(weight) == "<UninitializedParameter>"
    with pytest.raises(RuntimeError, match="^Can't access the shape of an uninitialized parameter or buffer"):
        weight.shape  # noqa: B018
    optimizer = torch.optim.SGD(lazy.parameters(), lr=0.1)
    lazy(torch.randn(*shape)).sum().backward()
    optimizer.step()
    assert repr(lazy) == text and lazy.weight is weight and type(weight) is nn.Parameter
    assert not lazy._forward_pre_hooks


def test_lazy_modules_take_their_size_from_a_state_dict():
    full, lazy = nn.Linear(2, 3), copy.deepcopy(nn.LazyLinear(3))
    lazy.load_state_dict(full.state_dict())
    assert repr(lazy) == "LazyLinear(in_features=0, out_features=3, bias=True)"
    x = torch.ones(1, 2)
    assert torch.equal(lazy(x), full(x)) and repr(lazy) == repr(full)
    with pytest.raises(RuntimeError, match="in `load_state_dict` when trying to load an uninitialized parameter"):
        full.load_state_dict(nn.LazyLinear(3).state_dict())


class _Waiting(nn.modules.lazy.LazyModuleMixin, nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.parameter.UninitializedParameter()
        self.register_buffer("mean", nn.parameter.UninitializedBuffer())


@pytest.mark.parametrize(
    "use",
    [
        lambda p: p + p,
        lambda p: torch.empty_like(p),
        lambda p: p.dim(),
        lambda p: p.clone(),
        lambda p: p.sum(),
        lambda p: nn.init.zeros_(p),
        lambda p: torch.optim.Adagrad([p]),
    ],
)
def test_a_placeholder_is_in_no_operation(use):
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        use(_Waiting().weight)


def test_a_placeholder_has_attributes_and_is_converted():
    p = _Waiting().weight
    assert p.dtype == torch.float32 and p.requires_grad and p.grad is None and p.is_leaf and not p.is_complex()
    assert isinstance(_Waiting().double().weight, nn.parameter.UninitializedParameter)
    assert _Waiting().double().weight.dtype == _Waiting().to(torch.float64).mean.dtype == torch.float64
    with pytest.raises(RuntimeError, match="share memory on an uninitialized"):
        _Waiting().share_memory()


def test_placeholders_are_loaded_into_placeholders_only():
    waiting, filled = _Waiting(), _Waiting()
    state = waiting.state_dict()
    filled.weight.materialize((2, 3))
    with pytest.raises(RuntimeError, match="shape of an uninitialized"):
        filled.load_state_dict(state)
    assert _Waiting().load_state_dict(state).missing_keys == []
    filled.mean.materialize((4,))
    waiting.load_state_dict(filled.state_dict())
    assert waiting.weight.shape == (2, 3) and waiting.mean.shape == (4,)


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm`:FutureWarning")
@pytest.mark.parametrize("norm", [nn.utils.weight_norm, torch.nn.utils.spectral_norm])
def test_a_lazy_weight_cannot_be_normalized(norm):
    with pytest.raises(ValueError, match="can't have uninitialized parameters"):
        norm(nn.LazyLinear(7))


def test_a_placeholder_becomes_a_buffer_by_assignment():
    module = torch.nn.LazyLinear(2)
    module.extra = torch.nn.parameter.UninitializedBuffer(persistent=False)
    assert isinstance(module.extra, torch.nn.Buffer) and "extra" in dict(module.named_buffers())
    assert "extra" not in module.state_dict() and module.has_uninitialized_params()


def test_sizes_are_inferred_from_an_input_given_by_name():
    layer = torch.nn.LazyBatchNorm1d()
    assert layer(input=torch.rand(2, 3, 4)).shape == (2, 3, 4) and layer.num_features == 3
    convolution = torch.nn.LazyConvTranspose1d(2, 2, stride=2)
    assert convolution(torch.rand(1, 3, 4), output_size=[9]).shape == (1, 2, 9)
