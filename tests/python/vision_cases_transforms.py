"""Calls of `vision.transforms` on tensors and on Pillow images; see vision_cases.py."""

import random
from unittest import mock

import numpy as np


class Draws:
    """Stands in for the random numbers of PyTorch, so that both sides draw the same ones, in the same order."""

    def __init__(self, torch):
        self.torch, self.source = torch, np.random.default_rng(5)

    def _tensor(self, values):
        return self.torch.from_numpy(np.asarray(values))

    def rand(self, *size):
        size = size[0] if size and not isinstance(size[0], int) else size
        return self._tensor(self.source.random(size).astype(np.float32))

    def randint(self, *bounds, size=None):
        if size is None:
            *bounds, size = bounds
        low, high = (0, *bounds)[-2:]
        return self._tensor(self.source.integers(low, high, size))

    def randperm(self, count):
        return self._tensor(self.source.permutation(count))

    def uniform_(self, tensor, low=0.0, high=1.0):
        values = self.source.random(tuple(tensor.shape)).astype(np.float32)
        return tensor.copy_(self._tensor(values * np.float32(high - low) + np.float32(low)))

    def normal_(self, tensor):
        return tensor.copy_(self._tensor(self.source.standard_normal(tuple(tensor.shape)).astype(np.float32)))

    def patched(self):
        """The functions of PyTorch replaced."""
        stack = mock.patch.multiple(self.torch, rand=self.rand, randint=self.randint, randperm=self.randperm)
        if not hasattr(self.torch, "vision"):
            here = self

            class Both:
                def __enter__(self):
                    stack.__enter__()
                    self.more = mock.patch.multiple(
                        here.torch.Tensor,
                        uniform_=lambda x, *a: here.uniform_(x, *a),
                        normal_=lambda x: here.normal_(x),
                    )
                    self.more.__enter__()

                def __exit__(self, *error):
                    self.more.__exit__(*error)
                    stack.__exit__(*error)

            return Both()
        return mock.patch.multiple(
            self.torch.vision.transforms._draw,
            chance=lambda: self.rand(1).item(),
            uniform=lambda low, high: self.uniform_(self.torch.empty(1), low, high).item(),
            integer=lambda low, high: int(self.randint(low, high, (1,)).item()),
            normal=lambda shape: self.normal_(self.torch.empty(shape)),
            numbers=lambda shape: self.rand(*shape),
            permutation=lambda count: self.randperm(count).tolist(),
        )


def cases(torch, vision):
    from PIL import Image

    T, F = vision.transforms, vision.transforms.functional  # noqa: N806
    mode = T.InterpolationMode
    values = np.random.default_rng(0)
    smooth = np.add.outer(np.arange(30) * 4, np.arange(38) * 3)[..., None] + np.array([0, 20, 35])
    array = (smooth + values.integers(0, 20, (30, 38, 3))).clip(0, 255).astype(np.uint8)
    picture = Image.fromarray(array)
    image = torch.from_numpy(array.transpose(2, 0, 1).copy())
    real = image.to(torch.float32) / 255
    kinds = {"bytes": image, "floats": real, "gray": image[:1], "batch": torch.stack([image, image.flip(1)])}
    kinds |= {"pillow": picture, "pillow gray": picture.convert("L")}
    points = [[0, 0], [37, 0], [37, 29], [0, 29]], [[3, 2], [33, 4], [36, 27], [2, 25]]
    moved = torch.from_numpy(values.standard_normal((1, 30, 38, 2)).astype(np.float32) * 0.1)

    functions = {
        "brightness": lambda x: [F.adjust_brightness(x, f) for f in (0.0, 0.6, 1.7)],
        "contrast": lambda x: [F.adjust_contrast(x, f) for f in (0.0, 0.6, 1.7)],
        "saturation": lambda x: [F.adjust_saturation(x, f) for f in (0.0, 0.6, 1.7)],
        "hue": lambda x: [F.adjust_hue(x, f) for f in (-0.3, 0.0, 0.2)],
        "sharpness": lambda x: [F.adjust_sharpness(x, f) for f in (0.0, 0.6, 1.7)],
        "gamma": lambda x: [F.adjust_gamma(x, 0.7), F.adjust_gamma(x, 1.9, 0.8)],
        "invert": F.invert,
        "posterize": lambda x: F.posterize(x, 3),
        "solarize": lambda x: F.solarize(x, 0.5 if x is real else 120),
        "autocontrast": F.autocontrast,
        "equalize": F.equalize,
        "grayscale": lambda x: [F.rgb_to_grayscale(x), F.rgb_to_grayscale(x, 3)],
        "flips": lambda x: [F.vflip(x), F.hflip(x)],
        "pad": lambda x: [F.pad(x, [3, 1, 2, 5], padding_mode=m) for m in ("edge", "reflect", "symmetric")],
        "pad constant": lambda x: [F.pad(x, 2, 7), F.pad(x, (3, 1))],
        "crops": lambda x: [*F.five_crop(x, (7, 9)), *F.ten_crop(x, 8, True), F.crop(x, -2, 3, 9, 60)],
        "resized crop": lambda x: F.resized_crop(x, 3, 4, 20, 22, (10, 11), mode.NEAREST),
        "rotate": lambda x: [F.rotate(x, 33), F.rotate(x, -20.5, expand=True), F.rotate(x, 45, center=[3, 9])],
        "rotate and fill": lambda x: F.rotate(x, 33, fill=[0.4 if x is real else 90]),
        "affine": lambda x: F.affine(x, 20, [3, -2], 0.9, [10, 5], fill=[1 if x is real else 100]),
        "affine about a point": lambda x: F.affine(x, -30, [1, 2], 1.2, 7.0, center=[4, 6]),
        "perspective": lambda x: F.perspective(x, *points, mode.NEAREST),
        "blur": lambda x: [F.gaussian_blur(x, [5, 3]), F.gaussian_blur(x, 7, 1.3)],
        "sizes": lambda x: [F.get_dimensions(x), F.get_image_size(x), F.get_image_num_channels(x)],
        "center": lambda x: [F.center_crop(x, [9, 50]), F.center_crop(x, 12)],
    }
    blended = {
        "rotate bilinear": lambda x: F.rotate(x, 33, mode.BILINEAR, fill=[0.4 if x is real else 90]),
        "affine bilinear": lambda x: F.affine(x, 20, [3, -2], 0.9, [10, 5], mode.BILINEAR),
        "perspective bilinear": lambda x: F.perspective(x, *points),
        "elastic": lambda x: F.elastic_transform(x, moved),
    }
    every = {f"{name} of {kind}": lambda f=f, x=x: f(x) for name, f in functions.items() for kind, x in kinds.items()}
    for name, function in blended.items():
        for kind in ("floats", "pillow") if name != "elastic" else ("floats",):
            every[f"{name} of {kind}"] = lambda f=function, x=kinds[kind]: f(x)

    everything = {
        "ColorJitter": lambda: T.ColorJitter(0.4, 0.5, 0.3, 0.2),
        "ColorJitter of some": lambda: T.ColorJitter(contrast=(0.5, 0.9)),
        "RandomRotation": lambda: T.RandomRotation(40, fill=3),
        "RandomAffine": lambda: T.RandomAffine((10, 50), (0.1, 0.2), (0.7, 1.2), (-5, 5, 2, 9)),
        "RandomAffine of little": lambda: T.RandomAffine(15, shear=4),
        "RandomPerspective": lambda: T.RandomPerspective(0.6, p=0.9, interpolation=mode.NEAREST),
        "GaussianBlur": lambda: T.GaussianBlur(5, (0.5, 1.5)),
        "RandomVerticalFlip": lambda: T.RandomVerticalFlip(),
        "RandomHorizontalFlip": lambda: T.RandomHorizontalFlip(),
        "RandomGrayscale": lambda: T.RandomGrayscale(0.5),
        "RandomInvert": lambda: T.RandomInvert(),
        "RandomPosterize": lambda: T.RandomPosterize(4),
        "RandomSolarize": lambda: T.RandomSolarize(100),
        "RandomAdjustSharpness": lambda: T.RandomAdjustSharpness(1.5),
        "RandomAutocontrast": lambda: T.RandomAutocontrast(),
        "RandomEqualize": lambda: T.RandomEqualize(),
        "RandomCrop": lambda: T.RandomCrop((20, 22), padding=3, padding_mode="reflect"),
        "RandomCrop of more": lambda: T.RandomCrop(40, pad_if_needed=True, fill=9),
        "RandomCrop of all": lambda: T.RandomCrop((30, 38)),
        "RandomResizedCrop": lambda: T.RandomResizedCrop((12, 13), interpolation=mode.NEAREST),
        "RandomApply": lambda: T.RandomApply([T.RandomInvert(), T.Pad(2)], 0.6),
        "RandomOrder": lambda: T.RandomOrder([T.RandomInvert(), T.Pad(2), T.RandomVerticalFlip()]),
        "RandomChoice": lambda: T.RandomChoice([T.Pad(1), T.Pad(2), T.Pad(3)], p=[0.2, 0.3, 0.5]),
        "FiveCrop": lambda: T.FiveCrop(9),
        "TenCrop": lambda: T.TenCrop((8, 9), True),
        "Grayscale": lambda: T.Grayscale(3),
        "Pad": lambda: T.Pad((1, 2), 5),
    }

    def drawn(make, x):
        transform = make()
        random.seed(3)
        with Draws(torch).patched():
            results = [transform(x) for _ in range(4)]
        return [*results, repr(transform) if "object at" not in repr(transform) else ""]

    for name, make in everything.items():
        for kind in ("bytes", "pillow"):
            every[f"{name} drawn for {kind}"] = lambda make=make, kind=kind: drawn(make, kinds[kind])
    for value in (0, "random", [0.1, 0.2, 0.3]):
        every[f"RandomErasing of {value}"] = lambda value=value: erased(value)

    def erased(value):
        transform = T.RandomErasing(0.8, value=value)
        with Draws(torch).patched():
            results = [transform(real) for _ in range(5)]
        return results

    for name, call in {
        "image of bytes": lambda: F.to_pil_image(image),
        "image of floats": lambda: F.to_pil_image(real),
        "image of gray": lambda: F.to_pil_image(real[0]),
        "image of an array": lambda: F.to_pil_image(array, "YCbCr"),
        "image of ints": lambda: F.to_pil_image(image[:1].to(torch.int32)),
        "image of shorts": lambda: F.to_pil_image(image[:1].to(torch.int16) * 9),
        "image of reals": lambda: F.to_pil_image(array[:, :, 0].astype(np.float32)),
        "image of two channels": lambda: F.to_pil_image(image[:2]),
        "image of five channels": lambda: F.to_pil_image(torch.zeros(5, 3, 3)),
        "image of one dimension": lambda: F.to_pil_image(torch.zeros(3)),
        "image of another mode": lambda: F.to_pil_image(image, "L"),
        "image of a list": lambda: F.to_pil_image([1]),
        "linear": lambda: T.LinearTransformation(torch.eye(12) * 2, torch.ones(12))(real[:, :2, :2].contiguous()),
        "linear of another size": lambda: T.LinearTransformation(torch.eye(12), torch.ones(11)),
        "a negative brightness": lambda: F.adjust_brightness(image, -1),
        "a large hue": lambda: F.adjust_hue(image, 0.7),
        "an even kernel": lambda: F.gaussian_blur(image, 4),
        "a negative scale": lambda: F.affine(image, 0, [0, 0], -1, 0),
        "a wrong padding": lambda: F.pad(image, [1, 2, 3]),
        "a wrong mode of padding": lambda: F.pad(image, 1, padding_mode="no"),
        "jitter out of range": lambda: T.ColorJitter(hue=0.7),
        "a negative rotation": lambda: T.RandomRotation(-3),
        "a large crop": lambda: F.five_crop(image, 100),
    }.items():
        every[name] = call
    return every
