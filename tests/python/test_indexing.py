"""What stands between the brackets of `x[...]`: sequences, masks, numbers out of range, and what is assigned."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import rgrad as torch


@pytest.fixture
def x():
    return torch.arange(12.0).reshape(3, 4)


def test_a_range_is_a_list_of_indices(x):
    assert x[range(2)].tolist() == x[:2].tolist()
    assert x[range(3), range(3)].tolist() == [0.0, 5.0, 10.0]
    x[range(2)] = 7
    assert x[:2].eq(7).all() and x[2].tolist() == [8.0, 9.0, 10.0, 11.0]


@pytest.mark.parametrize("key", [[[0, 1], [1, 0]], [0, slice(None)], [0, None], [0, ...], [[0, 1]]])
def test_a_list_that_holds_sequences_or_slices_stands_for_a_tuple_and_warns(x, key):
    with pytest.warns(UserWarning, match="Using a non-tuple sequence for multidimensional indexing is deprecated"):
        got = x[key]
    want = x[tuple(key)]
    assert got.shape == want.shape and got.tolist() == want.tolist()


def test_a_list_of_numbers_is_one_index_and_is_cut_to_integers(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x[[0, 1.5]].tolist() == x[:2].tolist()
        assert x[[]].shape == (0, 4)
        assert x[[True, False, True]].tolist() == x[::2].tolist()


def test_a_mask_of_bytes_picks_by_truth_and_warns(x):
    with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated"):
        got = x[torch.tensor([1, 0, 1], dtype=torch.uint8)]
    assert got.tolist() == x[::2].tolist()
    assert x[torch.tensor(1, dtype=torch.uint8)].shape == (1, 3, 4)
    assert x[torch.tensor(0, dtype=torch.uint8)].shape == (0, 3, 4)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.float32])
def test_narrow_integers_and_floats_are_no_indices(x, dtype):
    with pytest.raises(IndexError, match="tensors used as indices must be long, int, byte or bool tensors"):
        x[torch.tensor([0, 1], dtype=dtype)]


@pytest.mark.parametrize("key", [1.0, {}, object(), np.bool_(True), np.float64(1)])
def test_what_is_no_index_is_named(x, key):
    with pytest.raises(IndexError, match=r"only integers, slices \(`:`\), ellipsis .* are valid indices \(got "):
        x[key]


def test_numbers_beyond_64_bits_and_steps_that_are_not_positive_are_value_errors(x):
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        x[2**63]
    with pytest.raises(ValueError, match="slice step cannot be zero"):
        x[::0]
    with pytest.raises(ValueError, match="step must be greater than zero"):
        x[::-1]
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        x[0] = 2**64


def test_a_tensor_without_dimensions_has_too_few_of_them_for_a_list():
    for key in ([0], torch.tensor([0]), torch.tensor(0), (0, 0)):
        with pytest.raises(IndexError, match="^too many indices for tensor of dimension 0$"):
            torch.tensor(1.0)[key]
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        torch.tensor(1.0)[0]


@pytest.mark.parametrize(
    ("dtype", "value", "name"),
    [
        (torch.uint8, 300, "uint8_t"),
        (torch.uint8, -256, "uint8_t"),
        (torch.int8, 200, "int8_t"),
        (torch.int32, 2**31, "int"),
        (torch.int64, float("inf"), "int64_t"),
        (torch.int64, float("nan"), "int64_t"),
        (torch.float16, 1e39, "c10::Half"),
        (torch.float32, 1e39, "float"),
    ],
)
def test_a_number_that_a_dtype_cannot_hold_is_not_written(dtype, value, name):
    x = torch.zeros(3, dtype=dtype)
    mask, index = torch.tensor([True, False, True]), torch.tensor([0])
    writes = [
        lambda: x.fill_(value),
        lambda: torch.full((2,), value, dtype=dtype),
        lambda: torch.full_like(x, value),
        lambda: x.new_full((2,), value),
        lambda: x.masked_fill_(mask, value),
        lambda: x.index_fill_(0, index, value),
        lambda: x.scatter_(0, index, value),
        lambda: x.__setitem__(0, value),
        lambda: x.__setitem__(mask, value),
    ]
    for write in writes:
        with pytest.raises(RuntimeError, match=f"^value cannot be converted to type {name} without overflow$"):
            write()
    assert x.tolist() == [0, 0, 0]


def test_negative_numbers_wrap_in_bytes_and_infinities_are_floats():
    assert torch.zeros(1, dtype=torch.uint8).fill_(-1).item() == 255
    assert torch.full((1,), float("inf"), dtype=torch.float16).item() == float("inf")
    assert torch.zeros(1, dtype=torch.bool).fill_(1e300).item() is True


def test_set_takes_a_storage(x):
    y = torch.empty(0)
    y.set_(x.untyped_storage(), 1, (2, 2), (4, 1))
    assert y.tolist() == [[1.0, 2.0], [5.0, 6.0]] and y.storage_offset() == 1
    assert torch.empty(0).set_(x.untyped_storage()).is_set_to(x.view(12))
    assert torch.empty(0, dtype=torch.int32).set_(torch.ones(1).untyped_storage()).item() == 1065353216


def test_is_set_to_asks_for_one_memory_and_one_geometry(x):
    assert x.is_set_to(x.view(3, 4))
    assert not x.is_set_to(x.view(4, 3)) and not x.is_set_to(x.clone()) and not x.is_set_to(x[0])


def test_one_value_is_written_by_a_mask_whatever_its_dtype_and_by_indices_only_as_it_is():
    mask, index = torch.tensor([True, False]), torch.tensor([0])
    x = torch.zeros(2, 2, dtype=torch.int64)
    x[mask] = torch.tensor(1.5)
    x[:, mask] = torch.tensor([2.5])
    assert x.tolist() == [[2, 1], [2, 0]]
    for key in (index, (0, index), torch.tensor(True)):
        with pytest.raises(RuntimeError, match="Index put requires the source and destination dtypes match, got Long"):
            x[key] = torch.tensor(1.5)
    with pytest.raises(RuntimeError, match="shape mismatch: value tensor of shape"):
        x[index] = torch.ones(3)


@pytest.mark.parametrize(
    ("key", "value", "node"),
    [
        ([0, 1], 5, "IndexFillBackward0"),
        ((slice(None), [0]), 5, "IndexFillBackward0"),
        (torch.tensor([True, False]), 5, "MaskedFillBackward0"),
        (torch.tensor([True, False]), torch.tensor(5.0), "IndexPutBackward0"),
        (([0], [1]), 5, "IndexPutBackward0"),
        (..., 5, "FillBackward2"),
        (0, 5, "torch::autograd::CopySlices"),
        (False, 5, "MulBackward0"),
    ],
)
def test_an_assignment_has_the_node_of_what_it_is(key, value, node):
    x = torch.ones(2, 2, requires_grad=True)
    y = x * 2
    y[key] = value
    assert y.grad_fn.name() == node
    y.sum().backward()
    written = torch.zeros(2, 2)
    written[key] = 1
    assert x.grad.tolist() == (2 * (1 - written)).tolist()


def test_elements_that_are_one_may_be_filled_but_not_added_to():
    x = torch.ones(3)
    x.expand(2, 3).fill_(2)
    assert x.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        x.expand(2, 3).add_(1)


@pytest.mark.filterwarnings("ignore:Use of index_put_ on expanded:UserWarning")
@pytest.mark.filterwarnings("ignore:Use of index_fill_ on expanded:UserWarning")
@pytest.mark.filterwarnings("ignore:Use of masked_fill_ on expanded:UserWarning")
def test_indices_write_to_the_one_element_that_several_of_them_mean():
    i, rows = torch.tensor([0, 1]), torch.arange(8.0).view(2, 4)
    diagonal = torch.eye(3, 4, dtype=torch.bool)

    def written(change):
        x = torch.zeros(3, 1)
        change(x.expand(3, 4))
        return x.flatten().tolist()

    assert written(lambda x: x.index_put_((i, i), torch.tensor([1.0, 2.0]))) == [1, 2, 0]
    assert written(lambda x: x.index_put_((i - 3,), rows)) == [3, 7, 0]
    assert written(lambda x: x.index_put_((i * 0, i), torch.tensor(1.0), accumulate=True)) == [2, 0, 0]
    assert written(lambda x: x.masked_fill_(diagonal, 1)) == [1, 1, 1]
    assert written(lambda x: x.index_fill_(1, i, 1)) == [1, 1, 1]
    assert written(lambda x: x.index_fill_(0, i - 2, 1)) == [0, 1, 1]
    assert written(lambda x: x.__setitem__(i, 2)) == [2, 2, 0]
    assert written(lambda x: x.__setitem__((i, i), torch.tensor([1.0, 2.0]))) == [1, 2, 0]
    assert written(lambda x: x.__setitem__(diagonal, torch.arange(3.0))) == [0, 1, 2]
    assert written(lambda x: x.__setitem__(diagonal, 4)) == [4, 4, 4]
    assert written(lambda x: x.__setitem__(slice(0, 2), 1)) == [1, 1, 0]
    strip = torch.zeros(5)
    strip.as_strided((3, 3), (1, 1))[i] = 1
    assert strip.tolist() == [1, 1, 1, 1, 0]
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        written(lambda x: x.index_put_((i + 3,), torch.tensor(1.0)))


def test_each_write_by_index_to_expanded_memory_warns():
    x = torch.zeros(1).expand(4)
    for _ in range(2):
        with pytest.warns(UserWarning, match="Use of masked_fill_ on expanded tensors is deprecated"):
            x.masked_fill_(x == 0, 0)


def test_indices_do_not_lie_where_they_write():
    for change in (
        lambda i: i.index_put_((i,), i.clone()),
        lambda i: i.__setitem__(i, 5),
        lambda i: i.__setitem__(i[:2], torch.tensor([1, 2])),
    ):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
            change(torch.tensor([2, 1, 0]))
    for fill in (lambda m: m.__setitem__(m, False), lambda m: m.masked_fill_(m, False)):
        mask = torch.tensor([True, False])
        fill(mask)
        assert not mask.any()


def test_indices_into_an_empty_tensor_are_checked_in_another_place():
    with pytest.raises(RuntimeError, match="INDICES element is out of DATA bounds"):
        torch.empty(0, 3).index_select(1, torch.tensor([0, 5]))


@pytest.mark.parametrize(
    "change",
    [
        lambda x, i: x.index_add_(0, i, torch.ones(2, 4)),
        lambda x, i: x.index_copy_(0, i, torch.ones(2, 4)),
        lambda x, i: x.scatter_(0, i[None], 1.0),
        lambda x, i: x.put_(i, torch.ones(2)),
        lambda x, i: x.masked_scatter_(x == 0, torch.ones(12)),
        lambda x, i: x.__setitem__(slice(0, 2), torch.tensor(1.0)),
    ],
)
def test_other_writes_to_expanded_memory_are_refused(change):
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        change(torch.zeros(3, 1).expand(3, 4), torch.tensor([0, 1]))


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (lambda: torch.tensor(1.0).view(torch.float16), r"self.dim\(\) cannot be 0 to view Float as Half"),
        (
            lambda: torch.ones(2, 4)[:, ::2].view(torch.int64),
            r"self.stride\(-1\) must be 1 to view Float as Long .*but got 2",
        ),
        (lambda: torch.ones(3).view(torch.float64), r"self.size\(-1\) must be divisible by 2 to view Float as Double"),
        (lambda: torch.ones(5)[1:].view(torch.float64), r"self.storage_offset\(\) must be divisible by 2 .*but got 1"),
        (lambda: torch.ones(2, 3)[:, :2].view(torch.float64), r"self.stride\(0\) must be divisible by 2 .*but got 3"),
        (lambda: torch.ones(4).view(-2, 2), r"invalid shape dimension -2 at index 0 of shape \[-2, 2\]"),
    ],
)
def test_a_view_that_cannot_be_says_why(view, words):
    with pytest.raises(RuntimeError, match=words):
        view()


def test_an_error_names_the_position_of_the_index():
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 2 with size 3"):
        torch.ones(2, 3)[0, None, 5]
    with pytest.raises(IndexError, match="index is out of bounds for dimension with size 0"):
        torch.ones(0, 3)[torch.tensor([0])]


@pytest.mark.parametrize("view", [lambda x: x[1], lambda x: x[torch.tensor(1)], lambda x: x[1:].t()])
def test_a_view_of_no_elements_may_start_beyond_the_end_of_memory(view):
    x = torch.ones(2, 0, requires_grad=True)
    y = view(x)
    (y * y.detach()).sum().backward()
    assert x.grad.shape == (2, 0)


def test_integers_take_what_they_are_given_without_its_history():
    x = torch.zeros(2, dtype=torch.int64)
    x.copy_(torch.tensor([1.5, 2.5], requires_grad=True))
    x[0] = torch.tensor(7.5, requires_grad=True)
    assert x.tolist() == [7, 2] and not x.requires_grad


def test_a_slice_alone_is_a_slice_even_of_everything():
    x = torch.ones(3, 2, requires_grad=True)
    assert x[:].grad_fn.name() == x[0:3].grad_fn.name() == "SliceBackward0"
    assert x[:, :].grad_fn.name() == x[...].grad_fn.name() == "AliasBackward0"


def test_an_empty_slice_lies_where_it_starts():
    x = torch.zeros(4, 3)
    assert (x[5:9].storage_offset(), x[2:1].storage_offset(), x[:, 5:].storage_offset()) == (12, 6, 3)
    assert x.narrow(1, 3, 0).storage_offset() == 3


def test_no_index_is_looked_at_where_nothing_is_picked():
    assert torch.zeros(2, 0)[[5]].shape == (1, 0)
    x = torch.zeros(2, 0, 3)
    x[[5]] = 1.0
    assert x.shape == (2, 0, 3)


def test_a_tensor_of_indices_is_named_by_its_place_among_them():
    x = torch.zeros(2, 3, 4)
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 4"):
        x[:, :, torch.tensor([5])]
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 1 with size 4"):
        x[torch.tensor([0]), :, torch.tensor([5])]


def test_mistakes_among_indices_are_told_in_pytorchs_order():
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 1"):
        torch.zeros(3)[0, 1.5]
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        torch.zeros(3, 3)[7, 1.5]
    with pytest.raises(IndexError, match=r"valid indices \(got float\)"):
        torch.zeros(3, 3)[0, 1.5]
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 0"):
        torch.zeros(())[(0,)]
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        torch.zeros(())[0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.index_add(0, torch.tensor([0, 1]), torch.ones(3, 4)), RuntimeError,
         r"index_add_\(\): Number of indices \(2\) should be equal to source.size\(dim\): \(3\), for dim: 0"),
        (lambda x: x.index_add(0, torch.tensor([0.0, 1]), torch.ones(2, 4)), RuntimeError,
         r"index_add_\(\): Expected dtype int32/int64 for index but got: Float"),
        (lambda x: x.index_add(0, torch.tensor([[0, 1]]), torch.ones(2, 4)), IndexError,
         r"supposed to be a vector, but got dim: 2 with type: Long and size: \[1, 2\]"),
        (lambda x: x.index_add(0, torch.tensor([0, 1]), torch.ones(2, 5)), RuntimeError,
         r"excluding the specified dimension. Got self.shape = \[3, 4\] source.shape = \[2, 5\]"),
        (lambda x: x.index_add(1, torch.tensor([0, 1]), torch.ones(2)), RuntimeError,
         r"index_add_\(\): Indexing dim 1 is out of bounds of the source tensor with dim 1"),
        (lambda x: x.index_add(0, torch.tensor([0, 5]), torch.ones(2, 4)), RuntimeError,
         r"index 5 is out of bounds for dimension 0 with size 3"),
        (lambda x: x[0].index_add(0, torch.tensor([9]), torch.ones(1)), IndexError, r"index out of range in self"),
        (lambda x: x.index_copy(0, torch.tensor([0, 1]), torch.ones(3, 4)), IndexError,
         r"Number of indices \(2\) should be equal to source.size\(dim\) \(3\)"),
        (lambda x: x.index_copy(0, torch.tensor([0, 1]), torch.ones(2)), IndexError,
         r"Source dimensionality \(1\), destination dimensionality \(2\)"),
        (lambda x: x.index_copy(0, torch.tensor([0, 1]), torch.ones(2, 5)), RuntimeError,
         r"Destination slice shape: 4 at dimension 0 and source slice shape: 5 at dimension 0."),
        (lambda x: x.index_copy(0, torch.tensor([0, 5]), torch.ones(2, 4)), IndexError,
         r"index_copy_\(\): index 5 is out of bounds for dimension 0 with size 3"),
        (lambda x: x.index_copy(0, torch.tensor([0, 1], dtype=torch.int32), torch.ones(2, 4)), RuntimeError,
         r"index_copy_\(\): Expected a long tensor for index, but got Int"),
        (lambda x: x.index_fill(0, torch.tensor([[1]]), 1.0), RuntimeError, r"Index has to be a vector/scalar"),
    ],
)  # fmt: skip
def test_rows_that_do_not_fit_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(torch.zeros(3, 4))


def test_the_reduce_argument_of_scatter_is_deprecated():
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="The reduce argument of torch.scatter with Tensor src is deprecated"):
            torch.zeros(2).scatter(0, torch.tensor([0]), torch.ones(1), reduce="add")
    finally:
        torch.set_warn_always(before)


def test_an_array_is_one_index_whatever_its_rows_are():
    x = torch.arange(27.0).view(3, 3, 3)
    rows = np.array([[0, 1], [1, 0]])
    assert torch.equal(x[rows], x[torch.from_numpy(rows)])
    mask = np.zeros((3, 3, 3), dtype=bool)
    mask[1, 2, 0] = mask[2, 0, 1] = True
    assert x[mask].tolist() == [15.0, 19.0]
    x[mask] = -1.0
    x[np.array([[0, 0]])] = 0.0
    assert x[1, 2, 0] == x[2, 0, 1] == -1.0 and x[0].count_nonzero() == 0


# ---- in place

ROWS = torch.tensor([3, 0, 3, 4])
WRITES = {
    "index_add": lambda x, s: (0, ROWS, s),
    "index_copy": lambda x, s: (0, ROWS[[0, 1, 3]], s[[0, 1, 3]]),
    "index_fill": lambda x, s: (0, ROWS, 2.5),
    "index_put": lambda x, s: ((ROWS[[0, 1, 3]],), s[[0, 1, 3]]),
    "masked_fill": lambda x, s: (torch.arange(x.numel()).view(x.shape) % 3 == 0, 1.5),
    "put": lambda x, s: (torch.tensor([1, -2, 7]), s.flatten()[:3]),
    "scatter": lambda x, s: (0, ROWS.unsqueeze(1).expand(4, 3)[:2], s[:2]),
    "scatter_add": lambda x, s: (0, ROWS.unsqueeze(1).expand(4, 3), s),
    "scatter_reduce": lambda x, s: (0, ROWS.unsqueeze(1).expand(4, 3), s, "sum"),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("lies", ["plainly", "in a larger one", "transposed"])
@pytest.mark.parametrize("grad", ["none", "of both", "of the source"])
def test_writing_by_index_in_place_gives_what_it_gives_elsewhere(name, lies, grad):
    torch.manual_seed(0)
    start, source = torch.randn(5, 3), torch.randn(4, 3)

    def run(in_place):
        leaf, s = start.clone(), source.clone()
        leaf.requires_grad_(grad == "of both")
        s.requires_grad_(grad != "none")
        whole = {"plainly": leaf * 1, "in a larger one": torch.cat([leaf, leaf]), "transposed": leaf.t().clone()}[lies]
        x = {"plainly": whole, "in a larger one": whole[2:7], "transposed": whole.t()}[lies]
        if in_place:
            before = x._version
            getattr(x, name + "_")(*WRITES[name](x, s))
            assert x._version == before + 1
            y, all_ = x, whole
        else:
            y = getattr(x, name)(*WRITES[name](x, s))
            all_ = torch.cat([whole[:2], y, whole[7:]]) if lies == "in a larger one" else y
            all_ = all_.t() if lies == "transposed" else all_
        grads = []
        if all_.requires_grad:
            (all_ * torch.arange(all_.numel()).view(all_.shape)).sum().backward()
            grads = [t.grad for t in (leaf, s)]
        return y.detach(), all_.detach(), grads

    (y, all_, grads), (y2, all2, grads2) = run(True), run(False)
    assert torch.equal(y, y2) and torch.equal(all_, all2)
    assert [g is None for g in grads] == [g is None for g in grads2]
    assert all(torch.equal(g, g2) for g, g2 in zip(grads, grads2, strict=True) if g is not None)


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_by_index_no_longer_has_the_values_that_were_saved(name):
    x = torch.randn(5, 3)
    w = torch.randn(5, 3, requires_grad=True)
    y = (w * x).sum()
    getattr(x, name + "_")(*WRITES[name](x, torch.randn(4, 3)))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_an_index_out_of_bounds_writes_nothing():
    x, far = torch.zeros(3, 2), torch.tensor([0, 5])
    for write in (
        lambda: x.index_add_(0, far, torch.ones(2, 2)),
        lambda: x.index_copy_(0, far, torch.ones(2, 2)),
        lambda: x.index_put_((far,), torch.ones(2, 2)),
        lambda: x.scatter_(0, far.view(2, 1), 1.0),
        lambda: x.scatter_add_(0, far.view(2, 1), torch.ones(2, 1)),
        lambda: x.put_(torch.tensor([0, 6]), torch.ones(2)),
    ):
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            write()
    assert not x.any()


ONE_ROW = """
import rgrad as torch

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024

table, row, at = torch.zeros(1 << 16, 256), torch.ones(1, 256), torch.tensor([7])
before = peak()
table.index_add_(0, at, row)
table.index_copy_(0, at, row)
table.index_put_((at,), row)
table.scatter_add_(0, at.view(1, 1), row)
source = row.clone().requires_grad_()
table.index_add_(0, at, source)
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
def test_writing_a_row_copies_no_table():
    command = [sys.executable, "-c", ONE_ROW]
    # The table takes 64 MB.
    assert float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) < 8
