"""Two convolutional networks that compete: one invents Fashion-MNIST pictures, the other tells them from real ones.

    python examples/dcgan.py [--small] [--device gpu]

The layers follow Radford, Metz and Chintala, 2015, for pictures of 28 by 28.
"""

from __future__ import annotations

from typing import Any

import common

import rgrad as torch
from rgrad import nn
from rgrad.utils.data import DataLoader, TensorDataset


def generator(latent: int, width: int) -> nn.Sequential:
    """Shape (N, latent, 1, 1) to pictures of shape (N, 1, 28, 28) between -1 and 1."""
    return nn.Sequential(
        nn.ConvTranspose2d(latent, 2 * width, 7, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1),
        nn.Tanh(),
    )


def discriminator(width: int) -> nn.Sequential:
    """Pictures of shape (N, 1, 28, 28) to logits of shape (N, 1)."""
    return nn.Sequential(
        nn.Conv2d(1, width, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(width, 2 * width, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(2 * width * 7 * 7, 1),
    )


def start_small(module: nn.Module) -> None:
    """The initialization of the paper: normal weights, of deviation 0.02."""
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
        nn.init.normal_(module.weight, std=0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, mean=1.0, std=0.02)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Trains and draws; returns the losses of both, samples and the picture's path."""
    args = common.options(__doc__, argv, epochs=(30, 5), pictures=(2000, 512), width=(32, 8), batch=(64, 64))
    latent = 32
    pictures = common.fashion_mnist(train=True, count=args.pictures)[0] * 2 - 1
    loader = DataLoader(TensorDataset(pictures), batch_size=args.batch, shuffle=True, drop_last=True)
    G = generator(latent, args.width).apply(start_small).to(args.device)  # noqa: N806
    D = discriminator(args.width).apply(start_small).to(args.device)  # noqa: N806
    optimizers = {net: torch.optim.Adam(net.parameters(), lr=1e-3, betas=(0.5, 0.999)) for net in (G, D)}
    loss_fn = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(args.batch, 1, device=args.device), torch.zeros(args.batch, 1, device=args.device)
    history: dict[str, list[float]] = {"generator": [], "discriminator": []}
    bar = common.Progress(range(args.epochs), unit="epoch")
    for _ in bar:
        for (batch,) in loader:
            real = batch.to(args.device)
            fake = G(torch.randn(len(real), latent, 1, 1, device=args.device))
            loss_d = loss_fn(D(real), ones) + loss_fn(D(fake.detach()), zeros)
            optimizers[D].zero_grad()
            loss_d.backward()
            optimizers[D].step()

            loss_g = loss_fn(D(fake), ones)
            optimizers[G].zero_grad()
            loss_g.backward()
            optimizers[G].step()
            history["generator"].append(loss_g.item())
            history["discriminator"].append(loss_d.item())
        bar.show(generator=history["generator"][-1], discriminator=history["discriminator"][-1])

    with torch.no_grad():
        samples = G(torch.randn(48, latent, 1, 1, device=args.device)).cpu()

    def draw(axes: Any) -> None:
        axes[0].imshow(common.tiles(samples, 8).numpy(), cmap="gray", vmin=-1, vmax=1)
        axes[0].set(title="invented pictures", xticks=[], yticks=[])
        for name, losses in history.items():
            axes[1].plot(losses, label=name)
        axes[1].set(title="losses", xlabel="step")
        axes[1].legend()

    picture = common.figure(args.out / "dcgan.png", draw, ncols=2, figsize=(10, 4.5))
    return {**history, "real": pictures, "samples": samples, "picture": picture}


if __name__ == "__main__":
    main()
