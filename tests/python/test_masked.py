import math

import pytest

import rgrad as torch
from rgrad import masked

X = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
MASK = torch.tensor([[True, False, True], [True, True, True], [False, False, False]])
PLAIN = ("sum", "prod", "amax", "amin", "mean", "var", "std", "logsumexp")


@pytest.mark.parametrize("name", PLAIN)
def test_a_masked_reduction_is_that_of_the_elements_which_are_left(name):
    reduce, reduce_masked = getattr(torch, name), getattr(masked, name)
    for row in (0, 1):
        left = X[row][MASK[row]]
        torch.testing.assert_close(reduce_masked(X, 1, mask=MASK)[row], reduce(left, 0))
        torch.testing.assert_close(reduce_masked(X[row], mask=MASK[row]), reduce(left, 0))
    torch.testing.assert_close(reduce_masked(X, (0, 1), keepdim=True), reduce(X.flatten(), 0).reshape(1, 1))


def test_a_row_without_elements_gives_the_identity():
    found = {name: getattr(masked, name)(X, 1, mask=MASK)[2].item() for name in PLAIN}
    assert (found["sum"], found["prod"], found["amax"], found["amin"]) == (0, 1, -math.inf, math.inf)
    assert found["logsumexp"] == -math.inf and all(math.isnan(found[name]) for name in ("mean", "var", "std"))
    assert masked.amax(X.int(), 1, mask=MASK)[2].item() == torch.iinfo(torch.int32).min
    assert math.isnan(masked.median(X, 1, mask=MASK)[2].item())
    with pytest.raises(ValueError, match="no fully masked out rows"):
        masked.median(X.int(), 1, mask=MASK)


def test_indices_and_medians_count_only_elements_that_are_left():
    assert masked.argmax(X, 1, mask=MASK)[:2].tolist() == [2, 2] and masked.argmin(X, 1, mask=MASK)[:2].tolist() == [
        0,
        0,
    ]
    for values in (X, X.int()):
        assert masked.median(values[:2], 1, mask=MASK[:2]).tolist() == [1, 5]
        assert masked.median(values[:2], 1).tolist() == [1, 5]


@pytest.mark.parametrize("order", [0, 1, 2, 3, math.inf, -math.inf])
def test_norms_leave_out_elements(order):
    expected = [torch.linalg.vector_norm(X[row][MASK[row]], order) for row in (0, 1)]
    torch.testing.assert_close(masked.norm(X, order, 1, mask=MASK)[:2], torch.stack(expected))
    scaled = masked.normalize(X, order, 1, mask=MASK)
    torch.testing.assert_close(scaled[0], torch.where(MASK[0], X[0], 0.0) / expected[0])


def test_normalizations_and_sums_so_far_leave_out_elements():
    left = X[0][MASK[0]]
    for name, sign in (("softmax", 1), ("softmin", -1)):
        result = getattr(masked, name)(X, 1, mask=MASK)
        torch.testing.assert_close(result[0][MASK[0]], torch.softmax(sign * left, 0))
        assert result[0, 1] == 0 and result[2].isnan().all()
    torch.testing.assert_close(masked.log_softmax(X, 1, mask=MASK)[0][MASK[0]], torch.log_softmax(left, 0))
    assert masked.cumsum(X, 1, mask=MASK)[0].tolist() == [1, 1, 4]
    assert masked.cumprod(X, 1, mask=MASK)[0].tolist() == [1, 1, 3]
    both = masked.logaddexp(X, X, input_mask=MASK)
    torch.testing.assert_close(both, torch.where(MASK, X + math.log(2), X))


def test_a_masked_sum_sends_no_gradient_to_elements_left_out():
    x = X.clone().requires_grad_()
    (masked.sum(x * x, 1, mask=MASK)).sum().backward()
    torch.testing.assert_close(x.grad, torch.where(MASK, 2 * X, 0.0))


def test_masks_and_dims_are_checked():
    with pytest.raises(IndexError, match="mask dimensionality higher"):
        masked.sum(X[0], mask=MASK)
    with pytest.raises(IndexError, match="Dimension out of range"):
        masked.sum(X, 2)
    with pytest.raises(RuntimeError, match="appears multiple times"):
        masked.mean(X, (0, 0))
    with pytest.raises(ValueError, match="Could not infer output dtype"):
        masked.mean(X.int())
    assert not masked.is_masked_tensor(X)
    with pytest.raises(NotImplementedError, match="no mask of its own"):
        masked.masked_tensor(X, MASK)


def test_a_product_over_an_empty_list_of_dimensions_is_the_input():
    x = torch.arange(1.0, 7.0).reshape(2, 3)
    for keepdim in (False, True):
        assert torch.equal(masked.prod(x, dim=[], keepdim=keepdim), x)
    assert masked.prod(x, dim=()).item() == 720


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "logsumexp", "norm"])
def test_an_identity_changes_no_result_of_its_operation(name: str):
    reduce = getattr(masked, name)
    for x in (X, X.to(torch.int64)) if name not in ("logsumexp", "norm") else (X,):
        identity = masked._reduction_identity(f"masked.{name}", x)
        assert identity.shape == () and identity.dtype == x.dtype
        flat = x.flatten()
        assert torch.equal(reduce(torch.cat((flat, identity[None])), dim=0), reduce(flat, dim=0))


def test_operations_that_count_have_no_identity():
    assert masked._reduction_identity("mean", X) is None and masked._reduction_identity("median", X).isnan()
    assert masked._reduction_identity("norm", X, float("-inf")).item() == float("inf")
    for name, x in (("softmax", X), ("amax", X > 0)):
        with pytest.raises(NotImplementedError, match=f"identity of {name}"):
            masked._reduction_identity(name, x)


def test_a_mask_takes_the_shape_of_the_input():
    assert torch.equal(
        masked._input_mask(torch.ones(2, 3), mask=torch.tensor([1, 0, 1])), torch.tensor([[1, 0, 1]] * 2) > 0
    )
    with pytest.raises(ValueError, match="requires explicit mask"):
        masked._input_mask(X)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_correction_that_is_no_integer_keeps_the_dtype(dtype):
    found = masked.var(X[0].to(dtype), 0, correction=0.5, mask=MASK[0])
    assert found.dtype == dtype and found.item() == pytest.approx(2 / 1.5, rel=torch.finfo(dtype).eps)
