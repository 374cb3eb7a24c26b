import itertools

import numpy as np
import pytest

import rgrad as torch

FACTORIES = {
    "zeros": (4,),
    "ones": (4,),
    "full": ((4,), 2.0),
    "arange": (1, 5),
    "linspace": (0, 3, 4),
    "logspace": (0, 3, 4),
    "eye": (2,),
    "rand": (4,),
    "randn": (4,),
    "randperm": (4,),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_what_is_created_into_an_output_has_its_dtype(name):
    create, arguments = getattr(torch, name), FACTORIES[name]
    for dtype in (torch.float64, torch.float32) if name.startswith("rand") else (torch.float64, torch.int64):
        if name == "rand":
            torch.manual_seed(5)
        state = torch.get_rng_state()
        expected = create(*arguments, dtype=dtype)
        torch.set_rng_state(state)
        out = torch.empty(0, dtype=dtype)
        assert create(*arguments, out=out) is out and out.equal(expected)
    with pytest.raises(RuntimeError, match="dtype Double does not match dtype of out parameter .Float."):
        create(*arguments, dtype=torch.float64, out=torch.empty(0, dtype=torch.float32))


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("name", ["arange", "linspace", "logspace", "range"])
def test_a_sequence_fills_an_output_of_any_shape_in_order(name):
    arguments = (0, 4) if name == "arange" else (0, 3) if name == "range" else (0, 3, 4)
    expected = getattr(torch, name)(*arguments).tolist()
    x = torch.zeros(2, 3)
    getattr(torch, name)(*arguments, out=x[:, 1:])
    assert x[:, 1:].flatten().tolist() == expected and x[:, 0].tolist() == [0, 0]


def test_ranges_and_draws_beyond_a_dtypes_integers_warn():
    with pytest.warns(UserWarning, match="torch.range is deprecated"):
        torch.range(0, 3)
    with pytest.warns(UserWarning, match=r"from is out of bounds \[-\(2\^24\), 2\^24\]"):
        torch.empty(2).random_(-(2**40), 1)
    with pytest.warns(UserWarning, match="to - 1 is out of bounds"):
        torch.empty(2, dtype=torch.float16).random_(0, 5000)


def test_vectors_without_elements_join_along_any_dimension():
    empty = torch.empty(0)
    assert torch.cat([empty, empty], dim=1).shape == (0,)
    assert torch.cat([empty, torch.ones(2, 3)], dim=1).shape == (2, 3)


def test_diff_names_the_dimension_in_which_a_prepended_tensor_differs():
    with pytest.raises(RuntimeError, match=r"shape of tensor to prepend or append.*input.size\(1\) = 3"):
        torch.ones(2, 3).diff(dim=0, prepend=torch.ones(1, 2))


def test_meshgrid_and_block_diag_tell_empty_and_mixed_inputs():
    with pytest.raises(RuntimeError, match="expects a non-empty TensorList"):
        torch.meshgrid(indexing="ij")
    with pytest.raises(RuntimeError, match="expects a non-empty TensorList"):
        torch.meshgrid()
    with pytest.raises(RuntimeError, match="same device"):
        torch.meshgrid(torch.ones(1), torch.ones(1, device="meta"), indexing="ij")


def test_draws_outside_of_a_dtypes_range_are_errors():
    with pytest.raises(RuntimeError, match="uniform_ expects to-from"):
        torch.ones(2).uniform_(-3e38, 3e38)
    assert torch.ones(2, dtype=torch.float64).uniform_(-3e38, 3e38).isfinite().all()
    with pytest.raises(RuntimeError, match=r"n cannot be greater than 2\^11\+1 for Half"):
        torch.randperm(2**11 + 2, dtype=torch.float16)
    assert torch.randperm(2**11 + 1, dtype=torch.float16).numel() == 2**11 + 1
    drawn = torch.bernoulli(torch.full((64,), 0.5), out=torch.empty(64, dtype=torch.int32))
    assert drawn.dtype == torch.int32 and set(drawn.tolist()) <= {0, 1}


def test_an_output_without_elements_takes_the_strides_of_the_result():
    x = torch.randn(2, 3, 4).permute(2, 0, 1)
    for operation in (torch.exp, torch.signbit):
        out = operation(x, out=torch.empty(0, dtype=operation(x).dtype))
        assert out.stride() == operation(x).stride() == (1, 12, 4) and out.equal(operation(x))


def test_ravel_is_contiguous():
    x = torch.arange(10.0)[::2]
    assert x.ravel().is_contiguous() and x.ravel().equal(x)
    assert torch.ones(2, 3).ravel()._base is not None


def test_outputs_of_exact_operations_have_the_dtype_of_the_input():
    for operation in (torch.neg, torch.floor, torch.round, torch.sign, torch.trunc, torch.abs):
        with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
            operation(torch.ones(2), out=torch.empty(2, dtype=torch.float64))
    assert torch.exp(torch.zeros(2), out=torch.empty(2, dtype=torch.float64)).tolist() == [1, 1]


def test_no_tensor_is_made_in_a_sparse_layout():
    with pytest.raises(NotImplementedError, match="there are none of layout torch.sparse_coo"):
        torch.zeros(2, layout=torch.sparse_coo)
    assert torch.zeros(2, layout=torch.strided).shape == (2,)


def test_a_range_whose_output_has_another_number_of_elements_warns():
    with pytest.warns(UserWarning, match="The out tensor will be resized"):
        assert torch.arange(4, out=torch.zeros(3)).shape == (4,)


def test_an_output_that_is_created_may_require_grad():
    out = torch.zeros(3)
    assert torch.ones(3, out=out, requires_grad=True) is out and out.requires_grad and out.is_leaf
    assert out.tolist() == [1, 1, 1]


def test_views_of_leaves_of_inference_mode_require_no_grad():
    with torch.inference_mode():
        leaf = torch.ones(2, 3, requires_grad=True)
        assert leaf.requires_grad and not leaf.view(-1).requires_grad and not leaf[0].requires_grad
    x = torch.ones(2, 3, requires_grad=True)
    with torch.inference_mode():
        assert x.view(-1).requires_grad


def test_devices_of_different_kinds_hash_differently():
    devices = [torch.device(name) for name in ("cpu", "cpu:0", "meta", "meta:0")]
    assert len({hash(d) for d in devices}) == 4


def test_a_meta_number_is_formatted_as_a_tensor():
    x = torch.ones((), device="meta")
    assert f"{x}" == repr(x)


def test_the_first_index_that_is_none_is_what_the_error_tells():
    x = torch.ones(2, 3)
    with pytest.raises(IndexError):
        x[0.0, 0.0:2.0]
    with pytest.raises(TypeError, match="slice indices"):
        x[0, 0.0:2.0]


class Sequence:
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return self.items[index]


def test_any_sequence_is_data_and_its_faults_are_told():
    assert torch.tensor(Sequence([1.0, 2.0, 3.0])).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="could not determine the shape of object type 'Sequence'"):
        torch.tensor(Sequence([]))
    with pytest.raises(TypeError, match="invalid data type 'str'"):
        torch.tensor([0, "text"])
    with pytest.raises(ValueError, match="too many dimensions 'str'"):
        torch.tensor(["text"])
    itself: list[object] = [0]
    itself.append(itself)
    for data in (itself, [[1, 2], itself]):
        with pytest.raises(TypeError, match="self-referential lists are incompatible"):
            torch.tensor(data)
    with pytest.raises(ValueError, match=r"expected sequence of length 2 at dim 1 \(got 3\)"):
        torch.tensor([np.ones(2), np.ones(3)])
    assert torch.tensor([2**70, 0], dtype=torch.bool).tolist() == [True, False]


def test_buffers_without_dimensions_and_capsules_are_shared():
    array = np.array(2.5)
    shared = torch.frombuffer(array, dtype=torch.float64)
    array[...] = 3.0
    assert shared.tolist() == [3.0]
    x = torch.ones(3)
    assert torch.asarray(x.__dlpack__()).data_ptr() == x.data_ptr()
    assert torch.asarray(x.__dlpack__(), copy=True).data_ptr() != x.data_ptr()


def test_a_tensor_argument_of_the_legacy_constructor_excludes_a_device():
    for construct in (torch.Tensor, torch.ones(1).new):
        with pytest.raises(RuntimeError, match="Legacy tensor constructor"):
            construct(torch.ones(1), device="cpu")


def test_complex_numbers_do_not_go_into_real_tensors():
    for write in (
        lambda x: x.add_(1j),
        lambda x: x.fill_(1j),
        lambda x: x.index_fill_(0, torch.tensor([0]), 1j),
    ):
        with pytest.raises(RuntimeError, match="complex Scalar"):
            write(torch.ones(2))


def test_indexed_writes_refuse_inputs_that_share_their_memory():
    index = torch.tensor([2, 1, 0])
    for write in (
        lambda: index.index_add_(0, index, index.clone()),
        lambda: index.index_add_(0, index.clone(), index),
        lambda: index.index_copy_(0, index, index.clone()),
        lambda: index.put_(index, index.clone()),
        lambda: index.scatter_(0, index, index.clone()),
    ):
        with pytest.raises(RuntimeError, match="unsupported operation"):
            write()
    x = torch.tensor([3.0, 1.0, 2.0])
    places = torch.empty(0, dtype=torch.int64)
    torch.sort(x, out=(x, places))
    assert x.tolist() == [1, 2, 3] and places.tolist() == [1, 2, 0]


def test_reductions_of_more_than_64_dimensions_are_errors():
    x = torch.ones([1] * 65)
    for reduce, dim in itertools.product((torch.sum, torch.amax, torch.any, torch.logsumexp, torch.var), (0, -1)):
        with pytest.raises(RuntimeError, match="up to 64 dims"):
            reduce(x, dim=dim)
    assert torch.ones([1] * 64).sum(dim=63).shape == (1,) * 63


@pytest.mark.parametrize("rank", [2, 3])
def test_positions_that_are_no_numbers_read_no_pixel_outside(rank):
    image, grid = torch.ones(1, 1, *[3] * rank), torch.full((1, *[2] * rank, rank), float("nan"))
    for mode, padding in itertools.product(("bilinear", "nearest"), ("zeros", "border", "reflection")):
        result = torch.nn.functional.grid_sample(image, grid, mode, padding, align_corners=False)
        assert result.shape == (1, 1, *[2] * rank)


def test_every_backward_with_a_graph_warns_when_warnings_are_always_wanted():
    torch.set_warn_always(True)
    try:
        for _ in range(2):
            x = torch.ones(2, requires_grad=True)
            with pytest.warns(UserWarning, match="create_graph=True"):
                (x * x).sum().backward(create_graph=True)
            x.grad = None
    finally:
        torch.set_warn_always(False)
