"""What `out=` takes and refuses."""

from __future__ import annotations

import pytest

import rgrad as torch

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


def test_only_functions_composed_of_others_pass_gradients_to_out():
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
