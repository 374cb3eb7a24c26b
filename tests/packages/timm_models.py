"""timm: networks forward, in training, and traced."""

import timm
import torch
from _values import fill, total, wave
from torch import fx


def main():
    found = {}
    for name in ("resnet18", "convnext_atto", "vit_tiny_patch16_224", "mobilenetv3_small_100"):
        options = {"img_size": 64} if name.startswith("vit") else {}
        model = fill(timm.create_model(name, pretrained=False, num_classes=10, **options), 0.05)
        x = wave(2, 3, 64, 64, step=0.01)
        logits = model(x)
        logits.square().mean().backward()
        found[name] = [logits[0].tolist(), total(next(model.parameters()).grad)]
        traced = fx.symbolic_trace(model)
        assert (traced(x) - logits).abs().max() < 1e-5
        found[f"{name} nodes"] = len(traced.graph.nodes)
    torch.manual_seed(0)
    return found
