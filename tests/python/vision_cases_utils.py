"""Calls of `vision.utils`; see vision_cases.py."""

import warnings

import numpy as np


def cases(torch, vision):
    utils = vision.utils
    random = np.random.default_rng(0)
    image = torch.from_numpy(random.integers(0, 256, (3, 40, 50), dtype=np.uint8))
    real = image.to(torch.float32) / 255
    many = torch.from_numpy(random.standard_normal((7, 3, 5, 4)).astype(np.float32))
    boxes = torch.tensor([[3, 4, 30, 20], [10.7, 8.2, 45, 38], [0, 0, 12, 39]])
    rotated = torch.tensor([[10.0, 2, 30, 10, 25, 25, 5, 17]])
    masks = torch.from_numpy(random.random((3, 40, 50)) < 0.3)
    points = torch.tensor([[[5, 6], [20.6, 30], [40, 10]], [[30, 30], [8, 25], [25, 3]]])
    seen = torch.tensor([[True, False, True], [True, True, True]])
    flow = torch.from_numpy(random.standard_normal((2, 2, 9, 8)).astype(np.float32))
    names = ["cat", "a dog", "x"]

    def boxed(*args, **kwargs):
        return lambda: utils.draw_bounding_boxes(*args, **kwargs)

    def quiet(call):
        def run():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return call()

        return run

    return {
        "grid": lambda: utils.make_grid(many),
        "grid of rows": lambda: utils.make_grid(many, nrow=3, padding=1, pad_value=0.5),
        "grid normalized": lambda: utils.make_grid(many, normalize=True),
        "grid normalized each": lambda: utils.make_grid(many, normalize=True, scale_each=True),
        "grid of a range": lambda: utils.make_grid(many, normalize=True, value_range=(-1, 1)),
        "grid of gray": lambda: utils.make_grid(many[:, :1]),
        "grid of one": lambda: utils.make_grid(many[:1]),
        "grid of a matrix": lambda: utils.make_grid(many[0, 0]),
        "grid of a list": lambda: utils.make_grid(list(many)),
        "grid of a number": lambda: utils.make_grid(3),
        "grid of numbers": lambda: utils.make_grid([3]),
        "grid of a range in a list": lambda: utils.make_grid(many, normalize=True, value_range=[0, 1]),
        "boxes": boxed(image, boxes),
        "boxes of floats": boxed(real, boxes, colors="red", width=3),
        "boxes on gray": boxed(image[:1], boxes, colors=["red", (1, 2, 3), "#00ff00"]),
        "boxes filled": boxed(image, boxes, fill=True, colors=["red", "blue", "lime"]),
        "boxes with labels": boxed(image, boxes, labels=names),
        "boxes with labels in colors": boxed(image, boxes, names, label_colors=["red", "blue", "white"], width=2),
        "boxes with filled labels": boxed(image, boxes, labels=names, colors="yellow", fill_labels=True),
        "boxes with label backgrounds": boxed(image, boxes, names, label_background_colors="cyan", fill_labels=True),
        "boxes that are rotated and filled": boxed(image, rotated, colors="red", fill=True),
        "boxes upside down": boxed(image, boxes.flip(1)),
        "boxes in ints": boxed(image.int(), boxes),
        "boxes with a missing label": boxed(image, boxes, labels=["a"]),
        "boxes with few colors": boxed(image, boxes, colors=["red"]),
        "boxes with an unknown color": boxed(image, boxes, colors="no color"),
        "boxes on a batch": boxed(image[None], boxes),
        "no boxes": quiet(boxed(image, boxes[:0])),
        "masks": lambda: utils.draw_segmentation_masks(image, masks),
        "one mask": lambda: utils.draw_segmentation_masks(image, masks[0], 0.3, "red"),
        "masks on floats": lambda: utils.draw_segmentation_masks(real, masks, 0.5, ["red", "blue", (9, 8, 7)]),
        "masks of ints": lambda: utils.draw_segmentation_masks(image, masks.int()),
        "masks on gray": lambda: utils.draw_segmentation_masks(image[:1], masks),
        "masks of another size": lambda: utils.draw_segmentation_masks(image, masks[:, 1:]),
        "points": lambda: utils.draw_keypoints(image, points, colors="red"),
        "points connected": lambda: utils.draw_keypoints(image, points, [(0, 1), (1, 2)], (3, 99, 200), 4, 2, seen),
        "points on floats": lambda: utils.draw_keypoints(real, points, [(0, 2)], "blue"),
        "points of one object": lambda: utils.draw_keypoints(image, points[0]),
        "points of another visibility": lambda: utils.draw_keypoints(image, points, visibility=seen[:, :1]),
        "flow": lambda: utils.flow_to_image(flow),
        "flow of one": lambda: utils.flow_to_image(flow[0] * 3),
        "flow in doubles": lambda: utils.flow_to_image(flow.double()),
        "flow of one channel": lambda: utils.flow_to_image(flow[:, :1]),
    }
