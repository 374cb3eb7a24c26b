"""Views and writes in place: which are refused and in which words, and what they do to histories and versions."""

from __future__ import annotations

import pytest

import rgrad as torch


def leaf() -> torch.Tensor:
    return torch.ones(4, requires_grad=True)


def test_the_error_for_one_of_several_views_names_which():
    _, b = (leaf() * 1).split(2)
    with pytest.raises(
        RuntimeError, match="Output 1 of Split is a view and is being modified inplace. This view"
    ):
        b.add_(1)
    with pytest.raises(RuntimeError, match="Output 3 of Unbind is a view"):
        (leaf() * 1).unbind()[3].mul_(2)


def test_a_view_of_one_of_several_views_is_not_written_either():
    with pytest.raises(RuntimeError, match="returns multiple views"):
        (leaf() * 1).chunk(2)[0].view(-1).mul_(2)


def test_one_of_several_views_has_no_gradient_after_its_base_was_written():
    x = leaf()
    base = x * 1
    a, _ = base.split(2)
    base.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        a.sum().backward()


def test_a_view_made_without_recording_is_not_written_with():
    x, base = leaf(), torch.ones(4)
    with torch.no_grad():
        view = base.view(2, 2)
    view.add_(1)
    with pytest.raises(
        RuntimeError, match="A view was created in no_grad mode and is being modified inplace with"
    ):
        view.mul_(x.view(2, 2))


def test_a_view_made_in_inference_mode_is_not_written_outside():
    x = leaf()
    with torch.inference_mode():
        view = x.view(4)
    with pytest.raises(
        RuntimeError, match="A view was created in inference mode and is being modified inplace in"
    ):
        view.mul_(x)


def test_leaves_and_their_views_are_not_written():
    x = leaf()
    with pytest.raises(
        RuntimeError, match="^a leaf Variable that requires grad is being used in an in-place"
    ):
        x.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used"):
        x[0] = 1.0
    view = torch.ones(4)[:2].requires_grad_()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        view.mul_(2)


def test_memory_that_shows_one_element_twice_is_not_written():
    with pytest.raises(
        RuntimeError, match="more than one element of the written-to tensor refers to a single memory"
    ):
        torch.ones(1).expand(4).add_(1)


def test_writes_through_several_views_of_one_base_all_count():
    x = leaf()
    y = x * 1
    a, b = y[:2], y[1:3]
    a.mul_(2)
    b.mul_(3)
    names = [type(t.grad_fn).__name__ for t in (y, a, b)]
    assert names == ["CopySlices", "AsStridedBackward0", "AsStridedBackward0"]
    (a.sum() + y.sum()).backward()
    assert x.grad.tolist() == [4.0, 12.0, 3.0, 1.0]


def test_a_base_joins_the_graph_when_a_view_of_it_is_written():
    x, base = leaf(), torch.zeros(4)
    base[:2].copy_(x[2:])
    assert base.requires_grad and not base.is_leaf
    (base * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0, 2.0]


def test_versions_are_shared_by_views_and_detached_tensors_but_not_by_data():
    y = torch.ones(4)
    view, detached, data = y[:2], y.detach(), y.data
    y.add_(1)
    assert (y._version, view._version, detached._version) == (1, 1, 1)
    data.add_(1)
    assert y._version == 1 and y.tolist() == [3.0] * 4


def test_base_and_is_view():
    y = torch.ones(4)
    view = y.view(2, 2)
    assert view._base is y and view[0]._base is y and y._base is None
    assert view._is_view() and not y._is_view() and not view.detach()._is_view()


def test_detach_in_place_makes_a_leaf_but_not_of_views():
    y = leaf() * 1
    assert y.detach_() is y and y.is_leaf and not y.requires_grad
    with pytest.raises(RuntimeError, match="Can't detach views in-place. Use detach"):
        torch.ones(4).view(2, 2).detach_()


def test_requires_grad_is_changed_on_leaves_only():
    y = leaf() * 1
    assert y.requires_grad_() is y and not y.is_leaf
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad = False
    with pytest.raises(RuntimeError, match="only Tensors of floating point dtype can require gradients"):
        torch.ones(2, dtype=torch.int64).requires_grad_()
    with pytest.raises(
        RuntimeError, match="data set to a tensor that requires gradients must be floating point"
    ):
        leaf().data = torch.ones(2, dtype=torch.int64)


def test_the_error_for_a_saved_tensor_that_was_written_names_both_operations():
    y = leaf() * 1
    z = y * y
    y.exp_()
    with pytest.raises(RuntimeError) as e:
        z.sum().backward()
    assert "which is output 0 of Exp, is at version 1; expected version 0 instead" in str(e.value)
    assert "The tensor was saved by MulBackward0." in str(e.value)


def test_the_error_for_a_saved_leaf_that_was_written_names_no_operation_that_made_it():
    w = leaf()
    z = w * w
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(
        RuntimeError, match=r"\[torch.FloatTensor \[4\]\] is at version 1; expected version 0"
    ):
        z.sum().backward()


def test_hooks_registered_before_and_after_a_write_see_their_own_gradient():
    seen, y = [], leaf() * 1
    y.register_hook(lambda g: seen.append(("before", g[0].item())))
    y.mul_(2)
    y.register_hook(lambda g: seen.append(("after", g[0].item())))
    y.sum().backward()
    assert seen == [("after", 1.0), ("before", 2.0)]


def test_the_second_derivative_of_an_operation_in_place_is_taken_where_the_tensor_was():
    x = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
    y = x * 2
    y.sin_()
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert torch.allclose(h, -4 * (2 * x).sin())


def test_a_write_without_history_makes_views_find_their_history_anew_too():
    y = leaf() * 1
    a, _ = y.split(2)
    plain = y[:2]
    seen = []
    plain.register_hook(seen.append)
    with torch.no_grad():
        y.mul_(2)
    plain.sum().backward()
    assert seen == [] and plain.grad_fn.name() == "AsStridedBackward0"
    for use in (lambda: a.grad_fn, lambda: a.is_leaf, lambda: a + 1, lambda: a.backward(torch.ones(2))):
        with pytest.raises(
            RuntimeError, match="Output 0 of Split is a view and its base or another view of its base has"
        ):
            use()
    with torch.no_grad():
        assert (a + 1).tolist() == [3, 3]
    assert a.requires_grad and repr(a) == "tensor([2., 2.], grad_fn=<Invalid>)"


def test_one_of_several_views_of_a_base_that_was_written_before_is_as_good_as_another():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    y = torch.ones(4)
    y.mul_(x)
    a, b = y.split(2)
    (a * b).sum().backward()
    assert x.grad.tolist() == [3, 4, 1, 2]


@pytest.mark.parametrize("mode, word", [(torch.no_grad, "no_grad"), (torch.inference_mode, "inference")])
def test_views_from_other_modes_are_lost_once_their_base_is_written(mode, word):
    y = leaf() * 1
    with mode():
        view = y[:2]
    part = view[:1] if mode is torch.no_grad else view
    where = "normal mode" if mode is torch.inference_mode else "grad mode enabled"
    y.mul_(2)
    with pytest.raises(RuntimeError, match=f"was created in {word} mode and its base or another .* {where}"):
        part.sum()
    with pytest.raises(
        RuntimeError, match=f"was created in {word} mode and is being modified inplace .* {where}"
    ):
        part.add_(1)


def test_hooks_of_a_view_as_it_was_are_not_met_after_a_write_through_it():
    y = leaf() * 1
    view, seen = y[:2], []
    view.register_hook(lambda g: seen.append("old"))
    view.retain_grad()
    view.mul_(2)
    view.register_hook(lambda g: seen.append("new"))
    view.sum().backward()
    assert seen == ["new"] and view.grad.tolist() == [1, 1]


def test_a_gradient_that_is_kept_is_that_of_the_view_after_its_base_was_written():
    y = leaf() * 1
    view = y[:2]
    view.retain_grad()
    y.mul_(3)
    view.sum().backward()
    assert view.retains_grad and view.grad.tolist() == [1, 1]


def test_writes_through_data_are_counted_apart():
    x = leaf()
    with torch.no_grad():
        x.add_(1)
    data = x.data
    data[0].mul_(2)
    data.add_(1)
    assert (data._version, data[1:]._version, x._version) == (2, 2, 1)
    assert x.detach()._version == 1 and x.tolist() == [5, 3, 3, 3]


def test_a_write_that_overlaps_what_it_reads_is_refused():
    x = torch.arange(4.0)
    for write in (lambda: x[1:].add_(x[:-1]), lambda: x[1:].copy_(x[:-1])):
        with pytest.raises(
            RuntimeError, match="some elements of the input tensor and the written-to tensor refer to"
        ):
            write()
    x[::2].add_(x[1::2])
    x.add_(x)
    assert x.tolist() == [2, 2, 10, 6]


def test_memory_of_others_is_not_resized_and_a_resized_view_stays_one():
    import numpy as np

    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        torch.from_numpy(np.ones(3)).resize_(10)
    x = torch.ones(6)
    view = x[:3].resize_(2, 3)
    assert view._is_view() and view._base is x and view.shape == (2, 3)
    assert torch.ones(3).resize_(2)._version == 1


def test_set_takes_a_geometry_over_the_memory_of_another():
    x, source = torch.zeros(3), torch.arange(6.0)
    x.set_(source, 1, (2, 2), (2, 1))
    assert x.tolist() == [[1, 2], [3, 4]] and x.data_ptr() == source.data_ptr() + 4
    assert torch.zeros(3).set_(source, 2, (2, 2)).tolist() == [[2, 3], [4, 5]]


@pytest.mark.parametrize("views", [lambda x: x.split(2), lambda x: x.chunk(2), lambda x: x.unbind(), tuple])
def test_several_views_share_one_node(views):
    x = torch.arange(8.0).view(4, 2).requires_grad_()
    first, second = views(x * 2)[:2]
    assert first.grad_fn is second.grad_fn and (first.output_nr, second.output_nr) == (0, 1)
    (second.sum() * 3).backward()
    assert x.grad.sum() == second.numel() * 6 and x.grad[0].sum() == 0


@pytest.mark.parametrize(
    "write", [lambda y, b: y.copy_(b), lambda y, b: y.fill_(b[0]), lambda y, b: y.fill_(1.0)]
)
def test_what_is_overwritten_receives_zeros(write):
    a, b = (torch.ones(3, requires_grad=True) for _ in range(2))
    y = a * 1
    write(y, b)
    (y + b).sum().backward()
    assert a.grad.tolist() == [0.0] * 3


def test_a_write_that_is_refused_leaves_the_hooks_of_a_view():
    x = torch.ones(3, requires_grad=True)
    view = (x * 1).expand(2, 3)
    view.register_hook(lambda g: g * 5)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        view.add_(1)
    view.sum().backward()
    assert x.grad.tolist() == [10.0] * 3


def test_a_leaf_that_wants_no_gradient_any_more_gets_none():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    x.requires_grad_(False)
    y.sum().backward()
    assert x.grad is None
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    x.detach_()
    y.sum().backward()
    assert x.grad is None


def test_the_data_of_a_tensor_is_not_deleted():
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="Deleting tensor data is not allowed. Delete tensor instead!"):
        del x.data


def test_a_leaf_made_in_inference_mode_is_refused_as_a_leaf():
    with torch.inference_mode():
        x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x.add_(1)


@pytest.mark.parametrize("overlapping", [lambda x: x.expand(2, 4), lambda x: x.unfold(0, 2, 1)])
def test_elements_that_lie_in_one_place_share_the_gradient_of_as_strided(overlapping):
    x = torch.arange(4, dtype=torch.float64, requires_grad=True)

    def first_three(x):
        return overlapping(x).as_strided((3,), (1,), 0) ** 2

    assert torch.autograd.gradcheck(first_three, x)
    assert torch.autograd.gradgradcheck(first_three, x)
    rows = torch.arange(3.0).expand(2, 3).requires_grad_()
    (g,) = torch.autograd.grad(rows.as_strided((3,), (1,), 0).sum(), rows)
    assert g.tolist() == [[0.5] * 3] * 2


def test_a_new_geometry_that_is_not_recorded_keeps_the_history():
    for mode in (torch.no_grad, torch.inference_mode):
        x = torch.ones(2, 3, requires_grad=True)
        y, turned = x * 2, x * 2
        with mode():
            y.unsqueeze_(0)
            turned.t_()
        assert y.requires_grad and y.grad_fn.name() == "MulBackward0" and y.shape == (1, 2, 3)
        y.sum().backward()
        assert x.grad.tolist() == [[2, 2, 2], [2, 2, 2]]
        assert turned.requires_grad and turned.shape == (3, 2)
        with pytest.raises(RuntimeError, match=r"invalid gradient at index 0 - got \[3, 2\] but expected"):
            turned.sum().backward()


def test_a_view_that_is_turned_without_recording_is_still_written_with_it():
    x = torch.ones(2, 3, requires_grad=True)
    base = x * 1
    view = base.view(3, 2)
    with torch.no_grad():
        view.t_()
    view.mul_(3)
    assert view.shape == (2, 3) and view.requires_grad
    base.sum().backward()
    assert x.grad.tolist() == [[3, 3, 3], [3, 3, 3]]


def test_a_view_that_a_custom_function_returned_without_recording_is_named_as_such():
    class View(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return g

    view = View.apply(torch.ones(1, 2))
    with pytest.raises(RuntimeError, match="This view was created inside a custom Function"):
        view += torch.ones(1, requires_grad=True)


PARTS = {
    "slices": lambda x: [x[1:], x[:-1], x[:, 2:], x[:, ::2]],
    "selections": lambda x: [x[0], x[0], x[:, 1], x[-1]],
    "diagonals": lambda x: [x.diagonal(), x.diagonal(1), x.diagonal()],
    "windows, which overlap": lambda x: [x.unfold(1, 3, 1), x.unfold(1, 2, 1), x[1:]],
    "parts beside the whole": lambda x: [x * 2, x[1:], x[:, 1:], x + 1],
}


def weighted(parts):
    weights = [(k + 1) * torch.arange(1.0, part.numel() + 1).view(part.shape) for k, part in enumerate(parts)]
    return sum((part * weight).sum() for part, weight in zip(parts, weights, strict=True))


def test_a_write_reads_the_history_that_other_views_of_the_memory_had_before_it():
    x = torch.tensor([[0.0, 1.0], [2.0, 3.0]], requires_grad=True)
    first, second = x.split(1)
    alias = first.detach()
    alias += second
    alias.sum().backward()
    assert alias.tolist() == [[2.0, 4.0]] and x.grad.tolist() == [[0.0, 0.0], [1.0, 1.0]]
    with pytest.raises(RuntimeError, match="Output 1 of Split is a view and its base"):
        second.sum()


@pytest.mark.parametrize("deferred", [False, True], ids=["eager", "region"])
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_gradients_of_several_parts_are_summed(parts, deferred):
    shape = (200, 300) if deferred else (4, 5)
    x = torch.rand(shape).requires_grad_()
    # One part at a time, so that nothing is summed within the engine.
    count = len(parts(x))
    weights = [weighted([torch.zeros(0)] * k + [parts(x)[k]]) for k in range(count)]
    wanted = sum(torch.autograd.grad(w, x)[0] for w in weights)
    y = x * 1.0
    with torch.defer() if deferred else torch.enable_grad():
        (found,) = torch.autograd.grad(weighted(parts(y)), x)
    assert torch.equal(found, wanted)


def test_the_sum_of_the_gradients_of_parts_changes_nothing_that_is_seen():
    x = torch.arange(12.0).view(3, 4).requires_grad_()
    y = x * 1.0
    first, second = y[1:], y[:2]
    seen = []
    first.register_hook(lambda g: seen.append(g.clone()) or g * 10)
    given = torch.ones(2, 4)
    torch.autograd.backward([first, second], [given, given])
    assert torch.equal(given, torch.ones(2, 4)) and torch.equal(seen[0], given)
    assert x.grad.tolist() == [[1.0] * 4, [11.0] * 4, [10.0] * 4]
    # A gradient that the program has is not written.
    z = torch.zeros(3, 4, requires_grad=True)
    w, whole = z * 1.0, torch.ones(3, 4)
    torch.autograd.backward([w, w[1:], w[:1]], [whole, torch.ones(2, 4), torch.ones(1, 4)])
    assert torch.equal(whole, torch.ones(3, 4)) and torch.equal(z.grad, torch.full((3, 4), 2.0))
    # A second derivative sees every part.
    v = torch.arange(4.0, requires_grad=True)
    (slope,) = torch.autograd.grad((v[1:] ** 3).sum() + (v[:-1] ** 2).sum(), v, create_graph=True)
    slope.sum().backward()
    assert v.grad.tolist() == [2.0, 8.0, 14.0, 18.0]


def test_the_gradient_of_an_expansion_to_the_same_shape_is_that_of_its_result():
    x = torch.randn(3, 4, requires_grad=True)
    x.expand(3, 4).mul(torch.arange(4)).sum().backward()
    assert torch.equal(x.grad, torch.arange(4.0).expand(3, 4))
    y = torch.randn(3, 1, requires_grad=True)
    a, b = torch.broadcast_tensors(x.detach(), y)
    (a * b).sum().backward()
    assert torch.allclose(y.grad, x.detach().sum(1, keepdim=True))
