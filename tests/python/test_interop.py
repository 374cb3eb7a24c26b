"""Memory shared with NumPy, buffers and DLPack; storages."""

import gc
import mmap
import weakref
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import rgrad as torch
from rgrad import _C
from rgrad._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from rgrad.utils.dlpack import from_dlpack, to_dlpack

NUMPY_DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


# NumPy


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3,), (2, 3)])
def test_every_dtype_and_shape_goes_to_numpy_and_back(dtype, shape):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    tensor = torch.from_numpy(array)
    assert tensor.dtype == getattr(torch, dtype)
    assert tuple(tensor.shape) == shape
    back = tensor.numpy()
    assert back.dtype == array.dtype and back.shape == shape
    np.testing.assert_array_equal(back, array)


def test_a_parameter_becomes_an_array_where_no_gradients_are_recorded():
    p = torch.nn.Parameter(torch.ones(2))
    with pytest.raises(RuntimeError, match="requires grad"):
        p.numpy()
    with torch.no_grad():
        p.numpy()[0] = 5
        assert np.asarray(p).tolist() == [5.0, 1.0]


def test_writes_are_seen_on_both_sides():
    array = np.zeros(3, np.float32)
    tensor = torch.from_numpy(array)
    array[0] = 1
    tensor.add_(2)
    assert tensor.tolist() == array.tolist() == [3, 2, 2]
    tensor.numpy()[1] = 7
    assert array[1] == 7


def test_strides_of_both_signs_are_kept():
    array = np.arange(12, dtype=np.int64).reshape(3, 4)
    for view in (array.T, array[::2], array[:, ::-1], array[::-1, ::-2], array[1:, 1::2]):
        tensor = torch.from_numpy(view)
        assert tensor.tolist() == view.tolist()
        assert (tensor + 1).tolist() == (view + 1).tolist()
    torch.from_numpy(array[::-1]).add_(1)
    assert array[0, 0] == 1


def test_a_tensor_keeps_its_array_alive_and_no_longer():
    class Array(np.ndarray):
        pass

    array = np.arange(3.0).view(Array)
    gone = weakref.ref(array)
    tensor = torch.from_numpy(array)[1:]
    del array
    gc.collect()
    assert gone() is not None and tensor.tolist() == [1, 2]
    del tensor
    gc.collect()
    assert gone() is None


def test_an_array_keeps_the_memory_of_its_tensor_alive():
    array = torch.full((1000,), 3.0).numpy()
    fresh = [torch.zeros(1000) for _ in range(8)]
    assert (array == 3).all() and len(fresh) == 8


def test_a_read_only_array_becomes_a_tensor_that_is_read_only():
    array = np.arange(3)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="The given NumPy array is not writable"):
        tensor = torch.from_numpy(array)
    with pytest.raises(RuntimeError, match="read-only"):
        tensor.add_(1)
    assert not tensor.numpy().flags.writeable
    assert (tensor + 1).tolist() == [1, 2, 3]
    torch.tensor(array).add_(1)
    assert array.tolist() == [0, 1, 2]


def test_arrays_that_cannot_be_shared_are_refused():
    with pytest.raises(TypeError, match=r"expected np\.ndarray \(got list\)"):
        torch.from_numpy([1])
    with pytest.raises(TypeError, match=r"expected np\.ndarray \(got numpy\.float32\)"):
        torch.from_numpy(np.float32(1))
    with pytest.raises(TypeError, match=r"can't convert np\.ndarray of type numpy\.str_"):
        torch.from_numpy(np.array(["a"]))
    with pytest.raises(TypeError, match=r"can't convert np\.ndarray of type numpy\.object_"):
        torch.tensor(np.array([object()]))
    with pytest.raises(ValueError, match="byte order different"):
        torch.from_numpy(np.ones(2, ">f4"))
    records = np.zeros(3, dtype=[("a", "u1"), ("b", "f4")])
    with pytest.raises(ValueError, match="not a multiple of the element byte size"):
        torch.from_numpy(records["b"])


def test_asarray_shares_and_array_copies():
    tensor = torch.zeros(2)
    np.asarray(tensor)[0] = 1
    np.asarray(tensor, np.float32)[1] = 2
    np.array(tensor)[:] = 9
    np.asarray(tensor, np.float64)[:] = 9
    assert tensor.tolist() == [1, 2]
    with pytest.raises(ValueError):
        np.asarray(tensor, np.float64, copy=False)


def test_what_numpy_cannot_hold_is_refused():
    with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
        torch.ones(1, dtype=torch.bfloat16).numpy()
    tensor = torch.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"Use tensor\.detach\(\)\.numpy\(\) instead"):
        np.asarray(tensor)
    assert tensor.numpy(force=True).tolist() == [1]


def test_numpy_numbers_and_functions_meet_tensors():
    tensor = torch.tensor([1.0, 2.0])
    for result in (
        np.float32(2) * tensor,
        np.float64(2) * tensor,
        tensor * np.float64(2),
        np.int64(2) * tensor,
    ):
        assert isinstance(result, torch.Tensor) and result.dtype == torch.float32
        assert result.tolist() == [2, 4]
    assert (np.float32(1) - tensor).tolist() == [0, -1]
    assert (np.int64(2) ** tensor).tolist() == [2, 4]
    square = np.square(tensor)
    assert isinstance(square, torch.Tensor) and square.tolist() == [1, 4]
    assert np.isfinite(tensor).dtype == torch.uint8


def test_an_array_is_divided_by_a_tensor_and_meets_it_in_no_other_operation_from_the_left():
    tensor, array = torch.tensor([1.0, 4.0]), np.array([2.0, 3.0])
    quotient = array / tensor
    assert isinstance(quotient, torch.Tensor) and quotient.dtype == torch.float64
    assert quotient.tolist() == [2, 0.75]
    assert (np.array(2) / torch.tensor([1, 4])).tolist() == [2, 0.5]
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
        array / torch.ones(2, requires_grad=True)
    for refused in (
        lambda: array - tensor,
        lambda: array**tensor,
        lambda: array // tensor,
        lambda: array < tensor,
        lambda: np.array(2.0) * tensor,
    ):
        with pytest.raises(TypeError):
            refused()


def test_an_array_without_dimensions_is_an_array_and_no_number():
    tensor, array = torch.ones(3), np.array(2.0)
    difference = tensor - array
    assert difference.dtype == torch.float64 and difference.tolist() == [-1, -1, -1]
    for refused in (
        lambda: torch.full((2,), array),
        lambda: tensor.add(array),
        lambda: tensor.fill_(array),
        lambda: tensor > array,
    ):
        with pytest.raises(TypeError):
            refused()


def test_a_dtype_says_to_what_a_fraction_is_converted():
    third = Fraction(1, 3)
    assert torch.tensor(third, dtype=torch.float64).item() == 1 / 3
    assert torch.tensor([[third], [1]], dtype=torch.float32).tolist() == [[np.float32(1 / 3)], [1]]
    assert torch.as_tensor([Decimal("1.5"), 2], dtype=torch.float16).tolist() == [1.5, 2]
    with pytest.raises(TypeError, match="'Fraction' object cannot be interpreted as an integer"):
        torch.tensor(third, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="Could not infer dtype of Fraction"):
        torch.tensor(third)


@pytest.mark.parametrize(
    "show", [torch.Tensor.numpy, np.asarray, lambda x: x[:2].numpy(), lambda x: x.detach().numpy()]
)
def test_memory_that_an_array_shows_stays_where_it_is(show):
    x = torch.arange(4.0)
    assert x.untyped_storage().resizable()
    array = show(x)
    assert not x.untyped_storage().resizable()
    assert x.resize_(2).resize_(4).tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        x.resize_(100)
    x.zero_()
    assert not array.any() and x.clone().resize_(100).shape == (100,)


def test_tensor_and_as_tensor_take_arrays_and_numpy_numbers():
    array = np.arange(3, dtype=np.int32)
    copy, shared = torch.tensor(array), torch.as_tensor(array)
    array[0] = 5
    assert copy.tolist() == [0, 1, 2] and shared.tolist() == [5, 1, 2]
    assert torch.as_tensor(array, dtype=torch.float64).dtype == torch.float64
    assert torch.as_tensor(shared) is shared
    assert torch.tensor(np.float32(1)).dtype == torch.float32
    assert torch.tensor([np.float64(1)]).dtype == torch.float64
    assert torch.tensor([np.ones(2), np.zeros(2)]).tolist() == [[1, 1], [0, 0]]


def test_a_tensor_of_one_element_in_a_sequence_stands_for_a_number():
    one = torch.ones
    assert torch.tensor([one(1), one(1, 1), one(()), 2]).tolist() == [1, 1, 1, 2]
    assert torch.tensor([[1, 2], [one(1), one(())]]).tolist() == [[1, 2], [1, 1]]
    assert torch.tensor([one(1)]).shape == (1,)
    for elements in ([one(2), one(2)], [one(0)], [1, one(2)]):
        with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
            torch.tensor(elements)


def test_a_tensor_in_a_longer_sequence_stands_for_its_elements():
    assert torch.tensor([[1, 2], torch.tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]
    assert torch.tensor([[1, 2], torch.ones(2, 1)]).tolist() == [[1, 2], [1, 1]]
    with pytest.raises(ValueError, match=r"expected sequence of length 2 at dim 1 \(got 3\)"):
        torch.tensor([[1, 2], torch.ones(3)])
    with pytest.raises(TypeError, match="not a sequence"):
        torch.tensor([[1, 2], torch.ones(())])


def test_numbers_and_tensors_in_one_sequence_have_a_promoted_dtype():
    count, half = torch.tensor([1]), torch.ones(1, dtype=torch.float16)
    assert torch.tensor([count, 2.5]).tolist() == [1, 2.5]
    assert torch.tensor([half, 2]).dtype == torch.float16
    assert torch.tensor([half, 2.5]).dtype == torch.float32
    assert torch.tensor([count.int(), True]).dtype == torch.int32


# Buffers and storages


def test_the_bytes_of_a_storage_are_the_memory_itself():
    tensor = torch.tensor([1, 256], dtype=torch.int16)
    view = _C._storage_bytes(tensor[1:])
    assert isinstance(view, memoryview) and view.format == "B" and not view.readonly
    assert bytes(view) == b"\1\0\0\1"
    view[0] = 2
    assert tensor.tolist() == [2, 256]
    del tensor
    gc.collect()
    assert bytes(view) == b"\2\0\0\1"
    assert bytes(_C._storage_bytes(torch.empty(0))) == b""


def test_the_bytes_of_a_read_only_storage_are_read_only():
    tensor = _C._tensor_from_buffer(b"abcd", torch.uint8, 0, 4)
    view = _C._storage_bytes(tensor)
    assert view.readonly and bytes(view) == b"abcd"
    with pytest.raises(RuntimeError, match="read-only"):
        tensor.zero_()
    with pytest.raises(RuntimeError, match="read-only"):
        tensor.untyped_storage()[0] = 1


@pytest.mark.parametrize("wrap", [lambda b: b, memoryview, np.asarray])
def test_a_tensor_over_a_buffer_shares_its_memory(wrap):
    data = bytearray(16)
    tensor = _C._tensor_from_buffer(wrap(data), torch.int32, 4, 3)
    tensor.fill_(-1)
    assert data == b"\0" * 4 + b"\xff" * 12
    with pytest.raises(BufferError):
        data.clear()
    del tensor
    gc.collect()
    data.clear()


def test_a_tensor_over_a_mapped_file_keeps_the_mapping(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(np.arange(4, dtype=np.float32).tobytes())
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    tensor = _C._tensor_from_buffer(memoryview(mapped), torch.float32, 4, 3)
    del mapped
    gc.collect()
    assert tensor.tolist() == [1, 2, 3]
    tensor.zero_()
    assert np.fromfile(path, np.float32).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("offset, numel", [(0, 5), (4, 4), (17, 0), (2**63, 1), (0, 2**62), (16, 1)])
def test_a_tensor_never_reaches_beyond_its_buffer(offset, numel):
    with pytest.raises(ValueError, match="must not be greater than actual buffer length"):
        _C._tensor_from_buffer(bytearray(16), torch.int32, offset, numel)


def test_buffers_of_no_use_are_refused():
    with pytest.raises(ValueError, match="does not implement Python buffer protocol"):
        _C._tensor_from_buffer(5, torch.int32, 0, 1)
    with pytest.raises(ValueError, match="not contiguous"):
        _C._tensor_from_buffer(memoryview(bytearray(16))[::2], torch.uint8, 0, 1)


def test_frombuffer_takes_a_part():
    data = bytearray(np.arange(4, dtype=np.int32).tobytes())
    assert torch.frombuffer(data, dtype=torch.int32).tolist() == [0, 1, 2, 3]
    assert torch.frombuffer(data, dtype=torch.int32, offset=4, count=2).tolist() == [1, 2]
    with pytest.warns(UserWarning, match="The given buffer is not writable"):
        torch.frombuffer(bytes(data), dtype=torch.int32)
    with pytest.raises(ValueError, match="after offset .1 bytes. must be a multiple of element size .4."):
        torch.frombuffer(data, dtype=torch.int32, offset=1)
    with pytest.raises(ValueError, match="must be non-negative and no greater than buffer length .16 bytes. minus 1"):
        torch.frombuffer(data, dtype=torch.int32, offset=16)
    with pytest.raises(ValueError, match="requested buffer length .5 \\* 4 bytes."):
        torch.frombuffer(data, dtype=torch.int32, count=5)
    with pytest.raises(ValueError, match="must not be 0"):
        torch.frombuffer(data, dtype=torch.int32, count=0)


def test_views_have_one_storage_and_copies_another():
    tensor = torch.arange(6, dtype=torch.int16)
    storage, view, copy = (t.untyped_storage() for t in (tensor, tensor[2:].view(2, 2), tensor.clone()))
    assert storage == view and hash(storage) == hash(view) and storage != copy
    assert storage.data_ptr() == tensor.data_ptr() == view.data_ptr()
    assert storage.nbytes() == storage.size() == len(storage) == 12
    assert (storage[2], storage[-2], storage.tolist()[:3]) == (1, 5, [0, 0, 1])
    storage[0] = 9
    assert tensor[0].item() == 9
    with pytest.raises(IndexError, match="index 12 out of range for storage of size 12"):
        storage[12]
    with pytest.raises(IndexError):
        storage[-13]
    assert bytes(copy) == bytes(storage.clone().fill_(0).copy_(copy))
    assert torch.is_storage(storage)
    assert torch.empty(0).untyped_storage().data_ptr() == 0
    assert tensor.share_memory_() is tensor


# DLPack


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_every_dtype_travels_through_dlpack_both_ways(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    tensor = torch.from_dlpack(array)
    assert tensor.dtype == getattr(torch, dtype) and tensor.tolist() == array.tolist()
    back = np.from_dlpack(tensor.t())
    assert back.dtype == array.dtype and back.tolist() == array.T.tolist()
    assert np.shares_memory(back, array)


@pytest.mark.parametrize("shape", [(), (0,), (0, 2), (1,), (2, 1, 3)])
def test_every_shape_travels_through_dlpack(shape):
    tensor = torch.ones(shape, dtype=torch.bfloat16)
    again = torch.from_dlpack(tensor)
    assert again.shape == tensor.shape and again.dtype == torch.bfloat16 and again.stride() == tensor.stride()


def test_dlpack_shares_memory_unless_asked_to_copy():
    tensor = torch.zeros(3)
    torch.from_dlpack(tensor)[0] = 1
    np.from_dlpack(tensor)[1] = 2
    torch.from_dlpack(tensor.__dlpack__(copy=True))[2] = 3
    torch.from_dlpack(tensor, copy=True)[2] = 3
    assert tensor.tolist() == [1, 2, 0]


def test_dlpack_handles_slices_and_negative_strides():
    array = np.arange(10.0)
    assert torch.from_dlpack(array[7:1:-2]).tolist() == [7, 5, 3]
    assert np.from_dlpack(torch.arange(10)[2:8:3]).tolist() == [2, 5]


def test_a_capsule_is_consumed_once():
    capsule = to_dlpack(torch.ones(2))
    assert '"dltensor"' in repr(capsule)
    assert from_dlpack(capsule).tolist() == [1, 1]
    assert '"used_dltensor"' in repr(capsule)
    with pytest.raises(RuntimeError, match="can be consumed only once"):
        from_dlpack(capsule)
    capsule = torch.ones(2).__dlpack__(max_version=(1, 1))
    assert '"dltensor_versioned"' in repr(capsule)
    assert from_dlpack(capsule).tolist() == [1, 1]
    assert '"used_dltensor_versioned"' in repr(capsule)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_the_memory_lives_as_long_as_capsule_or_consumer(version):
    class Array(np.ndarray):
        pass

    def exported():
        array = np.arange(3.0).view(Array)
        return torch.from_numpy(array).__dlpack__(max_version=version), weakref.ref(array)

    capsule, gone = exported()
    gc.collect()
    assert gone() is not None
    del capsule
    gc.collect()
    assert gone() is None

    capsule, gone = exported()
    tensor = from_dlpack(capsule)
    del capsule
    gc.collect()
    assert gone() is not None and tensor.tolist() == [0, 1, 2]
    del tensor
    gc.collect()
    assert gone() is None


def test_a_tensor_from_dlpack_keeps_the_other_librarys_memory():
    class Array(np.ndarray):
        pass

    array = np.arange(3.0).view(Array)
    gone = weakref.ref(array)
    tensor = torch.from_dlpack(array)
    del array
    gc.collect()
    assert tensor.tolist() == [0, 1, 2]
    del tensor
    gc.collect()
    assert gone() is None


def test_what_dlpack_cannot_carry_is_refused():
    tensor = torch.ones(2)
    with pytest.raises(BufferError, match="require gradient"):
        torch.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(AssertionError, match="stream should be None on cpu"):
        tensor.__dlpack__(stream=1)
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError):
        torch.from_dlpack(5)
    with pytest.raises(BufferError, match="Unsupported DLPack dtype"):
        torch.from_dlpack(np.ones(2, np.complex64))
    assert tensor.__dlpack_device__() == (1, 0)


def test_read_only_memory_stays_read_only_through_dlpack():
    array = np.arange(3)
    array.flags.writeable = False
    tensor = torch.from_dlpack(array)
    with pytest.raises(RuntimeError, match="read-only"):
        tensor.add_(1)
    assert not np.from_dlpack(tensor).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        tensor.__dlpack__()


def test_an_object_from_before_dlpack_1_is_understood():
    class Old:
        def __dlpack__(self, stream=None):
            return torch.ones(2).__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    assert torch.from_dlpack(Old()).tolist() == [1, 1]


def test_equality_takes_arrays_from_either_side():
    x, array = torch.tensor([1.0, 2.0]), np.array([1.0, 3.0])
    assert (x == array).tolist() == (array == x).tolist() == [True, False]
    with pytest.raises(RuntimeError, match="The size of tensor a"):
        x == np.ones(3)  # noqa: B015
    assert (x == np.array(["a", "b"])) is False
    assert (x == [1.0, 2.0]) is False


def test_tensors_are_joined_and_taken_apart():
    parts = [torch.arange(6.0).view(2, 3).t(), torch.zeros(0), torch.tensor(7.0)]
    flat = _flatten_dense_tensors(parts)
    assert flat.tolist() == [0, 3, 1, 4, 2, 5, 7]
    again = _unflatten_dense_tensors(flat, parts)
    assert isinstance(again, tuple) and all(torch.equal(a, b) for a, b in zip(again, parts, strict=True))
    assert again[2].data_ptr() == flat[6:].data_ptr()
    assert _flatten_dense_tensors([flat]).data_ptr() == flat.data_ptr()
    with pytest.raises(ValueError, match="non-empty"):
        _flatten_dense_tensors([])
    with pytest.raises(RuntimeError):
        _unflatten_dense_tensors(flat[:2], parts)
