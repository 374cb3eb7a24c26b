"""Members of modules that are computed from others."""

from __future__ import annotations

import copy
import pickle

import pytest

import rgrad as torch
from rgrad import nn
from rgrad.nn.utils import fuse_conv_bn_eval, fuse_linear_bn_eval, parametrizations, parametrize


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2

    def right_inverse(self, x):
        return x / 2


class Shifted(nn.Module):
    def forward(self, x):
        return x + 1


class Summed(nn.Module):
    def forward(self, a, b):
        return a + b

    def right_inverse(self, x):
        return x / 4, x * 3 / 4


class FirstRow(nn.Module):
    def forward(self, x):
        return x[:1]


def linear() -> nn.Linear:
    layer = nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(6.0).view(2, 3))
    return layer


def test_a_parametrized_weight_is_computed_from_its_original():
    layer = linear()
    original, value = layer.weight, layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert torch.equal(layer.weight, value)
    assert layer.parametrizations.weight.original is original and torch.equal(original, value / 2)
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert type(layer).__name__ == "ParametrizedLinear"
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    layer(torch.ones(1, 3)).sum().backward()
    assert original.grad.tolist() == [[2.0] * 3] * 2


def test_an_assignment_goes_through_the_inverse():
    layer = parametrize.register_parametrization(linear(), "weight", Doubled())
    layer.weight = torch.full((2, 3), 4.0)
    assert layer.parametrizations.weight.original.tolist() == [[2.0] * 3] * 2
    shifted = parametrize.register_parametrization(linear(), "weight", Shifted())
    with pytest.raises(RuntimeError, match="parametrization Shifted does not implement right_inverse"):
        shifted.weight = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("inverse", "message"),
    [
        (lambda x: (x, 3), "Got element 1 of type int"),
        (lambda x: (x, x.double()), "Tensor 1 returned by `right_inverse` has dtype torch.float64"),
        (lambda x: (x,), "Got a sequence of length 1"),
    ],
)
def test_an_inverse_of_the_wrong_kind_leaves_all_originals_as_they_were(inverse, message):
    layer, summed = linear(), Summed()
    parametrize.register_parametrization(layer, "weight", summed)
    before = [x.clone() for x in layer.parametrizations.weight.parameters()]
    summed.right_inverse = inverse
    with pytest.raises(ValueError, match=message):
        layer.weight = torch.full((2, 3), 9.0)
    assert all(map(torch.equal, layer.parametrizations.weight.parameters(), before))


def test_parametrizations_chain_and_are_removed():
    layer = linear()
    value = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Doubled())
    parametrize.register_parametrization(layer, "weight", Shifted())
    assert torch.equal(layer.weight, value + 1)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter)
    assert torch.equal(layer.weight, value + 1) and list(layer.state_dict()) == ["bias", "weight"]
    parametrize.register_parametrization(layer, "weight", Shifted())
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert torch.equal(layer.weight, value + 1)


def test_a_weight_may_come_from_several_tensors():
    layer = linear()
    value = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Summed())
    names = [name for name, _ in layer.named_parameters()]
    assert names == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    assert torch.allclose(layer.weight, value)
    with pytest.raises(ValueError, match="Cannot leave unparametrized"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)


def test_cached_blocks_compute_a_weight_once():
    calls = []

    class Counted(nn.Module):
        def forward(self, x):
            calls.append(1)
            return x * 1

    layer = parametrize.register_parametrization(linear(), "weight", Counted())
    calls.clear()
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert len(calls) == 1
    assert layer.weight is not layer.weight and len(calls) == 3


def test_copies_of_parametrized_modules_stand_alone_and_pickles_are_refused():
    layer = parametrize.register_parametrization(linear(), "weight", Doubled())
    twin = copy.deepcopy(layer)
    with torch.no_grad():
        layer.parametrizations.weight.original.zero_()
    assert twin.weight.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] and layer.weight.sum().item() == 0
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(layer)


def test_parametrizations_may_be_transferred():
    source = parametrize.register_parametrization(linear(), "weight", Doubled())
    target = parametrize.transfer_parametrizations_and_params(source, nn.Linear(3, 2))
    assert torch.equal(target.weight, source.weight)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: parametrize.register_parametrization(m, "weight", FirstRow()), "may not change the shape"),
        (lambda m: parametrize.register_parametrization(m, "scale", Doubled()), "does not have a parameter, a buffer"),
        (lambda m: parametrize.remove_parametrizations(m, "weight"), "does not have a parametrization on weight"),
        (lambda m: nn.utils.remove_spectral_norm(m), "spectral_norm of 'weight' not found in Linear"),
    ],
)
def test_wrong_parametrizations_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(linear())


def test_weight_norm_separates_length_and_direction():
    value = linear().weight.detach().clone()
    new = parametrizations.weight_norm(linear())
    with pytest.warns(FutureWarning, match="parametrizations.weight_norm"):
        old = nn.utils.weight_norm(linear())
    lengths = value.norm(dim=1, keepdim=True)
    assert torch.allclose(new.parametrizations.weight.original0, lengths) and torch.allclose(old.weight_g, lengths)
    x = torch.ones(1, 3)
    assert torch.allclose(new.weight, value) and torch.allclose(new(x) - new.bias, old(x) - old.bias)
    new.load_state_dict(old.state_dict())
    assert torch.allclose(new.parametrizations.weight.original1, old.weight_v)
    nn.utils.remove_weight_norm(old)
    assert isinstance(old.weight, nn.Parameter) and sorted(old.state_dict()) == ["bias", "weight"]


def test_spectral_norm_divides_by_the_largest_singular_value():
    torch.manual_seed(0)
    new = parametrizations.spectral_norm(linear(), n_power_iterations=30)
    old = nn.utils.spectral_norm(linear(), n_power_iterations=30)
    old(torch.ones(1, 3))
    assert torch.allclose(new.weight, old.weight, atol=1e-5)
    # The largest singular value of what remains is one.
    gram = new.weight.detach() @ new.weight.detach().T
    power = torch.ones(2)
    for _ in range(50):
        power = gram @ power / (gram @ power).norm()
    assert abs((gram @ power).norm().item() - 1) < 1e-4


def test_batch_norm_is_drawn_into_the_layer_before_it():
    torch.manual_seed(0)
    conv, bn = nn.Conv2d(2, 3, 2, bias=False), nn.BatchNorm2d(3)
    bn(torch.randn(8, 3, 4, 4) * 2 + 1)
    conv.eval()
    bn.eval()
    x = torch.randn(1, 2, 4, 4)
    assert torch.allclose(fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-5)
    layer, bn1 = nn.Linear(3, 2).eval(), nn.BatchNorm1d(2).eval()
    y = torch.randn(4, 3)
    assert torch.allclose(fuse_linear_bn_eval(layer, bn1)(y), bn1(layer(y)), atol=1e-5)
    with pytest.raises(AssertionError, match="Fusion only for eval!"):
        fuse_conv_bn_eval(conv.train(), bn)


def test_a_spectral_norm_loads_states_that_have_the_normalized_weight():
    torch.manual_seed(0)

    def make():
        return nn.utils.spectral_norm(nn.Linear(3, 4))

    trained, x = make(), torch.randn(2, 3)
    for _ in range(3):
        trained(x)
    state = trained.state_dict()
    assert state._metadata[""]["spectral_norm"] == {"weight.version": 1}
    trained.eval()
    expected = trained(x)
    older = copy.deepcopy(state)
    del older._metadata[""]["spectral_norm"], older["weight_v"]
    older["weight"] = trained.weight.detach().clone()
    for saved in (older, state):
        loaded = make()
        loaded.load_state_dict(saved)
        assert torch.allclose(loaded.eval()(x), expected, atol=1e-6)
    plain = nn.utils.remove_spectral_norm(trained)
    assert set(plain.state_dict()) == {"weight", "bias"} and "spectral_norm" not in plain.state_dict()._metadata[""]
