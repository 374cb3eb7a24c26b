"""kornia: filters, geometry, colours and losses of pictures, with gradients."""

import kornia
import torch
from _values import total, wave


def main():
    x = wave(2, 3, 24, 24, step=0.05).abs().requires_grad_()
    angle = torch.tensor([20.0, -35.0])
    operations = {
        "blur": lambda: kornia.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)),
        "sobel": lambda: kornia.filters.sobel(x),
        "median": lambda: kornia.filters.median_blur(x, (3, 3)),
        "gray": lambda: kornia.color.rgb_to_grayscale(x),
        "hsv": lambda: kornia.color.rgb_to_hsv(x),
        "lab": lambda: kornia.color.rgb_to_lab(x),
        "rotated": lambda: kornia.geometry.rotate(x, angle),
        "resized": lambda: kornia.geometry.resize(x, (12, 16), antialias=False),
        "ssim": lambda: kornia.losses.ssim_loss(x, x.flip(-1), 5),
        "dilated": lambda: kornia.morphology.dilation(x, torch.ones(3, 3)),
        "harris": lambda: kornia.feature.harris_response(x),
        "brighter": lambda: kornia.enhance.adjust_brightness(x, 0.2),
    }
    found = {}
    for name, operation in operations.items():
        made = operation()
        (grad,) = torch.autograd.grad(made.square().sum(), x)
        found[name] = [made.flatten()[::97].tolist(), total(grad)]
    quaternion = torch.tensor([[0.9, 0.1, 0.2, 0.3]])
    rotation = kornia.geometry.conversions.quaternion_to_rotation_matrix(quaternion)
    found["rotation"] = rotation.tolist()
    return found
