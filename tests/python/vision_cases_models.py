"""The keys and shapes of every network's state, and what some of them compute; see vision_cases.py."""

import functools
import hashlib
import warnings

import numpy as np
import vision_cases

# Of each family the smallest, with fewer classes, and the edge of a small image that it takes.
COMPUTED = {
    "alexnet": (64, {}),
    "convnext_tiny": (32, {}),
    "densenet121": (32, {}),
    "efficientnet_b0": (32, {}),
    "efficientnet_v2_s": (32, {}),
    "googlenet": (64, {"transform_input": True}),
    "inception_v3": (80, {"aux_logits": False}),
    "mnasnet0_75": (32, {}),
    "mobilenet_v2": (32, {"width_mult": 0.5}),
    "mobilenet_v3_large": (32, {"dilated": True, "reduced_tail": True, "width_mult": 0.75}),
    "mobilenet_v3_small": (32, {}),
    "regnet_x_400mf": (32, {}),
    "regnet_y_400mf": (32, {}),
    "resnext50_32x4d": (32, {}),
    "shufflenet_v2_x0_5": (32, {}),
    "squeezenet1_0": (32, {}),
    "squeezenet1_1": (32, {}),
    "swin_t": (72, {}),
    "swin_v2_t": (72, {}),
    "vit_b_32": (64, {"image_size": 64}),
}


def made(vision, name, **options):
    if name in ("googlenet", "inception_v3"):
        options.setdefault("init_weights", False)
    return vision.models.get_model(name, **options)


def keys(torch, vision, name):
    """A digest of the keys, shapes and dtypes in their order, and the number of parameters."""
    with warnings.catch_warnings(), torch.device("meta") if name not in LARGE_ON_CPU else torch.no_grad():
        warnings.simplefilter("ignore")
        net = made(vision, name)
    rows = [(key, tuple(value.shape), str(value.dtype)) for key, value in net.state_dict().items()]
    return [len(rows), sum(p.numel() for p in net.parameters()), hashlib.sha256(repr(rows).encode()).hexdigest()]


def filled(torch, net):
    """Sets the state to values that any program can make again, such that activations keep their size."""
    noise = np.random.default_rng(1).standard_normal(9973).astype(np.float32)
    with torch.no_grad():
        for place, (key, value) in enumerate(net.state_dict().items()):
            if not value.is_floating_point() or key.endswith("relative_coords_table"):
                continue
            some = np.resize(np.roll(noise, 37 * place), tuple(value.shape))
            if key.endswith("running_var"):
                some = 1 + 0.1 * np.abs(some)
            elif value.dim() < 2 or key.endswith(("layer_scale", "logit_scale")):
                some = 0.1 * some + (0.5 if key.endswith(("weight", "scale")) else 0)
            else:
                some = some * 1.4 / np.sqrt(max(1, np.prod(value.shape[1:])))
            value.copy_(torch.from_numpy(np.ascontiguousarray(some, dtype=np.float32)))
    return net


def computed(torch, vision, name, training=False):
    edge, options = COMPUTED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = filled(torch, made(vision, name, num_classes=10, **options)).eval()
    image = np.random.default_rng(2).standard_normal((1, 3, edge, edge)).astype(np.float32)
    if training:
        net.train()
    with torch.no_grad():
        return net(torch.from_numpy(image))


# These compute their settings with tensors, which torchvision can't do on the meta device.
LARGE_ON_CPU = ("regnet_x_400mf", "regnet_x_1_6gf", "regnet_y_400mf", "regnet_y_3_2gf")


def started(torch, vision, name):
    """Logarithms of the mean sizes of the values with which training begins, of tensors that have many or one value."""
    state = made(vision, name, num_classes=10).state_dict()
    rows = [value.float() for value in state.values()]
    sizes = [float(row.abs().mean()) for row in rows if row.numel() >= 4096 or bool((row == row.ravel()[0]).all())]
    return [float(np.log(size + 1e-3)) for size in sizes]


def facts(weights):
    """What is known of published weights, but for the names of classes."""
    meta = {key: value for key, value in weights.meta.items() if key not in ("categories", "_docs")}
    meta.pop("num_classes", None)
    prepare = weights.transforms()
    shown = [str(getattr(prepare, key)) for key in ("crop_size", "resize_size", "interpolation", "mean", "std")]
    default = weights is type(weights).DEFAULT
    return [
        weights.url,
        repr(sorted((k, v if v is None else repr(tuple(v) if k == "min_size" else v)) for k, v in meta.items())),
        shown,
        default,
    ]


def all_facts(vision):
    names = [name for name in vision.models.list_models(module=vision.models)]
    enums = [vision.models.get_model_weights(name) for name in names]
    return vision_cases.Whole({str(weights): facts(weights) for enum in enums for weights in enum})


def cases(torch, vision):
    names = [
        name
        for name in vision.models.list_models(module=vision.models)
        if not name.startswith("maxvit") and (not name.startswith("regnet") or name in LARGE_ON_CPU)
    ]
    every = {f"keys of {name}": functools.partial(keys, torch, vision, name) for name in names}
    every |= {f"result of {name}": functools.partial(computed, torch, vision, name) for name in COMPUTED}
    every |= {f"start of {name}": functools.partial(started, torch, vision, name) for name in STARTED}
    every["facts"] = functools.partial(all_facts, vision)
    return every


STARTED = (
    "convnext_tiny",
    "efficientnet_b0",
    "mnasnet0_5",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "regnet_y_400mf",
    "shufflenet_v2_x0_5",
    "squeezenet1_1",
)
