"""torchsde: paths of stochastic differential equations; without noise they are the solution of an ordinary one."""

import torch
from _values import fill, total, wave
from torchsde import BrownianInterval, sdeint, sdeint_adjoint


class Equation(torch.nn.Module):
    def __init__(self, kind, noise):
        super().__init__()
        self.sde_type, self.noise_type, self.noise = kind, "diagonal", noise
        self.drift = fill(torch.nn.Linear(2, 2), 0.7)

    def f(self, t, y):
        return self.drift(y).tanh() - y

    def g(self, t, y):
        return self.noise * y


def main():
    times, start = torch.linspace(0, 1, 5), wave(4, 2)
    found = {}
    for kind, method in (
        ("ito", "euler"),
        ("ito", "milstein"),
        ("ito", "srk"),
        ("stratonovich", "midpoint"),
        ("stratonovich", "heun"),
    ):
        found[method] = sdeint(Equation(kind, 0.0), start, times, method=method, dt=0.05).tolist()
    equation = Equation("stratonovich", 0.0)
    y0 = start.clone().requires_grad_()
    sdeint_adjoint(equation, y0, times, dt=0.05, method="midpoint")[-1].square().sum().backward()
    found["adjoint"] = [y0.grad.tolist(), *(total(p.grad) for p in equation.parameters())]
    noise = BrownianInterval(0.0, 1.0, size=(20000, 1), entropy=3)
    steps = noise(0.0, 0.25), noise(0.25, 1.0)
    assert torch.allclose(steps[0] + steps[1], noise(0.0, 1.0), atol=1e-5)
    assert abs(steps[0].var().item() - 0.25) < 0.02 and abs(steps[1].var().item() - 0.75) < 0.05
    path = sdeint(Equation("ito", 0.5), torch.ones(2000, 2), times, dt=0.05)
    assert torch.isfinite(path).all() and path[-1].std() > 0.01
    return found
