"""What stays of a tensor whose memory, geometry or history is replaced: its count of writes, its base and its node."""

from __future__ import annotations

import gc
import weakref

import pytest

import rgrad as torch


def numbers(n: int, requires_grad: bool = False) -> torch.Tensor:
    return torch.arange(float(n)).requires_grad_(requires_grad)


def node(t: torch.Tensor) -> str | None:
    return t.grad_fn and t.grad_fn.name()


def test_a_tensor_that_is_set_to_other_memory_keeps_its_own_count_of_writes():
    a, b = numbers(4), numbers(3)
    a.add_(1)
    a.set_(b)
    assert (a._version, b._version) == (2, 0)
    a.add_(1)
    b.add_(1)
    b.add_(1)
    assert (a._version, b._version) == (3, 2)
    assert a.tolist() == b.tolist()
    for replaced in (a.set_(b.untyped_storage()), a.set_(b, 1, (2,)), a.set_()):
        assert replaced is a
    assert (a._version, b._version) == (6, 2)


def test_views_are_counted_with_a_base_that_went_to_other_memory():
    base = numbers(4)
    view = base[1:]
    base.set_(numbers(3))
    view.add_(1)
    assert (base._version, view._version) == (2, 2)
    base = numbers(4)
    view = base[1:]
    base.data = numbers(5)
    base.add_(1)
    assert (base._version, view._version) == (1, 1)


def test_new_data_is_not_counted_as_a_write():
    a, b = numbers(4), numbers(3)
    a.add_(1)
    b.add_(1).add_(1)
    a.data = b
    assert (a._version, b._version) == (1, 2)
    a.add_(1)
    assert (a._version, b._version) == (2, 2)
    a.data = a.detach()
    assert a._version == 2
    leaf = numbers(4, True)
    leaf.data = b
    assert (leaf._version, leaf.is_leaf, leaf.requires_grad) == (0, True, True)


def test_a_view_stays_a_view_of_its_base_with_other_data():
    base = numbers(4, True) * 2
    view = base[1:]
    view.data = numbers(3)
    assert view._is_view() and view._base is base and node(view) == "SliceBackward0"
    view.add_(1)
    assert (node(view), node(base)) == ("AsStridedBackward0", "torch::autograd::CopySlices")
    view = numbers(4)[1:]
    view.set_(numbers(3))
    assert view._is_view() and view._version == view._base._version == 1


def test_a_tensor_with_a_history_that_is_set_has_a_node_without_derivative():
    a = numbers(4, True) * 2
    a.set_(numbers(3))
    assert (node(a), a.is_leaf, a._version) == ("torch::autograd::NotImplemented", False, 1)
    base = numbers(4, True) * 1
    view = base[1:]
    view.set_(numbers(3))
    assert (node(view), node(base)) == ("AsStridedBackward0", "torch::autograd::CopySlices")
    a = numbers(4, True) * 2
    with torch.no_grad():
        a.set_(numbers(3))
    assert (node(a), a.requires_grad) == ("MulBackward0", True)
    leaf = numbers(4, True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
        leaf.set_(numbers(3))


def test_another_size_is_a_write_and_the_same_size_is_none():
    a = numbers(4)
    a.resize_(2)
    a.resize_(2)
    assert a._version == 1
    a.resize_(9)
    a.resize_as_(numbers(3))
    assert a._version == 3
    base = numbers(4)
    view = base[1:]
    view.resize_(2)
    base.resize_(10)
    assert (base._version, view._version, view._is_view()) == (2, 2, True)


def test_an_output_that_is_resized_keeps_its_count_of_writes():
    out = numbers(4).add_(1)
    torch.add(numbers(5), 1, out=out.resize_(0))
    assert (out._version, out.shape) == (3, (5,))


def test_a_tensor_that_is_transposed_itself_is_no_view_of_what_it_was():
    a = torch.ones(2, 3, requires_grad=True) * 1
    assert [node(a.t_()), node(a.unsqueeze_(0)), node(a.squeeze_(0))] == [
        "TBackward1",
        "UnsqueezeBackward1",
        "SqueezeBackward4",
    ]
    a.as_strided_((2,), (1,))
    assert (node(a), a._version, a._is_view(), a._base) == ("AsStridedBackward1", 4, False, None)
    a.add_(1)
    assert node(a) == "AddBackward0"
    plain = torch.ones(2, 3)
    assert not plain.t_()._is_view()


def test_a_view_made_before_its_base_was_transposed_gets_gradients_all_the_same():
    leaf = numbers(6, True)
    base = (leaf * 1).view(2, 3).clone()
    row = base[0]
    base.t_()
    base.mul_(2)
    row.sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2, 0, 0, 0]


def test_what_was_saved_is_known_to_be_written_where_its_memory_was_replaced():
    a, b = numbers(4, True), numbers(4)
    c = a * b
    b.set_(numbers(4))
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0 instead"):
        c.sum().backward()
    c = a * b
    b.data = numbers(4)
    b.add_(1)
    with pytest.raises(RuntimeError, match="is at version 2; expected version 1 instead"):
        c.sum().backward()


def test_what_was_saved_is_not_used_once_it_was_detached_in_place():
    a, b = numbers(4, True), numbers(4, True) * 1
    c = a * b
    b.detach_()
    with pytest.raises(RuntimeError, match="Trying to use a saved tensor that has been detached in-place, i.e. with"):
        c.sum().backward()
    (a * b).sum().backward()
    assert a.grad.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(torch.int64, "long int"), (torch.uint8, "unsigned char"), (torch.float16, "c10::Half")],
)
def test_a_tensor_is_set_to_memory_of_its_own_dtype_alone(dtype: torch.dtype, name: str):
    with pytest.raises(RuntimeError, match=f"Could not set tensor of type {name} to a tensor of type float"):
        numbers(2).set_(torch.ones(2, dtype=dtype))


def test_a_leaf_of_another_shape_has_gradients_while_an_older_graph_lives():
    x = torch.nn.Parameter(torch.ones(4))
    for n in (3, 2):
        with torch.no_grad():
            x.set_(x[1:])
        x.grad = None
        y = torch.cat((x, x))
        y.sum().backward()
        assert x.grad.tolist() == [2.0] * n
    x.data = torch.ones(5)
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0] * 5 and y.grad_fn is not None


class Named(torch.Tensor):
    pass


def test_an_object_that_became_a_gradient_is_kept_with_the_gradient():
    p = numbers(2, requires_grad=True)
    p.grad = Named(torch.ones(2))
    p.grad.note = "kept"
    gc.collect()
    assert type(p.grad) is Named and p.grad.note == "kept"
    g = numbers(2)
    g.note, seen = "kept", weakref.ref(g)
    p.grad = g
    del g
    assert p.grad.note == "kept" and seen() is p.grad
    p.grad = None
    assert seen() is None


def test_attributes_of_a_gradient_stay_while_it_is_the_gradient():
    p = numbers(2, requires_grad=True)
    p.sum().backward()
    p.grad.note = note = Named(torch.ones(1))
    gone = weakref.ref(note)
    del note
    assert type(p.grad.note) is Named and p.grad.tolist() == [1, 1]
    p.sum().backward()
    assert type(p.grad.note) is Named and p.grad.tolist() == [2, 2]
    p.grad.data = torch.zeros(2)
    assert type(p.grad.note) is Named and p.grad.tolist() == [0, 0]
    p.grad = torch.zeros(2)
    assert gone() is None and not hasattr(p.grad, "note")


def test_a_cycle_through_an_object_that_is_a_gradient_is_collected():
    p = numbers(2, requires_grad=True)
    p.grad = Named(torch.ones(2))
    p.grad.owner = p
    gone = weakref.ref(p)
    del p
    gc.collect()
    assert gone() is None


def test_the_number_of_a_tensor_stays_with_data_and_is_exchanged_by_swap_tensors():
    a, b = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.zeros(3))
    before = a._cdata, b._cdata
    assert before[0] != before[1]
    a.data = torch.zeros(5, dtype=torch.float64)
    assert a._cdata == before[0]
    torch.utils.swap_tensors(a, b)
    assert (b._cdata, a._cdata) == before
