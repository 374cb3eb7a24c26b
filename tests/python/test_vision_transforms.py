"""Transforms give torchvision's results, for the same random numbers."""

import pytest

pytest.importorskip("PIL")

import vision_cases
import vision_cases_transforms

import rgrad as torch
from rgrad.vision import transforms

CASES = vision_cases_transforms.cases(torch, torch.vision)
RECORDED = vision_cases.recorded("transforms")


@pytest.mark.parametrize("name", CASES)
def test_transforms_are_torchvisions(name):
    assert vision_cases.equal(vision_cases.outcome(CASES[name]), RECORDED[name], 1e-4)


def test_random_transforms_depend_on_the_seed_only():
    transform = transforms.Compose(
        [transforms.ColorJitter(0.5, 0.5), transforms.RandomAffine(30), transforms.RandomErasing(1.0, value="random")]
    )
    image = torch.rand(3, 16, 16)
    results = []
    for _ in range(2):
        torch.manual_seed(4)
        results.append(transform(image))
    assert torch.equal(*results) and not torch.equal(results[0], transform(image))


def test_transforms_print_their_settings():
    assert repr(transforms.ColorJitter(0.5)) == (
        "ColorJitter(brightness=(0.5, 1.5), contrast=None, saturation=None, hue=None)"
    )
    assert repr(transforms.RandomRotation(3)) == (
        "RandomRotation(degrees=[-3.0, 3.0], interpolation=nearest, expand=False, fill=0)"
    )
