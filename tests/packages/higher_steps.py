"""higher: gradients through the steps of an optimizer."""

import higher
import torch
from _values import fill, total, wave


def main():
    found = {}
    for name, options in {"SGD": {"lr": 0.1, "momentum": 0.9}, "Adam": {"lr": 0.05}, "RMSprop": {"lr": 0.01}}.items():
        model = fill(torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)), 0.5)
        optimizer = getattr(torch.optim, name)(model.parameters(), **options)
        x, y = wave(8, 3), wave(8, 1, phase=1.0)
        with higher.innerloop_ctx(model, optimizer, copy_initial_weights=False) as (fast, inner):
            losses = []
            for _ in range(3):
                loss = (fast(x) - y).square().mean()
                losses.append(loss.item())
                inner.step(loss)
            outer = (fast(x + 0.1) - y).square().mean()
            outer.backward()
        found[name] = [losses, outer.item(), [total(p.grad) for p in model.parameters()]]
    return found
