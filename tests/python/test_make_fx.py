"""`make_fx`: graphs of the operations that a function computes."""

from __future__ import annotations

import pytest

import rgrad as torch
from rgrad import nn
from rgrad.fx.experimental.proxy_tensor import get_proxy_mode, make_fx


def test_a_traced_function_is_the_operations_of_one_call():
    def function(x, times):
        assert get_proxy_mode() is not None
        return {"all": (x * times).sin(), "more": [x + 1]}

    traced = make_fx(function)(torch.ones(2), 3)
    assert traced.code.split("\n")[4:] == [
        "    mul = torch.ops.aten.mul.Tensor(x_1, 3)",
        "    sin = torch.ops.aten.sin.default(mul);  mul = None",
        "    add = torch.ops.aten.add.Tensor(x_1, 1);  x_1 = None",
        "    return {'all': sin, 'more': [add]}",
        "    ",
    ]
    x = torch.tensor([0.5, 2.0])
    assert torch.equal(traced(x, 3)["all"], (3 * x).sin())
    assert get_proxy_mode() is None


def test_tensors_of_elsewhere_are_constants_of_the_module_and_several_results_are_items():
    shift = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def function(x):
        first, second = (x + shift).split(2)
        first.mul_(2)
        return first + second

    traced = make_fx(function)(torch.zeros(4))
    assert torch.equal(traced._tensor_constant0, shift)
    x = torch.randn(4)
    torch.testing.assert_close(traced(x), function(x))


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: torch.func.grad(lambda x: f(x).sum()),
        torch.func.jacrev,
        torch.vmap,
        lambda f: lambda x: torch.func.vjp(f, x)[1](x)[0],
    ],
)
def test_derivatives_and_mapped_functions_are_traced_as_what_they_compute(transform):
    function = transform(lambda x: x.sin() * x.exp())
    traced = make_fx(function)(torch.ones(3))
    x = torch.randn(3)
    torch.testing.assert_close(traced(x), function(x))


def test_a_network_is_traced_by_its_functions_and_decompositions_replace_operations():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.SiLU())
    table = {torch.ops.aten.silu.default: lambda x: x * x.sigmoid()}
    traced = make_fx(lambda x: net(x), table)(torch.ones(2, 3))
    names = [node.name for node in traced.graph.nodes if node.op == "call_function"]
    assert "sigmoid" in names and "silu" not in names
    x = torch.randn(2, 3)
    torch.testing.assert_close(traced(x), net(x).detach())


def test_what_a_trace_cannot_hold_is_refused():
    with pytest.raises(NotImplementedError, match="symbolic"):
        make_fx(torch.sin, tracing_mode="symbolic")
    with pytest.raises(NotImplementedError, match="autograd"):
        make_fx(torch.sin, pre_dispatch=True)
    with pytest.raises(NotImplementedError, match="container"):
        make_fx(lambda x: x[0])([torch.ones(1)])
