"""`compile` and `defer`: the same numbers as the eager program, whatever happens inside a region."""

from __future__ import annotations

import copy
import ctypes
import io
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rgrad as torch

F = torch.nn.functional
SHAPE = (256, 128)


def data(*shape: int, seed: int = 0, grad: bool = False) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*(shape or SHAPE), generator=generator).requires_grad_(grad)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)


def log_of(f: Callable[..., Any], *args: Any) -> list[str]:
    """What was computed together when a function ran in a region."""
    torch._C._enter_region(True)
    try:
        f(*args)
    finally:
        lines = torch._C._exit_region()
    return lines


def groups(lines: list[str]) -> list[str]:
    return [line.strip() for line in lines if line.startswith("  ")]


# ---- programs whose results are the eager ones, bit for bit


def gelu_chain(x):
    return F.gelu(x + 1) * x.sigmoid() + torch.tanh(x)


def layer_norm_by_hand(x):
    m = x.mean(-1, keepdim=True)
    v = ((x - m) ** 2).mean(-1, keepdim=True)
    return (x - m) * torch.rsqrt(v + 1e-5)


def masked_softmax(x):
    return torch.softmax(x.masked_fill(x > 0.5, -1e9) * 0.125, -1)


def log_softmax_loss(x):
    return -(torch.log_softmax(x, -1) * x.detach().softmax(-1)).sum(-1).mean()


def rotary(x):
    a, b = (x * 2).chunk(2, -1)
    return torch.cat([a * 3 - b, a + b * 3], -1)


def transposed(x):
    return (x * 2).t().contiguous().relu().t() + x


def broadcasts(x):
    return (x + x[0]) * x[:, :1] - x.sum(0) / x.max(-1, keepdim=True).values


def in_place(x):
    y = x * 1
    y.mul_(2).add_(x)
    y[:, 3:7].relu_()
    y[5] = 0.25
    return y.exp_()


def several_results(x):
    y = x * 2
    return y, y.sin(), (y + 1).sum()


def comparisons(x):
    return torch.where((x > 0) & (x < 1), x * 2, -x).clamp(-1, 1)


def reductions(x):
    y = x * x
    return y.sum(), y.mean(-1), y.amax(-1), y.amin(0), y.prod(-1), y.norm()


def half_and_integers(x):
    y = (x + 1).half() * 2
    return y.float() + (x * 10).int() % 3


def random_numbers(x):
    torch.manual_seed(3)
    return F.dropout(x * 2, 0.3) + torch.rand_like(x) * x.bernoulli(0.5)


def normal_network(x):
    torch.manual_seed(4)
    layer = torch.nn.Sequential(torch.nn.Linear(128, 64), torch.nn.GELU(), torch.nn.LayerNorm(64))
    return layer(x * 2) + 1


def overlapping_copies(x):
    y = x * 2
    y[1:].copy_(y[:-1].clone())
    y[:, 1:] += y[:, :-1] * 2
    return y


PROGRAMS = [
    gelu_chain,
    layer_norm_by_hand,
    masked_softmax,
    log_softmax_loss,
    rotary,
    transposed,
    broadcasts,
    in_place,
    several_results,
    comparisons,
    reductions,
    half_and_integers,
    random_numbers,
    normal_network,
    overlapping_copies,
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("program", PROGRAMS)
def test_results_and_gradients_are_the_eager_ones_bit_for_bit(program, dtype):
    def run(f, whole: bool):
        leaf = data().to(dtype if program is not normal_network else torch.float32).requires_grad_()
        if whole:
            torch._C._enter_region()
        out = f(leaf)
        out = out if isinstance(out, tuple) else (out,)
        sum((o * o).sum() for o in out).backward()
        if whole:
            torch._C._exit_region()
        return *out, leaf.grad

    eager = run(program, False)
    for result in (run(torch.compile(program), False), run(program, True)):
        assert all(same(a, b) for a, b in zip(result, eager, strict=True))


@pytest.mark.own_region
def test_a_chain_is_one_group_and_only_its_result_gets_memory():
    x = data()
    lines = groups(log_of(lambda: gelu_chain(x)))
    assert len(lines) == 1 and lines[0].startswith("fused: ") and "0 of" in lines[0] or "not computed" in lines[0]
    kept = []
    lines = groups(log_of(lambda: kept.append(gelu_chain(x))))
    assert len(lines) == 1 and "1 of 6 results stored" in lines[0]
    assert same(kept[0], gelu_chain(x))


@pytest.mark.own_region
def test_what_nobody_reads_is_not_computed():
    x = data()
    lines = groups(log_of(lambda: (x * 2).exp() is None))
    assert lines == [f"not computed, nobody reads it: mul → exp | {x.numel()} float32 elements, 0 of 2 results stored, "
                     f"{8 * x.numel()} bytes without memory"]  # fmt: skip


@pytest.mark.own_region
def test_softmax_over_rows_is_fused_with_what_is_before_and_after():
    x, kept = data(), []
    lines = groups(log_of(lambda: kept.append(torch.softmax(x * 0.5, -1) * 2)))
    assert len(lines) == 1 and "mul → softmax → mul" in lines[0] and "in rows of 128" in lines[0]


def test_small_tensors_are_computed_at_once():
    script = """
import rgrad as torch
for n in 32767, 32768:
    torch._C._enter_region(True)
    y = torch.ones(n) * 2
    print(len(torch._C._exit_region()))
"""
    env = {k: v for k, v in os.environ.items() if k != "RGRAD_DEFER_FROM"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "2"]


@pytest.mark.own_region
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_rounded_inside_of_a_group(dtype):
    def f(x):
        y = x.to(dtype) * 3 + 0.1
        z = torch.softmax(y.float(), -1).to(dtype)
        return (y.sigmoid() * z * x.to(dtype)).float() + x

    x, kept = data(), []
    assert same(torch.compile(f)(x), f(x))
    lines = groups(log_of(lambda: kept.append(f(x))))
    assert len(lines) == 1 and "1 of " in lines[0]


@pytest.mark.parametrize("sizes", [(4, 8192), (32771, 1), (4, 9001), (16411, 2), (2, 3, 5, 1201)])
def test_rows_of_every_length_are_right(sizes):
    x = data(*sizes)

    def f(x):
        y = x * 2
        return y - y.mean(-1, keepdim=True), torch.softmax(y, -1), y.sum(), (y * y).sum((-2, -1))

    assert all(same(a, b) for a, b in zip(torch.compile(f)(x), f(x), strict=True))


def test_more_operations_than_a_queue_holds_are_right():
    def f(x):
        for _ in range(400):
            x = x * 1.01 + 0.5
        return x

    x = data()
    assert same(torch.compile(f)(x), f(x))


# ---- values that are read inside


def test_control_flow_sees_values_and_every_call_runs_anew():
    calls = []

    @torch.compile
    def f(x):
        calls.append(1)
        y = x * 2
        return y.exp() if y.sum().item() > 0 else y.tanh()

    x = data().abs()
    assert same(f(x), (x * 2).exp()) and same(f(-x), (-x * 2).tanh()) and len(calls) == 2


def test_numpy_dlpack_and_pickles_see_computed_values():
    x = data()

    @torch.compile
    def f(x):
        y = x * 2 + 1
        array = y.numpy()
        z = y * 3
        taken = np.from_dlpack(z)
        w = z + 1
        stream = io.BytesIO()
        torch.save(w, stream)
        return array.copy(), taken.copy(), stream.getvalue(), np.asarray((w * 2).tolist()), repr(w * 3)

    array, taken, saved, listed, shown = f(x)
    y = x * 2 + 1
    assert np.array_equal(array, y.numpy()) and np.array_equal(taken, (y * 3).numpy())
    w = y * 3 + 1
    assert same(torch.load(io.BytesIO(saved)), w) and np.array_equal(listed, (w * 2).double().numpy())
    assert shown == repr(w * 3)


FOREIGN = {
    "numpy": lambda y: y.numpy(),
    "dlpack": np.from_dlpack,
    "torch.from_dlpack": lambda y: torch.from_dlpack(y).numpy(),
    "buffer": lambda y: np.frombuffer(memoryview(y.untyped_storage()), dtype=np.float32),
    "address": lambda y: np.ctypeslib.as_array((ctypes.c_float * y.numel()).from_address(y.data_ptr())),
}


@pytest.mark.parametrize("foreign", FOREIGN)
def test_code_that_has_the_memory_sees_every_later_write_at_once(foreign):
    @torch.compile
    def f(x):
        y = x * 1
        seen = FOREIGN[foreign](y)
        y.mul_(3)
        first = np.array(seen).reshape(-1)[0]
        z = y + 1
        seen.reshape(-1)[0] = 7
        return first, z, y * 1

    first, before, after = f(torch.ones(SHAPE))
    assert first == 3 and before[0, 0] == 4 and after[0, 0] == 7 and after[0, 1] == 3


def test_writes_through_a_numpy_array_are_seen_in_order():
    @torch.compile
    def f(x):
        y = x * 2
        array = y.numpy()
        first = y + 1
        array[:] = 5
        return first, y * 2

    x = data()
    first, last = f(x)
    assert same(first, x * 2 + 1) and bool((last == 10).all())


def test_tensors_that_escape_are_computed_when_they_are_read():
    kept: dict[str, torch.Tensor] = {}

    def outer():
        x = data() * 2

        def closure():
            return x + 1

        kept["global"] = x.exp()
        return closure

    closure = torch.compile(outer)()
    assert same(closure(), data() * 2 + 1) and same(kept["global"], (data() * 2).exp())


def test_another_thread_reads_a_value_that_is_still_deferred():
    x, seen = data(), []
    with torch.defer():
        y = x * 2 + 1
        reader = threading.Thread(target=lambda: seen.append(y.sum().item()))
        reader.start()
        reader.join()
        z = y * 3
    assert seen == [(x * 2 + 1).sum().item()] and same(z, (x * 2 + 1) * 3)


def test_threads_that_take_turns_write_one_tensor_in_their_order():
    total, lock = torch.zeros(SHAPE), threading.Lock()
    parts = [data(seed=k) for k in range(8)]

    def work(part):
        with torch.defer():
            for _ in range(20):
                with lock:
                    total.add_(part * 2)

    threads = [threading.Thread(target=work, args=(part.round(),)) for part in parts]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    # Sums of whole numbers are exact in any order.
    assert same(total, sum(part.round() for part in parts) * 40)


def test_defer_is_a_decorator_too():
    x = data()
    assert same(torch.defer()(gelu_chain)(x), gelu_chain(x))
    with pytest.raises(KeyError), torch.defer():
        raise KeyError


@pytest.mark.own_region
def test_operations_that_have_nothing_to_do_with_the_queue_leave_it_alone():
    x, w, kept = data(), data(128, 8, seed=1), []

    def f():
        y = x * 2
        kept.append(x @ w)
        kept.append(y + 1)

    lines = log_of(f)
    assert len(groups(lines)) == 1 and "mul → add" in lines[1] and same(kept[0], x @ w)


@pytest.mark.own_region
def test_a_region_on_one_thread_leaves_others_eager():
    seen = []
    with torch.defer():
        t = threading.Thread(target=lambda: seen.append(torch._C._is_deferring()))
        t.start()
        t.join()
        assert torch._C._is_deferring()
    assert seen == [False] and not torch._C._is_deferring()


# ---- fullgraph


@pytest.mark.own_region
def test_fullgraph_names_the_line_that_read_a_value():
    @torch.compile(fullgraph=True)
    def f(x):
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        return y

    with pytest.raises(RuntimeError, match=r"fullgraph=True: a value was needed .*test_compile.py\", line \d+"):
        f(data())
    assert same(torch.compile(gelu_chain, fullgraph=True)(data()), gelu_chain(data()))


# ---- errors and nesting


@pytest.mark.own_region
def test_an_exception_inside_leaves_the_region_and_computes_what_escaped():
    kept = []

    @torch.compile
    def f(x):
        kept.append(x * 2)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        f(data())
    assert not torch._C._is_deferring() and same(kept[0], data() * 2)


def test_errors_of_arguments_are_those_of_an_eager_program():
    def f(x):
        return (x * 2) + torch.ones(7)

    with pytest.raises(RuntimeError) as eager:
        f(data())
    with pytest.raises(RuntimeError) as compiled:
        torch.compile(f)(data())
    assert str(compiled.value) == str(eager.value)


@pytest.mark.own_region
def test_regions_inside_of_regions_share_the_queue():
    inner = torch.compile(lambda x: x * 2)
    outer = torch.compile(lambda x: inner(x + 1).exp())
    x, kept = data(), []
    assert same(outer(x), ((x + 1) * 2).exp())
    assert len(groups(log_of(lambda: kept.append(outer(x))))) == 1


# ---- autograd


def test_hooks_run_in_order_and_see_values():
    def run(compiled: bool):
        order: list[Any] = []
        x = data(grad=True)

        def f(x):
            y = x * 2
            y.register_hook(lambda g: order.append(("y", g.sum().item())) or g * 3)
            y.retain_grad()
            z = y.exp()
            z.register_hook(lambda g: order.append(("z", g.sum().item())))
            return z.sum()

        x.register_hook(lambda g: order.append(("x", g.sum().item())))
        x.register_post_accumulate_grad_hook(lambda p: order.append(("after", p.grad.sum().item())))
        loss = (torch.compile(f) if compiled else f)(x)
        loss.backward()
        return order, x.grad

    (order, grad), (eager_order, eager_grad) = run(True), run(False)
    assert order == eager_order and [name for name, _ in order] == ["z", "y", "x", "after"] and same(grad, eager_grad)


def test_retained_graphs_and_second_derivatives_are_right():
    def run(f):
        x = data(grad=True)
        y = f(x).sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        first.pow(2).sum().backward(retain_graph=True)
        y.backward()
        return first, x.grad

    assert all(same(a, b) for a, b in zip(run(torch.compile(gelu_chain)), run(gelu_chain), strict=True))
    with torch.defer():
        whole = run(gelu_chain)
    assert all(same(a, b) for a, b in zip(whole, run(gelu_chain), strict=True))


def test_a_function_of_ones_own_computes_inside():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x * 1)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    def run(f):
        x = data(grad=True)
        y = f(x)
        y.sum().backward()
        return y, x.grad

    def cubes(x):
        return Cube.apply(x * 2).tanh()

    assert all(same(a, b) for a, b in zip(run(torch.compile(cubes)), run(cubes), strict=True))


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointed_parts_are_computed_again_to_the_same_bits(use_reentrant):
    from rgrad.utils.checkpoint import checkpoint

    def part(x):
        return F.dropout(gelu_chain(x), 0.2)

    def f(x):
        return checkpoint(part, x * 2, use_reentrant=use_reentrant).sum()

    def run(f):
        torch.manual_seed(5)
        x = data(grad=True)
        f(x).backward()
        return x.grad

    assert same(run(torch.compile(f)), run(f))


def test_autocast_inference_mode_and_anomaly_mode_work_inside():
    x, w = data(grad=True), data(128, 128, seed=1)

    def cast(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x * 2) @ w

    y, eager = torch.compile(cast)(x), cast(x)
    assert y.dtype == torch.bfloat16 and same(y, eager)

    def inferred(x):
        with torch.inference_mode():
            return (x * 2).tanh()

    y = torch.compile(inferred)(x)
    assert y.is_inference() and same(y, inferred(x))

    with pytest.warns(UserWarning, match="Anomaly"):
        anomaly = torch.autograd.detect_anomaly(check_nan=True)
    with anomaly, pytest.warns(UserWarning, match="sqrt"):
        loss = torch.compile(lambda x: ((x * 0).sqrt() * 0).sum())(x)
        with pytest.raises(RuntimeError, match="returned nan values"):
            loss.backward()


def test_saved_tensor_hooks_see_computed_tensors():
    packed = []

    def pack(t):
        packed.append(t.sum().item())
        return t.detach().clone()

    def run(f):
        x = data(grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = f(x)
        y.sum().backward()
        return x.grad

    grad, count = run(torch.compile(gelu_chain)), len(packed)
    assert same(grad, run(gelu_chain)) and packed[:count] == packed[count:]


def test_a_saved_tensor_that_was_written_is_an_error_inside_too():
    @torch.compile
    def f(x):
        y = x * 2
        z = y.exp()
        z.add_(1)
        return z.sum()

    loss = f(data(grad=True))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_writes_to_views_reach_the_base_and_its_history():
    def f(x):
        y = x * 2
        row, column = y[3], y[:, 5]
        row.mul_(3)
        column.add_(row.sum())
        y.t()[1].zero_()
        return (y * y).sum()

    def run(f):
        x = data(grad=True)
        loss = f(x)
        loss.backward()
        return loss.detach(), x.grad

    assert all(same(a, b) for a, b in zip(run(torch.compile(f)), run(f), strict=True))


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_whole_training_steps_give_the_same_parameters(kind):
    def train(region: bool):
        torch.manual_seed(0)
        layers = torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.LayerNorm(256)
        net = torch.nn.Sequential(torch.nn.Linear(128, 256), *layers, torch.nn.Linear(256, 10))
        optimizer = kind(net.parameters(), lr=1e-2)
        x, target = data(), torch.arange(256) % 10
        for _ in range(4):
            with torch.defer() if region else torch.enable_grad():
                optimizer.zero_grad()
                loss = F.cross_entropy(net(x), target)
                loss.backward()
                optimizer.step()
        return [loss.detach(), *(p.detach() for p in net.parameters())]

    assert all(same(a, b) for a, b in zip(train(True), train(False), strict=True))


@pytest.mark.own_region
def test_memory_of_results_that_nobody_reads_is_never_reserved():
    x = data(1024, 1024)
    size = x.numel() * x.element_size()

    def f(x):
        for _ in range(10):
            x = (x * 1.5).tanh()
        return x

    lines = groups(log_of(lambda: f(x).sum().item()))
    assert len(lines) == 1 and f"{20 * size} bytes without memory" in lines[0]


# ---- the functions and classes of torch.compiler


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
    torch.explain(lambda x: x + 1)(torch.ones(3, dtype=torch.int64))
    assert "nothing was deferred" in capsys.readouterr().out
