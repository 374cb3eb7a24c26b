"""Weights and inputs that both libraries make alike: sines, without random numbers."""

import math

import torch


def wave(*shape, phase=0.0, step=0.37):
    """A tensor of sines."""
    return torch.sin(torch.arange(math.prod(shape), dtype=torch.float32) * step + phase).reshape(shape)


def fill(model, scale=0.1):
    """Sets all parameters of a model, and puts it into evaluation mode."""
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(wave(*p.shape, phase=i) * scale)
    return model.eval()


def total(grad):
    """The sum of the magnitudes of a tensor."""
    return grad.abs().sum().item()
