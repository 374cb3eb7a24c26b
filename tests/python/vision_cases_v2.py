"""Calls of `vision.transforms.v2` on samples; see vision_cases.py."""

import importlib

import numpy as np
from vision_cases_transforms import Draws


def cases(torch, vision):
    from PIL import Image

    T = importlib.import_module(vision.__name__ + ".transforms.v2")  # noqa: N806
    F = importlib.import_module(vision.__name__ + ".transforms.v2.functional")  # noqa: N806
    nearest = T.InterpolationMode.NEAREST
    values = np.random.default_rng(0)
    smooth = np.add.outer(np.arange(30) * 4, np.arange(38) * 3)[..., None] + np.array([0, 20, 35])
    array = (smooth + values.integers(0, 20, (30, 38, 3))).clip(0, 255).astype(np.uint8)
    picture = Image.fromarray(array)
    image = torch.from_numpy(array.transpose(2, 0, 1).copy())
    real = image.to(torch.float32) / 255
    batch = torch.stack([real, real.flip(1), real.flip(2), 1 - real])

    functions = {
        "Resize": lambda: T.Resize(12, nearest),
        "CenterCrop": lambda: T.CenterCrop((9, 50)),
        "Pad": lambda: T.Pad((1, 2), 5),
        "Grayscale": lambda: T.Grayscale(3),
        "FiveCrop": lambda: T.FiveCrop(9),
        "ToImage": lambda: T.ToImage(),
        "ToDtype": lambda: T.Compose([T.ToImage(), T.ToDtype(torch.float32, scale=True)]),
        "ToDtype without scaling": lambda: T.Compose([T.ToImage(), T.ToDtype(torch.float64)]),
        "preparation": lambda: T.Compose(
            [T.PILToTensor(), T.ToDtype(torch.float32, True), T.Resize((8, 9)), T.Normalize([0.5] * 3, [0.2] * 3)]
        ),
        "RandomRotation": lambda: T.RandomRotation(40, fill=3),
        "RandomAffine": lambda: T.RandomAffine((10, 50), (0.1, 0.2), (0.7, 1.2), (-5, 5, 2, 9)),
        "RandomPerspective": lambda: T.RandomPerspective(0.6, p=0.9, interpolation=nearest),
        "RandomVerticalFlip": lambda: T.RandomVerticalFlip(),
        "RandomHorizontalFlip": lambda: T.RandomHorizontalFlip(),
        "RandomGrayscale": lambda: T.RandomGrayscale(0.5),
        "RandomInvert": lambda: T.RandomInvert(),
        "RandomPosterize": lambda: T.RandomPosterize(4),
        "RandomSolarize": lambda: T.RandomSolarize(100),
        "RandomAutocontrast": lambda: T.RandomAutocontrast(),
        "RandomEqualize": lambda: T.RandomEqualize(),
        "RandomCrop": lambda: T.RandomCrop((20, 22), padding=3, padding_mode="reflect"),
        "RandomResizedCrop": lambda: T.RandomResizedCrop((12, 13), interpolation=nearest),
        "RandomChannelPermutation": lambda: T.RandomChannelPermutation(),
        "RandomResize": lambda: T.RandomResize(8, 20, nearest),
        "RandomShortestSize": lambda: T.RandomShortestSize([8, 12, 16], 20, nearest),
        "ScaleJitter": lambda: T.ScaleJitter((20, 30), (0.5, 1.5), nearest),
        "RandomZoomOut": lambda: T.RandomZoomOut(7),
        "RandomOrder": lambda: T.RandomOrder([T.RandomInvert(1.0), T.Pad(2), T.RandomVerticalFlip(1.0)]),
        "RandomApply": lambda: T.RandomApply([T.RandomInvert(1.0), T.Pad(2)], 0.6),
    }
    of_floats = {
        "RandomPhotometricDistort": lambda: T.RandomPhotometricDistort(),
        "ColorJitter": lambda: T.ColorJitter(0.4, 0.5, 0.3, 0.2),
        "GaussianNoise": lambda: T.GaussianNoise(0.1, 0.0),
        "GaussianBlur": lambda: T.GaussianBlur(5, (0.5, 1.5)),
        "ElasticTransform": lambda: T.ElasticTransform(30.0, 3.0),
        "RandomErasing": lambda: T.RandomErasing(0.7, value=0.3),
        "LinearTransformation": lambda: T.LinearTransformation(torch.eye(3 * 30 * 38) * 2, torch.ones(3 * 30 * 38)),
    }

    def drawn(make, x):
        transform = make()
        with Draws(torch).patched():
            samples = [transform({"picture": x, "label": 3, "name": "x"}) for _ in range(3)]
        return [[sample["picture"], sample["label"], sample["name"]] for sample in samples]

    kinds = {"bytes": image, "pillow": picture}
    every = {f"{n} of {kind}": lambda f=f, x=x: drawn(f, x) for n, f in functions.items() for kind, x in kinds.items()}
    every |= {f"{n} of floats": lambda f=f: drawn(f, real) for n, f in of_floats.items()}
    structures = {
        "pair": lambda: T.Pad(1)(image, 5),
        "two tensors": lambda: T.Pad(1)([image, image]),
        "pillow and tensor": lambda: T.Pad(1)((picture, real)),
        "named": lambda: [T.Pad(1)({"a": [image, "x"], "b": picture})[key] for key in "ab"],
        "Lambda of numbers": lambda: T.Lambda(lambda x: x + 1, int)(real, 3),
        "RGB": lambda: [T.RGB()(image[:1]), T.RGB()(picture.convert("L")), T.RGB()(image)],
        "ToTensor": lambda: T.ToTensor()((picture, 3)),
        "ToPILImage": lambda: T.ToPILImage()(image, 4),
        "Normalize of bytes": lambda: T.Normalize([0.5], [0.5])(image),
        "Normalize of pillow": lambda: T.Normalize([0.5], [0.5])(picture),
        "Compose of nothing": lambda: T.Compose([]),
        "MixUp of one image": lambda: T.MixUp(num_classes=3)(real, torch.tensor([0, 1, 2])),
        "MixUp without classes": lambda: T.MixUp()(batch, torch.tensor([0, 1, 2, 0])),
        "MixUp of pillow": lambda: T.MixUp(num_classes=3)(picture, torch.tensor([0])),
        "class of results": lambda: [
            type(x).__name__
            for x in (T.ToImage()(picture), T.Pad(1)(T.ToImage()(picture)), T.ToPureTensor()(T.ToImage()(image)))
        ],
        "functions": lambda: [
            F.horizontal_flip(picture),
            F.vertical_flip(image),
            F.to_image(array),
            F.to_dtype(image, torch.float32, scale=True),
            F.permute_channels(image, [2, 0, 1]),
            F.get_size(picture),
            F.is_pure_tensor(image),
            F.is_pure_tensor(F.to_image(image)),
            F.grayscale_to_rgb(image[1:2]),
        ],
    }
    return every | structures
