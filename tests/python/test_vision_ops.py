"""Operations on boxes and regions, and modules for images."""

import pytest
import vision_cases
import vision_cases_ops

import rgrad as torch
from rgrad.vision import ops

CASES = vision_cases_ops.cases(torch, torch.vision)


@pytest.mark.parametrize("name", CASES)
def test_operations_are_torchvisions(name):
    assert vision_cases.equal(vision_cases.outcome(CASES[name]), vision_cases.recorded("ops")[name], 1e-4)


def test_samples_are_dropped_and_the_others_scaled():
    torch.manual_seed(0)
    x = torch.ones(400, 2, 3)
    for_each = ops.stochastic_depth(x, 0.25, "row")
    values = for_each[:, 0, 0]
    assert torch.equal(for_each, values.view(-1, 1, 1).expand_as(x)) and values.unique().tolist() == pytest.approx(
        [0, 4 / 3]
    )
    assert 0.15 < float((values == 0).float().mean()) < 0.35
    assert len(ops.stochastic_depth(x, 0.5, "batch").unique()) == 1
    drop = ops.StochasticDepth(0.5, "row")
    assert drop.eval()(x) is x and repr(drop) == "StochasticDepth(p=0.5, mode=row)"


def test_squares_are_dropped_and_the_others_scaled():
    torch.manual_seed(0)
    x = torch.ones(8, 3, 32, 32)
    for size in (3, 5):
        dropped = ops.DropBlock2d(0.2, size)(x)
        zeros = dropped == 0
        assert 0.12 < float(zeros.float().mean()) < 0.28 and dropped.mean() == pytest.approx(1, rel=1e-4)
        # Every zero is in a square of zeros.
        blocks = torch.nn.functional.avg_pool2d(zeros.float(), size, 1) > 0.999
        assert int(blocks.sum()) > 0
    assert ops.drop_block3d(torch.ones(1, 2, 8, 8, 8), 0.3, 3).shape == (1, 2, 8, 8, 8)
    assert ops.DropBlock2d(0.2, 3).eval()(x) is x


def test_a_pyramid_loads_the_keys_of_its_first_version():
    net = ops.FeaturePyramidNetwork([3, 5], 4)
    old = {key.replace(".0.weight", ".weight").replace(".0.bias", ".bias"): v for key, v in net.state_dict().items()}
    assert "inner_blocks.1.weight" in old and not any(net.load_state_dict(old))
