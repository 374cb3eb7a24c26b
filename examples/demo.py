"""The quickstart: train a small network on Fashion-MNIST, save it, load it again, and draw what it has
learnt.

    python examples/demo.py [--epochs 5] [--lr 0.1] [--batch-size 64] [--data DIR] [--out DIR]

Takes the full set from `--data`, or from where Debian's package `dataset-fashion-mnist` puts it; else the
2,000 + 500 pictures that come with rgrad.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import rgrad as torch
from rgrad import nn
from rgrad.utils.data import DataLoader
from rgrad.vision.datasets import FashionMNIST
from rgrad.vision.transforms import ToTensor

try:
    from tqdm import tqdm
except ImportError:
    tqdm = None


class NeuralNetwork(nn.Module):
    """The network of the quickstart: 784 - 512 - 512 - 10."""

    def __init__(self) -> None:
        super().__init__()
        self.flatten = nn.Flatten()
        self.linear_relu_stack = nn.Sequential(
            nn.Linear(28 * 28, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pictures of shape (N, 1, 28, 28) to scores of shape (N, 10)."""
        x = self.flatten(x)
        return self.linear_relu_stack(x)


def load_data(folder: Path) -> tuple[FashionMNIST, FashionMNIST]:
    """The training and test pictures; says which they are."""
    try:
        train, test = (FashionMNIST(folder, train=part, transform=ToTensor()) for part in (True, False))
        kind = "full Fashion-MNIST"
    except RuntimeError as error:
        if "Dataset not found" not in str(error):
            raise
        train, test = (FashionMNIST.subset(train=part, transform=ToTensor()) for part in (True, False))
        kind = "the part of Fashion-MNIST that comes with rgrad (for more: apt install dataset-fashion-mnist)"
    print(f"Data: {kind}, {len(train):,} pictures to train with and {len(test):,} to test with")
    return train, test


def train_epoch(
    dataloader: DataLoader,
    model: nn.Module,
    loss_fn: nn.Module,
    optimizer: torch.optim.Optimizer,
    losses: list[float],
) -> None:
    """One pass over the training pictures."""
    size = len(dataloader.dataset)
    model.train()
    bar = tqdm(total=len(dataloader), unit="batch", leave=False) if tqdm else None
    show = tqdm.write if tqdm else print
    for batch, (X, y) in enumerate(dataloader):  # noqa: N806
        # Compute prediction error
        pred = model(X)
        loss = loss_fn(pred, y)

        # Backpropagation
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

        losses.append(loss.item())
        if batch % 100 == 0:
            current = batch * len(X)
            show(f"loss: {losses[-1]:>7f} [{current:>5d}/{size:>5d}]")
        if bar is not None:
            bar.update()
    if bar is not None:
        bar.close()


def evaluate(dataloader: DataLoader, model: nn.Module, loss_fn: nn.Module) -> None:
    """Print the accuracy and the average loss on the test pictures."""
    model.eval()
    test_loss, correct = 0.0, 0.0
    with torch.no_grad():
        for X, y in dataloader:  # noqa: N806
            pred = model(X)
            test_loss += loss_fn(pred, y).item()
            correct += (pred.argmax(1) == y).sum().item()
    test_loss /= len(dataloader)
    correct /= len(dataloader.dataset)
    print(f"Test Error: \n Accuracy: {(100 * correct):>0.1f}%, Avg loss: {test_loss:>8f} \n")


def draw(path: Path, losses: list[float], test: FashionMNIST, model: nn.Module) -> None:
    """Write a picture: the loss curve on the left, 16 test pictures with their predicted classes on the
    right.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        print(f"Pillow is not installed, so {path} is not drawn (pip install pillow)")
        return
    width, height, margin = 480, 560, 48
    canvas = Image.new("RGB", (width + 4 * 136 + 16, height), "white")
    pen = ImageDraw.Draw(canvas)

    # The curve is smoothed over one hundredth of the training.
    window = max(1, len(losses) // 100)
    smooth = [
        sum(losses[max(0, i - window + 1) : i + 1]) / len(losses[max(0, i - window + 1) : i + 1])
        for i in range(0, len(losses), max(1, len(losses) // width))
    ]
    top = max(smooth) * 1.05 or 1.0
    left, right, bottom = margin, width - 16, height - margin
    pen.text((left, 16), "training loss", fill="black")
    for tick in range(6):
        y = bottom - (bottom - margin) * tick / 5
        pen.line([(left, y), (right, y)], fill="#dddddd")
        pen.text((8, y - 6), f"{top * tick / 5:.2f}", fill="black")
    points = [
        (left + (right - left) * i / max(1, len(smooth) - 1), bottom - (bottom - margin) * value / top)
        for i, value in enumerate(smooth)
    ]
    pen.line(points, fill="#1f77b4", width=2)
    pen.text((left, bottom + 8), f"{len(losses)} batches", fill="black")

    pictures = torch.stack([test[i][0] for i in range(16)])
    with torch.no_grad():
        predicted = model(pictures).argmax(1).tolist()
    for i, label in enumerate(predicted):
        x, y = width + 136 * (i % 4), 8 + 138 * (i // 4)
        pixels = bytes(test.data[i].flatten().tolist())
        canvas.paste(
            Image.frombytes("L", (28, 28), pixels).resize((112, 112), Image.Resampling.NEAREST), (x, y)
        )
        right_answer = label == int(test.targets[i])
        pen.text((x, y + 114), test.classes[label], fill="#117733" if right_answer else "#cc3311")
    canvas.save(path)
    print(f"Wrote {path}")


def main() -> None:
    """Train, save, load, predict, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder that holds FashionMNIST/raw")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder to write to")
    options = parser.parse_args()
    torch.manual_seed(0)
    options.out.mkdir(parents=True, exist_ok=True)

    training_data, test_data = load_data(options.data)
    train_dataloader = DataLoader(training_data, batch_size=options.batch_size)
    test_dataloader = DataLoader(test_data, batch_size=options.batch_size)
    model = NeuralNetwork()
    print(model)
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)

    losses: list[float] = []
    start = time.perf_counter()
    for t in range(options.epochs):
        print(f"Epoch {t + 1}\n-------------------------------")
        train_epoch(train_dataloader, model, loss_fn, optimizer, losses)
        evaluate(test_dataloader, model, loss_fn)
    print(f"Done! {options.epochs} epochs took {time.perf_counter() - start:.1f} s")

    path = options.out / "model.pth"
    torch.save(model.state_dict(), path)
    print(f"Saved PyTorch Model State to {path}")
    model = NeuralNetwork()
    model.load_state_dict(torch.load(path, weights_only=True))

    model.eval()
    x, y = test_data[0]
    with torch.no_grad():
        pred = model(x)
        predicted, actual = test_data.classes[pred[0].argmax(0)], test_data.classes[y]
        print(f'Predicted: "{predicted}", Actual: "{actual}"')
    draw(options.out / "demo.png", losses, test_data, model)


if __name__ == "__main__":
    main()
