"""captum: what a small network's output is due to, by gradients, by hooks on layers and by leaving inputs out."""

import torch
from _values import fill, wave
from captum.attr import (
    DeepLift,
    FeatureAblation,
    GradientShap,
    GuidedBackprop,
    InputXGradient,
    IntegratedGradients,
    LayerConductance,
    LayerGradCam,
    Occlusion,
    Saliency,
    ShapleyValueSampling,
)


def main():
    torch.manual_seed(0)
    nn = torch.nn
    net = fill(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), 0.5)
    x = wave(4, 6)
    found = {
        "saliency": Saliency(net).attribute(x, target=1),
        "input x gradient": InputXGradient(net).attribute(x, target=1),
        "integrated": IntegratedGradients(net).attribute(x, target=2, n_steps=20),
        "guided": GuidedBackprop(net).attribute(x, target=0),
        "deep lift": DeepLift(net).attribute(x, target=0),
        "ablation": FeatureAblation(net).attribute(x, target=0),
        "conductance": LayerConductance(net, net[0]).attribute(x, target=1, n_steps=10),
        "shapley": ShapleyValueSampling(net).attribute(x, target=1, n_samples=3).sum(1),
    }
    pictures = wave(2, 1, 8, 8, step=0.1)
    convs = fill(nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 3)), 0.3)
    found["grad cam"] = LayerGradCam(convs, convs[0]).attribute(pictures, target=1)
    found["occlusion"] = Occlusion(convs).attribute(
        pictures, target=1, sliding_window_shapes=(1, 4, 4), strides=(1, 2, 2)
    )
    shap = GradientShap(net).attribute(x, baselines=torch.zeros(1, 6), target=0, n_samples=4, stdevs=0.0)
    return {"shape of shap": list(shap.shape), **{name: value.flatten()[::3].tolist() for name, value in found.items()}}
