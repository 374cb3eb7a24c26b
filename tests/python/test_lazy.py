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
