"""Programs as graphs: traced, printed, changed, run, copied and pickled."""

from __future__ import annotations

import copy
import io
import math
import operator
import pickle

import pytest
from test_door import _inside

import rgrad as torch
from rgrad import fx, nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 5)
        self.seq = nn.Sequential(nn.Linear(5, 5), nn.ReLU())
        self.p = nn.Parameter(torch.ones(5))
        self.register_buffer("b", torch.zeros(5))

    def forward(self, x, y=2, *, k=None):
        a = self.l(x) + self.p
        c = torch.relu(a).sum(dim=-1, keepdim=True)
        d = self.seq(a)[:, 0:2]
        return {"o": torch.cat([c, d], 1).view(-1) * y, "t": (a.shape[0], 1.0), "b": self.b + c, "r": 1 - c}


# What PyTorch 2.15 prints for this module.
CODE = """
def forward(self, x, y = 2, k = None):
    l = self.l(x);  x = None
    p = self.p
    add = l + p;  l = p = None
    relu = torch.relu(add)
    sum_1 = relu.sum(dim = -1, keepdim = True);  relu = None
    seq_0 = getattr(self.seq, "0")(add)
    seq_1 = getattr(self.seq, "1")(seq_0);  seq_0 = None
    getitem = seq_1[(slice(None, None, None), slice(0, 2, None))];  seq_1 = None
    cat = torch.cat([sum_1, getitem], 1);  getitem = None
    view = cat.view(-1);  cat = None
    mul = view * y;  view = y = None
    getattr_1 = add.shape;  add = None
    getitem_1 = getattr_1[0];  getattr_1 = None
    b = self.b
    add_1 = b.add(sum_1);  b = None
    sub = 1 - sum_1;  sum_1 = None
    return {'o': mul, 't': (getitem_1, 1.0), 'b': add_1, 'r': sub}
"""


def test_a_traced_module_has_the_code_of_pytorch_and_does_the_same():
    net = Net()
    traced = fx.symbolic_trace(net)
    assert traced.code.strip() == CODE.strip()
    x = torch.randn(3, 4, requires_grad=True)
    result, expected = traced(x), net(x)
    for key in ("o", "b", "r"):
        assert torch.equal(result[key], expected[key])
    assert result["t"] == (3, 1.0)
    result["o"].sum().backward()
    assert traced.l.weight is net.l.weight and net.l.weight.grad is not None
    assert isinstance(traced, fx.GraphModule) and type(traced).__name__ == "Net"
    assert "getitem_1" in str(traced) and traced.graph.owning_module is traced


def test_nodes_tell_what_they_do_and_who_uses_them():
    graph = fx.symbolic_trace(Net()).graph
    rows = {n.name: (n.op, n.target, [str(u) for u in n.users]) for n in graph.nodes}
    assert rows["l"] == ("call_module", "l", ["add"]) and rows["p"][:2] == ("get_attr", "p")
    assert rows["add"] == ("call_function", operator.add, ["relu", "seq_0", "getattr_1"])
    assert rows["sum_1"][:2] == ("call_method", "sum") and rows["getattr_1"][1] is getattr
    lines = str(graph).splitlines()
    assert lines[0] == "graph():" and lines[1] == "    %x : [num_users=1] = placeholder[target=x]"
    assert (
        "    %relu : [num_users=1] = call_function[target=torch.relu](args = (%add,), kwargs = {})" in lines
        and "    %y : [num_users=1] = placeholder[target=y](default=2)" in lines
    )
    x, *_ = graph.nodes
    assert x.next.name == "y" and x.next.prev is x and len(graph.nodes) == len(list(reversed(graph.nodes)))
    assert graph.find_nodes(op="get_attr", target="b")[0].name == "b" and graph.output_node().op == "output"
    graph.lint()


def test_a_graph_is_built_changed_and_recompiled():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.add, (x, 1))
    z = graph.call_method("view", (y, -1))
    graph.output(z)
    module = fx.GraphModule({}, graph)
    assert module(torch.ones(2, 2)).tolist() == [2.0] * 4
    with pytest.raises(RuntimeError, match="Tried to erase Node add but it still had 1 users"):
        graph.erase_node(y)
    with graph.inserting_after(y):
        w = graph.call_function(torch.neg, (y,))
    y.replace_all_uses_with(w, lambda user: user is not w)
    graph.create_node("call_function", torch.exp, (y,))
    graph.lint()
    module.recompile()
    assert module(torch.ones(2)).tolist() == [-2.0, -2.0] and "neg" in module.code
    assert [n.name for n in graph.nodes] == ["x", "add", "neg", "view", "output", "exp"]
    assert graph.eliminate_dead_code() and not graph.eliminate_dead_code()
    assert [n.name for n in graph.nodes] == ["x", "add", "neg", "view", "output"]
    y.args = (x, 5)
    w.update_arg(0, x)
    assert list(y.users) == [] and list(x.users) == [y, w]
    with pytest.raises(NotImplementedError, match="mutation"):
        graph.call_function(torch.cat, ([x, y],)).args[0].append(x)


def test_a_graph_that_is_wrong_is_found():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.relu, (x,))
    y.append(x)
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        graph.lint()
    graph = fx.Graph(owning_module=nn.Module())
    graph.get_attr("weight")
    with pytest.raises(RuntimeError, match="nonexistent attribute weight"):
        graph.lint()
    with pytest.raises(AssertionError, match="invalid op"):
        graph.create_node("call", "x")
    with pytest.raises(ValueError, match="not callable"):
        graph.create_node("call_function", "x")


def _branches(x):
    return x if x.sum() > 0 else -x


def _loops(x):
    return [a for a in x]


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (_branches, fx.proxy.TraceError, "symbolically traced variables cannot be used as inputs to control flow"),
        (_loops, fx.proxy.TraceError, "Proxy object cannot be iterated"),
        (lambda x: len(x), RuntimeError, "'len' is not supported in symbolic tracing by default"),
        (lambda x: 1 in x, fx.proxy.TraceError, "truth value"),
        (lambda x: torch.add(x, object()), NotImplementedError, "argument of type"),
    ],
)
def test_what_depends_on_values_is_an_error(function, error, message):
    with pytest.raises(error, match=message):
        fx.symbolic_trace(function)
    assert not fx._symbolic_trace.is_fx_tracing() and nn.Linear(1, 1)(torch.ones(1)).shape == (1,)


def test_stars_and_unpacking_and_operators_are_traced():
    def f(x, *a, **k):
        p, q = x.chunk(2)
        return (p + a[0] ** 2) @ q.T, ~(x == 1) | k["z"], abs(-x), 3 - x // 2, math.sqrt(x.sum())

    traced = fx.symbolic_trace(f)
    x, z = torch.ones(2, 3), torch.zeros(2, 3, dtype=torch.bool)
    for got, want in zip(traced(x, 2.0, z=z), f(x, 2.0, z=z), strict=True):
        assert torch.equal(torch.as_tensor(got), torch.as_tensor(want))
    assert "def forward(self, x, *a, **k):" in traced.code
    assert math.sqrt(4) == 2.0 and math.sqrt.__class__.__name__ == "builtin_function_or_method"


def test_given_arguments_are_checked_by_the_graph():
    def f(x, flag=True, extra=None):
        return x if flag else -x if extra is None else extra

    traced = fx.symbolic_trace(f, concrete_args={"flag": False, "extra": None})
    assert traced(torch.ones(1), False).item() == -1
    with pytest.raises(AssertionError, match="flag was traced as False"):
        traced(torch.ones(1), True)
    with pytest.raises(AssertionError, match="extra was traced as None"):
        traced(torch.ones(1), False, torch.ones(1))


def _double(x):
    return [a * 2 for a in x]


fx.wrap("sorted")
fx.wrap(_double)


def test_marked_functions_are_not_looked_into():
    def f(x):
        return _double(x), sorted(x)

    traced = fx.symbolic_trace(f)
    assert {n.name for n in traced.graph.nodes} >= {"_double", "sorted_1"}
    doubled, ordered = traced(torch.tensor([3.0, 1.0]))
    assert [v.item() for v in doubled] == [6.0, 2.0] and [v.item() for v in ordered] == [1.0, 3.0]
    assert sorted([2, 1]) == [1, 2]
    with pytest.raises(NotImplementedError, match="top level of a module"):
        fx.wrap("sum")


def test_a_tracer_says_which_modules_are_leaves():
    class Whole(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, nn.Sequential) or super().is_leaf_module(m, module_qualified_name)

    net = Net()
    graph = Whole().trace(net)
    assert [n.target for n in graph.nodes if n.op == "call_module"] == ["l", "seq"]
    x = torch.randn(2, 4)
    assert torch.equal(fx.GraphModule(net, graph)(x)["o"], net(x)["o"])


def test_constants_become_buffers_and_calls_are_numbered():
    def f(x):
        t = torch.tensor([1.0, 2.0])
        return (x + t).neg().neg() + t

    traced = fx.symbolic_trace(f)
    assert traced._tensor_constant0.tolist() == [1.0, 2.0] and "_tensor_constant0" in traced.state_dict()
    assert [n.name for n in traced.graph.nodes if n.target == "neg"] == ["neg", "neg_1"]
    assert traced(torch.zeros(2)).tolist() == [2.0, 4.0]


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_and_pickles_run(copied):
    net = Net()
    traced = fx.symbolic_trace(net)
    other = copied(traced)
    x = torch.randn(2, 4)
    assert other.code == traced.code and torch.equal(other(x)["o"], net(x)["o"])
    assert other.graph is not traced.graph and type(other) is not type(traced)


def test_whole_graph_modules_are_saved_and_loaded():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    file = io.BytesIO()
    torch.save(traced, file)
    file.seek(0)
    x = torch.randn(1, 2)
    assert torch.equal(torch.load(file, weights_only=False)(x), traced(x))


def test_an_interpreter_runs_nodes_and_may_change_them():
    class Swap(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            return super().call_function(torch.tanh if target is torch.relu else target, args, kwargs)

    traced = fx.symbolic_trace(lambda x, y=3.0: torch.relu(x) * y)
    x = torch.tensor([0.5])
    assert torch.equal(fx.Interpreter(traced).run(x), x * 3)
    assert torch.equal(Swap(traced).run(x, 2.0), x.tanh() * 2)
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x"):
        fx.Interpreter(traced).run()
    with pytest.raises(TypeError) as caught:
        fx.Interpreter(traced).run("text")
    assert "While executing %relu" in caught.value.__notes__[0]


def test_a_transformer_makes_a_new_module():
    class Sigmoid(fx.Transformer):
        def call_function(self, target, args, kwargs):
            if target is torch.relu:
                return super().call_function(torch.sigmoid, args, kwargs)
            return super().call_function(target, args, kwargs)

    traced = fx.symbolic_trace(Net())
    changed = Sigmoid(traced).transform()
    assert "torch.sigmoid" in changed.code and "torch.relu" in traced.code
    assert changed(torch.zeros(1, 4))["o"].shape == (3,)


def test_patterns_are_replaced():
    def f(a, b):
        return torch.relu(a + b) + torch.relu(b + a)

    traced = fx.symbolic_trace(f)
    found = fx.replace_pattern(traced, lambda x, y: torch.relu(x + y), lambda x, y: torch.tanh(x * y))
    assert [m.anchor.name for m in found] == ["relu", "relu_1"] and "relu" not in traced.code
    traced.graph.lint()
    a, b = torch.tensor([0.5]), torch.tensor([2.0])
    assert torch.equal(traced(a, b), torch.tanh(a * b) * 2)


def test_unused_modules_are_removed():
    traced = fx.symbolic_trace(Net())
    assert traced.add_submodule("more.inner", nn.ReLU()) and traced.get_submodule("more.inner") is not None
    traced.delete_all_unused_submodules()
    assert [n for n, _ in traced.named_children()] == ["l", "seq"]
    assert len(list(traced.seq.children())) == 2
    assert not traced.delete_submodule("nothing")


def test_tracebacks_show_the_code_of_a_graph():
    import traceback

    traced = fx.symbolic_trace(lambda x: x.view(7))
    with pytest.raises(RuntimeError) as caught:
        traced(torch.ones(3))
    assert "view = x.view(7)" in "".join(traceback.format_exception(caught.value))


def test_the_modules_of_pytorch_are_there_with_the_door_open():
    code = """
import torch, torch.fx
from torch.fx.graph import Graph
from torch.fx.node import Node, map_arg
from torch.fx.proxy import Proxy, TraceError
from torch.fx.graph_module import GraphModule
from torch.fx._symbolic_trace import Tracer
from torchvision.models import resnet18
net = resnet18().eval()
traced = torch.fx.symbolic_trace(net)
x = torch.randn(1, 3, 64, 64)
print(len(traced.graph.nodes), torch.equal(traced(x), net(x)), Graph.__module__)
"""
    assert _inside(code) == "71 True torch.fx.graph"
