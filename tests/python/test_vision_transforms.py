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


def test_crops_draw_their_rectangle_by_a_function_that_programs_call_for_pairs_of_images():
    image = torch.arange(600).view(1, 20, 30)
    torch.manual_seed(3)
    top, left, height, width = transforms.RandomCrop.get_params(image, output_size=(5, 6))
    torch.manual_seed(3)
    assert torch.equal(transforms.RandomCrop((5, 6))(image), image[:, top : top + 5, left : left + 6])
    assert (height, width) == (5, 6) and transforms.RandomCrop.get_params(image, (20, 30)) == (0, 0, 20, 30)
    with pytest.raises(ValueError, match="larger than input image size"):
        transforms.RandomCrop.get_params(image, (21, 6))
    torch.manual_seed(4)
    top, left, height, width = transforms.RandomResizedCrop.get_params(image, [0.1, 0.5], [0.75, 1.5])
    assert 0.08 < height * width / 600 < 0.55 and 0.6 < width / height < 1.8
    torch.manual_seed(4)
    again = transforms.RandomResizedCrop((height, width), (0.1, 0.5), (0.75, 1.5))(image.float())
    assert torch.equal(again, image[:, top : top + height, left : left + width].float())

    class Corner(transforms.RandomCrop):
        @staticmethod
        def get_params(img, output_size):
            return 0, 0, *output_size

    assert torch.equal(Corner(3)(image), image[:, :3, :3])


def test_numbers_per_channel_are_kept_for_later_images_and_stay_what_they_are():
    image, normalize = torch.rand(3, 4, 4), transforms.Normalize([0.1, 0.2, 0.3], (0.5, 1, 2.0))
    with torch.inference_mode():
        first = normalize(image)
    leaf = image.clone().requires_grad_()
    normalize(leaf).sum().backward()
    assert torch.equal(normalize(image), first) and not normalize(image).is_inference()
    assert leaf.grad[:, 0, 0].tolist() == [2, 1, 0.5]
    means = torch.tensor([0.1, 0.2, 0.3])
    before = transforms.functional.normalize(image, means, [1.0])
    means.mul_(2)
    assert not torch.equal(transforms.functional.normalize(image, means, [1.0]), before)
    for _ in range(2):
        with pytest.raises(ValueError, match="std evaluated to zero"):
            transforms.functional.normalize(image, [0.0], [0.0])
    assert torch.func.vmap(normalize)(image[None].expand(2, 3, 4, 4)).shape == (2, 3, 4, 4)


def test_the_bytes_of_a_picture_are_copied_where_the_tensor_is_its_own():
    from PIL import Image

    picture = Image.new("L", (3, 2), 7)
    own = transforms.functional.pil_to_tensor(picture)
    own.add_(1)
    assert own.tolist() == [[[8, 8, 8], [8, 8, 8]]] and picture.getpixel((0, 0)) == 7
    wide = transforms.functional.to_tensor(Image.new("I", (2, 1), 70000))
    wide.add_(1)
    assert wide.tolist() == [[[70001, 70001]]]
