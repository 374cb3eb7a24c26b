"""Transformers whose attention is within windows that shift from block to block (Liu et al., 2021 and 2022)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import rgrad
from rgrad import nn
from rgrad.vision.models._api import builder
from rgrad.vision.models._published import published
from rgrad.vision.models._utils import initialize
from rgrad.vision.ops.misc import MLP, Permute
from rgrad.vision.ops.stochastic_depth import StochasticDepth

__all__ = [
    "SwinTransformer",
    "Swin_B_Weights",
    "Swin_S_Weights",
    "Swin_T_Weights",
    "Swin_V2_B_Weights",
    "Swin_V2_S_Weights",
    "Swin_V2_T_Weights",
    "swin_b",
    "swin_s",
    "swin_t",
    "swin_v2_b",
    "swin_v2_s",
    "swin_v2_t",
]

_HIDDEN = -100.0  # added to the score of two pixels that are no neighbors


def _quarters(x: Any) -> Any:
    """The four pixels of each square of 2x2 side by side: (..., H, W, C) to (..., H/2, W/2, 4C), zeros at the end."""
    height, width = x.shape[-3], x.shape[-2]
    x = nn.functional.pad(x, (0, 0, 0, width % 2, 0, height % 2))
    return rgrad.cat([x[..., row::2, column::2, :] for column in (0, 1) for row in (0, 1)], -1)


class PatchMerging(nn.Module):
    """Twice as many channels at half the size.

    Args:
        dim: channels of the input.
        norm_layer: makes a normalization.
    """

    def __init__(self, dim: int, norm_layer: Callable[..., nn.Module] = nn.LayerNorm) -> None:
        super().__init__()
        self.dim = dim
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(4 * dim)

    def forward(self, x: Any) -> Any:
        """Maps (..., H, W, dim) to (..., H/2, W/2, 2 dim)."""
        return self.reduction(self.norm(_quarters(x)))


class PatchMergingV2(PatchMerging):
    """As `PatchMerging`, normalized after the linear layer."""

    def __init__(self, dim: int, norm_layer: Callable[..., nn.Module] = nn.LayerNorm) -> None:
        super().__init__(dim, norm_layer)
        self.norm = norm_layer(2 * dim)

    def forward(self, x: Any) -> Any:
        """Maps (..., H, W, dim) to (..., H/2, W/2, 2 dim)."""
        return self.norm(self.reduction(_quarters(x)))


def _windows(x: Any, window: Sequence[int]) -> Any:
    """(N, H, W, C) to (N · windows, pixels of a window, C)."""
    rows, columns = window
    count, height, width, channels = x.shape
    x = x.view(count, height // rows, rows, width // columns, columns, channels)
    return x.transpose(2, 3).reshape(-1, rows * columns, channels)


def _unwindowed(x: Any, window: Sequence[int], height: int, width: int) -> Any:
    """What `_windows` was made of."""
    rows, columns = window
    x = x.view(-1, height // rows, width // columns, rows, columns, x.shape[-1])
    return x.transpose(2, 3).reshape(-1, height, width, x.shape[-1])


def _separation(height: int, width: int, window: Sequence[int], shift: Sequence[int], like: Any) -> Any:
    """What is added to the scores within shifted windows: pixels that came from other sides of the image don't meet.

    Shape (windows, pixels, pixels).
    """
    region = like.new_zeros((height, width))
    for axis, size in enumerate((height, width)):
        place = rgrad.arange(size, device=like.device)
        part = (place >= size - window[axis]).to(like.dtype) + (place >= size - shift[axis]).to(like.dtype)
        # The second axis counts in threes, so that each pair of parts is a region of its own.
        region = region + (part.view(-1, 1) if axis == 0 else 3 * part)
    region = _windows(region.view(1, height, width, 1), window).squeeze(-1)
    apart = region.unsqueeze(1) != region.unsqueeze(2)
    return like.new_zeros(tuple(apart.shape)).masked_fill(apart, _HIDDEN)


def shifted_window_attention(
    input: Any,
    qkv_weight: Any,
    proj_weight: Any,
    relative_position_bias: Any,
    window_size: list[int],
    num_heads: int,
    shift_size: list[int],
    attention_dropout: float = 0.0,
    dropout: float = 0.0,
    qkv_bias: Any = None,
    proj_bias: Any = None,
    logit_scale: Any = None,
    training: bool = True,
) -> Any:
    """Self-attention within windows.

    Args:
        input: of shape (N, H, W, C).
        qkv_weight: of shape (3 C, C), for queries, keys and values.
        proj_weight: of shape (C, C), for the result.
        relative_position_bias: added to the scores, of shape (1, num_heads, pixels, pixels) for windows of `pixels`.
        window_size: height and width of a window.
        num_heads: number of heads.
        shift_size: by how much the windows are shifted.
        attention_dropout: the probability of dropping attention weights.
        dropout: that of dropping from the result.
        qkv_bias: of shape (3 C,).
        proj_bias: of shape (C,).
        logit_scale: of shape (num_heads, 1, 1): the scores are cosines times its exponential. None for dot products.
        training: whether something is dropped.

    Returns:
        A tensor of the input's shape.
    """
    count, rows, columns, channels = input.shape
    right, bottom = -columns % window_size[1], -rows % window_size[0]
    x = nn.functional.pad(input, (0, 0, 0, right, 0, bottom))
    height, width = rows + bottom, columns + right
    # One window that is as large as the image is not shifted.
    shift = [
        0 if window >= size else by for window, size, by in zip(window_size, (height, width), shift_size, strict=True)
    ]
    shifted = any(shift)
    if shifted:
        x = rgrad.roll(x, shifts=(-shift[0], -shift[1]), dims=(1, 2))
    x = _windows(x, window_size)
    if logit_scale is not None and qkv_bias is not None:
        # Keys have no bias where scores are cosines.
        keep = rgrad.ones_like(qkv_bias)
        keep[channels : 2 * channels] = 0
        qkv_bias = qkv_bias * keep
    pixels, size = x.shape[1], channels // num_heads
    qkv = nn.functional.linear(x, qkv_weight, qkv_bias).reshape(-1, pixels, 3, num_heads, size)
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    if logit_scale is None:
        scores = (q * size**-0.5) @ k.transpose(-2, -1)
    else:
        cosines = nn.functional.normalize(q, dim=-1) @ nn.functional.normalize(k, dim=-1).transpose(-2, -1)
        scores = cosines * logit_scale.clamp(max=math.log(100.0)).exp()
    scores = scores + relative_position_bias
    if shifted:
        apart = _separation(height, width, window_size, shift, x)
        scores = scores.view(count, len(apart), num_heads, pixels, pixels) + apart.unsqueeze(1)
        scores = scores.view(-1, num_heads, pixels, pixels)
    attention = nn.functional.dropout(scores.softmax(-1), p=attention_dropout, training=training)
    x = (attention @ v).transpose(1, 2).reshape(-1, pixels, channels)
    x = nn.functional.dropout(nn.functional.linear(x, proj_weight, proj_bias), p=dropout, training=training)
    x = _unwindowed(x, window_size, height, width)
    if shifted:
        x = rgrad.roll(x, shifts=(shift[0], shift[1]), dims=(1, 2))
    return x[:, :rows, :columns, :].contiguous()


def _relative_index(window: Sequence[int]) -> Any:
    """For each pair of pixels of a window the number of their relative position, in one row."""
    rows, columns = window
    pixels = [(row, column) for row in range(rows) for column in range(columns)]
    index = [(a[0] - b[0] + rows - 1) * (2 * columns - 1) + a[1] - b[1] + columns - 1 for a in pixels for b in pixels]
    return rgrad.tensor(index, device="cpu")


class ShiftedWindowAttention(nn.Module):
    """`shifted_window_attention` with a learned bias for each relative position.

    Args:
        dim: channels.
        window_size: height and width of a window.
        shift_size: by how much the windows are shifted.
        num_heads: number of heads.
        qkv_bias: whether queries, keys and values have a bias.
        proj_bias: whether the result has one.
        attention_dropout: the probability of dropping attention weights.
        dropout: that of dropping from the result.
    """

    def __init__(
        self,
        dim: int,
        window_size: list[int],
        shift_size: list[int],
        num_heads: int,
        qkv_bias: bool = True,
        proj_bias: bool = True,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if len(window_size) != 2 or len(shift_size) != 2:
            raise ValueError("window_size and shift_size must be of length 2")
        self.window_size, self.shift_size, self.num_heads = window_size, shift_size, num_heads
        self.attention_dropout, self.dropout = attention_dropout, dropout
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim, bias=proj_bias)
        self.define_relative_position_bias_table()
        self.define_relative_position_index()

    def define_relative_position_bias_table(self) -> None:
        """Adds what the bias is computed from."""
        positions = math.prod(2 * size - 1 for size in self.window_size)
        self.relative_position_bias_table = nn.Parameter(rgrad.zeros(positions, self.num_heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def define_relative_position_index(self) -> None:
        """Adds the index of each pair of pixels in the table."""
        self.register_buffer("relative_position_index", _relative_index(self.window_size))

    def get_relative_position_bias(self) -> Any:
        """The bias, of shape (1, num_heads, pixels, pixels)."""
        return self._bias_from(self.relative_position_bias_table)

    def _bias_from(self, table: Any) -> Any:
        pixels = math.prod(self.window_size)
        pairs = table[self.relative_position_index].view(pixels, pixels, -1)
        return pairs.permute(2, 0, 1).contiguous().unsqueeze(0)

    def forward(self, x: Any, logit_scale: Any = None) -> Any:
        """Maps (N, H, W, dim) to the same shape."""
        return shifted_window_attention(
            x,
            self.qkv.weight,
            self.proj.weight,
            self.get_relative_position_bias(),
            self.window_size,
            self.num_heads,
            shift_size=self.shift_size,
            attention_dropout=self.attention_dropout,
            dropout=self.dropout,
            qkv_bias=self.qkv.bias,
            proj_bias=self.proj.bias,
            logit_scale=logit_scale,
            training=self.training,
        )


class ShiftedWindowAttentionV2(ShiftedWindowAttention):
    """Attention by cosines, with a bias that a small network computes of the logarithm of the relative position."""

    def __init__(
        self, dim: int, window_size: list[int], shift_size: list[int], num_heads: int, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(dim, window_size, shift_size, num_heads, *args, **kwargs)
        self.logit_scale = nn.Parameter(rgrad.log(10 * rgrad.ones((num_heads, 1, 1))))
        self.cpb_mlp = nn.Sequential(
            nn.Linear(2, 512, bias=True), nn.ReLU(inplace=True), nn.Linear(512, num_heads, bias=False)
        )

    def define_relative_position_bias_table(self) -> None:
        """Adds the relative positions as the small network gets them."""
        axes = [rgrad.arange(1 - size, size, dtype=rgrad.float32) / (size - 1) * 8 for size in self.window_size]
        table = rgrad.stack(rgrad.meshgrid(axes, indexing="ij"), -1).unsqueeze(0)
        self.register_buffer("relative_coords_table", table.sign() * (table.abs() + 1.0).log2() / 3.0)

    def get_relative_position_bias(self) -> Any:
        """The bias, of shape (1, num_heads, pixels, pixels)."""
        return 16 * self._bias_from(self.cpb_mlp(self.relative_coords_table).view(-1, self.num_heads)).sigmoid()

    def forward(self, x: Any, logit_scale: Any = None) -> Any:
        """Maps (N, H, W, dim) to the same shape."""
        return super().forward(x, self.logit_scale)


class SwinTransformerBlock(nn.Module):
    """Attention and two linear layers, each after a normalization and with a way around it.

    Args:
        dim: channels.
        num_heads: heads of the attention.
        window_size: height and width of a window.
        shift_size: by how much the windows are shifted.
        mlp_ratio: size between the linear layers, as a multiple of `dim`.
        dropout: the probability of dropping.
        attention_dropout: that of dropping attention weights.
        stochastic_depth_prob: that of leaving out a part in training.
        norm_layer: makes a normalization.
        attn_layer: makes the attention.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        window_size: list[int],
        shift_size: list[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        norm_layer: Callable[..., nn.Module] = nn.LayerNorm,
        attn_layer: Callable[..., nn.Module] = ShiftedWindowAttention,
    ) -> None:
        super().__init__()
        drops = {"attention_dropout": attention_dropout, "dropout": dropout}
        self.norm1 = norm_layer(dim)
        self.attn = attn_layer(dim, window_size, shift_size, num_heads, **drops)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.norm2 = norm_layer(dim)
        sizes = [int(dim * mlp_ratio), dim]
        self.mlp = MLP(dim, sizes, activation_layer=nn.GELU, inplace=None, dropout=dropout)
        for layer in (self.mlp[0], self.mlp[3]):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.normal_(layer.bias, std=1e-6)

    def forward(self, x: Any) -> Any:
        """Maps (N, H, W, dim) to the same shape."""
        x = x + self.stochastic_depth(self.attn(self.norm1(x)))
        return x + self.stochastic_depth(self.mlp(self.norm2(x)))


class SwinTransformerBlockV2(SwinTransformerBlock):
    """As `SwinTransformerBlock`, with the normalizations after the parts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("attn_layer", ShiftedWindowAttentionV2)
        super().__init__(*args, **kwargs)

    def forward(self, x: Any) -> Any:
        """Maps (N, H, W, dim) to the same shape."""
        x = x + self.stochastic_depth(self.norm1(self.attn(x)))
        return x + self.stochastic_depth(self.norm2(self.mlp(x)))


class SwinTransformer(nn.Module):
    """A Swin transformer.

    Args:
        patch_size: height and width of a patch.
        embed_dim: channels of the first stage; each later one has twice as many.
        depths: blocks of each stage.
        num_heads: heads of each stage.
        window_size: height and width of a window.
        mlp_ratio: size between linear layers, as a multiple of the channels.
        dropout: the probability of dropping.
        attention_dropout: that of dropping attention weights.
        stochastic_depth_prob: that of leaving out the last block; it rises linearly from 0 at the first.
        num_classes: number of outputs.
        norm_layer: makes a normalization; `LayerNorm` by default.
        block: makes a block; `SwinTransformerBlock` by default.
        downsample_layer: makes what joins patches between stages.
    """

    def __init__(
        self,
        patch_size: list[int],
        embed_dim: int,
        depths: list[int],
        num_heads: list[int],
        window_size: list[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.1,
        num_classes: int = 1000,
        norm_layer: Callable[..., nn.Module] | None = None,
        block: Callable[..., nn.Module] | None = None,
        downsample_layer: Callable[..., nn.Module] = PatchMerging,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        make, norm = block or SwinTransformerBlock, norm_layer or functools.partial(nn.LayerNorm, eps=1e-5)
        patch = (patch_size[0], patch_size[1])
        stem = nn.Conv2d(3, embed_dim, kernel_size=patch, stride=patch)
        layers: list[nn.Module] = [nn.Sequential(stem, Permute([0, 2, 3, 1]), norm(embed_dim))]
        last, done, width = sum(depths) - 1, 0, embed_dim
        for stage, (depth, heads) in enumerate(zip(depths, num_heads, strict=True)):
            if stage:
                layers.append(downsample_layer(width, norm))
                width *= 2
            blocks: list[nn.Module] = []
            for place in range(depth):
                # Every second block has shifted windows.
                shift = [size // 2 if place % 2 else 0 for size in window_size]
                chance = stochastic_depth_prob * float(done) / last
                more = (mlp_ratio, dropout, attention_dropout, chance)
                blocks.append(make(width, heads, window_size, shift, *more, norm_layer=norm))
                done += 1
            layers.append(nn.Sequential(*blocks))
        self.features = nn.Sequential(*layers)
        self.norm = norm(width)
        self.permute = Permute([0, 3, 1, 2])
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten(1)
        self.head = nn.Linear(width, num_classes)
        initialize(self, linear=functools.partial(nn.init.trunc_normal_, std=0.02), norm=False)

    def forward(self, x: Any) -> Any:
        """Maps shape (N, 3, H, W) to (N, num_classes)."""
        x = self.permute(self.norm(self.features(x)))
        return self.head(self.flatten(self.avgpool(x)))


def _make(width: int, deep: int, heads: int, drop: float, second: bool, **kwargs: Any) -> SwinTransformer:
    window = 8 if second else 7
    if second:
        kwargs.update(block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2)
    return SwinTransformer(
        [4, 4],
        width,
        [2, 2, deep, 2],
        [heads << stage for stage in range(4)],
        [window, window],
        stochastic_depth_prob=kwargs.pop("stochastic_depth_prob", drop),
        **kwargs,
    )


# Channels of the first stage, blocks of the third, heads of the first, probability of leaving out the last block.
_SIZES = {"t": (96, 6, 3, 0.2), "s": (96, 18, 3, 0.3), "b": (128, 18, 4, 0.5)}


def _network(name: str, enum: Any) -> Any:
    second = "_v2_" in name
    make = functools.partial(_make, *_SIZES[name[-1]], second)
    return builder(name, enum, make, f"Swin{'V2' * second}-{name[-1].upper()}.")


Swin_T_Weights, Swin_V2_T_Weights = published("Swin_T", __name__), published("Swin_V2_T", __name__)
Swin_S_Weights, Swin_V2_S_Weights = published("Swin_S", __name__), published("Swin_V2_S", __name__)
Swin_B_Weights, Swin_V2_B_Weights = published("Swin_B", __name__), published("Swin_V2_B", __name__)
swin_t, swin_v2_t = _network("swin_t", Swin_T_Weights), _network("swin_v2_t", Swin_V2_T_Weights)
swin_s, swin_v2_s = _network("swin_s", Swin_S_Weights), _network("swin_v2_s", Swin_V2_S_Weights)
swin_b, swin_v2_b = _network("swin_b", Swin_B_Weights), _network("swin_v2_b", Swin_V2_B_Weights)
