"""A transformer that writes text character by character (the architecture of GPT-2, small).

    python examples/char_gpt.py [--small] [--text FILE] [--device gpu]

It learns from a text file, or from the source of some of Python's own modules, and then writes 400 characters. Without
`--small` it takes some minutes on a processor.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import textwrap
from typing import Any

import common

import rgrad as torch
import rgrad.nn.functional as F  # noqa: N812
from rgrad import nn


class Block(nn.Module):
    """Causal self-attention and a feed-forward network, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (batch, time, width) to the same."""
        batch, time, width = x.shape
        q, k, v = (
            part.view(batch, time, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, time, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Scores of the next character at every position."""

    def __init__(self, characters: int, context: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.context = context
        self.characters = nn.Embedding(characters, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters, bias=False)
        self.head.weight = self.characters.weight  # tied
        for embedding in (self.characters, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Characters of shape (batch, time) to scores of shape (batch, time, characters)."""
        places = torch.arange(x.shape[1], device=x.device)
        return self.head(self.norm(self.blocks(self.characters(x) + self.positions(places))))

    @torch.no_grad()
    def generate(self, x: torch.Tensor, count: int, temperature: float = 0.8) -> torch.Tensor:
        """Appends sampled characters to a text of shape (1, time)."""
        for _ in range(count):
            scores = self(x[:, -self.context :])[:, -1] / temperature
            x = torch.cat([x, torch.multinomial(scores.softmax(-1), 1)], dim=1)
        return x


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Trains and writes; returns the losses, the text and the figure's path."""
    args = common.options(
        __doc__, argv, "text", steps=(1500, 60), width=(128, 32), layers=(4, 2), context=(128, 32), batch=(32, 16)
    )
    text = args.text.read_text(encoding="utf-8") if args.text else _source()
    alphabet = sorted(set(text))
    index = {c: i for i, c in enumerate(alphabet)}
    data = torch.tensor([index[c] for c in text])
    print(f"{len(text):,} characters, {len(alphabet)} different ones")

    model = GPT(len(alphabet), args.context, args.width, heads=4, layers=args.layers).to(args.device)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=args.steps, pct_start=0.1)
    span = torch.arange(args.context + 1)
    losses: list[float] = []
    bar = common.Progress(range(args.steps), unit="step")
    for _ in bar:
        starts = torch.randint(len(data) - args.context - 1, (args.batch, 1))
        batch = data[starts + span].to(args.device)
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        bar.show(loss=losses[-1])

    model.eval()
    start = data[:1].view(1, 1).to(args.device)
    written = "".join(alphabet[i] for i in model.generate(start, 60 if args.small else 400)[0].tolist())
    print(textwrap.indent(written, "  | ", lambda line: True))

    def draw(axes: Any) -> None:
        axes.plot(losses)
        axes.set(title="Loss of the next character", xlabel="step", ylabel="cross entropy (nats)")

    return {"losses": losses, "text": written, "picture": common.figure(args.out / "char_gpt.png", draw)}


def _source() -> str:
    """Text that every machine has."""
    return "".join(inspect.getsource(module) for module in (argparse, difflib, inspect, textwrap))


if __name__ == "__main__":
    main()
