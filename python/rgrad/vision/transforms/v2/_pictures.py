"""Transforms of the pixels of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rgrad
from rgrad.vision import transforms as v1
from rgrad.vision.transforms import _draw
from rgrad.vision.transforms.functional import InterpolationMode
from rgrad.vision.transforms.v2 import functional as F  # noqa: N812
from rgrad.vision.transforms.v2._transform import Transform


class _OfImages(Transform):
    """Applies a transform of single images, of which it is a subclass too, to each image of a sample.

    The random numbers drawn for the first image are drawn again for each further one.
    """

    _single: Callable[..., Any]
    # Whether random numbers depend on the size of an image.
    _depends_on_size = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        others = (base for base in cls.__mro__ if not issubclass(base, Transform))
        cls._single = next(vars(base)["forward"] for base in others if "forward" in vars(base))

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        sizes = {tuple(F.get_size(image)) for image in flat_inputs}
        if self._depends_on_size and len(sizes) > 1:
            raise ValueError(f"Found multiple HxW dimensions in the sample: {sorted(sizes)}")
        return {"state": rgrad.get_rng_state()} if len(flat_inputs) > 1 else {}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if "state" in params:
            rgrad.set_rng_state(params["state"])
        return F.like(self._single(F.plain(inpt)), inpt)


class Resize(_OfImages, v1.Resize):
    __doc__ = v1.Resize.__doc__

    def __init__(
        self,
        size: int | Sequence[int],
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__([size] if isinstance(size, int) else size, interpolation, max_size, antialias)


class RandomCrop(_OfImages, v1.RandomCrop):
    __doc__ = v1.RandomCrop.__doc__
    _depends_on_size = True


class RandomResizedCrop(_OfImages, v1.RandomResizedCrop):
    __doc__ = v1.RandomResizedCrop.__doc__
    _depends_on_size = True


class RandomAffine(_OfImages, v1.RandomAffine):
    __doc__ = v1.RandomAffine.__doc__
    _depends_on_size = True


class RandomPerspective(_OfImages, v1.RandomPerspective):
    __doc__ = v1.RandomPerspective.__doc__
    _depends_on_size = True


class RandomErasing(_OfImages, v1.RandomErasing):
    __doc__ = v1.RandomErasing.__doc__
    _depends_on_size = True


class CenterCrop(_OfImages, v1.CenterCrop):
    __doc__ = v1.CenterCrop.__doc__


class ColorJitter(_OfImages, v1.ColorJitter):
    __doc__ = v1.ColorJitter.__doc__


class FiveCrop(_OfImages, v1.FiveCrop):
    __doc__ = v1.FiveCrop.__doc__


class TenCrop(_OfImages, v1.TenCrop):
    __doc__ = v1.TenCrop.__doc__


class GaussianBlur(_OfImages, v1.GaussianBlur):
    __doc__ = v1.GaussianBlur.__doc__


class Grayscale(_OfImages, v1.Grayscale):
    __doc__ = v1.Grayscale.__doc__


class LinearTransformation(_OfImages, v1.LinearTransformation):
    __doc__ = v1.LinearTransformation.__doc__


class Pad(_OfImages, v1.Pad):
    __doc__ = v1.Pad.__doc__


class RandomAdjustSharpness(_OfImages, v1.RandomAdjustSharpness):
    __doc__ = v1.RandomAdjustSharpness.__doc__


class RandomAutocontrast(_OfImages, v1.RandomAutocontrast):
    __doc__ = v1.RandomAutocontrast.__doc__


class RandomEqualize(_OfImages, v1.RandomEqualize):
    __doc__ = v1.RandomEqualize.__doc__


class RandomGrayscale(_OfImages, v1.RandomGrayscale):
    __doc__ = v1.RandomGrayscale.__doc__


class RandomHorizontalFlip(_OfImages, v1.RandomHorizontalFlip):
    __doc__ = v1.RandomHorizontalFlip.__doc__


class RandomInvert(_OfImages, v1.RandomInvert):
    __doc__ = v1.RandomInvert.__doc__


class RandomPosterize(_OfImages, v1.RandomPosterize):
    __doc__ = v1.RandomPosterize.__doc__


class RandomRotation(_OfImages, v1.RandomRotation):
    __doc__ = v1.RandomRotation.__doc__


class RandomSolarize(_OfImages, v1.RandomSolarize):
    __doc__ = v1.RandomSolarize.__doc__


class RandomVerticalFlip(_OfImages, v1.RandomVerticalFlip):
    __doc__ = v1.RandomVerticalFlip.__doc__


class GaussianNoise(Transform):
    """Adds noise of a normal distribution; the arguments are those of `functional.gaussian_noise`."""

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> None:
        super().__init__()
        self.mean, self.sigma, self.clip = mean, sigma, clip

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.gaussian_noise(inpt, self.mean, self.sigma, self.clip)


class RandomChannelPermutation(Transform):
    """Puts the channels of an image in any order."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"permutation": _draw.permutation(F.get_num_channels(flat_inputs[0]))}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.permute_channels(inpt, params["permutation"])


class RandomPhotometricDistort(Transform):
    """Changes the colors of an image in several ways, each with the probability `p`, as detectors are trained with.

    Args:
        brightness: the bounds of its factor.
        contrast: the bounds of its factor; it is changed either before saturation and hue, or after.
        saturation: the bounds of its factor.
        hue: the bounds of its shift.
        p: the probability of each change, and of an exchange of channels.
    """

    def __init__(
        self,
        brightness: tuple[float, float] = (0.875, 1.125),
        contrast: tuple[float, float] = (0.5, 1.5),
        saturation: tuple[float, float] = (0.5, 1.5),
        hue: tuple[float, float] = (-0.05, 0.05),
        p: float = 0.5,
    ) -> None:
        super().__init__()
        self.brightness, self.contrast, self.hue, self.saturation = brightness, contrast, hue, saturation
        self.p = p

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        def factor(bounds: tuple[float, float]) -> float | None:
            return _draw.uniform(bounds[0], bounds[1]) if _draw.chance() < self.p else None

        names = ("brightness", "contrast", "saturation", "hue")
        params: dict[str, Any] = {name: factor(getattr(self, name)) for name in names}
        params["contrast first"] = _draw.chance() < 0.5
        exchanged = _draw.chance() < self.p
        params["channels"] = _draw.permutation(F.get_num_channels(flat_inputs[0])) if exchanged else None
        return params

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        early = ("contrast", "saturation", "hue") if params["contrast first"] else ("saturation", "hue", "contrast")
        for name in ("brightness", *early):
            if params[name] is not None:
                inpt = getattr(F, f"adjust_{name}")(inpt, params[name])
        return inpt if params["channels"] is None else F.permute_channels(inpt, params["channels"])


class _Resized(Transform):
    """Resizes images to a size that `make_params` draws."""

    interpolation: InterpolationMode
    antialias: bool | None

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        limit = params.get("max_size")
        return F.resize(inpt, params["size"], self.interpolation, limit, bool(self.antialias))


class RandomResize(_Resized):
    """Resizes the shorter edge of an image to a random length.

    Args:
        min_size: the smallest length.
        max_size: the length that all are below.
        interpolation: the interpolation.
        antialias: as for `Resize`.
    """

    def __init__(
        self,
        min_size: int,
        max_size: int,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.min_size, self.max_size = min_size, max_size
        self.interpolation, self.antialias = interpolation, antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"size": [_draw.integer(self.min_size, self.max_size)]}


class RandomShortestSize(_Resized):
    """Resizes the shorter edge of an image to one of several lengths.

    Args:
        min_size: the length, or the lengths of which one is drawn.
        max_size: what the longer edge may have at most, for which the shorter one is made still shorter.
        interpolation: the interpolation.
        antialias: as for `Resize`.
    """

    def __init__(
        self,
        min_size: int | Sequence[int],
        max_size: int | None = None,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.min_size = [min_size] if isinstance(min_size, int) else list(min_size)
        self.max_size = max_size
        self.interpolation, self.antialias = interpolation, antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = F.get_size(flat_inputs[0])
        factor = self.min_size[_draw.integer(0, len(self.min_size))] / min(height, width)
        if self.max_size is not None:
            factor = min(factor, self.max_size / max(height, width))
        return {"size": [int(height * factor), int(width * factor)]}


class ScaleJitter(_Resized):
    """Resizes an image to fit into a size, and then by a random factor.

    Args:
        target_size: width and height.
        scale_range: the bounds of the factor.
        interpolation: the interpolation.
        antialias: as for `Resize`.
    """

    def __init__(
        self,
        target_size: tuple[int, int],
        scale_range: tuple[float, float] = (0.1, 2.0),
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.target_size, self.scale_range = target_size, scale_range
        self.interpolation, self.antialias = interpolation, antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = F.get_size(flat_inputs[0])
        factor = _draw.uniform(self.scale_range[0], self.scale_range[1])
        factor *= min(self.target_size[1] / height, self.target_size[0] / width)
        return {"size": [int(height * factor), int(width * factor)]}


class RandomZoomOut(Transform):
    """Puts an image at a random place of a larger one, with a probability `p`.

    Args:
        fill: the value around the image.
        side_range: the bounds of the larger image's sides, relative to the sides of the image.
        p: the probability.

    Raises:
        ValueError: the bounds are below 1 or in the wrong order.
    """

    def __init__(self, fill: Any = 0, side_range: Sequence[float] = (1.0, 4.0), p: float = 0.5) -> None:
        super().__init__()
        self.p, self.fill, self.side_range = p, fill, side_range
        if not 1.0 <= side_range[0] <= side_range[1]:
            raise ValueError(f"Invalid side range provided {side_range}.")

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        if _draw.chance() >= self.p:
            return {}
        height, width = F.get_size(flat_inputs[0])
        factor = _draw.uniform(self.side_range[0], self.side_range[1])
        rows, columns = int(height * factor), int(width * factor)
        left, top = int((columns - width) * _draw.chance()), int((rows - height) * _draw.chance())
        return {"padding": [left, top, columns - width - left, rows - height - top]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return F.pad(inpt, params["padding"], self.fill) if params else inpt


class ElasticTransform(Transform):
    """Moves the pixels of an image by smooth random amounts.

    Args:
        alpha: how far, or how far along x and along y.
        sigma: how smooth, or how smooth along x and along y.
        interpolation: the interpolation.
        fill: the value around the image.
    """

    def __init__(
        self,
        alpha: float | Sequence[float] = 50.0,
        sigma: float | Sequence[float] = 5.0,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.alpha, self.sigma = ([float(x) for x in _both(value)] for value in (alpha, sigma))
        self.interpolation, self.fill = interpolation, fill

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        size = F.get_size(flat_inputs[0])
        moves = []
        for alpha, sigma, length in zip(self.alpha, self.sigma, reversed(size), strict=True):
            noise = _draw.numbers([1, 1, *size]) * 2 - 1
            if sigma > 0.0:
                # As wide as the kernel reaches, and odd.
                width = int(8 * sigma + 1)
                noise = F.gaussian_blur(noise, [width + 1 - width % 2] * 2, [sigma, sigma])
            moves.append(noise * alpha / length)
        return {"displacement": rgrad.cat(moves, 1).permute(0, 2, 3, 1)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        channels = F.get_num_channels(inpt)
        fill = [self.fill] * channels if isinstance(self.fill, (int, float)) else self.fill
        return F.elastic(inpt, params["displacement"], self.interpolation, fill)


def _both(value: Any) -> Sequence[float]:
    """A number along x and one along y, given as one or two."""
    values = [value] if isinstance(value, (int, float)) else list(value)
    if len(values) not in (1, 2):
        raise ValueError(f"Expected one number or two, but got {len(values)}.")
    return values * (3 - len(values))
