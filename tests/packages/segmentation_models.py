"""segmentation-models-pytorch: networks of several designs forward and backward, losses and metrics."""

import segmentation_models_pytorch as smp
import torch
from _values import fill, total, wave


def main():
    x, found = wave(2, 3, 64, 64, step=0.01), {}
    mask = (wave(2, 1, 64, 64, step=0.05) > 0).float()
    for kind, encoder in (
        (smp.Unet, "resnet18"),
        (smp.FPN, "resnet18"),
        (smp.Linknet, "mobilenet_v2"),
        (smp.DeepLabV3Plus, "resnet18"),
        (smp.UnetPlusPlus, "timm-mobilenetv3_small_100"),
        (smp.PSPNet, "vgg11"),
    ):
        model = fill(kind(encoder, encoder_weights=None, classes=1), 0.05)
        made = model(x)
        loss = smp.losses.DiceLoss("binary")(made, mask) + smp.losses.FocalLoss("binary")(made, mask)
        loss.backward()
        grads = sum(total(p.grad) for p in model.parameters() if p.grad is not None)
        found[kind.__name__] = [made.flatten()[::997].tolist(), loss.item(), grads]
    counts = smp.metrics.get_stats(
        (wave(2, 1, 8, 8) > 0).long(), (wave(2, 1, 8, 8, phase=1.0) > 0).long(), mode="binary"
    )
    found["iou"] = smp.metrics.iou_score(*counts, reduction="micro").item()
    torch.manual_seed(0)
    return found
