"""Transforms of samples give torchvision's results, for the same random numbers."""

import copy
import pickle

import pytest

pytest.importorskip("PIL")

import vision_cases
import vision_cases_v2
from PIL import Image

import rgrad as torch
from rgrad.vision import tv_tensors
from rgrad.vision.transforms import v2

CASES = vision_cases_v2.cases(torch, torch.vision)
RECORDED = vision_cases.recorded("v2")


@pytest.mark.parametrize("name", CASES)
def test_transforms_of_samples_are_torchvisions(name):
    assert vision_cases.equal(vision_cases.outcome(CASES[name]), RECORDED[name], 1e-4)


def test_every_recorded_case_is_tested():
    assert CASES.keys() == RECORDED.keys()


def test_all_images_of_a_sample_are_transformed_alike():
    first, second = (tv_tensors.Image(torch.rand(3, 12, 12)) for _ in range(2))
    picture = Image.new("RGB", (12, 12), (10, 200, 30))
    transform = v2.Compose([v2.RandomCrop(6), v2.RandomHorizontalFlip(), v2.ColorJitter(0.5), v2.RandomRotation(90)])
    for _ in range(5):
        one, also = transform(first, first.clone())
        assert torch.equal(one, also) and isinstance(one, tv_tensors.Image)
    assert transform(first, picture, second)[1].size == (6, 6)
    with pytest.raises(ValueError, match="multiple HxW dimensions"):
        v2.RandomCrop(3)(first, v2.CenterCrop(5)(second))


@pytest.mark.parametrize("mix", [v2.MixUp, v2.CutMix])
def test_mixtures_have_labels_in_proportion(mix):
    batch = torch.stack([torch.full((1, 8, 8), float(i)) for i in range(3)])
    labels = torch.tensor([0, 1, 2])
    torch.manual_seed(2)
    for _ in range(4):
        images, shares = mix(num_classes=3)(batch, labels)
        assert torch.allclose(images.mean((1, 2, 3)), shares @ torch.tensor([0.0, 1.0, 2.0]), atol=1e-5)
        assert torch.allclose(shares.sum(1), torch.ones(3))
    sample = mix(num_classes=3)({"picture": batch, "the labels": labels})
    assert sample["the labels"].shape == (3, 3) and sample["picture"].shape == batch.shape
    with pytest.raises(ValueError, match="num_classes=4"):
        mix(num_classes=4)(batch, torch.eye(3))


def test_a_transform_of_a_program_gets_the_images_and_its_own_numbers():
    class Shifted(v2.Transform):
        def make_params(self, flat_inputs):
            return {"by": len(flat_inputs)}

        def transform(self, inpt, params):
            return inpt + params["by"]

    image = torch.zeros(1, 2, 2)
    result, label = Shifted()(image, torch.tensor(5))
    assert result.max() == 1 and label == 5
    with pytest.raises(NotImplementedError, match="defines no transform"):
        v2.Transform()(image)


def test_images_are_tensors_whose_results_are_plain():
    image = tv_tensors.Image(torch.rand(3, 2, 2))
    assert type(image + 1) is type(image.sum()) is type(image[0]) is torch.Tensor
    for kept in (image.clone(), image.to(torch.float64), image.detach(), copy.deepcopy(image)):
        assert type(kept) is tv_tensors.Image
    assert type(pickle.loads(pickle.dumps(image))) is tv_tensors.Image
    assert type(tv_tensors.wrap(image + 1, like=image)) is tv_tensors.Image
    assert tv_tensors.Image([[1, 2]]).shape == (1, 1, 2) and repr(image).startswith("Image([[[")
    with pytest.raises(ValueError, match="must be 2D or higher"):
        tv_tensors.Image(torch.zeros(2))
    with pytest.raises(NotImplementedError, match="torchvision.tv_tensors.Mask is not in rgrad"):
        tv_tensors.Mask(torch.zeros(2, 2))


def test_noise_has_its_mean_and_deviation():
    torch.manual_seed(0)
    image = torch.full((3, 64, 64), 0.5)
    noisy = v2.GaussianNoise(0.1, 0.05)(image)
    assert abs(noisy.mean() - 0.6) < 0.002 and abs(noisy.std() - 0.05) < 0.002
    assert v2.GaussianNoise(sigma=3.0)(image).min() == 0 and v2.GaussianNoise(sigma=3.0, clip=False)(image).min() < 0
    with pytest.raises(ValueError, match="not implemented for PIL"):
        v2.GaussianNoise()(Image.new("L", (2, 2)))


def test_settings_are_shown():
    assert repr(v2.Resize(3)) == "Resize(size=[3], interpolation=bilinear, antialias=True)"
    assert repr(v2.RandomApply([v2.CenterCrop(3)])) == "RandomApply(    CenterCrop(size=(3, 3)))"
    assert repr(v2.Lambda(len)) == "Lambda(len, types=['object'])"
    assert "ToImage()\n" in repr(v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32)]))
