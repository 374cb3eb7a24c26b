"""`compile` and `defer`: the same numbers as the eager program, whatever happens inside a region."""

from __future__ import annotations

import ctypes
import io
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from compile_cases import PROGRAMS, SHAPE, data, gelu_chain, groups, log_of, normal_network, same

import rgrad as torch


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


@pytest.mark.own_region
def test_the_memory_that_results_did_not_need_is_told():
    x = data(1024, 1024)
    size = x.numel() * x.element_size()

    def f(x):
        for _ in range(10):
            x = (x * 1.5).tanh()
        return x

    lines = groups(log_of(lambda: f(x).sum().item()))
    assert len(lines) == 1 and f"{20 * size} bytes without memory" in lines[0]


def test_cheap_values_that_parts_use_are_those_of_whole_rows():
    x, w, c = data(64, 256), data(256, seed=1), data(64, 128, seed=2)

    def scaled(x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)

    def parts(x):
        a, b = (scaled(x) * w + 1).chunk(2, -1)
        return torch.cat([a * c - b, a + b * c], -1)

    def parts_and_whole(x):
        y = scaled(x)
        a, b = y.chunk(2, -1)
        return a * b, y.sum(-1)

    def kept(x):
        y = x + w
        first = y.narrow(-1, 64, 128) * c
        return first, y

    def dear(x):
        a, b = x.exp().chunk(2, -1)
        return a / (a + b)

    def turned(x):
        a, b = (x.view(256, 64).t() * 2).chunk(2, -1)
        return a - b

    for program in (parts, parts_and_whole, kept, dear, turned):
        eager, compiled = program(x), torch.compile(program)(x)
        pairs = zip(eager, compiled, strict=True) if isinstance(eager, tuple) else [(eager, compiled)]
        assert all(same(a, b) for a, b in pairs)
