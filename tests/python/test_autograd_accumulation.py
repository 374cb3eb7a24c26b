"""How gradients reach `.grad`: what may be written in place, whose memory it is, and that no lock is held meanwhile."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import rgrad as torch

OVERLAP = "some elements of the input tensor and the written-to tensor refer to a single memory location"
SELF_OVERLAP = "more than one element of the written-to tensor refers to a single memory location"


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(values, requires_grad=True)


def run(script: str) -> str:
    """What a script of its own process prints: one that hangs or crashes fails the test alone."""
    prelude = "import gc, mmap, threading\nimport numpy as np\nimport rgrad as torch\n"
    done = subprocess.run(
        [sys.executable, "-c", prelude + script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr[-2000:]}"
    return done.stdout.strip()


# ---- gradients that lead back to the leaf that they are accumulated in


def test_a_leaf_may_be_the_gradient_that_it_receives_with_its_history():
    out = run(
        "x = torch.tensor([1.0, 2.0], requires_grad=True)\n"
        "y = x + 0\n"
        "torch.autograd.backward(y, grad_tensors=x, create_graph=True)\n"
        "(x.grad * 3).sum().backward(inputs=[x])\n"
        "print(x.grad.tolist(), x.grad is x)"
    )
    assert out == "[4.0, 5.0] False"


def test_a_leaf_may_be_the_gradient_of_itself_with_its_history_again_and_again():
    out = run(
        "t = torch.tensor(3.0, requires_grad=True)\n"
        "for _ in range(3):\n"
        "    t.backward(t, False, True)\n"
        "print(t.grad.item(), t.grad.requires_grad, torch.autograd.grad(t.grad, t)[0].item())"
    )
    assert out == "9.0 True 3.0"


def test_a_hook_that_dies_while_it_is_removed_may_register_another():
    out = run(
        "class Hook:\n"
        "    def __init__(self, register): self.register = register\n"
        "    def __call__(self, *args): return None\n"
        "    def __del__(self): self.register(lambda *args: None); print('died')\n"
        "x = torch.ones(2, requires_grad=True)\n"
        "y = x * 2\n"
        "for register in (x.register_hook, x.register_post_accumulate_grad_hook, y.register_hook,\n"
        "                 y.grad_fn.register_hook, y.grad_fn.register_prehook):\n"
        "    register(Hook(register)).remove()\n"
        "y.sum().backward()\n"
        "print(x.grad.tolist())"
    )
    assert out.split("\n") == ["died"] * 5 + ["[2.0, 2.0]"]


def test_a_pack_hook_may_ask_for_what_is_being_packed():
    out = run(
        "x = torch.ones(2, requires_grad=True)\n"
        "y = (x * 2).exp()\n"
        "raw = y.grad_fn._raw_saved_result\n"
        "raw.register_hooks(lambda t: (y.grad_fn._saved_result, t)[1], lambda t: t)\n"
        "try: raw.register_hooks(lambda t: t, lambda t: t)\n"
        "except RuntimeError as e: print('already' in str(e))\n"
        "y.sum().backward()\n"
        "print(x.grad.tolist() == (2 * (x * 2).exp()).tolist())"
    )
    assert out.split() == ["True", "True"]


def test_hooks_that_a_pack_hook_gives_first_are_kept():
    y = leaf(1.0).exp()
    raw = y.grad_fn._raw_saved_result

    def pack(t):
        raw.register_hooks(lambda t: t, lambda t: t * 2)
        return t

    with pytest.raises(RuntimeError, match="whose hooks have already been set"):
        raw.register_hooks(pack, lambda t: t * 5)
    assert y.grad_fn._saved_result.tolist() == (y * 2).tolist()


# ---- threads


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("create_graph", [False, True])
def test_sixteen_threads_add_all_their_gradients_to_one_leaf(create_graph):
    x = leaf(0.0, 0.0)
    roots = [x * 2 for _ in range(16)]

    def work(y):
        for _ in range(25 if create_graph else 200):
            y.backward(torch.ones(2), retain_graph=True, create_graph=create_graph)

    threads = [threading.Thread(target=work, args=(y,)) for y in roots]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert x.grad.tolist() == [800.0 if create_graph else 6400.0] * 2
    x.grad = None


@pytest.mark.filterwarnings("ignore:Using backward")
def test_gradients_with_and_without_history_meet_in_one_leaf():
    x = leaf(0.0, 0.0)

    def work(create_graph):
        y = x * 2
        for _ in range(50):
            y.backward(torch.ones(2), retain_graph=True, create_graph=create_graph)

    threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert x.grad.tolist() == [600.0] * 2
    x.grad = None


def test_threads_that_keep_the_gradient_of_a_result_add_them_all():
    x = leaf(1.0)
    y = x * 1
    y.retain_grad()
    z = y * 2

    def work():
        for _ in range(100):
            z.backward(torch.ones(1), retain_graph=True)

    threads = [threading.Thread(target=work) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert y.grad.tolist() == x.grad.tolist() == [1600.0]


# ---- memory that may not be written, or not so


def test_a_gradient_over_a_read_only_mapping_is_replaced_by_the_sum():
    out = run(
        "page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ)\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "x.grad = g = torch.frombuffer(page, dtype=torch.float32)[:3]\n"
        "for _ in range(2): (x * 2).sum().backward()\n"
        "print(x.grad.tolist(), g.tolist())"
    )
    assert out == "[4.0, 4.0, 4.0] [0.0, 0.0, 0.0]"


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_a_read_only_array_is_not_overwritten_by_a_gradient():
    array = np.ones(3, "f4")
    array.flags.writeable = False
    x = leaf(1.0, 1.0, 1.0)
    x.grad = torch.from_numpy(array)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [3.0] * 3 and array.tolist() == [1.0] * 3


def test_a_result_does_not_go_to_read_only_memory():
    out = run(
        "page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ)\n"
        "t = torch.frombuffer(page, dtype=torch.float32)[:3]\n"
        "try: torch.add(torch.ones(3), 1, out=t)\n"
        "except RuntimeError as e: print(e)"
    )
    assert "read-only" in out


def test_a_gradient_that_shows_one_element_twice_is_not_written():
    x = leaf(1.0, 1.0, 1.0)
    x.grad = grad = torch.zeros(1).expand(3)
    with pytest.raises(RuntimeError, match=SELF_OVERLAP):
        (x * 2).sum().backward()
    assert grad.tolist() == [0.0] * 3 and x.grad is grad


def test_a_gradient_of_inference_mode_is_written_there_alone():
    x = leaf(1.0, 1.0)
    y = (x * 2).sum()
    with torch.inference_mode():
        x.grad = torch.zeros(2)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        y.backward(retain_graph=True)
    with torch.inference_mode():
        y.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_gradient_that_overlaps_the_one_that_comes_is_not_written():
    buffer = torch.arange(5.0)
    for root in (lambda x: x, lambda x: x + 0):
        x = leaf(*[1.0] * 4)
        x.grad = buffer[:4]
        with pytest.raises(RuntimeError, match=OVERLAP):
            root(x).backward(buffer[1:])
    square = torch.arange(9.0).view(3, 3)
    x = torch.ones(3, 3, requires_grad=True)
    x.grad = square
    with pytest.raises(RuntimeError, match=OVERLAP):
        (x + 0).backward(square.t())
    assert buffer.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0] and square.flatten().tolist() == list(range(9))


def test_a_gradient_with_gaps_may_lie_between_the_elements_of_the_one_that_comes():
    buffer = torch.arange(8.0)
    x = leaf(1.0, 1.0, 1.0)
    x.grad = grad = buffer[0:6:2]
    (x + 0).backward(buffer[2:8:2])
    assert x.grad is grad and buffer.tolist() == [2.0, 1.0, 6.0, 3.0, 10.0, 5.0, 6.0, 7.0]


def test_a_gradient_may_be_the_one_that_comes():
    x, buffer = leaf(1.0, 1.0), torch.arange(2.0)
    x.grad = buffer
    (x + 0).backward(buffer)
    x.backward(x.grad)
    assert x.grad is buffer and buffer.tolist() == [0.0, 4.0]


def test_a_gradient_in_the_memory_of_its_leaf_counts_as_a_write_to_that():
    x = leaf(1.0, 1.0)
    x.grad = x.detach()
    y = (x * x).sum()
    y.backward(retain_graph=True)
    assert x.tolist() == x.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_an_expanded_gradient_is_not_summed_in_place():
    x = leaf(1.0, 2.0, 3.0)
    g = torch.tensor([5.0]).expand(3)
    y = x * 1
    torch.autograd.backward([y, y.sum(), y * 2], [g, torch.tensor(1.0), torch.ones(3)])
    assert x.grad.tolist() == [8.0] * 3


# ---- one piece of memory under two tensors


def test_tensors_over_one_array_overlap_by_their_addresses():
    array = np.arange(5, dtype="f4")
    head, tail = torch.from_numpy(array[:4]), torch.from_numpy(array[1:])
    for write in (head.add_, head.copy_, lambda t: torch.add(t, 1, out=head)):
        with pytest.raises(RuntimeError, match=OVERLAP):
            write(tail)
    assert array.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    same, again = torch.from_numpy(array), torch.from_numpy(array)
    same.add_(again)
    assert array.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
    same.copy_(again)
    assert array.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
    torch.from_numpy(array[:2]).add_(torch.from_numpy(array[2:4]))
    assert array.tolist() == [4.0, 8.0, 4.0, 6.0, 8.0]


def test_what_overlaps_in_one_array_is_read_before_it_is_written():
    n = 5000
    array = np.arange(n, dtype="f4")
    head, tail = torch.from_numpy(array[:-1]), torch.from_numpy(array[1:])
    tail[:] = head
    assert array.tolist() == [0.0, *range(n - 1)]
    array[:] = np.arange(n)
    tail[torch.arange(n - 1)] = head
    assert array.tolist() == [0.0, *range(n - 1)]
    array[:] = np.arange(n)
    tail[::2].add_(head[::2])
    assert array[1::2].tolist() == [2.0 * i + 1 for i in range(0, n - 1, 2)]
    array[:] = np.arange(n)
    torch.from_numpy(array).view(-1)[1:].sub_(torch.from_numpy(array.copy())[:-1])
    assert array.tolist() == [0.0] + [1.0] * (n - 1)


def test_an_optimizer_reads_a_gradient_in_the_memory_of_its_parameter_first():
    array = np.arange(1, 6, dtype="f4")
    p = torch.nn.Parameter(torch.from_numpy(array[:4]))
    p.grad = torch.from_numpy(array[1:])
    torch.optim.SGD([p], lr=1.0).step()
    assert array[:4].tolist() == [-1.0] * 4


def test_views_of_other_element_sizes_overlap_by_bytes():
    x = torch.arange(8.0)
    halves = x.view(torch.float16)[:8]
    with pytest.raises(RuntimeError, match=OVERLAP):
        x.add_(halves)
    assert x.tolist() == list(range(8))


def test_data_assigned_to_a_gradient_is_that_of_the_gradient():
    x = torch.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    x.grad.data = torch.full((3,), 7.0)
    assert x.grad.tolist() == [7, 7, 7]
    kept = x.grad
    kept.data = kept.data / 2
    assert x.grad is kept
    assert x.grad.tolist() == [3.5, 3.5, 3.5]
    (x * 2).sum().backward()
    assert kept.tolist() == [5.5, 5.5, 5.5], "what backward adds to is the gradient with the new data"
    given = torch.zeros(3)
    x.grad = given
    given.data = torch.ones(3)
    kept.data = torch.zeros(3)
    assert x.grad.tolist() == [1, 1, 1], "the tensor that was the gradient before has no say any more"


def test_an_optimizer_steps_with_the_data_that_was_assigned_to_a_gradient():
    layer = torch.nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    before = layer.weight.detach().clone()
    layer(torch.ones(1, 2)).sum().backward()
    for p in layer.parameters():
        p.grad.data = torch.clamp(p.grad.data, max=0.25)
    optimizer.step()
    assert torch.equal(layer.weight, before - 0.25)


def test_an_assigned_gradient_stays_the_object_that_was_assigned():
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 2))
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    numbers = [id(p.grad) for p in net.parameters()]
    assert len(set(numbers)) == 4
    net.to(torch.float64)
    assert [id(p.grad) for p in net.parameters()] == numbers
    assert all(p.grad.dtype == torch.float64 for p in net.parameters())
