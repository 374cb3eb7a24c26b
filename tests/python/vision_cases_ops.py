"""Calls of `vision.ops`; see vision_cases.py."""

import numpy as np


def gradient(torch, function, *inputs):
    """The result of a function of tensors, and the gradient of the sum of its squares."""
    leaves = [value.clone().requires_grad_() for value in inputs]
    result = function(*leaves)
    (result**2).sum().backward()
    return [result, *(leaf.grad for leaf in leaves)]


def cases(torch, vision):
    ops = vision.ops
    random = np.random.default_rng(0)

    def tensor(*shape):
        return torch.from_numpy(random.standard_normal(shape).astype(np.float32))

    def boxes(count):
        corner = random.random((count, 2)) * 20
        return torch.from_numpy(np.hstack([corner, corner + 1 + random.random((count, 2)) * 15]).astype(np.float32))

    a, b, many = boxes(5), boxes(4), boxes(60)
    scores = torch.from_numpy(random.random(60).astype(np.float32))
    kinds = torch.from_numpy(random.integers(0, 3, 60))
    images = tensor(2, 3, 20, 24)
    regions = torch.cat([torch.tensor([[0.0], [1], [1], [0], [1]]), a - 3], 1)
    pair = boxes(5)
    masks = torch.from_numpy(random.random((3, 9, 8)) < 0.05)
    masks[:, 4, 3] = True
    logits, truth = tensor(4, 3), (tensor(4, 3) > 0).to(torch.float32)

    def filled(net):
        noise = np.random.default_rng(1).standard_normal(997).astype(np.float32)
        with torch.no_grad():
            for key, value in net.state_dict().items():
                if not value.is_floating_point() or key.endswith("running_var"):
                    continue
                value.copy_(torch.from_numpy(0.3 * np.resize(noise, tuple(value.shape))))
        return net

    def pyramid(extra=None):
        net = filled(ops.FeaturePyramidNetwork([3, 5, 4], 4, extra))
        return net({"a": tensor_of(1, 3, 9, 7), "b": tensor_of(1, 5, 5, 4), "c": tensor_of(1, 4, 3, 2)})

    def tensor_of(*shape):
        return torch.from_numpy(np.resize(np.arange(101, dtype=np.float32) % 17 - 8, shape))

    from_module = ops.feature_pyramid_network
    every = {
        "nms": lambda: [ops.nms(many, scores, t) for t in (0.1, 0.3, 0.5, 0.9)],
        "nms of doubles": lambda: ops.nms(many.double(), scores.double(), 0.3),
        "nms of nothing": lambda: ops.nms(many[:0], scores[:0], 0.3),
        "nms of other scores": lambda: ops.nms(many, scores[:3], 0.3),
        "batched nms": lambda: [ops.batched_nms(many, scores, kinds, t) for t in (0.1, 0.5)],
        "area": lambda: [ops.box_area(a), ops.box_area(a.int()), ops.box_area(a, "xywh")],
        "iou": lambda: [ops.box_iou(a, b), ops.generalized_box_iou(a, b)],
        "iou of sizes": lambda: ops.box_iou(a, b, fmt="cxcywh"),
        "iou of distance": lambda: [ops.distance_box_iou(a, b), ops.complete_box_iou(a, b)],
        "convert to nothing": lambda: ops.box_convert(a, "xyxy", "no"),
        "clip": lambda: [ops.clip_boxes_to_image(a - 3, (12, 9)), ops.remove_small_boxes(a, 8.0)],
        "boxes of masks": lambda: ops.masks_to_boxes(masks),
        "align": lambda: gradient(torch, lambda x: ops.roi_align(x, regions, (3, 2)), images),
        "align of scale": lambda: gradient(torch, lambda x: ops.roi_align(x, regions, 4, 0.5, 2), images),
        "aligned": lambda: gradient(torch, lambda x: ops.roi_align(x, regions, 4, 0.7, -1, True), images),
        "align of lists": lambda: ops.roi_align(images, [a, b], (2, 5), 0.9, 3, True),
        "align of a module": lambda: ops.RoIAlign(3, 1.0, 2)(images, [a, b]),
        "align of wrong rows": lambda: ops.roi_align(images, a, 2),
        "pool": lambda: gradient(torch, lambda x: ops.roi_pool(x, regions, (3, 2)), images),
        "pool of scale": lambda: ops.RoIPool((4, 5), 0.4)(images, [a, b]),
        "focal": lambda: [
            *gradient(torch, lambda x: ops.sigmoid_focal_loss(x, truth), logits),
            ops.sigmoid_focal_loss(logits, truth, -1, 3, "mean"),
            ops.sigmoid_focal_loss(logits, truth, 0.6, 1.5, "sum"),
        ],
        "focal of another alpha": lambda: ops.sigmoid_focal_loss(logits, truth, 2.0),
        "focal of another reduction": lambda: ops.sigmoid_focal_loss(logits, truth, reduction="no"),
        "pyramid": pyramid,
        "pyramid and pool": lambda: pyramid(from_module.LastLevelMaxPool()),
        "pyramid and two": lambda: pyramid(from_module.LastLevelP6P7(4, 4)),
        "perceptron": lambda: filled(ops.MLP(4, [5, 3], dropout=0.2).eval())(tensor_of(2, 4)),
        "excitation": lambda: filled(ops.SqueezeExcitation(4, 2))(tensor_of(2, 4, 3, 3)),
        "convolution": lambda: filled(ops.Conv2dNormActivation(3, 4, (3, 5), dilation=(2, 1), bias=True).eval())(
            images
        ).abs(),
        "volume": lambda: filled(ops.Conv3dNormActivation(2, 3, norm_layer=None))(tensor_of(1, 2, 4, 4, 4)),
        "depth of no chance": lambda: ops.stochastic_depth(images, 2.0, "row"),
        "depth of no mode": lambda: ops.stochastic_depth(images, 0.5, "no"),
        "depth of all": lambda: ops.stochastic_depth(images, 1.0, "batch"),
        "drop of all": lambda: ops.drop_block2d(images, 1.0, 24),
        "drop of three dimensions": lambda: ops.drop_block2d(images[0], 0.5, 3),
    }
    for name in ("generalized_box_iou_loss", "distance_box_iou_loss", "complete_box_iou_loss"):
        loss = getattr(ops, name)
        every[name] = lambda loss=loss: [
            *gradient(torch, loss, a, pair),
            *(loss(a, pair, reduction=reduction) for reduction in ("mean", "sum")),
            loss(a[:0], pair[:0], reduction="mean"),
        ]
    for first in ("xyxy", "xywh", "cxcywh"):
        every[f"convert {first}"] = lambda first=first: [
            ops.box_convert(a, first, second) for second in ("xyxy", "xywh", "cxcywh")
        ]
    return every
