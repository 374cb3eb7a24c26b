"""Transforms beyond resizing and cropping."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import rgrad
from rgrad.vision.transforms import _draw
from rgrad.vision.transforms import functional as F  # noqa: N812
from rgrad.vision.transforms.functional import InterpolationMode


class _Simple(rgrad.nn.Module):
    """A transform that prints its settings."""

    _shown: tuple[str, ...] = ()
    _separator = ", "

    def __repr__(self) -> str:
        values = self._separator.join(f"{name}={getattr(self, name)}" for name in self._shown)
        return f"{type(self).__name__}({values})"


class ToPILImage:
    """Converts a tensor of shape (C, H, W) or an array of shape (H, W, C) to a Pillow image.

    Args:
        mode: Pillow's name of the kind of image; by default it follows from channels and dtype.
    """

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        """Returns the image."""
        return F.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.mode is None else f'mode={self.mode}'})"


class Pad(_Simple):
    """Adds a border; the arguments are those of `functional.pad`."""

    _shown = ("padding", "fill", "padding_mode")

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        if not isinstance(padding, (int, tuple, list)):
            raise TypeError("Got inappropriate padding arg")
        if not isinstance(padding, int) and len(padding) not in (1, 2, 4):
            raise ValueError(
                f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple"
            )
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def forward(self, img: Any) -> Any:
        """Returns the transformed image."""
        return F.pad(img, self.padding, self.fill, self.padding_mode)


class Grayscale(_Simple):
    """Keeps the brightness only, as one channel or three equal ones."""

    _shown = ("num_output_channels",)

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        """Returns the transformed image."""
        return F.rgb_to_grayscale(img, self.num_output_channels)


class FiveCrop(_Simple):
    """The four corners and the center of an image, each of a size."""

    _shown = ("size",)

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = F._two(size)

    def forward(self, img: Any) -> Any:
        """Returns a tuple of images."""
        return F.five_crop(img, self.size)


class TenCrop(FiveCrop):
    """`FiveCrop` of an image and of its mirror image."""

    _shown = ("size", "vertical_flip")

    def __init__(self, size: Any, vertical_flip: bool = False) -> None:
        super().__init__(size)
        self.vertical_flip = vertical_flip

    def forward(self, img: Any) -> Any:
        """Returns a tuple of images."""
        return F.ten_crop(img, self.size, self.vertical_flip)


class _Chance(_Simple):
    """Applies a function with a probability `p`."""

    _shown = ("p",)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        """Returns the transformed image, or the image itself."""
        return self._transform(img) if _draw.chance() < self.p else img

    def _transform(self, img: Any) -> Any:
        raise NotImplementedError


class RandomVerticalFlip(_Chance):
    """Flips an image top to bottom with a probability `p`."""

    def _transform(self, img: Any) -> Any:
        return F.vflip(img)


class RandomGrayscale(_Chance):
    """Makes an image gray with a probability `p`, of as many channels as it had."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def _transform(self, img: Any) -> Any:
        return F.rgb_to_grayscale(img, num_output_channels=F.get_image_num_channels(img))


class RandomInvert(_Chance):
    """Inverts colors with a probability `p`."""

    def _transform(self, img: Any) -> Any:
        return F.invert(img)


class RandomPosterize(_Chance):
    """Keeps the highest `bits` of bytes with a probability `p`."""

    _shown = ("bits", "p")
    _separator = ","

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def _transform(self, img: Any) -> Any:
        return F.posterize(img, self.bits)


class RandomSolarize(_Chance):
    """Inverts the values from a threshold on with a probability `p`."""

    _shown = ("threshold", "p")
    _separator = ","

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def _transform(self, img: Any) -> Any:
        return F.solarize(img, self.threshold)


class RandomAdjustSharpness(_Chance):
    """Changes the sharpness by a factor with a probability `p`."""

    _shown = ("sharpness_factor", "p")
    _separator = ","

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def _transform(self, img: Any) -> Any:
        return F.adjust_sharpness(img, self.sharpness_factor)


class RandomAutocontrast(_Chance):
    """Stretches the values to the whole range with a probability `p`."""

    def _transform(self, img: Any) -> Any:
        return F.autocontrast(img)


class RandomEqualize(_Chance):
    """Makes all values equally frequent with a probability `p`."""

    def _transform(self, img: Any) -> Any:
        return F.equalize(img)


class _Several:
    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        if not isinstance(transforms, Sequence):
            raise TypeError("Argument transforms should be a sequence")
        self.transforms = transforms

    def _lines(self) -> str:
        return "".join(f"\n    {transform}" for transform in self.transforms)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._lines()}\n)"


class RandomApply(rgrad.nn.Module):
    """Applies transforms one after the other with a probability `p`."""

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms, self.p = transforms, p

    def forward(self, img: Any) -> Any:
        """Returns the transformed image, or the image itself."""
        if self.p < _draw.chance():
            return img
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        steps = "".join(f"\n    {transform}" for transform in self.transforms)
        return f"{type(self).__name__}(\n    p={self.p}{steps}\n)"


class RandomOrder(_Several):
    """Applies transforms in a random order, drawn by Python's `random`."""

    def __call__(self, img: Any) -> Any:
        """Returns the transformed image."""
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for place in order:
            img = self.transforms[place](img)
        return img


class RandomChoice(_Several):
    """Applies one of several transforms, drawn by Python's `random`.

    Args:
        transforms: the transforms.
        p: how often each is chosen, relative to the others.
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        if p is not None and not isinstance(p, Sequence):
            raise TypeError("Argument p should be a sequence")
        self.p = p

    def __call__(self, *args: Any) -> Any:
        """Returns the transformed image."""
        return random.choices(self.transforms, weights=self.p)[0](*args)

    def __repr__(self) -> str:
        return f"{super().__repr__()}(p={self.p})"


def _range(value: Any, name: str, center: float = 1, limits: tuple[float, float] = (0, math.inf)) -> Any:
    """Two bounds, given as such or as a distance from a center; None if they allow the center only."""
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be non negative.")
        low, high = center - value, center + value
        low = max(low, 0.0) if center == 1 else low
    elif isinstance(value, (tuple, list)) and len(value) == 2:
        low, high = float(value[0]), float(value[1])
    else:
        raise TypeError(f"{name} should be a single number or a list/tuple with length 2.")
    if not limits[0] <= low <= high <= limits[1]:
        raise ValueError(f"{name} values should be between {limits}, but got {[low, high]}.")
    return None if low == high == center else (float(low), float(high))


class ColorJitter(_Simple):
    """Changes brightness, contrast, saturation and hue by random factors, in a random order.

    Args:
        brightness: the largest distance of the factor from 1, or its bounds.
        contrast: as above.
        saturation: as above.
        hue: the largest distance of the turn from 0, at most 0.5, or its bounds.
    """

    _shown = ("brightness", "contrast", "saturation", "hue")

    def __init__(self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0) -> None:
        super().__init__()
        self.brightness, self.contrast = _range(brightness, "brightness"), _range(contrast, "contrast")
        self.saturation = _range(saturation, "saturation")
        self.hue = _range(hue, "hue", center=0, limits=(-0.5, 0.5))

    @staticmethod
    def get_params(brightness: Any, contrast: Any, saturation: Any, hue: Any) -> tuple[Any, ...]:
        """Draws the order of the four changes, and the factor of each (None where it has no bounds)."""
        order = rgrad.tensor(_draw.permutation(4))
        ranges = (brightness, contrast, saturation, hue)
        return order, *(None if bounds is None else _draw.uniform(bounds[0], bounds[1]) for bounds in ranges)

    def forward(self, img: Any) -> Any:
        """Returns the transformed image."""
        order, *factors = self.get_params(self.brightness, self.contrast, self.saturation, self.hue)
        changes = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for place in order.tolist():
            if factors[place] is not None:
                img = changes[place](img, factors[place])
        return img


def _degrees(value: Any, name: str = "degrees", sizes: tuple[int, ...] = (2,)) -> list[float]:
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        return [float(-value), float(value)]
    if not isinstance(value, Sequence):
        raise TypeError(f"{name} should be a sequence of length {' or '.join(map(str, sizes))}.")
    if len(value) not in sizes:
        raise ValueError(f"{name} should be a sequence of length {' or '.join(map(str, sizes))}.")
    return [float(number) for number in value]


def _filled(fill: Any, img: Any) -> Any:
    """The value around an image: for tensors one for each channel."""
    if not isinstance(img, rgrad.Tensor):
        return fill
    values = [fill] * F.get_image_num_channels(img) if isinstance(fill, (int, float)) else fill
    return [float(value) for value in values]


class RandomRotation(_Simple):
    """Turns an image by a random angle.

    Args:
        degrees: the largest angle to both sides, or its bounds.
        interpolation: as for `functional.rotate`, and so the others.
    """

    def __init__(
        self,
        degrees: Any,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.degrees, self.interpolation, self.expand = _degrees(degrees), interpolation, expand
        self.center, self.fill = center, 0 if fill is None else fill

    @staticmethod
    def get_params(degrees: list[float]) -> float:
        """Draws the angle."""
        return _draw.uniform(float(degrees[0]), float(degrees[1]))

    def forward(self, img: Any) -> Any:
        """Returns the transformed image."""
        angle = self.get_params(self.degrees)
        return F.rotate(img, angle, self.interpolation, self.expand, self.center, _filled(self.fill, img))

    def __repr__(self) -> str:
        text = f"degrees={self.degrees}, interpolation={self.interpolation.value}, expand={self.expand}"
        text += "" if self.center is None else f", center={self.center}"
        return f"{type(self).__name__}({text}, fill={self.fill})"


class RandomAffine(_Simple):
    """Shears, scales, turns and moves an image by random amounts.

    Args:
        degrees: the largest angle to both sides, or its bounds.
        translate: the largest moves as shares of width and height.
        scale: the bounds of the factor of size.
        shear: the largest angle along x, or its bounds, or the bounds along x and along y.
        interpolation: as for `functional.affine`, and so the others.
    """

    def __init__(
        self,
        degrees: Any,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        interpolation: InterpolationMode = InterpolationMode.NEAREST,
        fill: Any = 0,
        center: Any = None,
    ) -> None:
        super().__init__()
        self.degrees = _degrees(degrees)
        if translate is not None and not all(0.0 <= share <= 1.0 for share in _degrees(translate, "translate")):
            raise ValueError("translation values should be between 0 and 1")
        if scale is not None and not all(factor > 0 for factor in _degrees(scale, "scale")):
            raise ValueError("scale values should be positive")
        self.translate, self.scale, self.interpolation = translate, scale, interpolation
        self.shear = None if shear is None else _degrees(shear, "shear", (2, 4))
        self.fill, self.center = 0 if fill is None else fill, center

    @staticmethod
    def get_params(
        degrees: list[float], translate: Any, scale_ranges: Any, shears: Any, img_size: list[int]
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """Draws the angle, the move, the factor of size and the shear of an image of a width and height."""
        angle, move, scale, shear = _draw.uniform(float(degrees[0]), float(degrees[1])), [0, 0], 1.0, [0.0, 0.0]
        if translate is not None:
            limits = [float(share * size) for share, size in zip(translate, img_size, strict=True)]
            move = [int(round(_draw.uniform(-limit, limit))) for limit in limits]
        if scale_ranges is not None:
            scale = _draw.uniform(scale_ranges[0], scale_ranges[1])
        for axis in range(len(shears or ()) // 2):
            shear[axis] = _draw.uniform(shears[2 * axis], shears[2 * axis + 1])
        return angle, (move[0], move[1]), scale, (shear[0], shear[1])

    def forward(self, img: Any) -> Any:
        """Returns the transformed image."""
        drawn = self.get_params(self.degrees, self.translate, self.scale, self.shear, F.get_image_size(img))
        return F.affine(img, *drawn, self.interpolation, _filled(self.fill, img), self.center)

    def __repr__(self) -> str:
        text = f"degrees={self.degrees}"
        for name in ("translate", "scale", "shear"):
            text += "" if getattr(self, name) is None else f", {name}={getattr(self, name)}"
        if self.interpolation is not InterpolationMode.NEAREST:
            text += f", interpolation={self.interpolation.value}"
        text += f", fill={self.fill}" if self.fill != 0 else ""
        text += f", center={self.center}" if self.center is not None else ""
        return f"{type(self).__name__}({text})"


class RandomPerspective(_Chance):
    """Moves the corners of an image inwards by random amounts, with a probability `p`.

    Args:
        distortion_scale: the largest amount, as a share of half the size.
        p: the probability.
        interpolation: as for `functional.perspective`.
        fill: the value around the image.
    """

    _shown = ("p",)

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        fill: Any = 0,
    ) -> None:
        super().__init__(p)
        self.distortion_scale, self.interpolation, self.fill = distortion_scale, interpolation, fill

    @staticmethod
    def get_params(width: int, height: int, distortion_scale: float) -> tuple[list[list[int]], list[list[int]]]:
        """Draws where the corners of an image go, and returns the corners and these places."""
        x, y = int(distortion_scale * (width // 2)), int(distortion_scale * (height // 2))
        left, right, top, bottom = (0, x + 1), (width - x - 1, width), (0, y + 1), (height - y - 1, height)
        order = ((left, top), (right, top), (right, bottom), (left, bottom))
        ends = [[_draw.integer(*across), _draw.integer(*down)] for across, down in order]
        return [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], ends

    def _transform(self, img: Any) -> Any:
        width, height = F.get_image_size(img)
        points = self.get_params(width, height, self.distortion_scale)
        return F.perspective(img, *points, self.interpolation, _filled(self.fill, img))


class GaussianBlur(_Simple):
    """Blurs an image by a random amount.

    Args:
        kernel_size: odd width and height of the kernel, or both in one number.
        sigma: the standard deviation, or its bounds.
    """

    _shown = ("kernel_size", "sigma")

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> None:
        super().__init__()
        self.kernel_size = F._two(kernel_size)
        if any(size <= 0 or size % 2 == 0 for size in self.kernel_size):
            raise ValueError("Kernel size value should be an odd and positive number.")
        if isinstance(sigma, (int, float)):
            if sigma <= 0:
                raise ValueError("If sigma is a single number, it must be positive.")
            sigma = (sigma, sigma)
        if not 0.0 < sigma[0] <= sigma[1]:
            raise ValueError("sigma values should be positive and of the form (min, max).")
        self.sigma = sigma

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """Draws the standard deviation."""
        return _draw.uniform(sigma_min, sigma_max)

    def forward(self, img: Any) -> Any:
        """Returns the transformed image."""
        sigma = self.get_params(self.sigma[0], self.sigma[1])
        return F.gaussian_blur(img, self.kernel_size, [sigma, sigma])


class RandomErasing(_Chance):
    """Overwrites a random rectangle of a tensor, with a probability `p`.

    Args:
        p: the probability.
        scale: bounds of the rectangle's share of the image.
        ratio: bounds of its height relative to its width.
        value: what it becomes: one number, one for each channel, or "random".
        inplace: whether the tensor is overwritten.
    """

    _shown = ("p", "scale", "ratio", "value", "inplace")

    def __init__(
        self,
        p: float = 0.5,
        scale: Any = (0.02, 0.33),
        ratio: Any = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__(p)
        if not isinstance(value, (int, float, str, tuple, list)):
            raise TypeError("Argument value should be either a number or str or a sequence")
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError("Scale should be between 0 and 1")
        if p < 0 or p > 1:
            raise ValueError("Random erasing probability should be between 0 and 1")
        self.scale, self.ratio, self.value, self.inplace = scale, ratio, value, inplace

    @staticmethod
    def get_params(img: Any, scale: Any, ratio: Any, value: Any = None) -> tuple[int, int, int, int, Any]:
        """Draws the rectangle, top, left, height and width, and what it becomes."""
        channels, rows, columns = img.shape[-3:]
        low, high = math.log(ratio[0]), math.log(ratio[1])
        for _ in range(10):
            area = rows * columns * _draw.uniform(scale[0], scale[1])
            # Drawn in single precision, of which the exponential is then taken.
            proportion = rgrad.tensor(_draw.uniform(low, high)).exp().item()
            height, width = int(round(math.sqrt(area * proportion))), int(round(math.sqrt(area / proportion)))
            if height < rows and width < columns:
                if value is None:
                    filling = _draw.normal([channels, height, width])
                else:
                    filling = rgrad.tensor(value)[:, None, None]
                top = _draw.integer(0, rows - height + 1)
                return top, _draw.integer(0, columns - width + 1), height, width, filling
        return 0, 0, rows, columns, img

    def _transform(self, img: Any) -> Any:
        value = [float(self.value)] if isinstance(self.value, (int, float)) else self.value
        values = None if isinstance(value, str) else [float(number) for number in value]
        if values is not None and len(values) not in (1, img.shape[-3]):
            raise ValueError(
                "If value is a sequence, it should have either a single value or "
                f"{img.shape[-3]} (number of input channels)"
            )
        return F.erase(img, *self.get_params(img, self.scale, self.ratio, values), self.inplace)


class LinearTransformation(_Simple):
    """Subtracts a vector from a flattened tensor and multiplies it by a square matrix, as whitening does.

    Args:
        transformation_matrix: of shape (D, D), with D = C · H · W.
        mean_vector: of shape (D,).
    """

    def __init__(self, transformation_matrix: Any, mean_vector: Any) -> None:
        super().__init__()
        rows, columns = transformation_matrix.shape
        if rows != columns:
            raise ValueError(f"transformation_matrix should be square. Got {tuple(transformation_matrix.shape)}")
        if mean_vector.shape[0] != rows:
            raise ValueError(
                f"mean_vector should have the same length {mean_vector.shape[0]} as any one of the dimensions of the "
                f"transformation_matrix [{(rows, columns)}]"
            )
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def forward(self, tensor: Any) -> Any:
        """Maps (..., C, H, W) to the same shape."""
        flat = tensor.reshape(-1, self.transformation_matrix.shape[0]) - self.mean_vector
        return (flat @ self.transformation_matrix).reshape(tensor.shape)
