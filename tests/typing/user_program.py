"""A program as a user writes it, with types: `make lint` checks it in pyright's strict mode, and the tests run it."""
# pyright: strict

from __future__ import annotations

from collections.abc import Iterator

import rgrad as torch
import rgrad.nn.functional as F  # noqa: N812
from rgrad import Tensor, nn
from rgrad.utils.data import DataLoader, Dataset, TensorDataset


class Squares(Dataset[tuple[Tensor, Tensor]]):
    """Numbers and their squares."""

    def __init__(self, count: int) -> None:
        self.x = torch.linspace(-1, 1, count).unsqueeze(1)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.x[index] ** 2


class Net(nn.Module):
    """Two layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(1, width)
        self.out = nn.Linear(width, 1)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.hidden(x))
        return self.out(h) * self.scale


def learning_rates(optimizer: torch.optim.Optimizer) -> Iterator[float]:
    """The rate of each group."""
    for group in optimizer.param_groups:
        yield group["lr"]


def train(net: Net, epochs: int) -> list[float]:
    """The losses."""
    loader = DataLoader(Squares(64), batch_size=16, shuffle=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, betas=(0.9, 0.99))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)
    losses: list[float] = []
    for _ in range(epochs):
        for x, y in loader:
            loss: Tensor = F.mse_loss(net(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
    return losses


def main() -> dict[str, object]:
    """Trains, and uses what a program uses."""
    torch.manual_seed(0)
    device = torch.device("cpu")
    net = Net(16).to(device)
    losses = train(net, 20)
    with torch.no_grad():
        y: Tensor = net(torch.zeros(3, 1, device=device))
    values, indices = torch.topk(y.flatten(), k=2)
    total: Tensor = sum((p.detach().square().sum() for p in net.parameters()), torch.zeros(()))
    shape: tuple[int, ...] = tuple(torch.cat([values, indices.float()]).shape)
    state = net.state_dict()
    names = [name for name, _ in net.named_parameters()]
    weights: list[Tensor] = [p.grad for p in net.parameters() if p.grad is not None]
    grid = torch.stack(torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij"))
    mask = (grid > 0) & ~(grid == 2)
    count = int(mask.sum().item())
    first = TensorDataset(grid[0], grid[1])[0]
    (slope,) = torch.autograd.grad(net(torch.ones(1, 1)).sum(), [net.scale])
    sequence = nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.Softmax(dim=-1))
    chosen: Tensor = sequence(torch.rand(5, 2, 2)).argmax(dim=1)
    return {
        "losses": losses,
        "total": total.item(),
        "shape": shape,
        "names": names,
        "keys": list(state),
        "gradients": len(weights),
        "count": count,
        "first": first,
        "slope": slope.shape,
        "chosen": chosen.tolist(),
        "max": float(values.max()),
        "half": y.to(torch.float16).dtype,
        "rates": list(learning_rates(torch.optim.SGD(net.parameters(), lr=0.1))),
    }


if __name__ == "__main__":
    print(main())
