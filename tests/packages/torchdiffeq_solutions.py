"""torchdiffeq: a linear system and a network are integrated by several methods, with gradients by the adjoint."""

import torch
from _values import fill, total, wave
from torchdiffeq import odeint, odeint_adjoint, odeint_event


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = fill(torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)), 0.5)

    def forward(self, t, y):
        return self.net(y) - 0.1 * t * y


def main():
    times, start = torch.linspace(0.0, 2.0, 7), wave(3, 2)
    found = {}
    for method in ("dopri5", "dopri8", "bosh3", "adaptive_heun", "rk4", "euler", "midpoint", "explicit_adams"):
        found[method] = odeint(
            Field(), start, times, method=method, options={} if method[0] in "dba" else {"step_size": 0.1}
        )
        found[method] = found[method][1:].flatten()[::2].tolist()
    field = Field()
    y0 = start.clone().requires_grad_()
    odeint_adjoint(field, y0, times, rtol=1e-5, atol=1e-6)[-1].square().sum().backward()
    found["adjoint"] = [y0.grad.tolist(), [total(p.grad) for p in field.parameters()]]
    field.zero_grad()
    y0 = start.clone().requires_grad_()
    odeint(field, y0, times)[-1].square().sum().backward()
    found["direct"] = [y0.grad.tolist(), [total(p.grad) for p in field.parameters()]]
    fall = lambda t, y: torch.stack([y[1], torch.tensor(-9.8, dtype=torch.float64)])  # noqa: E731
    high = torch.tensor([10.0, 0.0], dtype=torch.float64)
    moment, _ = odeint_event(fall, high, torch.tensor(0.0, dtype=torch.float64), event_fn=lambda t, y: y[0])
    found["event"] = moment.item()
    return found
