"""Requests that no memory holds, numbers that no index holds, and loops that the user ends."""

import signal
import subprocess
import sys
import time

import pytest

import rgrad
import rgrad.nn.functional as F

MEMORY = r"can't allocate memory: you tried to allocate \d+ bytes|Storage size calculation overflowed"


def run(text, seconds=60):
    """Runs a program that once did not end, in a process of its own."""
    program = (
        "import rgrad, rgrad.nn.functional as F\n"
        f"try:\n    print(repr({text}))\n"
        "except Exception as e:\n    print(type(e).__name__, e)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "text",
    [
        "rgrad.triu_indices(1, 2**40, -1)",
        "rgrad.tril_indices(2**40, 2**40)",
        "rgrad.tril_indices(2**63 - 1, 2**63 - 1, 2**63 - 1)",
        "rgrad.randperm(2**62)",
        "rgrad.randperm(2**40)",
        "rgrad.combinations(rgrad.ones(300), 100)",
        "rgrad.combinations(rgrad.ones(3), 2**62, with_replacement=True)",
        "rgrad.ones(1).expand(2**40, 3).tolist()",
        "rgrad.repeat_interleave(rgrad.tensor([2**62, 2**62, 5]))",
        "F.interpolate(rgrad.ones(1, 1, 2, 2), size=(2**40, 1), mode='bilinear')",
        "F.interpolate(rgrad.ones(0, 1, 2, 2), size=(2**40, 1), mode='bilinear')",
    ],
)
def test_what_cannot_fit_is_refused_and_does_not_end_the_process(text):
    assert "RuntimeError" in (told := run(text)) and ("allocate" in told or "overflowed" in told), told


def test_indices_of_a_triangle_take_the_time_of_their_number():
    assert run("rgrad.tril_indices(5, 2**63 - 1, 1).shape") == "torch.Size([2, 20])\n"
    assert run("rgrad.triu_indices(2**40, 3, 0).tolist()") == "[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]\n"
    assert run("rgrad.tril_indices(2**62, 0).shape") == "torch.Size([2, 0])\n"
    assert run("rgrad.combinations(rgrad.ones(3), 2**62).shape") == "torch.Size([0, 4611686018427387904])\n"


@pytest.mark.parametrize("offset", [-(2**63), -7, -2, -1, 0, 1, 3, 9, 2**63 - 1])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (3, 5), (5, 3)])
def test_indices_of_a_triangle_are_where_the_triangle_is(shape, offset):
    whole = [(i, j) for i in range(shape[0]) for j in range(shape[1])]
    for indices, inside in ((rgrad.tril_indices, int.__le__), (rgrad.triu_indices, int.__ge__)):
        wanted = [p for p in whole if inside(p[1] - p[0], offset)]
        assert list(zip(*indices(*shape, offset).tolist(), strict=True)) == wanted


@pytest.mark.parametrize("size", [2**36, 2**45, 2**58, 2**59, 2**62, 2**63 - 1])
def test_a_size_beyond_memory_is_refused_by_whatever_makes_tensors(size):
    makers = [
        lambda: rgrad.empty(size),
        lambda: rgrad.zeros(size),
        lambda: rgrad.ones(size, dtype=rgrad.float64),
        lambda: rgrad.full((size,), 2.0),
        lambda: rgrad.arange(size),
        lambda: rgrad.linspace(0, 1, size),
        lambda: rgrad.rand(size),
        lambda: rgrad.ones(1).repeat(size),
        lambda: rgrad.ones(2).repeat_interleave(size),
        lambda: rgrad.ones(1).expand(size).contiguous(),
        lambda: rgrad.eye(size, 2),
        lambda: rgrad.bincount(rgrad.tensor([0]), minlength=size),
        lambda: F.pad(rgrad.ones(2), (size, 0)),
        lambda: F.one_hot(rgrad.tensor([0]), size),
        lambda: rgrad.diag_embed(rgrad.ones(2), size),
        lambda: rgrad.empty(0).resize_(size),
        lambda: rgrad.empty_strided((2,), (size,)),
        lambda: F.adaptive_max_pool1d(rgrad.ones(1, 2, 3), size, return_indices=True),
        lambda: F.interpolate(rgrad.ones(1, 1, 2), size=size),
        lambda: rgrad.UntypedStorage(size),
    ]
    for n, make in enumerate(makers):
        with pytest.raises((RuntimeError, OverflowError)) as e:
            make()
        assert "panicked" not in str(e.value), n


def test_a_product_of_sizes_beyond_an_index_is_refused():
    huge = rgrad.ones(1, 1)
    for make in (
        lambda: huge.expand(2**62, 4),
        lambda: huge.expand(2**40, 2**40),
        lambda: huge.as_strided((2**62, 4), (0, 0)),
        lambda: huge.expand(2**40, 1) + huge.expand(1, 2**40),
        lambda: rgrad.meshgrid(huge[0].expand(2**40), huge[0].expand(2**40), indexing="ij"),
        lambda: huge[0].expand(2**62).unfold(0, 2**61, 1),
        lambda: rgrad.zeros(0, 2**62, 4),
        lambda: rgrad.zeros(0).view(0, 2**62, 2**62),
        lambda: rgrad.empty(3, 5).resize_(2, 2**63 - 1, 5),
        lambda: rgrad.kron(huge.expand(2**31, 2**31), rgrad.ones(3, 2)),
        lambda: rgrad.unravel_index(rgrad.tensor([1]), (4, 2**63 - 1)),
    ):
        with pytest.raises(RuntimeError, match="overflow"):
            make()


def test_a_single_element_seen_as_several_has_them_side_by_side():
    t = rgrad.tensor([1, 256 + 2, 3], dtype=rgrad.int16)[1::2]
    assert t.stride() == (2,) and t.view(rgrad.uint8).tolist() == [2, 1]


def test_an_expanded_tensor_may_have_more_elements_than_memory():
    t = rgrad.ones(1).expand(2**62)
    assert t.numel() == 2**62 and t.shape == (2**62,) and t.stride() == (0,)
    t = rgrad.ones(3, 4)[0:0].expand(2**60, 0, 4)
    assert t.numel() == 0 and t.shape == (2**60, 0, 4)


def test_numbers_at_the_ends_of_their_range_do_not_wrap():
    least, most = -(2**63), 2**63 - 1
    x = rgrad.arange(12.0).reshape(3, 4)
    assert rgrad.equal(rgrad.roll(x, most, 0), rgrad.roll(x, most % 3, 0))
    assert rgrad.equal(rgrad.roll(x, least), rgrad.roll(x, least % 12))
    leaf = rgrad.arange(12.0).requires_grad_()
    (rgrad.roll(leaf, least) * rgrad.arange(12.0)).sum().backward()
    assert rgrad.equal(leaf.grad, rgrad.roll(rgrad.arange(12.0), -(least % 12)))
    assert x[::most].tolist() == [[0.0, 1.0, 2.0, 3.0]]
    assert x.unfold(0, 1, most).shape == (1, 4, 1)
    assert x.diagonal(least).shape == x.diagonal(most).shape == (0,)
    assert rgrad.add(True, 2**61, alpha=-1000).item() == (1 - 1000 * 2**61 + 2**63) % 2**64 - 2**63
    for pads in ((most, most), (least, least), (0, most)):
        with pytest.raises(RuntimeError):
            F.pad(x, pads)
    with pytest.raises(RuntimeError, match="split_sizes to sum exactly"):
        x.split_with_sizes((most, 1))
    for n in (2**40, 2**62, most):
        for arguments in ({"stride": n}, {"padding": n}, {"dilation": n}):
            for f in (F.conv2d, F.conv_transpose2d):
                try:
                    f(rgrad.ones(1, 1, 4, 4), rgrad.ones(1, 1, 2, 2), **arguments)
                except RuntimeError as e:
                    assert "panicked" not in str(e)


@pytest.mark.parametrize("pieces", [lambda t: t.unbind(), lambda t: t.split(1), lambda t: t.tensor_split(2**40)])
def test_more_views_than_memory_holds_are_refused(pieces):
    with pytest.raises(RuntimeError, match="pieces are more than"):
        pieces(rgrad.ones(1).expand(2**40))


def test_a_size_of_more_numbers_than_memory_holds_is_refused():
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        rgrad.ones(2).new(size=range(2**62))
    assert rgrad.ones(2).new(size=range(2, 4)).shape == (2, 3)


class Stop(Exception):
    pass


@pytest.fixture
def alarm():
    """Has the main thread raise `Stop` after some seconds of CPU time, as Ctrl-C has it raise `KeyboardInterrupt`."""

    def ring(*_):
        raise Stop

    before = signal.signal(signal.SIGPROF, ring)
    yield lambda seconds: signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


@pytest.mark.parametrize("call", [lambda a: a @ a, lambda a: a.mm(a), lambda a: (a @ a).sum().backward()])
def test_ctrl_c_ends_a_kernel(call, alarm):
    # CPU time, all threads counted, does not depend on what else the machine does.
    n, took = 256, 0.0
    while took < 1:
        n *= 2
        a = rgrad.ones(n, n, requires_grad=True)
        start = time.process_time()
        call(a)
        took = time.process_time() - start
    start = time.process_time()
    with pytest.raises(Stop):
        alarm(took / 10)
        call(a)
    assert time.process_time() - start < 0.8 * took
    # The pool works on.
    assert (rgrad.ones(600, 600) @ rgrad.ones(600, 600)).sum() == 600**3


@pytest.mark.parametrize("write", [lambda i: i.fill_(10**6), lambda i: i.numpy().fill(-(10**6))])
@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool1d(x, 2, return_indices=True),
        lambda x: F.max_pool2d(x, 2, return_indices=True),
        lambda x: F.adaptive_max_pool2d(x, 2, return_indices=True),
    ],
)
def test_indices_of_pooling_that_were_written_before_backward_are_an_error(pool, write):
    x = rgrad.randn(1, 4, 4, requires_grad=True)
    y, indices = pool(x)
    write(indices)
    with pytest.raises((RuntimeError, IndexError), match="inplace operation|out of range"):
        y.sum().backward()


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("[x := rgrad.zeros((), dtype=rgrad.int64).expand(2**40, 3), x.__setitem__(slice(None), -1.5)][0][0, 0]", "-1"),
        ("rgrad.zeros(()).expand(2**40, 3).fill_(2).fill_diagonal_(3, True)[0, 0]", "3."),
        ("rgrad.zeros(3).expand(2**40, 3).fill_(2)[5]", "[2., 2., 2.]"),
    ],
)
def test_filling_an_expanded_tensor_writes_each_of_its_elements_once(call, shown):
    assert run(call) == f"tensor({shown})\n"


def test_gradients_of_scatters_with_no_index_are_those_of_the_input_alone():
    for shape, source in (((0,), (4, 7)), ((0, 1, 2), (6, 5))):
        index = rgrad.zeros(shape, dtype=rgrad.int64)
        x, src = rgrad.ones(4, 5, requires_grad=True), rgrad.ones(source, requires_grad=True)
        x.scatter_add(1, index, src).sum().backward()
        assert x.grad.equal(rgrad.ones(4, 5)) and src.grad.equal(rgrad.zeros(source))


def test_dimensions_of_a_tensor_without_any_cannot_be_contracted():
    with pytest.raises(IndexError, match="has no dimensions"):
        rgrad.tensordot(rgrad.tensor(2), rgrad.ones(1, 2), ([-1], [0]))


@pytest.mark.parametrize("plane", [(9,), (30, 40), (7, 8, 9)])
def test_a_convolution_over_no_channels_is_its_bias(plane):
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(plane) - 1]
    x, weight = rgrad.randn(2, 0, *plane), rgrad.randn(12, 0, *(3 for _ in plane))
    shape = (2, 12, *(n - 2 for n in plane))
    assert convolve(x, weight).equal(rgrad.zeros(shape))
    bias = rgrad.arange(12.0)
    assert convolve(x, weight, bias).equal(bias.reshape(12, *(1 for _ in plane)).expand(shape))
