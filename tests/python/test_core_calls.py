"""Functions that programs call below the public names, in `torch._C._nn` and `torch.ops.aten`."""

from __future__ import annotations

import pickle

import pytest

import rgrad as torch

nn = torch._C._nn
IMAGE = torch.arange(16.0).view(1, 1, 4, 4)


def test_images_are_resampled_to_sizes_or_by_factors():
    assert nn.upsample_nearest2d(IMAGE, [2, 2]).flatten().tolist() == [0, 2, 8, 10]
    assert torch.equal(nn.upsample_nearest2d(IMAGE, None, [0.5, 0.5]), nn.upsample_nearest2d(IMAGE, [2, 2], 0.5, 0.5))
    assert nn.upsample_bilinear2d(IMAGE, [2, 2], True, None, None).flatten().tolist() == [0, 3, 12, 15]
    assert nn._upsample_nearest_exact2d(IMAGE, [3, 3]).flatten().tolist() == [0, 2, 3, 8, 10, 11, 12, 14, 15]
    assert torch.ops.aten.upsample_trilinear3d(IMAGE[None], [2, 2, 2], False).shape == (1, 1, 2, 2, 2)
    out = torch.empty(0)
    nn.upsample_linear1d(IMAGE[0], [8], align_corners=False, out=out)
    assert out.shape == (1, 4, 8)
    with pytest.raises(RuntimeError, match="output_size equals to 2, but got size 1"):
        nn.upsample_nearest2d(IMAGE, [2])


def test_margins_have_two_numbers_for_each_dimension():
    assert nn.replication_pad1d(torch.ones(2, 3), [1, 1]).shape == (2, 5)
    for name, count in (("replication_pad1d", 2), ("reflection_pad2d", 4), ("replication_pad3d", 6)):
        with pytest.raises(RuntimeError, match=f"padding size is expected to be {count}, but got: 0"):
            getattr(nn, name)(torch.ones(2), padding=[])


def test_convolutions_are_told_the_size_of_their_kernel():
    weight = torch.ones(1, 1, 2, 2)
    assert torch.equal(nn.thnn_conv2d(IMAGE, weight, 2, torch.ones(1)), torch.conv2d(IMAGE, weight, torch.ones(1)))
    assert nn.slow_conv3d(torch.ones(1, 1, 3, 3, 3), torch.ones(1, 8), 2).shape == (1, 1, 2, 2, 2)
    with pytest.raises(RuntimeError, match="2D stride expected"):
        nn.thnn_conv2d(IMAGE, weight, [2, 2], None, [])
    with pytest.raises(RuntimeError, match=r"non-empty 2D or 5D weight tensor expected, but got: \[1, 0, 1\]"):
        nn.slow_conv3d(IMAGE, torch.ones(1, 0, 1), 1)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_function'"):
        _ = nn.no_such_function


def test_gradients_are_unscaled_in_place_and_a_flag_says_whether_one_is_not_finite():
    grads, found = [torch.ones(2), torch.ones(3, dtype=torch.float64).t()], torch.zeros(1)
    torch._amp_foreach_non_finite_check_and_unscale_(grads, found, torch.tensor([0.5]))
    assert found == 0 and all((grad == 0.5).all() for grad in grads)
    torch._amp_foreach_non_finite_check_and_unscale_([torch.tensor([float("nan")])], found, torch.tensor([0.5]))
    assert found == 1
    with pytest.raises(RuntimeError, match="found_inf must be a float tensor"):
        torch._amp_foreach_non_finite_check_and_unscale_(grads, found.double(), torch.tensor([0.5]))
    with pytest.raises(RuntimeError, match="inv_scale must be a 1-element tensor"):
        torch._amp_foreach_non_finite_check_and_unscale_(grads, found, torch.ones(2))


def test_a_scale_grows_after_steps_without_overflow_and_shrinks_after_one_with():
    scale, steps = torch.tensor([4.0]), torch.tensor([0], dtype=torch.int32)
    for found, expected, count in ((0.0, 4.0, 1), (0.0, 8.0, 0), (0.0, 8.0, 1), (1.0, 2.0, 0)):
        assert torch._amp_update_scale_(scale, steps, torch.tensor([found]), 2.0, 0.25, 2) is scale
        assert scale == expected and steps == count
    scale.fill_(3e38)
    torch._amp_update_scale_(scale, steps, torch.zeros(1), 2.0, 0.25, 1)
    assert scale.isfinite()
    with pytest.raises(RuntimeError, match="growth_tracker must be an int tensor"):
        torch._amp_update_scale_(scale, scale, torch.zeros(1), 2.0, 0.25, 1)


def test_generators_are_pickled_where_they_are():
    generator = torch.Generator().manual_seed(3)
    torch.rand(5, generator=generator)
    other = pickle.loads(pickle.dumps(generator))
    assert other.initial_seed() == 3
    assert torch.equal(torch.rand(5, generator=generator), torch.rand(5, generator=other))


@pytest.mark.parametrize("protocol", [2, 5])
def test_tensors_without_memory_are_pickled_as_their_shape(protocol):
    x = torch.nn.Parameter(torch.empty(2, 3, device="meta").t())
    other = pickle.loads(pickle.dumps(x, protocol))
    assert other.is_meta and other.stride() == (1, 3) and isinstance(other, torch.nn.Parameter)
