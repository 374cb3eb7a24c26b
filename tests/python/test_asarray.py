"""`asarray`, storages as elements, and methods that call Python for each element."""

from __future__ import annotations

import array

import pytest

import rgrad as torch


def test_a_tensor_that_fits_is_the_result_itself():
    x = torch.ones(2)
    assert torch.asarray(x) is x
    assert torch.asarray(x, copy=True).data_ptr() != x.data_ptr()
    with pytest.raises(ValueError, match="can't alias tensor with dtype 'Float' into dtype 'Double'."):
        torch.asarray(x, dtype=torch.float64, copy=False)


def test_the_memory_of_buffers_is_shared():
    values = array.array("f", [1.0, 2.0])
    torch.asarray(values)[0] = 5.0
    assert values[0] == 5.0
    with pytest.raises(ValueError, match="can't alias arbitrary sequence into a tensor."):
        torch.asarray([1, 2], copy=False)


def test_what_requires_grad_goes_on_requiring_it_unless_told_otherwise():
    x = torch.ones(2, requires_grad=True)
    assert torch.asarray(x * 2, requires_grad=False).is_leaf
    assert torch.asarray(x, requires_grad=False) is x and not x.requires_grad


def test_a_storage_shows_the_elements_of_all_views():
    storage = torch.TypedStorage([1.0, 2.0, 3.0])
    x = torch.empty(0).set_(storage)
    x[1] = 7.0
    assert storage.tolist() == [1.0, 7.0, 3.0]
    assert (storage.size(), storage.nbytes(), storage.type()) == (3, 12, "torch.FloatStorage")
    with pytest.raises(RuntimeError, match="slices are only supported"):
        storage[0:1]


def test_each_element_becomes_what_a_function_makes_of_it():
    x = torch.arange(6).view(2, 3).t()
    x.apply_(lambda v: v * 2)
    assert x.tolist() == [[0, 6], [2, 8], [4, 10]] and x._version == 1
    y = torch.ones(3).map_(torch.tensor([2.0]), lambda a, b: a - b)
    assert y.tolist() == [-1.0] * 3
    with pytest.raises(TypeError, match="map_: expected torch.FloatTensor for 'other' .got torch.DoubleTensor."):
        y.map_(torch.zeros(3).double(), lambda a, b: a)
    with pytest.raises(RuntimeError, match=r"Can't call apply_\(\) on Variable that requires grad"):
        torch.ones(1, requires_grad=True).apply_(abs)


def test_integers_that_no_number_holds_overflow():
    with pytest.raises(OverflowError, match="int too big to convert"):
        torch.ones(1) + 2**64
    with pytest.raises(OverflowError, match="can't convert negative int to unsigned"):
        torch.ones(1) * -(2**64)
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        torch.ones(2, 3).select(0, 2**70)
