"""What the examples share: their options, a progress bar, and figures where matplotlib is installed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import rgrad as torch

try:
    from tqdm import tqdm
except ImportError:
    tqdm = None


def options(
    doc: str | None, argv: list[str] | None, file: str | None = None, **numbers: tuple[int, int]
) -> argparse.Namespace:
    """The command line of an example.

    Args:
        doc: the docstring of the script.
        argv: the arguments; those of the process by default.
        file: the name of an option that takes a file to read.
        numbers: the default of each option, in full and with ``--small``.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a run of a few seconds, to see that everything works")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder to write to")
    parser.add_argument("--device", default="cpu", help="where to compute, for example gpu")
    parser.add_argument("--seed", type=int, default=0)
    if file:
        parser.add_argument(f"--{file}", type=Path)
    for name, (full, small) in numbers.items():
        parser.add_argument(f"--{name}", type=int, help=f"{full:,}, or {small:,} with --small")
    found = parser.parse_args(argv)
    for name, (full, small) in numbers.items():
        if getattr(found, name) is None:
            setattr(found, name, small if found.small else full)
    found.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(found.seed)
    return found


class Progress:
    """Iterates with a progress bar if tqdm is installed, and shows numbers beside it."""

    def __init__(self, steps: Iterable[Any], **settings: Any) -> None:
        self._bar = tqdm(steps, **settings) if tqdm else None
        self._steps = steps

    def __iter__(self) -> Iterator[Any]:
        return iter(self._steps if self._bar is None else self._bar)

    def show(self, **numbers: float) -> None:
        """Shows numbers beside the bar."""
        if self._bar is not None:
            self._bar.set_postfix({name: f"{value:.4g}" for name, value in numbers.items()}, refresh=False)


def fashion_mnist(train: bool, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures of Fashion-MNIST that come with rgrad, of shape (N, 1, 28, 28) between 0 and 1, and their classes."""
    from rgrad.vision.datasets import FashionMNIST

    part = FashionMNIST.subset(train=train)
    return part.data[:count].unsqueeze(1).float() / 255, part.targets[:count]


def tiles(pictures: torch.Tensor, columns: int) -> torch.Tensor:
    """Grey pictures of shape (N, 1, H, W) side by side, as one of shape (rows * H, columns * W)."""
    n, _, height, width = pictures.shape
    grid = pictures.detach().cpu().reshape(n // columns, columns, height, width)
    return grid.permute(0, 2, 1, 3).reshape(-1, columns * width)


def figure(path: Path, draw: Callable[[Any], None], **size: Any) -> Path | None:
    """Writes a figure.

    Args:
        path: the file.
        draw: receives the axes.
        size: arguments of matplotlib's ``subplots``.

    Returns:
        The path, or None if matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        print(f"matplotlib is not installed, so {path} is not drawn (pip install matplotlib)")
        return None
    matplotlib.use("agg")
    from matplotlib import pyplot

    canvas, axes = pyplot.subplots(layout="constrained", **size)
    draw(axes)
    canvas.savefig(path, dpi=120)
    pyplot.close(canvas)
    print(f"Wrote {path}")
    return path
