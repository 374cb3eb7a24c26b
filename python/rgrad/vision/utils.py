"""Pictures of tensors: grids of images, and boxes, masks and key points drawn on images by Pillow."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import rgrad
from rgrad import Tensor

__all__ = [
    "draw_bounding_boxes",
    "draw_keypoints",
    "draw_segmentation_masks",
    "flow_to_image",
    "make_grid",
    "save_image",
]

_Color = str | tuple[int, int, int]
_Colors = _Color | list[_Color] | None


def _scaled(image: Tensor, low: float, high: float) -> Tensor:
    """The values of `low` to `high` mapped to 0 to 1."""
    return (image.clamp(low, high) - low) / max(high - low, 1e-5)


def make_grid(
    tensor: Tensor | list[Tensor],
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """Puts images side by side into one.

    Args:
        tensor: images of shape (N, C, H, W), or a list of images of one shape (C, H, W); images of one channel get
            three equal ones. A single image is returned without a border.
        nrow: images in a row.
        padding: width of the border around every image.
        normalize: whether values are mapped to 0 to 1.
        value_range: the values that become 0 and 1; by default the smallest and the largest.
        scale_each: whether these are those of each image rather than of all.
        pad_value: value of the border.

    Returns:
        The grid, of shape (C, rows of images · (H + padding) + padding, columns · (W + padding) + padding).

    Example:
        >>> import rgrad as torch
        >>> torch.vision.utils.make_grid(torch.zeros(5, 1, 4, 6), nrow=3).shape
        torch.Size([3, 14, 26])
    """
    if not isinstance(tensor, Tensor):
        if not isinstance(tensor, list):
            raise TypeError(f"tensor or list of tensors expected, got {type(tensor)}")
        for image in tensor:
            if not isinstance(image, Tensor):
                raise TypeError(f"tensor or list of tensors expected, got a list containing {type(image)}")
        tensor = rgrad.stack(tensor)
    if tensor.dim() < 4:
        tensor = tensor.reshape((1,) * (4 - tensor.dim()) + tuple(tensor.shape))
    count, channels, rows, columns = tensor.shape
    if channels == 1:
        tensor, channels = tensor.expand(count, 3, rows, columns), 3
    if normalize:
        if value_range is not None and not isinstance(value_range, tuple):
            raise TypeError("value_range has to be a tuple (min, max) if specified. min and max are numbers")
        parts = tensor.split(1) if scale_each else [tensor]
        limits = [value_range or (float(part.min()), float(part.max())) for part in parts]
        tensor = rgrad.cat([_scaled(part, *limit) for part, limit in zip(parts, limits, strict=True)])
    if count == 1:
        return tensor[0]
    across = min(nrow, count)
    down = math.ceil(count / across)
    height, width = rows + padding, columns + padding
    grid = tensor.new_full((channels, height * down + padding, width * across + padding), pad_value)
    for index in range(count):
        top, left = (index // across) * height + padding, (index % across) * width + padding
        grid[:, top : top + rows, left : left + columns] = tensor[index]
    return grid


def _to_pil(image: Tensor) -> Any:
    """An RGB image with the values of a uint8 tensor of shape (3, H, W)."""
    from PIL import Image

    return Image.fromarray(image.detach().cpu().permute(1, 2, 0).contiguous().numpy())


def save_image(tensor: Tensor | list[Tensor], fp: Any, format: str | None = None, **kwargs: Any) -> None:
    """Writes images with values from 0 to 1 to one file, as a grid.

    Args:
        tensor: as for `make_grid`.
        fp: a path or an open file.
        format: the file's format, needed for an open file; by default the path's suffix says it.
        **kwargs: arguments of `make_grid`.
    """
    grid = make_grid(tensor, **kwargs).detach()
    _to_pil((grid * 255 + 0.5).clamp(0, 255).to(rgrad.uint8)).save(fp, format=format)


# The color of object i is i times these factors, each modulo 255.
_FACTORS = (2**25 - 1, 2**15 - 1, 2**21 - 1)


def _rgb(color: _Color) -> tuple[int, ...]:
    if not isinstance(color, str):
        return tuple(color)
    from PIL import ImageColor

    return ImageColor.getrgb(color)


def _colors_of(colors: _Colors, count: int) -> list[tuple[int, ...]]:
    """A color for each of `count` objects."""
    if colors is None:
        return [tuple(index * factor % 255 for factor in _FACTORS) for index in range(count)]
    if isinstance(colors, list):
        if len(colors) < count:
            raise ValueError(
                f"Number of colors must be equal or larger than the number of objects, but got {len(colors)} < {count}."
            )
        return [_rgb(color) for color in colors]
    if isinstance(colors, (str, tuple)):
        return [_rgb(colors)] * count
    raise ValueError(f"colors must be a tuple or a string, or a list thereof, but got {colors}.")


def _require_image(image: Any, gray: bool) -> None:
    if not isinstance(image, Tensor):
        said = "Tensor expected" if gray else "The image must be a tensor"
        raise TypeError(f"{said}, got {type(image)}")
    if image.dtype != rgrad.uint8 and not image.is_floating_point():
        raise ValueError(f"The image dtype must be uint8 or float, got {image.dtype}")
    if image.dim() != 3:
        raise ValueError("Pass individual images, not batches")
    if gray and image.shape[0] not in (1, 3):
        raise ValueError("Only grayscale and RGB images are supported")
    if not gray and image.shape[0] != 3:
        raise ValueError("Pass an RGB image. Other Image formats are not supported")


class _Canvas:
    """A Pillow image with a tensor's values, on which one draws, and that becomes a tensor of the same dtype."""

    def __init__(self, image: Tensor) -> None:
        from rgrad.vision.transforms.functional import convert_image_dtype

        self.dtype = image.dtype
        image = convert_image_dtype(image, rgrad.uint8)
        self.picture = _to_pil(image.expand(3, *image.shape[1:]))

    def draw(self, blend: bool = False) -> Any:
        """What draws; `blend` mixes colors that have an opacity with the image."""
        from PIL import ImageDraw

        return ImageDraw.Draw(self.picture, "RGBA" if blend else None)

    def tensor(self) -> Tensor:
        from rgrad.vision.transforms.functional import convert_image_dtype, pil_to_tensor

        return convert_image_dtype(pil_to_tensor(self.picture), self.dtype)


_DASH = 5  # pixels of a dash, and of the gap after it


def _draw_rotated(draw: Any, box: list[int], inside: Any, color: Any, width: int) -> None:
    """Draws a rotated box, the edge from its first to its second corner in dashes, which shows how it is turned."""
    corners = list(zip(box[::2], box[1::2], strict=True))
    if inside is not None:
        draw.polygon(corners, fill=inside)
    for begin, end in zip(corners[1:], corners[2:] + corners[:1], strict=True):
        draw.line([begin, end], fill=color, width=width)
    begin, end = corners[:2]
    length = math.dist(begin, end)
    for start in range(0, math.ceil(length), 2 * _DASH):
        ends = [min(place / length, 1.0) for place in (start, start + _DASH)]
        dash = [tuple(int(a + (b - a) * share) for a, b in zip(begin, end, strict=True)) for share in ends]
        draw.line(dash, fill=color, width=width)


def draw_bounding_boxes(
    image: Tensor,
    boxes: Tensor,
    labels: list[str] | None = None,
    colors: _Colors = None,
    fill: bool | None = False,
    width: int = 1,
    font: str | None = None,
    font_size: int | None = None,
    label_colors: _Colors = None,
    label_background_colors: _Colors = None,
    fill_labels: bool = False,
) -> Tensor:
    """Draws boxes and their labels on an image.

    Args:
        image: uint8, or floats from 0 to 1, of shape (3, H, W) or (1, H, W).
        boxes: corners (xmin, ymin, xmax, ymax) in pixels, of shape (N, 4), or the four corners of rotated boxes,
            (N, 8).
        labels: a text for each box.
        colors: one color, a name or (red, green, blue), or a list of one for each box; by default all differ.
        fill: whether the boxes are filled, 100/255 opaque.
        width: of the lines.
        font: a TrueType font's file or name; by default Pillow's own font.
        font_size: of `font`; 10 by default.
        label_colors: as `colors`, for the texts; those of the boxes by default.
        label_background_colors: as `colors`, for the rectangles behind the texts.
        fill_labels: whether there are such rectangles, for texts in black; by default of the boxes' colors.

    Returns:
        A new image of shape (3, H, W) and the same dtype.
    """
    _require_image(image, gray=True)
    if boxes.shape[-1] == 4 and bool(((boxes[:, 0] > boxes[:, 2]) | (boxes[:, 1] > boxes[:, 3])).any()):
        raise ValueError(
            "Boxes need to be in (xmin, ymin, xmax, ymax) format. Use torchvision.ops.box_convert to convert them"
        )
    count = len(boxes)
    if count == 0:
        warnings.warn("boxes doesn't contain any box. No box was drawn", stacklevel=2)
        return image
    if labels is not None and len(labels) != count:
        raise ValueError(
            f"Number of boxes ({count}) and labels ({len(labels)}) mismatch. Please specify labels for each box."
        )
    outline = _colors_of(colors, count)
    background = outline if label_background_colors is None else _colors_of(label_background_colors, count)
    behind = fill_labels or label_background_colors is not None
    if label_colors is not None:
        written = _colors_of(label_colors, count)
    else:
        written = [(0, 0, 0)] * count if behind else outline
    if font is None and font_size is not None:
        warnings.warn("Argument 'font_size' will be ignored since 'font' is not set.", stacklevel=2)
    face: Any = None
    if labels is not None:
        from PIL import ImageFont

        face = ImageFont.load_default() if font is None else ImageFont.truetype(font, font_size or 10)
    canvas = _Canvas(image)
    draw = canvas.draw(blend=bool(fill))
    for index, box in enumerate(boxes.to(rgrad.int64).tolist()):
        inside = (*outline[index], 100) if fill else None
        if len(box) == 4:
            draw.rectangle(box, fill=inside, outline=outline[index], width=width)
        else:
            _draw_rotated(draw, box, inside, outline[index], width)
        if labels is not None and labels[index] is not None:
            place = (box[0] + width + 1, box[1] + width + 1)
            if behind:
                left, top, right, bottom = draw.textbbox(place, labels[index], font=face)
                edges = (left - 1, top - 1, right + 1, bottom + 1)
                draw.rectangle(edges, fill=background[index])
            draw.text(place, labels[index], fill=written[index], font=face)
    return canvas.tensor()


def draw_segmentation_masks(image: Tensor, masks: Tensor, alpha: float = 0.8, colors: _Colors = None) -> Tensor:
    """Colors the pixels of masks; those of several masks become black.

    Args:
        image: uint8, or floats from 0 to 1, of shape (3, H, W).
        masks: bools of shape (N, H, W) or (H, W).
        alpha: opacity of the colors, 0 to 1.
        colors: one color, a name or (red, green, blue), or a list of one for each mask; by default all differ.

    Returns:
        A new image of the same shape and dtype.
    """
    _require_image(image, gray=False)
    if masks.dim() not in (2, 3):
        raise ValueError("masks must be of shape (H, W) or (batch_size, H, W)")
    if masks.dtype is not rgrad.bool:
        raise ValueError(f"The masks must be of dtype bool. Got {masks.dtype}")
    masks = masks.reshape(-1, *masks.shape[-2:]) if masks.numel() else masks
    if masks.shape[-2:] != image.shape[-2:]:
        raise ValueError("The image and the masks must have the same height and width")
    if len(masks) == 0:
        warnings.warn("masks doesn't contain any mask. No mask was drawn", stacklevel=2)
        return image
    scale = 1 / 255 if image.is_floating_point() else 1
    painted = image.clone()
    for mask, color in zip(masks, _colors_of(colors, len(masks)), strict=False):
        paint = rgrad.tensor([part * scale for part in color], dtype=image.dtype, device=image.device)
        painted = rgrad.where(mask, paint.view(3, 1, 1), painted)
    painted = painted.masked_fill(masks.sum(0) > 1, 0)
    return (image * (1 - alpha) + painted * alpha).to(image.dtype)


def draw_keypoints(
    image: Tensor,
    keypoints: Tensor,
    connectivity: list[tuple[int, int]] | None = None,
    colors: str | tuple[int, int, int] | None = None,
    radius: int = 2,
    width: int = 3,
    visibility: Tensor | None = None,
) -> Tensor:
    """Draws the key points of objects, and lines between them, on an image.

    Args:
        image: uint8, or floats from 0 to 1, of shape (3, H, W).
        keypoints: (x, y) of shape (objects, points, 2).
        connectivity: pairs of points that lines connect.
        colors: a name or (red, green, blue).
        radius: of the points.
        width: of the lines.
        visibility: whether each point is drawn, of shape (objects, points) or (objects, points, 1); all by default.

    Returns:
        A new image of the same shape and dtype.
    """
    _require_image(image, gray=False)
    if keypoints.dim() != 3:
        raise ValueError("keypoints must be of shape (num_instances, K, 2)")
    if visibility is None:
        visibility = rgrad.ones(tuple(keypoints.shape[:-1]), dtype=rgrad.bool)
    if visibility.dim() == 3:
        visibility = visibility.squeeze(-1)
    if visibility.dim() != 2:
        raise ValueError(f"visibility must be of shape (num_instances, K). Got ndim={visibility.dim()}")
    if visibility.shape != keypoints.shape[:-1]:
        raise ValueError(
            "keypoints and visibility must have the same dimensionality for num_instances and K. Got "
            f"visibility.shape={visibility.shape} and keypoints.shape={keypoints.shape}"
        )
    canvas = _Canvas(image)
    draw = canvas.draw()
    for points, shown in zip(keypoints.to(rgrad.int64).tolist(), visibility.tolist(), strict=True):
        for (x, y), visible in zip(points, shown, strict=True):
            if visible:
                draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=colors, outline=None, width=0)
        for begin, end in connectivity or ():
            if shown[begin] and shown[end]:
                draw.line([*points[begin], *points[end]], width=width)
    return canvas.tensor()


# Note [The wheel of colors]
# A direction of motion is a hue: Baker et al., "A Database and Evaluation Methodology for Optical Flow" (2011), divide
# the circle into six arcs, on each of which one channel rises or falls, and give each a number of steps.
_ARCS: Sequence[tuple[int, int, bool, int]] = (  # the channel at its maximum, the one that changes, whether it rises
    (0, 1, True, 15),
    (1, 0, False, 6),
    (1, 2, True, 4),
    (2, 1, False, 11),
    (2, 0, True, 13),
    (0, 2, False, 6),
)


def _wheel() -> list[list[float]]:
    colors = []
    for full, changing, rises, steps in _ARCS:
        for step in range(steps):
            color = [0.0, 0.0, 0.0]
            level = math.floor(255 * step / steps)
            color[full], color[changing] = 255.0, float(level if rises else 255 - level)
            colors.append(color)
    return colors


def flow_to_image(flow: Tensor) -> Tensor:
    """Colors a field of motion: the hue is its direction, the saturation its length relative to the greatest.

    Args:
        flow: float32 of shape (2, H, W) or (N, 2, H, W), the motion along x and along y.

    Returns:
        A uint8 image of shape (3, H, W) or (N, 3, H, W). See Note [The wheel of colors].
    """
    if flow.dtype != rgrad.float32:
        raise ValueError(f"Flow should be of dtype torch.float, got {flow.dtype}.")
    if flow.dim() not in (3, 4) or flow.shape[-3] != 2:
        raise ValueError(f"Input flow should have shape (2, H, W) or (N, 2, H, W), got {flow.shape}.")
    length = flow.pow(2).sum(-3).sqrt()
    # The greatest length is that of all images of a batch, as their colors should be comparable.
    flow = flow / (length.max() + rgrad.finfo(flow.dtype).eps)
    x, y = flow.unbind(-3)
    length = flow.pow(2).sum(-3).sqrt()
    wheel = rgrad.tensor(_wheel(), device=flow.device) / 255
    place = (rgrad.atan2(-y, -x) / math.pi + 1) / 2 * (len(wheel) - 1)
    before = place.floor()
    share = (place - before).unsqueeze(-1)
    index = before.to(rgrad.int64)
    color = wheel[index] * (1 - share) + wheel[(index + 1) % len(wheel)] * share
    return ((1 - length.unsqueeze(-1) * (1 - color)) * 255).floor().to(rgrad.uint8).movedim(-1, -3)


def _log_api_usage_once(obj: Any) -> None:
    """Does nothing; packages call it."""
