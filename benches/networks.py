"""Networks for measurements, with the sizes of their papers: ResNets, MobileNet v2 and a small vision transformer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def networks(torch: Any) -> dict[str, Callable[[], Any]]:
    """What makes each network, in the package that is given."""
    nn, F = torch.nn, torch.nn.functional

    def conv(c_in: int, c_out: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
        return [
            nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(c_out),
        ]

    class Residual(nn.Module):
        """The sum of a branch and a shortcut, with a ReLU behind it."""

        def __init__(self, c_in: int, c_out: int, stride: int, branch: list[Any]) -> None:
            super().__init__()
            self.branch = nn.Sequential(*branch)
            same = stride == 1 and c_in == c_out
            self.shortcut = nn.Identity() if same else nn.Sequential(*conv(c_in, c_out, 1, stride))

        def forward(self, x: Any) -> Any:
            y = self.branch(x)
            y += self.shortcut(x)
            return F.relu(y, inplace=True)

    def basic(c_in: int, width: int, stride: int) -> Residual:
        branch = [*conv(c_in, width, 3, stride), nn.ReLU(inplace=True), *conv(width, width, 3)]
        return Residual(c_in, width, stride, branch)

    def bottleneck(c_in: int, width: int, stride: int) -> Residual:
        first, second = conv(c_in, width, 1), conv(width, width, 3, stride)
        branch = [*first, nn.ReLU(inplace=True), *second, nn.ReLU(inplace=True), *conv(width, 4 * width, 1)]
        return Residual(c_in, 4 * width, stride, branch)

    def resnet(block: Callable[[int, int, int], Residual], growth: int, depths: tuple[int, ...]) -> Any:
        layers = [*conv(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        channels = 64
        for stage, depth in enumerate(depths):
            width = 64 << stage
            for i in range(depth):
                layers.append(block(channels, width, 2 if stage > 0 and i == 0 else 1))
                channels = growth * width
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))

    class Inverted(nn.Module):
        """A wide depthwise convolution between two narrow ends."""

        def __init__(self, c_in: int, c_out: int, stride: int, factor: int) -> None:
            super().__init__()
            wide = c_in * factor
            widen = [*conv(c_in, wide, 1), nn.ReLU6(inplace=True)] if factor > 1 else []
            narrow = conv(wide, c_out, 1)
            self.branch = nn.Sequential(
                *widen, *conv(wide, wide, 3, stride, wide), nn.ReLU6(inplace=True), *narrow
            )
            self.shortcut = stride == 1 and c_in == c_out

        def forward(self, x: Any) -> Any:
            return x + self.branch(x) if self.shortcut else self.branch(x)

    def mobilenet() -> Any:
        layers, channels = [*conv(3, 32, 3, 2), nn.ReLU6(inplace=True)], 32
        stages = [
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
        ]  # fmt: skip
        for factor, width, depth, stride in stages:
            for i in range(depth):
                layers.append(Inverted(channels, width, stride if i == 0 else 1, factor))
                channels = width
        layers += [*conv(channels, 1280, 1), nn.ReLU6(inplace=True)]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))

    class Vision(nn.Module):
        """A transformer over patches of 16 × 16."""

        def __init__(self, width: int = 192, heads: int = 3, depth: int = 12) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, 16)
            self.token = nn.Parameter(torch.zeros(1, 1, width))
            self.places = nn.Parameter(torch.zeros(1, 197, width))
            options = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": True}
            self.blocks = nn.Sequential(
                *(nn.TransformerEncoderLayer(width, heads, 4 * width, **options) for _ in range(depth))
            )
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
            return self.head(self.norm(self.blocks(x))[:, 0])

    return {
        "ResNet-18": lambda: resnet(basic, 1, (2, 2, 2, 2)),
        "ResNet-50": lambda: resnet(bottleneck, 4, (3, 4, 6, 3)),
        "MobileNet v2": mobilenet,
        "ViT-tiny": Vision,
    }
