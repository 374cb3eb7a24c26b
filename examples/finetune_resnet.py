"""What a network has learnt from some classes helps it with others: ResNet-18 fine-tuned on few pictures.

    python examples/finetune_resnet.py [--small] [--weights FILE] [--device gpu]

The network learns the first five classes of Fashion-MNIST. Then its last layer is replaced, and it learns the other
five from few pictures, beside a network that begins with random weights. `--weights` takes a file of weights of
torchvision's resnet18 in the place of the first part.
"""

from __future__ import annotations

from typing import Any

import common

import rgrad as torch
import rgrad.nn.functional as F  # noqa: N812
from rgrad import nn
from rgrad.utils.data import DataLoader, TensorDataset
from rgrad.vision.models import resnet18


def classes(first: int, train: bool, count: int) -> TensorDataset:
    """Pictures of five classes, from `first` on, in color and normalized; the classes are numbered from 0."""
    pictures, labels = common.fashion_mnist(train, 2000)
    chosen = ((labels >= first) & (labels < first + 5)).nonzero()[:count, 0]
    x = (pictures[chosen] - 0.286) / 0.353  # the mean and the deviation of the data set
    return TensorDataset(x.expand(-1, 3, -1, -1).contiguous(), labels[chosen] - first)


def accuracy(model: nn.Module, data: TensorDataset, device: str) -> float:
    """The share of pictures whose class is found."""
    model.eval()
    with torch.no_grad():
        right = [(model(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in DataLoader(data, 250)]
    return sum(right) / len(data)


def train(
    model: nn.Module, data: TensorDataset, test: TensorDataset, epochs: int, device: str, what: str
) -> tuple[list[float], list[float]]:
    """The mean loss and the accuracy on the test pictures after each epoch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    losses, scores = [], []
    bar = common.Progress(range(epochs), unit="epoch", desc=what)
    for _ in bar:
        model.train()
        total = 0.0
        for x, y in DataLoader(data, batch_size=32, shuffle=True):
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
        losses.append(total / len(data))
        scores.append(accuracy(model, test, device))
        bar.show(loss=losses[-1], accuracy=scores[-1])
    return losses, scores


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Trains three times; returns the losses and accuracies and the figure's path."""
    args = common.options(
        __doc__, argv, "weights", epochs=(8, 2), pictures=(1000, 160), few=(100, 64), tests=(500, 100)
    )
    model = resnet18().to(args.device)
    results: dict[str, Any] = {}
    if args.weights:
        model.load_state_dict(torch.load(args.weights, map_location=args.device, weights_only=True))
    else:
        model.fc = nn.Linear(model.fc.in_features, 5).to(args.device)
        first = classes(0, True, args.pictures), classes(0, False, args.tests)
        results["first classes"] = train(model, *first, args.epochs, args.device, "first classes")

    few, test = classes(5, True, args.few), classes(5, False, args.tests)
    model.fc = nn.Linear(model.fc.in_features, 5).to(args.device)
    results["fine-tuned"] = train(model, few, test, args.epochs, args.device, "fine-tuned   ")
    fresh = resnet18(num_classes=5).to(args.device)
    results["from scratch"] = train(fresh, few, test, args.epochs, args.device, "from scratch ")

    def draw(axes: Any) -> None:
        for name in ("fine-tuned", "from scratch"):
            axes.plot(range(1, args.epochs + 1), results[name][1], marker="o", label=name)
        axes.set(title=f"Five new classes, {len(few)} pictures", xlabel="epoch", ylabel="accuracy", ylim=(0, 1))
        axes.legend()

    return {**results, "picture": common.figure(args.out / "finetune_resnet.png", draw)}


if __name__ == "__main__":
    main()
