"""Trains the network of examples/demo.py and draws its loss as docs/pictures/loss.svg.

    python docs/loss_curve.py [--epochs 5] [--data DIR]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))

import demo  # noqa: E402

import rgrad as torch  # noqa: E402

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 260, 46, 30, 36


def smooth(losses: list[float], points: int = 160) -> list[float]:
    """Means of equal parts."""
    size = max(1, len(losses) // points)
    return [sum(losses[i : i + size]) / len(losses[i : i + size]) for i in range(0, len(losses), size)]


def svg(losses: list[float], title: str) -> str:
    """The curve, over pale lines at round values; readable on light and dark pages."""
    values = smooth(losses)
    step = 0.5 if max(values) > 1 else 0.1
    high = step * (int(max(values) / step) + 1)
    inner_width, inner_height = WIDTH - LEFT - 12, HEIGHT - TOP - BOTTOM

    def y(value: float) -> float:
        return TOP + inner_height * (1 - value / high)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12" fill="#777"><title>{title}</title><text x="{LEFT}" y="16">{title}</text>'
    ]
    for i in range(round(high / step) + 1):
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - 12}" y1="{y(i * step):.1f}" y2="{y(i * step):.1f}" stroke="#8884"/>'
            f'<text x="{LEFT - 8}" y="{y(i * step) + 4:.1f}" text-anchor="end">{i * step:.1f}</text>'
        )
    x_step = inner_width / max(1, len(values) - 1)
    line = " ".join(f"{LEFT + i * x_step:.1f},{y(v):.1f}" for i, v in enumerate(values))
    parts.append(f'<polyline points="{line}" fill="none" stroke="#1f77b4" stroke-width="2"/>')
    parts.append(f'<text x="{WIDTH - 12}" y="{HEIGHT - 12}" text-anchor="end">{len(losses):,} batches</text></svg>')
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--data", type=Path, default=ROOT / "data")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures" / "loss.svg")
    options = parser.parse_args()
    torch.manual_seed(0)
    train, test = demo.load_data(options.data)
    model = demo.NeuralNetwork()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses: list[float] = []
    for _ in range(options.epochs):
        loader = torch.utils.data.DataLoader(train, batch_size=64)
        demo.train_epoch(loader, model, torch.nn.CrossEntropyLoss(), optimizer, losses)
    demo.evaluate(torch.utils.data.DataLoader(test, batch_size=64), model, torch.nn.CrossEntropyLoss())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    title = f"Training loss of make demo: {len(train):,} pictures, {options.epochs} epochs"
    options.out.write_text(svg(losses, title), encoding="utf-8")


if __name__ == "__main__":
    main()
