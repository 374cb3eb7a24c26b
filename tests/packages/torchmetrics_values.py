"""torchmetrics: metrics of classes, numbers and pictures."""

import torch
import torchmetrics
from _values import wave


def main():
    scores, target = wave(20, 4).softmax(1), torch.arange(20) * 3 % 4
    numbers, others = wave(30), wave(30, phase=0.5)
    pictures, changed = wave(2, 3, 32, 32).abs(), wave(2, 3, 32, 32, phase=0.1).abs()
    classes = {"task": "multiclass", "num_classes": 4}
    metrics = {
        "accuracy": (torchmetrics.Accuracy(**classes), scores, target),
        "f1": (torchmetrics.F1Score(**classes, average="macro"), scores, target),
        "auroc": (torchmetrics.AUROC(**classes), scores, target),
        "confusion": (torchmetrics.ConfusionMatrix(**classes), scores, target),
        "error": (torchmetrics.MeanSquaredError(), numbers, others),
        "r2": (torchmetrics.R2Score(), numbers, others),
        "correlation": (torchmetrics.PearsonCorrCoef(), numbers, others),
        "noise": (torchmetrics.image.PeakSignalNoiseRatio(data_range=1.0), pictures, changed),
        "structure": (torchmetrics.image.StructuralSimilarityIndexMeasure(data_range=1.0), pictures, changed),
    }
    found = {}
    for name, (metric, a, b) in metrics.items():
        half = len(a) // 2
        metric.update(a[:half], b[:half])
        metric.update(a[half:], b[half:])
        found[name] = metric.compute().tolist()
    return found
