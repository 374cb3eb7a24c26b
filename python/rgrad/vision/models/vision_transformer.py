"""Transformers of the patches of an image (Dosovitskiy et al., 2020)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import rgrad
from rgrad import nn
from rgrad.vision.models._api import builder
from rgrad.vision.models._published import published
from rgrad.vision.ops.misc import MLP, Conv2dNormActivation

__all__ = [
    "ViT_B_16_Weights",
    "ViT_B_32_Weights",
    "ViT_H_14_Weights",
    "ViT_L_16_Weights",
    "ViT_L_32_Weights",
    "VisionTransformer",
    "vit_b_16",
    "vit_b_32",
    "vit_h_14",
    "vit_l_16",
    "vit_l_32",
]

_NORM = functools.partial(nn.LayerNorm, eps=1e-6)


class ConvStemConfig(NamedTuple):
    """A convolution of the stem that may precede the patches, as of `Conv2dNormActivation`."""

    out_channels: int
    kernel_size: int
    stride: int
    norm_layer: Callable[..., nn.Module] = nn.BatchNorm2d
    activation_layer: Callable[..., nn.Module] = nn.ReLU


class MLPBlock(MLP):
    """The two linear layers of a block.

    Args:
        in_dim: size of the input's and of the result's last dimension.
        mlp_dim: size between.
        dropout: the probability of dropping after each layer.
    """

    _version = 2

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__(in_dim, [mlp_dim, in_dim], activation_layer=nn.GELU, inplace=None, dropout=dropout)
        for layer in (self[0], self[3]):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.normal_(layer.bias, std=1e-6)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        # The published files name the layers, which are the elements 0 and 3 here.
        for old, new in (("linear_1", 0), ("linear_2", 3)):
            for kind in ("weight", "bias"):
                if f"{prefix}{old}.{kind}" in state_dict:
                    state_dict[f"{prefix}{new}.{kind}"] = state_dict.pop(f"{prefix}{old}.{kind}")
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class EncoderBlock(nn.Module):
    """Self-attention and two linear layers, each after a normalization and with a way around it.

    Args:
        num_heads: heads of the attention.
        hidden_dim: size of the last dimension.
        mlp_dim: size between the linear layers.
        dropout: the probability of dropping after each part.
        attention_dropout: that of dropping attention weights.
        norm_layer: makes a normalization.
    """

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Callable[..., nn.Module] = _NORM,
    ) -> None:
        super().__init__()
        attention = nn.MultiheadAttention(hidden_dim, num_heads, dropout=attention_dropout, batch_first=True)
        self.num_heads, self.ln_1 = num_heads, norm_layer(hidden_dim)
        self.self_attention, self.dropout = attention, nn.Dropout(dropout)
        self.ln_2, self.mlp = norm_layer(hidden_dim), MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Any) -> Any:
        """Maps (N, length, hidden_dim) to the same shape."""
        rgrad._assert(input.dim() == 3, f"Expected (batch_size, seq_length, hidden_dim) got {input.shape}")
        x = self.ln_1(input)
        attended, _ = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(attended) + input
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Position embeddings and blocks.

    Args:
        seq_length: number of tokens.
        num_layers: number of blocks.
        num_heads: heads of the attention.
        hidden_dim: size of the last dimension.
        mlp_dim: size between the linear layers of a block.
        dropout: the probability of dropping.
        attention_dropout: that of dropping attention weights.
        norm_layer: makes a normalization.
    """

    def __init__(
        self,
        seq_length: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: Callable[..., nn.Module] = _NORM,
    ) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(rgrad.empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential()
        for place in range(num_layers):
            block = EncoderBlock(num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer)
            self.layers.add_module(f"encoder_layer_{place}", block)
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Any) -> Any:
        """Maps (N, seq_length, hidden_dim) to the same shape."""
        rgrad._assert(input.dim() == 3, f"Expected (batch_size, seq_length, hidden_dim) got {input.shape}")
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """A transformer of an image's patches and a token for the class.

    Args:
        image_size: edge of the image.
        patch_size: edge of a patch, which divides that of the image.
        num_layers: number of blocks.
        num_heads: heads of the attention.
        hidden_dim: size of a token.
        mlp_dim: size between the linear layers of a block.
        dropout: the probability of dropping.
        attention_dropout: that of dropping attention weights.
        num_classes: number of outputs.
        representation_size: size of a layer before the last; None for no such layer.
        norm_layer: makes a normalization.
        conv_stem_configs: convolutions that make the tokens; None for one convolution of the patches.
    """

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: Callable[..., nn.Module] = _NORM,
        conv_stem_configs: list[ConvStemConfig] | None = None,
    ) -> None:
        super().__init__()
        rgrad._assert(image_size % patch_size == 0, "Input shape indivisible by patch size!")
        self.image_size, self.patch_size = image_size, patch_size
        self.hidden_dim, self.mlp_dim = hidden_dim, mlp_dim
        self.dropout, self.attention_dropout = dropout, attention_dropout
        self.num_classes, self.representation_size = num_classes, representation_size
        self.norm_layer = norm_layer
        self.conv_proj = _projection(patch_size, hidden_dim, conv_stem_configs)
        self.seq_length = (image_size // patch_size) ** 2 + 1
        self.class_token = nn.Parameter(rgrad.zeros(1, 1, hidden_dim))
        self.encoder = Encoder(
            self.seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer
        )
        self.heads = nn.Sequential()
        if representation_size is not None:
            self.heads.add_module("pre_logits", nn.Linear(hidden_dim, representation_size))
            self.heads.add_module("act", nn.Tanh())
        self.heads.add_module("head", nn.Linear(representation_size or hidden_dim, num_classes))
        self._initialize()

    def _initialize(self) -> None:
        last: Any = self.conv_proj if isinstance(self.conv_proj, nn.Conv2d) else self.conv_proj.conv_last
        if last is self.conv_proj:
            fan_in = last.in_channels * last.kernel_size[0] * last.kernel_size[1]
            nn.init.trunc_normal_(last.weight, std=math.sqrt(1 / fan_in))
        else:
            nn.init.normal_(last.weight, mean=0.0, std=math.sqrt(2.0 / last.out_channels))
        nn.init.zeros_(last.bias)
        if self.representation_size is not None:
            before = self.heads.pre_logits
            nn.init.trunc_normal_(before.weight, std=math.sqrt(1 / before.in_features))
            nn.init.zeros_(before.bias)
        nn.init.zeros_(self.heads.head.weight)
        nn.init.zeros_(self.heads.head.bias)

    def _process_input(self, x: Any) -> Any:
        """The tokens of an image, (N, patches, hidden_dim)."""
        count, _, height, width = x.shape
        edge = self.patch_size
        rgrad._assert(height == self.image_size, f"Wrong image height! Expected {self.image_size} but got {height}!")
        rgrad._assert(width == self.image_size, f"Wrong image width! Expected {self.image_size} but got {width}!")
        return self.conv_proj(x).reshape(count, self.hidden_dim, (height // edge) * (width // edge)).permute(0, 2, 1)

    def forward(self, x: Any) -> Any:
        """Maps shape (N, 3, image_size, image_size) to (N, num_classes)."""
        tokens = self._process_input(x)
        first = self.class_token.expand(tokens.shape[0], -1, -1)
        return self.heads(self.encoder(rgrad.cat([first, tokens], dim=1))[:, 0])


def _projection(patch: int, hidden: int, stem: list[ConvStemConfig] | None) -> nn.Module:
    """What makes an image's tokens."""
    if stem is None:
        return nn.Conv2d(3, hidden, kernel_size=patch, stride=patch)
    layers, width = nn.Sequential(), 3
    for place, row in enumerate(stem):
        around: Any = {"norm_layer": row.norm_layer, "activation_layer": row.activation_layer}
        layer = Conv2dNormActivation(width, row.out_channels, row.kernel_size, row.stride, **around)
        layers.add_module(f"conv_bn_relu_{place}", layer)
        width = row.out_channels
    layers.add_module("conv_last", nn.Conv2d(width, hidden, kernel_size=1))
    return layers


def interpolate_embeddings(
    image_size: int,
    patch_size: int,
    model_state: dict[str, Any],
    interpolation_mode: str = "bicubic",
    reset_heads: bool = False,
) -> dict[str, Any]:
    """The state of a network, with position embeddings for images of another size.

    Args:
        image_size: the new edge of an image.
        patch_size: edge of a patch.
        model_state: the state, with position embeddings of a square of patches.
        interpolation_mode: as for `interpolate`.
        reset_heads: whether the last layers are left out.
    """
    key = "encoder.pos_embedding"
    old = model_state[key]
    count, length, size = old.shape
    if count != 1:
        raise ValueError(f"Unexpected position embedding shape: {old.shape}")
    edge, wanted = math.isqrt(length - 1), image_size // patch_size
    if wanted**2 + 1 == length:
        return model_state
    if edge**2 != length - 1:
        raise ValueError(f"the position embeddings are of {length - 1} patches, which are no square")
    square = old[:, 1:].permute(0, 2, 1).reshape(1, size, edge, edge)
    resized = nn.functional.interpolate(square, size=wanted, mode=interpolation_mode, align_corners=True)
    model_state[key] = rgrad.cat([old[:, :1], resized.reshape(1, size, wanted**2).permute(0, 2, 1)], dim=1)
    if not reset_heads:
        return model_state
    return type(model_state)((name, value) for name, value in model_state.items() if not name.startswith("heads"))


def _make(sizes: tuple[int, int, int, int, int], image_size: int = 224, **kwargs: Any) -> VisionTransformer:
    patch, layers, heads, hidden, between = sizes
    return VisionTransformer(image_size, patch, layers, heads, hidden, between, **kwargs)


def _loaded(weights: Any, options: dict[str, Any]) -> None:
    edge = weights.meta["min_size"][0]
    if options.setdefault("image_size", edge) != edge:
        raise ValueError(f"The parameter 'image_size' expected value {edge} but got {options['image_size']} instead.")


def _network(name: str, enum: Any, *sizes: Any) -> Any:
    title = f"ViT-{name[4].upper()}/{sizes[0]}."
    return builder(name, enum, functools.partial(_make, sizes), title, loaded=_loaded)


ViT_B_16_Weights, ViT_B_32_Weights = published("ViT_B_16", __name__), published("ViT_B_32", __name__)
ViT_L_16_Weights, ViT_L_32_Weights = published("ViT_L_16", __name__), published("ViT_L_32", __name__)
ViT_H_14_Weights = published("ViT_H_14", __name__)
vit_b_16 = _network("vit_b_16", ViT_B_16_Weights, 16, 12, 12, 768, 3072)
vit_b_32 = _network("vit_b_32", ViT_B_32_Weights, 32, 12, 12, 768, 3072)
vit_l_16 = _network("vit_l_16", ViT_L_16_Weights, 16, 24, 16, 1024, 4096)
vit_l_32 = _network("vit_l_32", ViT_L_32_Weights, 32, 24, 16, 1024, 4096)
vit_h_14 = _network("vit_h_14", ViT_H_14_Weights, 14, 32, 16, 1280, 5120)
