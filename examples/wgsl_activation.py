"""An operation of one's own on the GPU: an activation for periodic functions, with its derivatives, in WGSL.

    python examples/wgsl_activation.py [--small]

The activation is x + sin²(a x) / a (Ziyin, Hartwig and Ueda, 2020) with a learnable frequency `a` for each feature. A
network with it fits a wave, and is compared with one with ReLU, also where there was no data. Without a GPU, Vulkan on
the processor serves: `RGRAD_GPU_ALLOW_CPU=1` and Mesa's llvmpipe.
"""

from __future__ import annotations

from typing import Any

import common

import rgrad as torch
from rgrad import nn
from rgrad.library import wgsl_op

_by_x = wgsl_op("by_x", "fn by_x(g: f32, x: f32, a: f32) -> f32 { return g * (1.0 + sin(2.0 * a * x)); }")
_by_a = wgsl_op(
    "by_a",
    """
fn by_a(g: f32, x: f32, a: f32) -> f32 {
    let s = sin(a * x);
    return g * (x * sin(2.0 * a * x) - s * s / a) / a;
}
""",
)


def _backward(g: torch.Tensor, x: torch.Tensor, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of `x`, of shape (N, features), and of `a`, which was broadcast from shape (features,)."""
    return _by_x(g, x, a), _by_a(g, x, a).sum(0)


snake = wgsl_op(
    "snake",
    """
fn snake(x: f32, a: f32) -> f32 {
    let s = sin(a * x);
    return x + s * s / a;
}
""",
    backward=_backward,
)


class Snake(nn.Module):
    """`snake` with a learnable frequency for each feature."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.linspace(0.5, 4.0, features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (N, features) to the same."""
        return snake(x, self.a)


def wave(x: torch.Tensor) -> torch.Tensor:
    """What is to be learnt."""
    return torch.sin(x) + 0.3 * torch.sin(3 * x)


def train(model: nn.Module, steps: int, what: str) -> list[float]:
    """The losses of fitting the wave between -6 and 6."""
    x = torch.linspace(-6, 6, 256, device="gpu").unsqueeze(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    bar = common.Progress(range(steps), unit="step", desc=what)
    for _ in bar:
        loss = nn.functional.mse_loss(model(x), wave(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        bar.show(loss=losses[-1])
    return losses


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Fits a wave with two activations; returns the losses and the figure's path."""
    args = common.options(__doc__, argv, steps=(2000, 120), width=(64, 32))
    if not torch.gpu.is_available():
        raise SystemExit("There is no GPU. RGRAD_GPU_ALLOW_CPU=1 admits Vulkan on the processor (Mesa's llvmpipe).")
    print(f"On {torch.gpu.get_device_name()}")
    width = args.width
    models = {
        "snake": nn.Sequential(
            nn.Linear(1, width), Snake(width), nn.Linear(width, width), Snake(width), nn.Linear(width, 1)
        ),
        "ReLU": nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)),
    }
    losses = {name: train(model.to("gpu"), args.steps, f"{name:<5}") for name, model in models.items()}

    x = torch.linspace(-12, 12, 600, device="gpu").unsqueeze(1)
    with torch.no_grad():
        curves = {name: model(x).cpu()[:, 0].numpy() for name, model in models.items()}
    place, truth = x.cpu()[:, 0].numpy(), wave(x).cpu()[:, 0].numpy()

    def draw(axes: Any) -> None:
        axes.axvspan(-6, 6, color="#eeeeee", label="training data")
        axes.plot(place, truth, color="black", linewidth=1, label="the wave")
        for name, curve in curves.items():
            axes.plot(place, curve, label=name)
        axes.set(title="Beyond the data", ylim=(-3, 3))
        axes.legend(loc="upper right")

    return {"losses": losses, "picture": common.figure(args.out / "wgsl_activation.png", draw, figsize=(8, 4))}


if __name__ == "__main__":
    main()
