"""Rounding to the values of quantized tensors: `fake_quantize_per_tensor_affine` and the form by channels."""

import pytest

import rgrad as torch

tensorwise, channelwise = torch.fake_quantize_per_tensor_affine, torch.fake_quantize_per_channel_affine


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize("point", [0, 3, -2])
def test_values_are_rounded_to_multiples_of_the_scale_within_the_bounds(point):
    x = torch.linspace(-3, 3, 97)
    made = tensorwise(x, 0.25, point, -8, 7)
    wanted = [(min(max(round(v / 0.25) + point, -8), 7) - point) * 0.25 for v in x.tolist()]
    assert made.tolist() == wanted


def test_the_gradient_passes_where_nothing_is_clipped():
    x = torch.tensor([-2.0, -0.84, 0.0, 0.7, 0.76, float("nan"), float("inf")], requires_grad=True)
    made = tensorwise(x, 0.1, 0, -8, 7)
    assert torch.allclose(made, torch.tensor([-0.8, -0.8, 0, 0.7, 0.7, -0.8, 0.7]))
    made.backward(torch.full((7,), 3.0))
    assert x.grad is not None and x.grad.tolist() == [0, 3, 3, 3, 0, 0, 0]


def test_scale_and_zero_point_may_be_tensors_of_one_element():
    x = torch.tensor([-1.0, 0.26, 9.0])
    for shape in ((), (1,)):
        scale, point = torch.full(shape, 0.1), torch.full(shape, 1, dtype=torch.int32)
        assert torch.equal(tensorwise(x, scale, point, 0, 15), tensorwise(x, 0.1, 1, 0, 15))
    with pytest.raises(RuntimeError, match="2 elements cannot be converted"):
        tensorwise(x, torch.tensor([0.1, 0.2]), ints(0, 0), 0, 15)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_result_has_the_dtype_of_the_input(dtype):
    assert tensorwise(torch.ones(2, dtype=dtype), 0.5, 0, 0, 15).dtype is dtype


def test_channels_have_their_own_scales_and_zero_points():
    x = torch.tensor([[-0.5, 0.26, 0.9], [1.0, 2.0, -3.0]], requires_grad=True)
    made = channelwise(x, torch.tensor([0.1, 0.2]), ints(0, 1), 0, -4, 7)
    rows = [tensorwise(x[i], s, z, -4, 7) for i, s, z in ((0, 0.1, 0), (1, 0.2, 1))]
    assert torch.allclose(made, torch.stack(rows))
    made.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[0, 1, 0], [1, 0, 0]]
    turned = channelwise(x.detach().mT, torch.tensor([0.1, 0.2]), ints(0, 1), -1, -4, 7)
    assert torch.equal(turned, made.detach().mT)


def test_a_zero_point_between_integers_is_added_before_rounding():
    x = torch.tensor([[-0.5, 0.26, 0.9]])
    made = channelwise(x, torch.tensor([0.1]), torch.tensor([0.4]), 0, -4, 7)
    assert torch.allclose(made, torch.tensor([[-0.44, 0.26, 0.66]]))


def test_arguments_are_checked():
    x = torch.ones(2, 3)
    scale, point = torch.ones(2), ints(0, 0)
    for call in (lambda: tensorwise(x, 0.1, 0, 5, 1), lambda: channelwise(x, scale, point, 0, 5, 1)):
        with pytest.raises(RuntimeError, match="`quant_min` should be less than or equal"):
            call()
    for call in (lambda: tensorwise(x, 0.1, 9, 0, 7), lambda: channelwise(x, scale, ints(0, 9), 0, 0, 7)):
        with pytest.raises(RuntimeError, match="`zero_point` must be between"):
            call()
    for call in (lambda: tensorwise(ints(1), 0.1, 0, 0, 7), lambda: channelwise(x.long(), scale, point, 0, 0, 7)):
        with pytest.raises(NotImplementedError):
            call()
    with pytest.raises(TypeError, match="zero_point"):
        tensorwise(x, 0.1, 0.5, 0, 7)  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="Dimension out of range"):
        channelwise(x, scale, point, 2, 0, 7)
    with pytest.raises(RuntimeError, match="not consistent"):
        channelwise(x, scale, point, 1, 0, 7)
    with pytest.raises(RuntimeError, match="Scale must be Float or BFloat16, found Double"):
        channelwise(x, scale.double(), point, 0, 0, 7)
    with pytest.raises(RuntimeError, match="Zero-point must be Int32, Float or Half, found Long"):
        channelwise(x, scale, point.long(), 0, 0, 7)
