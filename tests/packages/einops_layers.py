"""einops: arrangements, and the layers made of them."""

import torch
from _values import fill, total, wave
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import Rearrange, Reduce


def main():
    x = wave(2, 3, 8, 8)
    patches = rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4)
    packed, shapes = pack([x[:, 0], x[:, 1:]], "b * h w")
    net = fill(
        torch.nn.Sequential(
            Rearrange("b c (h p) (w q) -> b h w (p q c)", p=4, q=4),
            torch.nn.Linear(48, 5),
            Reduce("b h w c -> b c", "mean"),
        )
    )
    made = net(x)
    made.sum().backward()
    return {
        "patches": patches.flatten()[::13].tolist(),
        "pooled": reduce(x, "b c (h p) (w q) -> b c h w", "max", p=4, q=4).flatten().tolist(),
        "repeated": repeat(x[0, 0, 0], "w -> h w", h=2).tolist(),
        "product": einsum(x, x, "b c h w, b d h w -> b c d").flatten().tolist(),
        "packed": list(packed.shape),
        "unpacked": [list(part.shape) for part in unpack(packed, shapes, "b * h w")],
        "layers": made.flatten().tolist(),
        "grad": total(net[1].weight.grad),
    }
