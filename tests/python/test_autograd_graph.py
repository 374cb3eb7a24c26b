"""Nodes, hooks and what the graph holds: identity, names, saved tensors, threads, and Python's cycle collector."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import threading
import weakref

import pytest

import rgrad as torch
from rgrad.autograd.graph import Node, get_gradient_edge


class Witness:
    """An object whose death a weak reference tells."""


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(values, requires_grad=True)


def test_a_node_is_the_same_object_each_time_and_of_a_class_by_its_name():
    y = leaf(1.0) * 2
    assert y.grad_fn is y.grad_fn
    assert isinstance(y.grad_fn, Node)
    assert type(y.grad_fn).__name__ == y.grad_fn.name() == "MulBackward0"
    assert repr(y.grad_fn).startswith("<MulBackward0 object at 0x")
    assert type(y.grad_fn.next_functions[0][0]).__name__ == "AccumulateGrad"


def test_metadata_belongs_to_the_node_not_to_its_python_object():
    y = leaf(1.0) * 2
    y.grad_fn.metadata["note"] = 5
    gc.collect()
    assert y.grad_fn.metadata == {"note": 5}


def test_nodes_are_not_pickled():
    with pytest.raises(TypeError, match="cannot pickle 'MulBackward0' object"):
        pickle.dumps((leaf(1.0) * 2).grad_fn)


def test_saved_tensors_are_read_by_name():
    x, c = leaf(2.0), torch.tensor([3.0])
    node = (x * c).grad_fn
    assert node._saved_other is c and node._saved_self is None
    assert x.exp().grad_fn._saved_result.grad_fn.name() == "ExpBackward0"
    assert {"_saved_self", "_raw_saved_other"} <= set(dir(node))
    with pytest.raises(AttributeError, match="'MulBackward0' object has no attribute '_saved_weight'"):
        _ = node._saved_weight


def test_a_saved_tensor_takes_hooks_of_its_own_once():
    x = leaf(2.0)
    y = x.exp()
    raw = y.grad_fn._raw_saved_result
    raw.register_hooks(lambda t: t.tolist(), lambda v: torch.tensor(v) * 10)
    with pytest.raises(RuntimeError, match="hooks have already been set"):
        raw.register_hooks(lambda t: t, lambda t: t)
    y.backward()
    assert x.grad.item() == pytest.approx(10 * y.item())


def test_freed_saved_tensors_say_retain_graph():
    y = leaf(2.0).exp()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        _ = y.grad_fn._saved_result


def test_the_hooks_of_a_tensor_are_listed_by_the_ids_of_their_handles():
    x = leaf(1.0)
    assert x._backward_hooks is None
    hook = lambda g: None  # noqa: E731
    handle = x.register_hook(hook)
    assert dict(x._backward_hooks) == {handle.id: hook}
    handle.remove()
    assert not x._backward_hooks


def test_a_handle_does_not_keep_the_graph_alive():
    y, witness = leaf(1.0) * 2, Witness()
    gone = weakref.ref(witness)
    handle = y.register_hook(lambda g, w=witness: None)
    del witness, y
    assert gone() is None
    handle.remove()


def test_backward_by_inputs_keeps_the_gradient_of_an_intermediate_result():
    x = leaf(3.0)
    y = x * 2
    (y * y).backward(inputs=[y])
    assert y.retains_grad and y.grad.item() == 12.0 and x.grad is None


def test_inputs_that_are_leaves_run_their_hooks():
    x, seen = leaf(3.0), []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.item()))
    (x * x).backward(inputs=[x])
    assert seen == [6.0]


def test_hooks_beyond_the_inputs_are_not_called():
    x, seen = leaf(3.0), []
    y = x * 2
    y.register_hook(seen.append)
    z = y * 3
    assert torch.autograd.grad(z, [z])[0].item() == 1.0 and seen == []
    z = (x * 2 + y).sum()
    other = x * 2
    torch.autograd.grad(z + other, [other])
    assert seen == []
    torch.autograd.grad(y * 5, [y])
    assert [g.item() for g in seen] == [5.0]


def test_a_node_asks_for_a_saved_tensor_once():
    asked = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: asked.append(t) or t):
        loss = torch.nn.functional.nll_loss(torch.randn(3, 4, requires_grad=True), torch.tensor([0, 3, 1]))
    loss.backward()
    assert len(asked) == len({id(t) for t in asked})


def test_an_edge_is_a_root_too():
    x = leaf(3.0)
    edge = get_gradient_edge(x * x)
    torch.autograd.backward(edge, torch.tensor([1.0]))
    assert x.grad.item() == 6.0


def test_reading_the_gradient_of_an_intermediate_result_warns():
    y = leaf(1.0) * 2
    with pytest.warns(UserWarning, match="The .grad attribute of a Tensor that is not a leaf Tensor is being accessed"):
        assert y.grad is None


def test_a_kept_gradient_follows_a_tensor_that_is_written_in_place():
    y = leaf(1.0) * 1
    y.retain_grad()
    y.mul_(2)
    (y * 5).backward()
    assert y.retains_grad and y.grad.item() == 5.0


@pytest.mark.parametrize("strides", [(1, 2), (2, 1)])
def test_a_gradient_lies_in_memory_as_its_leaf_does(strides):
    w = torch.empty_strided((2, 2), strides).fill_(1.0).requires_grad_()
    (w * torch.ones(2, 2)).sum().backward()
    assert w.grad.stride() == strides


def _ignore(*objects):
    """A hook's way to mention objects and leave the gradient alone."""


def _on_leaf(w):
    x = leaf(1.0)
    x.register_hook(lambda g: _ignore(x, w))


def _after_accumulation(w):
    x = leaf(1.0)
    x.register_post_accumulate_grad_hook(lambda p: (x, w))


def _on_result(w):
    y = leaf(1.0) * 2
    y.register_hook(lambda g: _ignore(y, w))


def _deep_in_the_graph(w):
    x = leaf(1.0)
    y = z = x * 2
    for _ in range(100):
        z = z.sin() + z * x
    y.register_hook(lambda g: _ignore(z, w))


def _on_the_leaf_about_its_result(w):
    x = leaf(1.0)
    y = (x * x).sin()
    x.register_hook(lambda g: _ignore(y, w))


def _on_a_node_about_itself(w):
    y = leaf(1.0) * 2
    node = y.grad_fn
    node.register_hook(lambda a, b: _ignore(node, w))


def _in_metadata(w):
    y = leaf(1.0) * 2
    y.grad_fn.metadata["all"] = (y, w)


def _on_a_parameter_about_its_module(w):
    m = torch.nn.Linear(2, 2)
    m.weight.register_hook(lambda g: _ignore(m, w))
    m(torch.ones(1, 2)).sum().backward()


def _in_a_users_function(w):
    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.box = [w]
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    y = Keeps.apply(leaf(1.0))
    y.grad_fn.box.append(y)


def _in_a_packed_tensor(w):
    box = [w]
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (box, t), lambda p: p[1]):
        y = leaf(1.0).exp()
    box.append(y)


@pytest.mark.parametrize(
    "cycle",
    [
        _on_leaf,
        _after_accumulation,
        _on_result,
        _deep_in_the_graph,
        _on_the_leaf_about_its_result,
        _on_a_node_about_itself,
        _in_metadata,
        _on_a_parameter_about_its_module,
        _in_a_users_function,
        _in_a_packed_tensor,
    ],
)
def test_cycles_through_the_graph_are_collected(cycle):
    witness = Witness()
    gone = weakref.ref(witness)
    cycle(witness)
    del witness
    gc.collect()
    assert gone() is None


def test_what_is_in_use_survives_the_collector():
    x, seen = leaf(1.0, 2.0), []
    x.register_hook(lambda g: seen.append("leaf"))
    y = x * 2
    y.register_hook(lambda g: seen.append(("result", y.shape)))
    y.grad_fn.metadata["kept"] = [y]
    for _ in range(3):
        gc.collect()
    y.sum().backward()
    assert seen == [("result", y.shape), "leaf"] and y.grad_fn.metadata["kept"] == [y]


def test_backward_inside_hooks_nests_ten_thousand_deep():
    depth = 0

    def again(g):
        nonlocal depth
        depth += 1
        if depth < 10_000:
            with torch.enable_grad():
                y = leaf(1.0) * 2
            y.register_hook(again)
            y.backward()

    y = leaf(1.0) * 2
    y.register_hook(again)
    y.backward()
    assert depth == 10_000


def test_an_error_at_the_bottom_of_nested_backwards_comes_out_at_the_top():
    depth = 0

    def again(g):
        nonlocal depth
        depth += 1
        if depth == 200:
            raise KeyError("bottom")
        with torch.enable_grad():
            y = leaf(1.0) * 2
        y.register_hook(again)
        y.backward()

    y = leaf(1.0) * 2
    y.register_hook(again)
    with pytest.raises(KeyError, match="bottom"):
        y.backward()


def test_sixteen_threads_over_a_shared_graph_add_up_exactly():
    x = leaf(1.0, 2.0)
    shared = (x * 3).sin().exp()
    roots = shared * 2
    roots.backward(torch.ones(2), retain_graph=True)
    once, x.grad = x.grad.clone(), None
    calls = []
    handle = shared.register_hook(lambda g: calls.append(1))

    def work():
        for _ in range(200):
            roots.backward(torch.ones(2), retain_graph=True)

    threads = [threading.Thread(target=work) for _ in range(16)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    handle.remove()
    total = torch.zeros(2)
    for _ in range(3200):
        total += once
    assert len(calls) == 3200 and x.grad.tolist() == total.tolist()


def test_a_million_nodes_with_views_hooks_and_an_error_half_way():
    x = leaf(1.0)
    y = x * 1
    for i in range(1_000_000):
        y = y.view(1) if i % 2 else -y
        if i % 250_000 == 0:
            y.register_hook(lambda g: None)
        if i == 500_000:
            handle = y.register_hook(_stop)
    with pytest.raises(RuntimeError, match="half way"):
        y.backward(retain_graph=True)
    handle.remove()
    y.backward()
    assert x.grad.abs().item() == 1.0


def _stop(g):
    raise RuntimeError("half way")


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g


def test_a_cycle_that_is_longer_than_young_collections_look_is_collected_by_a_full_one():
    def cycle():
        x = torch.ones(1, requires_grad=True)
        y = first = x * 2
        for _ in range(2_000):
            y = Same.apply(y)
        last = y
        first.register_hook(lambda g: last.shape and None)
        return weakref.ref(last)

    reference = cycle()
    gc.collect(0)
    gc.collect()
    assert reference() is None


def test_a_number_among_operands_has_an_edge_that_leads_nowhere():
    x = torch.ones(2, requires_grad=True)
    assert (x * 3).grad_fn.next_functions[1] == (None, 0)
    assert len((x**3).grad_fn.next_functions) == 1
    seen = []
    y = x * 3
    y.grad_fn.register_hook(lambda gi, go: seen.append((gi[0].tolist(), gi[1], go[0].tolist())))
    y.sum().backward()
    assert seen == [([3.0, 3.0], None, [1.0, 1.0])] and x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("returned", "error", "words"),
    [
        (3, TypeError, "expected {kind}, but hook returned 'int'"),
        (torch.ones(5), RuntimeError, "hook '<lambda>' has changed the size of value"),
        (
            torch.ones(2, dtype=torch.float64),
            RuntimeError,
            r"hook '<lambda>' has changed the type of value \(was torch.FloatTensor got torch.DoubleTensor\)",
        ),
    ],
)
def test_what_a_hook_returns_must_be_like_the_gradient(returned, error, words):
    def run(register, result):
        a = torch.ones(2, requires_grad=True)
        b = a * 3
        register(a, b)(lambda *args: result)
        b.sum().backward()

    for register in (
        lambda a, b: b.register_hook,
        lambda a, b: a.register_hook,
        lambda a, b: a.register_post_accumulate_grad_hook,
    ):
        with pytest.raises(error, match=words.format(kind="Variable")):
            run(register, returned)
    in_tuple = returned if isinstance(returned, int) else (returned,)
    with pytest.raises(error, match=words.format(kind="tuple")):
        run(lambda a, b: b.grad_fn.register_prehook, in_tuple)


def test_hooks_on_nodes_return_as_many_gradients_as_they_get():
    a = torch.ones(2, requires_grad=True)
    b = a * 3
    b.grad_fn.register_prehook(lambda go: (go[0], None))
    with pytest.raises(
        RuntimeError, match=r"hook '<lambda>' has returned an incorrect number of values \(got 2, but expected 1\)"
    ):
        b.sum().backward()
    b = a * 3
    b.grad_fn.register_hook(lambda gi, go: (gi[0] * 2, None))
    b.sum().backward()
    assert a.grad.tolist() == [6.0, 6.0]


def test_a_post_accumulate_hook_returns_nothing():
    a = torch.ones(2, requires_grad=True)
    a.register_post_accumulate_grad_hook(lambda t: t.grad)
    with pytest.raises(RuntimeError, match="Tensor post accumulate grad hooks should return None."):
        a.sum().backward()


def test_a_node_can_be_called_without_its_hooks():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * torch.tensor([3.0, 4.0])
    y.grad_fn.register_prehook(lambda grads: pytest.fail("a hook ran"))
    first, second = y.grad_fn(torch.ones(2))
    assert first.tolist() == [3.0, 4.0] and second is None
    with pytest.raises(TypeError, match="expected 1 arguments, got 2 instead"):
        y.grad_fn(torch.ones(2), torch.ones(2))
    x.exp().grad_fn.next_functions[0][0](torch.ones(2))
    assert x.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "run",
    [
        lambda x: x * 2,
        lambda x: x / 2,
        lambda x: torch.div(x, x.detach(), rounding_mode="floor"),
        lambda x: torch.nn.functional.max_pool1d(x[None], 2),
        lambda x: torch.nn.functional.avg_pool1d(x[None], 2),
    ],
    ids=["mul", "div", "floor", "max_pool", "avg_pool"],
)
def test_what_depends_on_numbers_alone_is_freed_as_if_it_were_saved(run):
    y = run(torch.tensor([1.0, 2.0], requires_grad=True)).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


@pytest.mark.parametrize(
    ("run", "slope"),
    [(lambda x: x + 2, 1), (lambda x: 2 - x, -1), (lambda x: -x, -1), (lambda x: x.floor(), 0), (lambda x: x.t(), 1)],
)
def test_what_saves_nothing_runs_again(run, slope):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = run(x).sum()
    y.backward()
    assert x.grad.tolist() == [slope, slope]
    y.backward()
    assert x.grad.tolist() == [2 * slope, 2 * slope]


def test_the_node_of_values_and_indices_counts_the_values_alone():
    x = torch.tensor([1.0, 3.0, 2.0], requires_grad=True)
    seen = []
    values, _ = x.sort()
    values.grad_fn.register_hook(lambda inputs, outputs: seen.append((len(inputs), len(outputs))))
    values.sum().backward()
    assert seen == [(1, 1)]


def test_flat_functions_without_a_derivative_say_so():
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    for y, name in ((x // 2, "floor_divide"), (torch.heaviside(x, x.detach()), "heaviside")):
        with pytest.raises(RuntimeError, match=f"derivative for aten::{name} is not implemented"):
            y.sum().backward()


def test_callbacks_are_called_when_all_nodes_have_run_and_may_queue_more():
    log, x = [], leaf(1.0)
    queue = torch.autograd.graph.queue_callback

    def first() -> None:
        log.append("first")
        torch.autograd.Variable._execution_engine.queue_callback(lambda: log.append("second"))

    x.register_post_accumulate_grad_hook(lambda t: log.append("leaf"))
    y = x * 2
    y.register_hook(lambda g: queue(first))
    y.backward()
    assert log == ["leaf", "first", "second"]
    with pytest.raises(RuntimeError, match="can only be installed during backward pass"):
        queue(first)


def test_a_callback_belongs_to_the_innermost_backward_and_may_fail():
    log, x = [], leaf(1.0)
    queue = torch.autograd.graph.queue_callback

    def inside(_: torch.Tensor) -> None:
        with torch.enable_grad():
            z = leaf(1.0) * 2
            z.register_hook(lambda g: queue(lambda: log.append("inner")))
            z.backward()
        log.append("after the inner one")

    y = x * 2
    y.register_hook(inside)
    y.backward()
    assert log == ["inner", "after the inner one"]
    y = x * 2
    y.register_hook(lambda g: queue(lambda: {}["absent"]))
    with pytest.raises(KeyError, match="absent"):
        y.backward()


def test_writes_may_be_left_uncounted():
    x = leaf(2.0)
    y = x * 1
    z = y * y
    with torch.autograd._unsafe_preserve_version_counter(y):
        y.fill_(5.0)
    assert y._version == 0
    z.backward()
    assert x.grad.tolist() == [10.0]


def test_a_collection_that_asks_for_a_node_may_come_while_the_object_of_another_is_made():
    y, z = leaf(1.0) * 2, leaf(1.0).exp().sin()
    asked = []

    class Asks:
        def __init__(self):
            self.me = self

        def __del__(self):
            asked.append(z.grad_fn.next_functions[0][0].name())

    threshold = gc.get_threshold()
    gc.collect()
    gc.disable()
    Asks()
    gc.set_threshold(1)
    gc.enable()
    node = y.grad_fn
    gc.set_threshold(*threshold)
    gc.collect()
    assert node.name() == "MulBackward0" and y.grad_fn is node and asked == ["ExpBackward0"]


def test_a_collection_may_come_while_an_object_of_a_class_is_made():
    x = torch.ones(3, requires_grad=True)
    x.register_hook(lambda g: g)

    class Special(torch.Tensor):
        pass

    threshold = gc.get_threshold()
    gc.collect()
    try:
        gc.set_threshold(50)
        # They are kept, so that their dicts are new ones.
        kept = [torch.nn.Parameter(torch.ones(3)) for _ in range(3000)]
        kept += [Special([1.0]) for _ in range(3000)]
        kept += [torch.ones(1).as_subclass(Special) for _ in range(3000)]
    finally:
        gc.set_threshold(*threshold)
    assert len(kept) == 9000 and all(k.sum().item() in (1.0, 3.0) for k in kept)


LONG_CHAINS = {
    "gradients of gradients": """
tensors = [torch.ones(1) for _ in range(100_000)]
for a, b in zip(tensors, tensors[1:]):
    a.grad = b
head = tensors[0]
del tensors, a, b
del head
""",
    "arrays over memory of tensors": """
t = torch.ones(3)
for _ in range(100_000):
    t = torch.from_numpy(t.numpy())
assert t.sum() == 3
del t
""",
    "tensors over memory of tensors by DLPack": """
t = torch.ones(3)
for _ in range(100_000):
    t = torch.from_dlpack(t)
del t
""",
}


@pytest.mark.parametrize("program", LONG_CHAINS.values(), ids=LONG_CHAINS)
def test_long_chains_are_dropped_without_recursion(program):
    done = subprocess.run(
        [sys.executable, "-c", f"import rgrad as torch{program}print('survived')"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "survived\n"), done.stderr
