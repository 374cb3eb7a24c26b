"""The functions and classes of `torch.compiler`."""

from __future__ import annotations

import copy
import pickle

import pytest
from compile_cases import data, gelu_chain, same

import rgrad as torch


def test_compile_is_a_decorator_with_and_without_arguments():
    @torch.compile
    def one(x):
        """Doubles."""
        return x * 2

    @torch.compile(fullgraph=False, dynamic=True, mode="reduce-overhead")
    def two(x):
        return x * 2

    assert one.__name__ == "one" and one.__doc__ == "Doubles." and same(one(data()), two(data()))
    assert torch.compile(gelu_chain, disable=True) is gelu_chain
    assert same(torch.compile(gelu_chain, backend="eager")(data()), gelu_chain(data()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"backend": "nonsense"}, "nonsense"),
        ({"mode": "fastest"}, "Unrecognized mode"),
        ({"mode": "default", "options": {"a": 1}}, "mode or options"),
    ],
)
def test_unknown_backends_and_modes_are_errors(arguments, message):
    with pytest.raises(RuntimeError, match=message):
        torch.compile(gelu_chain, **arguments)


def test_a_compiled_module_is_still_the_module():
    net = torch.nn.Sequential(torch.nn.Linear(128, 64), torch.nn.ReLU())
    compiled = torch.compile(net)
    assert isinstance(compiled, torch.nn.Module) and compiled._orig_mod is net
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in net.parameters()]
    assert len(compiled) == 2
    compiled.eval()
    assert not net.training
    seen = []
    net.register_forward_hook(lambda m, args, out: seen.append(out.shape))
    assert same(compiled(data()), net(data())) and seen == [(256, 64)] * 2
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(torch.compile(torch.nn.Linear(128, 64))))):
        assert type(other) is type(compiled) and other(data()).shape == (256, 64)


def test_a_module_compiles_its_own_calls():
    net = torch.nn.Linear(128, 64)
    expected = net(data())
    kept = []
    net.register_forward_hook(lambda m, args, out: kept.append(torch.compiler.is_compiling()))
    net.compile(fullgraph=False)
    assert same(net(data()), expected) and kept == [True] and not torch.compiler.is_compiling()
    other = copy.deepcopy(net)
    assert other._compiled_call_impl is None and same(other(data()), expected)


@pytest.mark.own_region
def test_disabled_functions_run_eagerly_inside():
    seen = []

    @torch.compiler.disable
    def inner(x):
        seen.append((torch._C._is_deferring(), torch.compiler.is_compiling()))
        return x * 2

    def f(x):
        y = inner(x + 1)
        seen.append((torch._C._is_deferring(), torch.compiler.is_compiling()))
        return y + 1

    assert same(torch.compile(f)(data()), (data() + 1) * 2 + 1) and seen == [(False, False), (True, True)]


@pytest.mark.own_region
def test_stances_turn_compiling_off_and_on():
    seen = []
    f = torch.compile(lambda x: seen.append(torch._C._is_deferring()) or x * 2)
    with torch.compiler.set_stance("force_eager"):
        f(data())
    f(data())

    @torch.compiler.set_stance("force_eager")
    def eager():
        f(data())

    eager()
    f(data())
    assert seen == [False, True, False, True]
    with pytest.raises(RuntimeError, match="invalid torch.compile stance"):
        torch.compiler.set_stance("nonsense")


def test_queries_of_the_compiler_answer():
    assert torch.compiler.list_backends() == ["cudagraphs", "inductor"]
    assert torch.compiler.reset() is None and torch.compiler.cudagraph_mark_step_begin() is None
    assert not torch.compiler.is_dynamo_compiling() and not torch.compiler.is_exporting()


@pytest.mark.own_region
def test_explain_prints_what_was_fused(capsys):
    y = torch.explain(gelu_chain)(data())
    assert same(y, gelu_chain(data()))
    printed = capsys.readouterr().out
    assert "run by the end of the region" in printed and "fused: add → gelu" in printed
    torch.explain(lambda x: x + 1)(torch.ones(3, dtype=torch.int8))
    assert "nothing was deferred" in capsys.readouterr().out
