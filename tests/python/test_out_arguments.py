"""What `out=` takes and refuses."""

from __future__ import annotations

import math

import pytest

import rgrad as torch
from rgrad.nn import functional as F

A = torch.tensor([[4.0, 1.0], [1.0, 3.0]])
B = torch.ones(2)
empty = torch.empty


@pytest.mark.parametrize(
    "call",
    [
        lambda out: torch.linalg.lu_solve(*torch.linalg.lu_factor(A), A, out=out),
        lambda out: torch.linalg.ldl_solve(*torch.linalg.ldl_factor(A), A, out=out),
        lambda out: torch.linalg.inv_ex(A, out=(out, empty(0, dtype=torch.int32))).inverse,
        lambda out: torch.frobenius_norm(A, 0, out=out),
        lambda out: torch.chain_matmul(A, A, out=out),
        lambda out: torch.tensordot(A, A, 1, out=out),
        lambda out: torch.linalg.multi_dot([A, A], out=out),
        lambda out: torch.ormqr(A, B, A, out=out),
    ],
)
def test_a_result_of_one_dtype_is_written_to_no_other(call):
    out = empty(0)
    assert call(out) is out and out.numel() > 1
    for dtype in (torch.int32, torch.float64):
        with pytest.raises(RuntimeError, match="xpected .* dtype"):
            call(empty(0, dtype=dtype))


@pytest.mark.parametrize(
    "call",
    [
        lambda out: torch.linalg.pinv(A, out=out),
        lambda out: torch.linalg.cond(A, out=out),
        lambda out: torch.linalg.tensorsolve(A, B, out=out),
        lambda out: torch.linalg.householder_product(A, B, out=out),
        lambda out: torch.special.zeta(A, 2, out=out),
        lambda out: torch.polygamma(1, A, out=out),
        lambda out: torch.igamma(A, A, out=out),
        lambda out: torch.geqrf(A, out=(out, empty(0)))[0],
    ],
)
def test_a_result_is_converted_to_another_floating_point_dtype_and_to_no_integer(call):
    wider = call(empty(0, dtype=torch.float64))
    assert wider.dtype == torch.float64
    torch.testing.assert_close(wider, call(empty(0)).double())
    with pytest.raises(RuntimeError, match="can't be cast|safely castable"):
        call(empty(0, dtype=torch.int32))


def test_a_tensor_that_is_not_empty_is_resized_with_a_warning():
    with pytest.warns(UserWarning, match=r"resized since it had shape \[7\]"):
        assert torch.linalg.pinv(A, out=empty(7)).shape == (2, 2)


def test_a_result_is_written_to_no_other_device():
    with pytest.raises(RuntimeError, match="to be on the same device"):
        torch.linalg.pinv(A, out=empty(0, device="meta"))
    with pytest.raises(RuntimeError, match="to have device cpu, but got meta"):
        torch.linalg.lu_factor(A, out=(empty(0, device="meta"), empty(0, dtype=torch.int32, device="meta")))


def test_only_functions_composed_of_others_pass_gradients_to_out(monkeypatch):
    monkeypatch.setattr("rgrad._linalg.older._told", set())  # an earlier test may have been warned
    x = A.clone().requires_grad_()
    with pytest.raises(RuntimeError, match=r"linalg_pinv\(\): functions with out="):
        torch.linalg.pinv(x, out=empty(0))
    assert torch.linalg.pinv(x, rtol=1e-3, out=empty(0)).requires_grad
    with pytest.warns(UserWarning, match="deprecated"):
        assert torch.lu(x, out=(empty(0), empty(0)))[0].requires_grad
    with pytest.raises(RuntimeError, match=r"i0\(\): functions with out="):
        torch.special.i0(x, out=empty(0))
    torch.linalg.cond(x, "fro", out=empty(0)).backward()
    expected = torch.autograd.grad(torch.linalg.cond(x, "fro"), x)[0]
    assert torch.equal(x.grad, expected)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, out: torch.igamma(x, torch.ones(5), out=out),
        lambda x, out: torch.igammac(torch.ones(5), x, out=out),
        lambda x, out: torch.special.zeta(x + 0, x, out=out),
        lambda x, out: torch.polygamma(1, x, out=out),
        lambda x, out: torch.special.i0(x, out=out),
    ],
    ids=["igamma", "igammac", "zeta", "polygamma", "i0"],
)
def test_an_output_may_be_the_input_of_a_special_function_but_not_a_part_of_it(compute):
    x = torch.rand(6) + 1
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        compute(x[:-1], x[1:])
    apart, same = torch.empty(5), x[:-1].clone()
    assert compute(same, same).equal(compute(x[:-1], apart))


def _empties(*dtypes):
    return tuple(empty(0, dtype=dtype) for dtype in dtypes)


@pytest.mark.parametrize(
    ("compute", "dtypes"),
    [
        (lambda **out: torch.linalg.lstsq(A, B[:, None], **out), (None, None, torch.int64, None)),
        (lambda **out: torch.linalg.lu_factor(A, **out), (None, torch.int32)),
        (lambda **out: torch.linalg.ldl_factor_ex(A, **out), (None, torch.int32, torch.int32)),
        (lambda **out: torch.geqrf(A, **out), (None, None)),
        (lambda **out: torch.histogram(B, 3, **out), (None, None)),
    ],
    ids=["lstsq", "lu_factor", "ldl_factor_ex", "geqrf", "histogram"],
)
def test_stored_results_are_named_tuples_of_the_outputs(compute, dtypes):
    out = _empties(*dtypes)
    plain, stored = compute(), compute(out=out)
    assert type(stored).__name__ == f"{type(plain).__name__}_out" and stored._fields == plain._fields
    assert all(a is b for a, b in zip(stored, out, strict=True))
    assert all(a.equal(b) for a, b in zip(plain, out, strict=True))


def test_too_few_outputs_are_refused():
    with pytest.raises(TypeError, match="expected tuple of 4 elements but got 2"):
        torch.linalg.lstsq(A, B[:, None], out=_empties(None, None))


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        (lambda **out: torch.detach_copy(A, **out), A),
        (lambda **out: torch.select_copy(A, 0, 1, **out), A[1]),
        (lambda **out: torch.slice_copy(A, 1, 0, 1, **out), A[:, :1]),
    ],
    ids=["detach_copy", "select_copy", "slice_copy"],
)
def test_copies_of_parts_are_stored(copy, expected):
    out = empty(0)
    assert copy(out=out) is out and out.equal(expected) and copy().equal(expected)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got double instead"):
        copy(out=empty(0, dtype=torch.float64))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: torch.mm(x, x, out=out),
        lambda x, out: torch.linalg.inv(x, out=out),
        lambda x, out: torch.linalg.solve(x, A, out=out),
        lambda x, out: torch.linalg.qr(x, out=(out, empty(0))).Q,
        lambda x, out: torch.addmm(A, x, x, out=out),
        lambda x, out: torch.where(x > 1, x, A + 1, out=out),
        lambda x, out: torch.logcumsumexp(x, 0, out=out),
        lambda x, out: torch.topk(x, 1, out=(out, empty(0, dtype=torch.int64))).values,
        lambda x, out: torch.sum(x, 0, out=out),
    ],
)
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_an_input_can_be_the_output_of_what_is_computed_before_it_is_stored(call):
    expected = call(A, empty(0))
    x = A.clone()
    assert call(x, x) is x and torch.equal(x, expected)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.gather(x, 0, torch.zeros(2, 2, dtype=torch.int64), out=x),
        lambda x: torch.cat([x], out=x),
        lambda x: torch.index_select(x, 0, torch.tensor([1, 0]), out=x),
        lambda x: torch.take(x, torch.tensor([1, 0]), out=x),
        lambda x: torch.mm(x, x, out=x.view(-1)[1:].expand(2, 3)[:, :2]),
        lambda x: torch.add(x.view(-1)[1:], 1, out=x.view(-1)[:-1]),
    ],
)
def test_an_output_that_overlaps_an_input_is_refused_where_pytorch_moves_elements_one_by_one(call):
    with pytest.raises(RuntimeError, match="single memory location"):
        call(A.clone())


@pytest.mark.parametrize(
    "activation",
    [
        torch.nn.functional.gelu,
        torch.nn.functional.hardshrink,
        torch.nn.functional.logsigmoid,
        torch.nn.functional.softplus,
        torch.nn.functional.softshrink,
        torch.hardshrink,
        lambda x, **out: torch.threshold(x, 0.1, 2.0, **out),
    ],
)
def test_activations_that_pytorch_computes_natively_are_stored(activation):
    x, out = torch.linspace(-2, 2, 9), empty(0)
    assert activation(x, out=out) is out and out.equal(activation(x))


def test_extrema_of_both_kinds_are_written_to_no_other_dtype():
    lowest, highest = empty(0), empty(0)
    assert torch.aminmax(A, dim=0, out=(lowest, highest)).max is highest
    assert lowest.tolist() == [1, 1] and highest.tolist() == [4, 3]
    for dtype in (torch.float64, torch.float16, torch.int64):
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float"):
            torch.aminmax(A, out=(empty(0), empty(0, dtype=dtype)))


def test_signs_and_logarithms_of_determinants_are_stored_under_their_names():
    out = empty(0), empty(0)
    stored = torch.slogdet(A, out=out)
    assert type(stored).__name__ == "slogdet_out" and stored.sign is out[0] and stored.logabsdet is out[1]
    torch.testing.assert_close(out, tuple(torch.linalg.slogdet(A)))
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got double instead"):
        torch.slogdet(A, out=(empty(0), empty(0, dtype=torch.float64)))


def test_memory_that_an_array_shows_does_not_grow_for_a_result():
    out = torch.zeros(4)
    array = out.numpy()
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        torch.add(torch.ones(9), 1, out=out)
    torch.add(torch.ones(4), 1, out=out)
    assert array.tolist() == [2, 2, 2, 2]


def test_a_copy_takes_any_shape_or_dtype_whatever_the_strides():
    turned = torch.arange(6.0).view(2, 3).t()
    assert torch.view_copy(turned, (-1,)).tolist() == [0, 3, 1, 4, 2, 5]
    assert torch.view_copy(turned.expand(2, 3, 2), (2, 6))[1].tolist() == [0, 3, 1, 4, 2, 5]
    assert torch.view_copy(turned, torch.int32).equal(turned.contiguous().view(torch.int32))
    with pytest.raises(RuntimeError, match=r"shape '\[5\]' is invalid for input of size 6"):
        torch.view_copy(turned, (5,))


ACTIVATIONS = ["elu", "glu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_sigmoid", "mish", "silu"]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_operations_of_activations_write_to_an_output(name):
    operation = getattr(torch.ops.aten, name)
    x = torch.linspace(-2, 2, 12).view(3, 4)
    expected, out = operation(x), torch.empty(0)
    torch.testing.assert_close(expected, getattr(F, name.replace("_sig", "sig"))(x))
    assert operation.out(x, out=out) is out and torch.equal(out, expected)
    with pytest.raises(RuntimeError, match="dtype"):
        operation.out(x, out=torch.empty(0, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        operation.out(x.clone().requires_grad_(), out=out)


LOSSES = {
    "binary_cross_entropy": (None,),
    "huber_loss": (),
    "l1_loss": (),
    "mse_loss": (),
    "multi_margin_loss": (1, 0.5, None),
    "multilabel_margin_loss": (),
    "nll_loss": (None,),
    "smooth_l1_loss": (),
    "soft_margin_loss": (),
}


@pytest.mark.parametrize("name", LOSSES)
def test_operations_of_losses_take_the_number_of_a_reduction_and_write_to_an_output(name):
    operation, before = getattr(torch.ops.aten, name), LOSSES[name]
    x, target = torch.linspace(0.1, 0.9, 6).view(2, 3), torch.tensor([[0.0, 1.0, 0.5], [1.0, 0.0, 0.25]])
    if name in ("multi_margin_loss", "nll_loss"):
        target = torch.tensor([2, 0])
    elif name == "multilabel_margin_loss":
        target = torch.tensor([[0, 1, -1], [2, -1, 0]])
    options = {"margin": 0.5} if name == "multi_margin_loss" else {}
    for number, reduction in enumerate(["none", "mean", "sum"]):
        expected = getattr(F, name)(x, target, reduction=reduction, **options)
        assert torch.equal(operation(x, target, *before, number), expected)
        out = torch.empty(0, dtype=torch.float64)
        assert operation(x, target, *before, reduction=number, out=out) is out
        torch.testing.assert_close(out, expected.double())
    assert torch.equal(operation(self=x, target=target, **options), getattr(F, name)(x, target, **options))
    with pytest.raises(TypeError, match="at most"):
        operation(x, target, *before, 1, 2, 3, 4)


def test_the_operation_elu_scales_its_two_sides():
    x = torch.tensor([-1.0, 2.0], dtype=torch.float64, requires_grad=True)
    y = torch.ops.aten.elu(x, 0.5, 2.0, 3.0)
    torch.testing.assert_close(y, torch.tensor([2 * 0.5 * math.expm1(-3), 4.0], dtype=torch.float64))
    (grad,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(grad, torch.tensor([3 * math.exp(-3), 2.0], dtype=torch.float64))
    assert torch.ops.aten.elu(torch.tensor([200.0, -200.0])).tolist() == [200, -1]


def test_a_pointwise_result_is_computed_in_the_memory_of_its_output():
    x, column = torch.randn(40, 30), torch.randn(40, 1)
    out = torch.empty(30, 40).t()
    address, version = out.data_ptr(), out._version
    assert torch.sub(x, column, out=out) is out
    assert (out.data_ptr(), out._version) == (address, version + 1)
    assert torch.equal(out, x - column)
    # The output may be an operand, if it is all of it.
    expected = x * x + x
    torch.mul(x, x, out=out)
    assert torch.equal(torch.add(out, x, out=x), expected)
    whole = torch.arange(6.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.neg(whole[:5], out=whole[1:])


def test_nothing_is_written_to_an_output_that_refuses_the_result():
    out = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.neg(torch.zeros(3), out=out)
    whole = torch.ones(3, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.div(torch.zeros(3), 2.0, out=whole)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.div(whole, torch.zeros(3, dtype=torch.int64), rounding_mode="floor", out=whole)
    assert torch.equal(out, torch.ones(3)) and torch.equal(whole, torch.ones(3, dtype=torch.int64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int32])
def test_sums_with_a_multiple_are_the_same_in_every_form(dtype):
    x, y = torch.arange(-5, 6).to(dtype), torch.arange(11).to(dtype)
    for name, expected in (("add", x + 2 * y), ("sub", x - 2 * y)):
        call = getattr(torch, name)
        assert torch.equal(call(x, y, alpha=2), expected)
        assert torch.equal(call(x, y, alpha=2, out=torch.empty_like(x)), expected)
        assert torch.equal(getattr(x.clone(), name + "_")(y, alpha=2), expected)


def test_a_sum_with_a_multiple_of_a_column_is_that_of_its_copies():
    x, column = torch.randn(300, 600), torch.randn(300, 1)
    assert torch.equal(torch.add(x, column, alpha=0.5), torch.add(x, column.expand(300, 600).clone(), alpha=0.5))
    assert torch.equal(torch.sub(column, x, alpha=2.0), column - 2.0 * x)


def test_a_sum_with_a_multiple_refuses_the_factors_that_it_refuses_elsewhere():
    x = torch.ones(2)
    for call in (lambda **k: torch.add(x, x, **k), x.add_, lambda **k: torch.add(x, x, out=torch.empty(2), **k)):
        arguments = (x,) if call == x.add_ else ()
        with pytest.raises(RuntimeError, match="Boolean alpha"):
            call(*arguments, alpha=True)
    whole = torch.ones(2, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="must not be a floating point"):
        whole.add_(whole, alpha=0.5)
    with pytest.raises(RuntimeError, match="can't be cast"):
        whole.div_(2)


def test_a_recorded_sum_in_place_passes_gradients_to_both_operands():
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    t = x * 1
    t.add_(y, alpha=3).sub_(y).div_(2)
    t.sum().backward()
    assert x.grad.tolist() == [0.5] * 3 and y.grad.tolist() == [1.0] * 3


CHOSEN = {
    "round": ("round_", (), {}),
    "round to digits": ("round_", (), {"decimals": 2}),
    "square": ("square_", (), {}),
    "cube": ("pow_", (3,), {}),
    "root": ("pow_", (0.5,), {}),
    "power": ("pow_", (1.7,), {}),
    "logit": ("logit_", (), {}),
    "logit within": ("logit_", (0.3,), {}),
    "finite": ("nan_to_num_", (), {"nan": 2.0}),
    "quotient": ("div_", (3,), {}),
    "clamp": ("clamp_", (0.3, 0.6), {}),
    "clamp from": ("clamp_", (), {"min": 0.4}),
    "clamp to": ("clamp_", (None, 0.4), {}),
}


@pytest.mark.parametrize("case", CHOSEN)
def test_an_operation_chosen_by_its_arguments_is_the_same_in_every_form(case):
    name, args, kwargs = CHOSEN[case]
    given = torch.rand(1001) * 0.98 + 0.01
    expected = getattr(given, name[:-1])(*args, **kwargs)
    inside, beside = given.clone(), torch.empty(1001)
    address = inside.data_ptr()
    assert getattr(inside, name)(*args, **kwargs) is inside and inside.data_ptr() == address
    getattr(torch, name[:-1])(given, *args, **kwargs, out=beside)
    assert inside.tolist() == expected.tolist() == beside.tolist()


@pytest.mark.parametrize("case", CHOSEN)
def test_an_operation_chosen_by_its_arguments_has_the_same_gradient_in_place(case):
    name, args, kwargs = CHOSEN[case]
    given = (torch.rand(50) * 0.98 + 0.01).requires_grad_()
    outside = getattr(given, name[:-1])(*args, **kwargs)
    inside = getattr(given.clone(), name)(*args, **kwargs)
    assert inside.grad_fn.name() == outside.grad_fn.name()
    expected, found = (torch.autograd.grad(y.sum(), given)[0] for y in (outside, inside))
    assert torch.equal(expected, found)


def test_powers_and_squares_of_integers_stay_integers_in_place():
    x = torch.arange(5)
    assert x.clone().square_().tolist() == x.clone().pow_(2).tolist() == [0, 1, 4, 9, 16]
    assert x.clone().round_().tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="can't be cast"):
        x.div_(2)
