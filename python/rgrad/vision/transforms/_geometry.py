"""Functions that move the pixels of Pillow images and of tensors of shape (..., C, H, W)."""

from __future__ import annotations

import math
from typing import Any

import rgrad
from rgrad import nn
from rgrad.vision.transforms._kinds import as_planes, is_pil, rounded

# Note [Maps of coordinates]
# A moved image is computed backwards: to each pixel of the result a map gives the place in the image from which its
# value is interpolated. An affine map is (a, b, c, d, e, f): x = a·u + b·v + c and y = d·u + e·v + f, and a perspective
# one divides both by g·u + h·v + 1. Pillow counts coordinates from the image's corner. For tensors the origin of affine
# maps is the center, which is that of `grid_sample` too.


def _matrix(
    angle: float, translate: Any, scale: float, shear: Any, center: tuple[float, float]
) -> tuple[float, float, float, float, float, float]:
    """The map of an affine transform: shear, scale, then turn clockwise about a center, and move."""
    turn, lean, rise = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    # The forward matrix is rotation · shear; its determinant is one, so the inverse swaps and negates entries.
    cosine, sine = math.cos(turn - rise) / math.cos(rise), math.sin(turn - rise) / math.cos(rise)
    b, e = -cosine * math.tan(lean) - math.sin(turn), -sine * math.tan(lean) + math.cos(turn)
    a, b, d, e = e / scale, -b / scale, -sine / scale, cosine / scale
    x, y = -center[0] - translate[0], -center[1] - translate[1]
    return a, b, a * x + b * y + center[0], d, e, d * x + e * y + center[1]


def _sampled(picture: Any, grid: Any, mode: str, fill: Any) -> Any:
    """The values of an image at a grid of places (1, H', W', 2) from -1 to 1, and `fill` outside of it."""
    planes = as_planes(picture)
    grid = grid.to(planes.dtype).expand(planes.shape[0], -1, -1, -1)
    if fill is not None:
        planes = rgrad.cat([planes, rgrad.ones_like(planes[:, :1])], 1)
    planes = nn.functional.grid_sample(planes, grid, mode=mode, padding_mode="zeros", align_corners=False)
    if fill is not None:
        inside, planes = planes[:, -1:], planes[:, :-1]
        values = fill if isinstance(fill, (list, tuple)) else [fill]
        outer = rgrad.tensor([float(v) for v in values], dtype=planes.dtype, device=planes.device).view(1, -1, 1, 1)
        if mode == "nearest":
            planes = rgrad.where(inside < 0.5, outer, planes)
        else:
            planes = planes * inside + (1.0 - inside) * outer
    return rounded(planes, picture.dtype).reshape(*picture.shape[:-2], *planes.shape[-2:])


def _mode(interpolation: Any, *more: str) -> str:
    allowed = ("nearest", "bilinear", *more)
    if interpolation.value not in allowed:
        raise ValueError(f"Interpolation mode '{interpolation.value}' is unsupported with Tensor input")
    return interpolation.value


def _pixels(height: int, width: int, device: Any) -> tuple[Any, Any]:
    """The coordinates of the centers of pixels, rows of u and columns of v, from the corner."""
    u = rgrad.arange(width, dtype=rgrad.float32, device=device) + 0.5
    v = rgrad.arange(height, dtype=rgrad.float32, device=device) + 0.5
    return u.view(1, -1), v.view(-1, 1)


def _affine_grid(matrix: Any, picture: Any, height: int, width: int) -> Any:
    rows, columns = picture.shape[-2:]
    u, v = _pixels(height, width, picture.device)
    u, v = u - width * 0.5, v - height * 0.5
    a, b, c, d, e, f = matrix
    x = (a / (0.5 * columns)) * u + (b / (0.5 * columns)) * v + c / (0.5 * columns)
    y = (d / (0.5 * rows)) * u + (e / (0.5 * rows)) * v + f / (0.5 * rows)
    return rgrad.stack([x, y], -1).unsqueeze(0)


def _pil_fill(fill: Any, picture: Any) -> Any:
    bands = len(picture.getbands())
    if fill is None:
        fill = 0
    if isinstance(fill, (int, float)):
        return fill if bands == 1 else tuple([int(fill)] * bands)
    fill = tuple(fill) * bands if len(fill) == 1 else tuple(fill)
    if len(fill) != bands:
        raise ValueError(
            "The number of elements in 'fill' does not match the number of channels of the image "
            f"({len(fill)} != {bands})"
        )
    return fill[0] if bands == 1 else tuple(int(level) for level in fill)


def _pil_filter(interpolation: Any) -> int:
    from rgrad.vision.transforms.functional import _PIL_FILTERS

    return _PIL_FILTERS[interpolation]


# Types of arguments, by what errors call them.
_NUMBER: dict[str, tuple[type, ...]] = {"int or float": (int, float)}
_SEQUENCE: dict[str, tuple[type, ...]] = {"a sequence": (list, tuple)}


def _expect(argument: str, value: Any, kinds: dict[str, tuple[type, ...]]) -> None:
    if not any(isinstance(value, types) for types in kinds.values()):
        raise TypeError(f"Argument {argument} should be {' or '.join(kinds)}")


def affine(
    img: Any,
    angle: float,
    translate: Any,
    scale: float,
    shear: Any,
    interpolation: Any = None,
    fill: Any = None,
    center: Any = None,
) -> Any:
    """Shears, scales, turns and moves an image.

    Args:
        img: a Pillow image, or a tensor of shape (..., C, H, W).
        angle: clockwise, in degrees.
        translate: pixels to the right and down.
        scale: the factor of size.
        shear: degrees along x, or along x and y.
        interpolation: nearest by default; bilinear too for tensors.
        fill: the value around the image, or one for each channel.
        center: (x, y) of the point that stays; the image's center by default.
    """
    from rgrad.vision.transforms.functional import InterpolationMode, height_and_width

    interpolation = interpolation or InterpolationMode.NEAREST
    _expect("angle", angle, _NUMBER)
    _expect("translate", translate, _SEQUENCE)
    _expect("shear", shear, {**_NUMBER, **_SEQUENCE})
    for argument, is_valid, must in (
        ("translate", len(translate) == 2, "be a sequence of length 2"),
        ("scale", scale > 0, "be positive"),
    ):
        if not is_valid:
            raise ValueError(f"Argument {argument} should {must}")
    degrees = [shear, 0.0] if isinstance(shear, (int, float)) else [*shear, 0.0][:2]
    rows, columns = height_and_width(img)
    if is_pil(img):
        middle = (columns * 0.5, rows * 0.5) if center is None else tuple(center)
        matrix = _matrix(angle, translate, scale, degrees, middle)
        return img.transform(img.size, 0, matrix, _pil_filter(interpolation), fillcolor=_pil_fill(fill, img))
    offset = (0.0, 0.0) if center is None else (center[0] - columns * 0.5, center[1] - rows * 0.5)
    matrix = _matrix(angle, [1.0 * part for part in translate], scale, degrees, offset)
    return _sampled(img, _affine_grid(matrix, img, rows, columns), _mode(interpolation), fill)


def rotate(
    img: Any, angle: float, interpolation: Any = None, expand: bool = False, center: Any = None, fill: Any = None
) -> Any:
    """Turns an image.

    Args:
        img: a Pillow image, or a tensor of shape (..., C, H, W).
        angle: counterclockwise, in degrees.
        interpolation: nearest by default; bilinear too for tensors.
        expand: whether the result is large enough for the whole image.
        center: (x, y) of the point that stays; the image's center by default.
        fill: the value around the image, or one for each channel.
    """
    from rgrad.vision.transforms.functional import InterpolationMode, height_and_width

    interpolation = interpolation or InterpolationMode.NEAREST
    _expect("angle", angle, _NUMBER)
    if center is not None:
        _expect("center", center, _SEQUENCE)
    if is_pil(img):
        return img.rotate(angle, _pil_filter(interpolation), expand, center, fillcolor=_pil_fill(fill, img))
    rows, columns = height_and_width(img)
    offset = (0.0, 0.0) if center is None else (center[0] - columns * 0.5, center[1] - rows * 0.5)
    matrix = _matrix(-angle, (0.0, 0.0), 1.0, (0.0, 0.0), offset)
    height, width = _turned_size(matrix, rows, columns) if expand else (rows, columns)
    return _sampled(img, _affine_grid(matrix, img, height, width), _mode(interpolation), fill)


def _turned_size(matrix: Any, rows: int, columns: int) -> tuple[int, int]:
    """Height and width of the smallest image around a turned one."""
    a, b, c, d, e, f = matrix
    corners = [(x * columns / 2, y * rows / 2) for x in (-1, 1) for y in (-1, 1)]
    # The inverse of a rotation is its transpose, and the box around the image is symmetric.
    places = ([a * x + b * y + c for x, y in corners], [d * x + e * y + f for x, y in corners])
    sizes = []
    for values, middle in zip(places, (columns / 2, rows / 2), strict=True):
        low, high = min(values) + middle, max(values) + middle
        # What a rounding error adds is no pixel.
        low, high = (round(value / 1e-4) * 1e-4 for value in (low, high))
        sizes.append(int(math.ceil(high) - math.floor(low)))
    return sizes[1], sizes[0]


def _perspective_map(startpoints: Any, endpoints: Any) -> list[float]:
    """The map that gives four points of the image for four points of the result."""
    if len(startpoints) != 4 or len(endpoints) != 4:
        raise ValueError(
            f"Please provide exactly four corners, got {len(startpoints)} startpoints and {len(endpoints)} endpoints."
        )
    rows, values = [], []
    for (x, y), (u, v) in zip(startpoints, endpoints, strict=True):
        rows += [[u, v, 1, 0, 0, 0, -x * u, -x * v], [0, 0, 0, u, v, 1, -y * u, -y * v]]
        values += [x, y]
    equations = rgrad.tensor(rows, dtype=rgrad.float64), rgrad.tensor(values, dtype=rgrad.float64)
    return rgrad.linalg.solve(*equations).to(rgrad.float32).tolist()


def perspective(img: Any, startpoints: Any, endpoints: Any, interpolation: Any = None, fill: Any = None) -> Any:
    """Moves four points of an image to four others, and the rest as seen in perspective.

    Args:
        img: a Pillow image, or a tensor of shape (..., C, H, W).
        startpoints: top left, top right, bottom right and bottom left, (x, y).
        endpoints: where these are in the result.
        interpolation: bilinear by default.
        fill: the value around the image, or one for each channel.
    """
    from rgrad.vision.transforms.functional import InterpolationMode

    interpolation = InterpolationMode.BILINEAR if interpolation is None else interpolation
    numbers = _perspective_map(startpoints, endpoints)
    if is_pil(img):
        return img.transform(img.size, 2, numbers, _pil_filter(interpolation), fillcolor=_pil_fill(fill, img))
    rows, columns = img.shape[-2:]
    a, b, c, d, e, f, g, h = numbers
    u, v = _pixels(rows, columns, img.device)
    depth = g * u + h * v + 1.0
    a, b, c = (number / (0.5 * columns) for number in (a, b, c))
    d, e, f = (number / (0.5 * rows) for number in (d, e, f))
    x, y = (a * u + b * v + c) / depth - 1.0, (d * u + e * v + f) / depth - 1.0
    return _sampled(img, rgrad.stack([x, y], -1).unsqueeze(0), _mode(interpolation), fill)


def elastic_transform(img: Any, displacement: Any, interpolation: Any = None, fill: Any = None) -> Any:
    """Moves each pixel by its own displacement.

    Args:
        img: a Pillow image, or a tensor of shape (..., C, H, W).
        displacement: (x, y) for each pixel in halves of the image's size, of shape (1, H, W, 2).
        interpolation: bilinear by default.
        fill: the value around the image, or one for each channel.
    """
    from rgrad.vision.transforms.functional import InterpolationMode, height_and_width, pil_to_tensor, to_pil_image

    interpolation = InterpolationMode.BILINEAR if interpolation is None else interpolation
    if not isinstance(displacement, rgrad.Tensor):
        raise TypeError("Argument displacement should be a Tensor")
    tensor = pil_to_tensor(img) if is_pil(img) else img
    rows, columns = height_and_width(tensor)
    if tuple(displacement.shape) != (1, rows, columns, 2):
        raise ValueError(
            f"Argument displacement shape should be {(1, rows, columns, 2)}, but given {displacement.shape}"
        )
    u, v = _pixels(rows, columns, tensor.device)
    x, y = u * (2 / columns) - 1.0 + 0 * v, v * (2 / rows) - 1.0 + 0 * u
    grid = rgrad.stack([x, y], -1).unsqueeze(0) + displacement.to(tensor.device)
    result = _sampled(tensor, grid, _mode(interpolation, "bicubic"), fill)
    return to_pil_image(result, mode=img.mode) if is_pil(img) else result


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """Blurs an image.

    Args:
        img: a Pillow image, or a tensor of shape (..., C, H, W).
        kernel_size: odd width and height of the kernel, or both in one number.
        sigma: standard deviations along x and y, or both in one number; 0.15 · kernel_size + 0.35 by default.
    """
    from rgrad.vision.transforms.functional import pil_to_tensor, to_pil_image

    if not isinstance(kernel_size, (int, list, tuple)):
        raise TypeError(f"kernel_size should be int or a sequence of integers. Got {type(kernel_size)}")
    sizes = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    if len(sizes) != 2:
        raise ValueError(f"If kernel_size is a sequence its length should be 2. Got {len(sizes)}")
    if any(size % 2 == 0 or size < 0 for size in sizes):
        raise ValueError(f"kernel_size should have odd and positive integers. Got {kernel_size}")
    if sigma is None:
        sigma = [size * 0.15 + 0.35 for size in sizes]
    widths = [float(sigma)] * 2 if isinstance(sigma, (int, float)) else [float(width) for width in sigma]
    widths = widths * 2 if len(widths) == 1 else widths
    if len(widths) != 2:
        raise ValueError(f"If sigma is a sequence, its length should be 2. Got {len(widths)}")
    if any(width <= 0.0 for width in widths):
        raise ValueError(f"sigma should have positive values. Got {sigma}")
    tensor = pil_to_tensor(img) if is_pil(img) else img
    planes = as_planes(tensor)
    lines = []
    for size, width in zip(sizes, widths, strict=True):
        place = rgrad.arange(size, dtype=planes.dtype, device=planes.device) - (size - 1) * 0.5
        line = (-0.5 * (place / width) ** 2).exp()
        lines.append(line / line.sum())
    channels = planes.shape[1]
    kernel = rgrad.outer(lines[1], lines[0]).expand(channels, 1, sizes[1], sizes[0])
    border = [sizes[0] // 2] * 2 + [sizes[1] // 2] * 2
    planes = nn.functional.pad(planes, border, mode="reflect")
    result = rounded(nn.functional.conv2d(planes, kernel, groups=channels), tensor.dtype).reshape(tensor.shape)
    return to_pil_image(result, mode=img.mode) if is_pil(img) else result
