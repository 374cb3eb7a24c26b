"""nflows: densities of flows of several transforms, their inverses and their training."""

import torch
from _values import fill, total, wave
from nflows.distributions.normal import StandardNormal
from nflows.flows.base import Flow
from nflows.nn.nets import ResidualNet
from nflows.transforms.autoregressive import (
    MaskedAffineAutoregressiveTransform,
    MaskedPiecewiseRationalQuadraticAutoregressiveTransform,
)
from nflows.transforms.base import CompositeTransform
from nflows.transforms.coupling import AffineCouplingTransform, PiecewiseRationalQuadraticCouplingTransform
from nflows.transforms.lu import LULinear
from nflows.transforms.permutations import ReversePermutation


def net(inputs, outputs):
    return ResidualNet(inputs, outputs, hidden_features=8, num_blocks=1)


def main():
    parts = {
        "affine": MaskedAffineAutoregressiveTransform(4, 8, num_blocks=1),
        "spline": MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
            4, 8, num_bins=4, tails="linear", num_blocks=1
        ),
        "coupling": AffineCouplingTransform([1, 0, 1, 0], net),
        "splines": PiecewiseRationalQuadraticCouplingTransform([1, 0, 1, 0], net, num_bins=4, tails="linear"),
        "lu": LULinear(4),
    }
    x, found = wave(6, 4), {}
    for name, part in parts.items():
        flow = fill(Flow(CompositeTransform([part, ReversePermutation(4)]), StandardNormal([4])), 0.3)
        density = flow.log_prob(x)
        density.sum().backward()
        grads = sum(total(p.grad) for p in flow.parameters() if p.grad is not None)
        noise, _ = flow._transform(x)
        back, _ = flow._transform.inverse(noise)
        assert (back - x).abs().max() < 1e-3, name
        assert flow.sample(7).shape == (7, 4)
        found[name] = [density.tolist(), grads]
    torch.manual_seed(0)
    return found
