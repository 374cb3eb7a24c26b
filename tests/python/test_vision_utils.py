"""Grids of images and drawings on them."""

import pytest
import vision_cases
import vision_cases_utils

import rgrad as torch
from rgrad.vision import utils

pytest.importorskip("PIL")
CASES = vision_cases_utils.cases(torch, torch.vision)


@pytest.mark.parametrize("name", CASES)
def test_pictures_are_torchvisions(name):
    assert vision_cases.equal(vision_cases.outcome(CASES[name]), vision_cases.recorded("utils")[name], 1e-5)


def test_grids_are_saved(tmp_path):
    image = torch.zeros(2, 3, 4, 4)
    image[1] = 0.7
    utils.save_image(image, tmp_path / "grid.png", nrow=1, padding=0)
    read = torch.vision.io.read_image(tmp_path / "grid.png")
    assert read.shape == (3, 8, 4) and read[:, 4:].eq(179).all() and read[:, :4].eq(0).all()


def test_a_font_size_without_a_font_and_missing_boxes_are_warned_of():
    image, box = torch.zeros(3, 9, 9, dtype=torch.uint8), torch.tensor([[1, 1, 5, 5]])
    with pytest.warns(UserWarning, match="'font_size' will be ignored"):
        utils.draw_bounding_boxes(image, box, font_size=9)
    with pytest.warns(UserWarning, match="No box was drawn"):
        assert utils.draw_bounding_boxes(image, box[:0]) is image
    with pytest.warns(UserWarning, match="No mask was drawn"):
        assert utils.draw_segmentation_masks(image, torch.zeros(0, 9, 9, dtype=torch.bool)) is image
