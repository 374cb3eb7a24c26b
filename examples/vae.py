"""A variational autoencoder of Fashion-MNIST pictures (Kingma and Welling, 2013).

    python examples/vae.py [--small] [--device gpu]

Draws test pictures, their reconstructions, and pictures that nobody has worn.
"""

from __future__ import annotations

from typing import Any

import common

import rgrad as torch
import rgrad.nn.functional as F  # noqa: N812
from rgrad import nn
from rgrad.utils.data import DataLoader, TensorDataset


class VAE(nn.Module):
    """Encodes a picture as a normal distribution over a few numbers, and decodes samples of it."""

    def __init__(self, latent: int = 16, width: int = 256) -> None:
        super().__init__()
        self.latent = latent
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(784, width), nn.ReLU(), nn.Linear(width, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, 784))

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        """Shape (N, latent) to logits of pixels of shape (N, 1, 28, 28)."""
        return self.decoder(z).view(-1, 1, 28, 28)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The logits of the reconstruction, and the mean and the logarithm of the variance of the code."""
        mean, log_var = self.encoder(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (log_var / 2).exp()
        return self.decode(z), mean, log_var


def negative_elbo(logits: torch.Tensor, x: torch.Tensor, mean: torch.Tensor, log_var: torch.Tensor) -> torch.Tensor:
    """Per picture: the cross entropy of the pixels plus KL(N(mean, var) || N(0, 1))."""
    pixels = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = -0.5 * (1 + log_var - mean**2 - log_var.exp()).sum()
    return (pixels + divergence) / len(x)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Trains and draws; returns the mean losses of the epochs and the picture's path."""
    args = common.options(__doc__, argv, epochs=(60, 3), pictures=(2000, 512), batch=(64, 64))
    pictures, _ = common.fashion_mnist(train=True, count=args.pictures)
    loader = DataLoader(TensorDataset(pictures), batch_size=args.batch, shuffle=True)
    model = VAE().to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses: list[float] = []
    bar = common.Progress(range(args.epochs), unit="epoch")
    for _ in bar:
        total = 0.0
        for (batch,) in loader:
            x = batch.to(args.device)
            logits, mean, log_var = model(x)
            loss = negative_elbo(logits, x, mean, log_var)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
        losses.append(total / len(pictures))
        bar.show(loss=losses[-1])

    model.eval()
    with torch.no_grad():
        test = common.fashion_mnist(train=False, count=12)[0].to(args.device)
        copies = model(test)[0].sigmoid()
        invented = model.decode(torch.randn(36, model.latent, device=args.device)).sigmoid()
    parts = [("test pictures", test), ("their reconstructions", copies), ("samples", invented)]

    def draw(axes: Any) -> None:
        for ax, (title, shown) in zip(axes, parts, strict=True):
            ax.imshow(common.tiles(shown, 12).numpy(), cmap="gray", vmin=0, vmax=1)
            ax.set(title=title, xticks=[], yticks=[])

    picture = common.figure(
        args.out / "vae.png", draw, nrows=3, figsize=(8, 4.5), gridspec_kw={"height_ratios": [1, 1, 3]}
    )
    return {"losses": losses, "samples": invented, "picture": picture}


if __name__ == "__main__":
    main()
