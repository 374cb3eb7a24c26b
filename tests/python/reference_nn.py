"""Modules and functions of networks whose values are compared with PyTorch's; see `reference`."""

from __future__ import annotations

from typing import Any

from reference import Case, filled, wave, write


def with_gradients(torch: Any, function: Any, *inputs: Any) -> list[Any]:
    """A function's value, and the gradients of a weighted sum of it."""
    inputs = tuple(x.clone().requires_grad_() for x in inputs)
    result = function(*inputs)
    grads = torch.autograd.grad((result * wave(torch, *result.shape, phase=3.0)).sum(), inputs)
    return [result.detach(), *(grad.detach() for grad in grads)]


def _fractional(spatial: int, kernel: Any, phase: float = 0.0, **sizes: Any) -> Case:
    def case(torch: Any) -> Any:
        functional = torch.nn.functional
        pool = functional.fractional_max_pool2d if spatial == 2 else functional.fractional_max_pool3d
        x = wave(torch, 2, 3, *(9, 7, 8)[:spatial], phase=phase)
        samples = wave(torch, 2, 3, spatial, phase=phase + 1).abs()
        return [
            *pool(x, kernel, **sizes, _random_samples=samples, return_indices=True),
            *with_gradients(torch, lambda x: pool(x, kernel, **sizes, _random_samples=samples), x),
        ]

    return case


def _adaptive_softmax(torch: Any) -> Any:
    layer = filled(torch, torch.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0, head_bias=True))
    x = wave(torch, 6, 8).requires_grad_()
    output, loss = layer(x, torch.tensor([0, 4, 11, 2, 8, 6]))
    grads = torch.autograd.grad(loss, [x, *layer.parameters()])
    alone = layer(x[2], torch.tensor(11))
    return [output, loss, *grads, layer.log_prob(x), layer.predict(x), *alone, list(layer.state_dict()), repr(layer)]


def _cross_map(size: int) -> Case:
    def case(torch: Any) -> Any:
        return torch.nn.CrossMapLRN2d(size, alpha=0.5, beta=0.6, k=1.5)(wave(torch, 2, 7, 2, 3))

    return case


def _linear_cross_entropy(reduction: str, **settings: Any) -> Case:
    def case(torch: Any) -> Any:
        options = settings.pop("options", None)
        classes = 5
        if options:
            options = torch.nn.LinearCrossEntropyOptions(**options)
        further = settings.get("out_features", ())
        loss = filled(
            torch, torch.nn.LinearCrossEntropyLoss(3, classes, reduction=reduction, options=options, **settings)
        )
        x = wave(torch, 4, 3).requires_grad_()
        target = torch.tensor([1, 4, 0, 2]) if not further else (wave(torch, 4, *further).abs() * classes).long()
        value = loss(x, target)
        return [value, *torch.autograd.grad(value.sum(), [x, *loss.parameters()]), repr(loss).replace("torch.", "")]

    return case


def _resize(mode: str, shape: tuple[int, int], **settings: Any) -> Case:
    def case(torch: Any) -> Any:
        def resize(x: Any) -> Any:
            return torch.nn.functional.interpolate(x, mode=mode, antialias=True, **settings)

        return with_gradients(torch, resize, wave(torch, 1, 2, *shape))

    return case


def _resize_bytes(mode: str, size: tuple[int, int]) -> Case:
    def case(torch: Any) -> Any:
        image = ((wave(torch, 1, 3, 11, 9) + 1) * 127.5).to(torch.uint8)
        return torch.nn.functional.interpolate(image, size, mode=mode, antialias=True)

    return case


def _grouped(first: tuple[int, ...], second: tuple[int, ...], ends: list[int] | None) -> Case:
    def case(torch: Any) -> Any:
        a = wave(torch, *first, dtype="float32")
        b = wave(torch, *second, phase=1.0, dtype="float32")
        offs = None if ends is None else torch.tensor(ends, dtype=torch.int32)
        return torch.nn.functional.grouped_mm(a, b, offs=offs)

    return case


def _convolution_gradients(spatial: int) -> Case:
    def case(torch: Any) -> Any:
        from importlib import import_module

        grad = import_module(f"{torch.__name__}.nn.grad")
        x, weight = wave(torch, 2, 4, *[7] * spatial), wave(torch, 6, 2, *[3] * spatial, phase=1.0)
        settings = {"stride": 2, "padding": 1, "groups": 2}
        result = getattr(torch.nn.functional, f"conv{spatial}d")(x, weight, None, **settings)
        g = wave(torch, *result.shape, phase=2.0)
        return [
            getattr(grad, f"conv{spatial}d_input")(x.shape, weight, g, **settings),
            getattr(grad, f"conv{spatial}d_weight")(x, weight.shape, g, **settings),
        ]

    return case


def _pools_with_indices(torch: Any) -> Any:
    functional = torch.nn.functional
    results = []
    for spatial in (1, 2, 3):
        x = wave(torch, 1, 2, *[6] * spatial)
        results += getattr(functional, f"max_pool{spatial}d_with_indices")(x, 3, 2, 1, 1, True)
        results += getattr(functional, f"adaptive_max_pool{spatial}d_with_indices")(x, 4)
    return results


def _conv_tbc(torch: Any) -> Any:
    parts = wave(torch, 5, 2, 3), wave(torch, 3, 3, 4, phase=1.0), wave(torch, 4, phase=2.0)
    return with_gradients(torch, lambda x, w, b: torch.nn.functional.conv_tbc(x, w, b, 1), *parts)


def _orthogonal(kind: str, trivial: bool, *shapes: tuple[int, int]) -> Case:
    def case(torch: Any) -> Any:
        results = []
        for shape in shapes:
            layer = torch.nn.Linear(*shape).double()
            layer.weight.data = wave(torch, *layer.weight.shape)
            orthogonal = torch.nn.utils.parametrizations.orthogonal
            orthogonal(layer, orthogonal_map=kind, use_trivialization=trivial)
            original = layer.parametrizations.weight.original
            results += [original.detach().clone(), layer.weight]
            with torch.no_grad():
                step = 0.3 * wave(torch, *layer.weight.shape, phase=1.0)
                original.add_(step.triu(1) if shape[0] > shape[1] else step.tril(-1))
            weight = layer.weight
            results += [weight, *torch.autograd.grad((weight * wave(torch, *weight.shape)).sum(), [original])]
        return results

    return case


def _pruned(torch: Any) -> Any:
    from importlib import import_module

    prune = import_module(f"{torch.__name__}.nn.utils.prune")
    methods = [
        lambda m: prune.l1_unstructured(m, "weight", 5),
        lambda m: prune.ln_structured(m, "weight", 1, 2, 0),
        lambda m: prune.l1_unstructured(m, "weight", 0.5),
        lambda m: prune.ln_structured(m, "weight", 0.5, float("inf"), -1),
        lambda m: prune.custom_from_mask(m, "weight", wave(torch, 5, 4, phase=2.0) > -0.5),
        lambda m: prune.l1_unstructured(m, "weight", 0.34, importance_scores=wave(torch, 5, 4, phase=9.0)),
        lambda m: prune.identity(m, "weight"),
    ]
    results = []
    chain = filled(torch, torch.nn.Linear(4, 5))
    for method in methods:
        alone = filled(torch, torch.nn.Linear(4, 5))
        assert method(alone) is alone
        method(chain)
        for module in (alone, chain):
            out = module(wave(torch, 2, 4))
            out.sum().backward()
            results += [module.weight_mask, out, module.weight_orig.grad, list(module.state_dict())]
            results.append([type(hook).__name__ for hook in module._forward_pre_hooks.values()])
            module.zero_grad()
    prune.remove(chain, "weight")
    parts = torch.nn.Sequential(*(filled(torch, torch.nn.Linear(4, n)) for n in (3, 2)))
    pairs = [(part, "weight") for part in parts]
    for amount in (4, 0.3):
        prune.global_unstructured(pairs, prune.L1Unstructured, amount=amount)
        results += [part.weight_mask for part in parts]
    scores = {(parts[0], "weight"): wave(torch, 3, 4, phase=4.0)}
    prune.global_unstructured(pairs, prune.L1Unstructured, importance_scores=scores, amount=2)
    results += [part.weight for part in parts]
    return [*results, chain.weight, list(chain.state_dict()), prune.is_pruned(chain), prune.is_pruned(parts)]


CASES: dict[str, Case] = {
    "fractional max pooling in 2 dimensions": _fractional(2, (2, 3), output_size=(5, 4)),
    "fractional max pooling in 2 dimensions by ratio": _fractional(2, 2, output_ratio=(0.6, 0.5), phase=2.0),
    "fractional max pooling to one window": _fractional(2, 3, output_size=1),
    "fractional max pooling in 3 dimensions": _fractional(3, (2, 3, 1), output_size=(5, 3, 4)),
    "fractional max pooling in 3 dimensions by ratio": _fractional(3, 2, output_ratio=0.5, phase=1.0),
    "adaptive softmax": _adaptive_softmax,
    **{f"normalization across {size} maps": _cross_map(size) for size in range(1, 7)},
    "linear cross entropy": _linear_cross_entropy("mean"),
    "linear cross entropy with bias": _linear_cross_entropy("sum", bias=True, label_smoothing=0.1),
    "linear cross entropy of more dimensions": _linear_cross_entropy("none", out_features=(2, 3), bias=True),
    "linear cross entropy in parts": _linear_cross_entropy(
        "mean", ignore_index=2, label_smoothing=0.2, options={"batch_chunk_size": 2}
    ),
    "linear cross entropy without a target": _linear_cross_entropy("mean", ignore_index=4),
    "smaller bilinear": _resize("bilinear", (9, 7), size=(4, 3)),
    "smaller bicubic": _resize("bicubic", (9, 7), size=(4, 3)),
    "smaller Lanczos": _resize("lanczos", (9, 12), size=(4, 5)),
    "larger bilinear": _resize("bilinear", (4, 3), size=(9, 7)),
    "larger bicubic": _resize("bicubic", (4, 3), size=(5, 11)),
    "bilinear by factor": _resize("bilinear", (9, 7), scale_factor=(0.45, 0.8)),
    "bilinear by recomputed factor": _resize("bilinear", (9, 7), scale_factor=0.45, recompute_scale_factor=True),
    "bicubic with aligned corners": _resize("bicubic", (9, 7), size=(4, 3), align_corners=True),
    "bilinear of bytes": _resize_bytes("bilinear", (5, 4)),
    "bicubic of bytes": _resize_bytes("bicubic", (6, 9)),
    "rows in groups": _grouped((6, 8), (3, 8, 16), [2, 3, 6]),
    "pairs": _grouped((3, 4, 8), (3, 8, 16), None),
    "columns in groups": _grouped((3, 4, 8), (8, 16), [4, 4, 16]),
    "sums in groups": _grouped((4, 8), (8, 16), [3, 4, 8]),
    **{f"gradients of a convolution in {spatial} dimensions": _convolution_gradients(spatial) for spatial in (1, 2, 3)},
    **{
        f"orthogonal weights by {kind}": _orthogonal(kind, False, (3, 5), (5, 3), (4, 4))
        for kind in ("matrix_exp", "cayley", "householder")
    },
    **{
        f"orthogonal weights by {kind} and a base": _orthogonal(kind, True, (4, 4))
        for kind in ("matrix_exp", "cayley", "householder")
    },
    "pruning": _pruned,
    "pooling with indices": _pools_with_indices,
    "convolution of time, batch, channels": _conv_tbc,
}

if __name__ == "__main__":
    write(CASES, __file__)
