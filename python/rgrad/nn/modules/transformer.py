"""Transformers and their layers."""

import copy
import math
from collections.abc import Callable
from typing import Any

import rgrad
from rgrad import _C

from .. import functional as F
from .. import init
from .._attention import canonical_mask
from .attention import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Tensor = _C.Tensor
Activation = str | Callable[[Tensor], Tensor]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


def _activation(given: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(given, str):
        return given
    if given not in _ACTIVATIONS:
        raise RuntimeError(f"activation should be relu/gelu, not {given}")
    return _ACTIVATIONS[given]


_get_activation_fn = _activation  # the name by which packages import it


def _causal_mask(size: int, device: Any = None, dtype: Any = None) -> Tensor:
    """Minus infinity above the diagonal, so that no position attends to a later one."""
    return rgrad.triu(rgrad.full((size, size), -math.inf, dtype=dtype, device=device), diagonal=1)


def _is_causal(mask: Tensor | None, hint: bool | None, x: Tensor, batch_first: bool) -> bool:
    """The hint, or if it is None, whether the mask is the causal mask."""
    if hint is not None or mask is None:
        return hint is True
    size = x.size(0 if x.dim() == 2 or not batch_first else 1)
    causal = _causal_mask(size, mask.device, mask.dtype)
    return mask.shape == causal.shape and bool((mask == causal).all())


class _Layer(Module):
    """Base class of the encoder and decoder layers: attentions, followed by the feed-forward block."""

    # The names of the attentions, in order of execution.
    _attentions: tuple[str, ...]

    self_attn: MultiheadAttention

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        for name in self._attentions:
            attention = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **made)
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **made)
        self.norm_first = norm_first
        # One norm and one dropout for each attention, and one of each for the feed-forward block.
        for kind in ("norm", "dropout"):
            for i in range(1, len(self._attentions) + 2):
                module = LayerNorm(d_model, layer_norm_eps, bias=bias, **made) if kind == "norm" else Dropout(dropout)
                setattr(self, f"{kind}{i}", module)
        self.activation = _activation(activation)

    def _attend(
        self,
        attention: MultiheadAttention,
        dropout: Dropout,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None,
        padding: Tensor | None,
        is_causal: bool,
    ) -> Tensor:
        mixed, _ = attention(
            x,
            memory,
            memory,
            attn_mask=mask,
            key_padding_mask=padding,
            is_causal=is_causal,
            need_weights=False,
        )
        return dropout(mixed)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _residual(self, x: Tensor, norm: Module, block: Callable[[Tensor], Tensor]) -> Tensor:
        """Applies a block with a residual connection; normalizes before the block or after the sum."""
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward block, each with a residual connection and a layer norm.

    Args:
        d_model: features of input and output.
        nhead: number of heads.
        dim_feedforward: features inside the feed-forward block.
        dropout: probability of dropout.
        activation: activation of the feed-forward block: ``"relu"``, ``"gelu"`` or a function.
        layer_norm_eps: ``eps`` of the layer norms.
        batch_first: whether input and output are ``(N, L, d_model)`` rather than ``(L, N, d_model)``.
        norm_first: whether to normalize before each block rather than after it.
        bias: whether linear maps and norms have biases.

    Example:
        >>> layer = rgrad.nn.TransformerEncoderLayer(8, 2, batch_first=True)
        >>> layer(rgrad.zeros(3, 5, 8)).shape
        torch.Size([3, 5, 8])
    """

    _attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Applies the layer; the masks are those of :class:`MultiheadAttention`."""
        mask_type = None if src_mask is None else src_mask.dtype
        padding = canonical_mask(src_key_padding_mask, "src_key_padding_mask", mask_type, "src_mask", src.dtype)
        mask = canonical_mask(src_mask, "src_mask", None, "", src.dtype, False)

        def attend(x: Tensor) -> Tensor:
            return self._attend(self.self_attn, self.dropout1, x, x, mask, padding, is_causal)

        x = self._residual(src, self.norm1, attend)
        return self._residual(x, self.norm2, lambda x: self.dropout2(self._feed_forward(x)))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and a feed-forward block.

    The arguments are those of :class:`TransformerEncoderLayer`.
    """

    _attentions = ("self_attn", "multihead_attn")

    multihead_attn: MultiheadAttention

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Applies the layer to `tgt`, with the encoder's output as `memory`."""

        def look_at_self(x: Tensor) -> Tensor:
            return self._attend(self.self_attn, self.dropout1, x, x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def look_at_memory(x: Tensor) -> Tensor:
            return self._attend(
                self.multihead_attn,
                self.dropout2,
                x,
                memory,
                memory_mask,
                memory_key_padding_mask,
                memory_is_causal,
            )

        x = self._residual(tgt, self.norm1, look_at_self)
        x = self._residual(x, self.norm2, look_at_memory)
        return self._residual(x, self.norm3, lambda x: self.dropout3(self._feed_forward(x)))


class _Stack(Module):
    """Copies of a layer, applied one after the other, with an optional norm of the last output."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def _hint(self, mask: Tensor | None, hint: bool | None, x: Tensor) -> bool:
        """Whether the layers may treat their self-attention mask as the causal mask."""
        first: Any = self.layers[0]
        return _is_causal(mask, hint, x, first.self_attn.batch_first)

    def _run(self, x: Tensor, *args: Any, **masks: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x, *args, **masks)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """A stack of encoder layers.

    Args:
        encoder_layer: the layer, which is copied.
        num_layers: number of copies.
        norm: applied to the output.
        enable_nested_tensor: accepted, without effect: padded positions are computed like all others.
        mask_check: accepted, without effect.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Applies the layers one after the other."""
        mask_type = None if mask is None else mask.dtype
        padding = canonical_mask(src_key_padding_mask, "src_key_padding_mask", mask_type, "mask", src.dtype)
        mask = canonical_mask(mask, "mask", None, "", src.dtype, False)
        causal = self._hint(mask, is_causal, src)
        return self._run(src, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)


class TransformerDecoder(_Stack):
    """A stack of decoder layers.

    Args:
        decoder_layer: the layer, which is copied.
        num_layers: number of copies.
        norm: applied to the output.
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Applies the layers one after the other."""
        return self._run(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=self._hint(tgt_mask, tgt_is_causal, tgt),
            memory_is_causal=memory_is_causal,
        )


class Transformer(Module):
    """An encoder and a decoder.

    Args:
        d_model: features of inputs and output.
        nhead: number of heads.
        num_encoder_layers: layers of the encoder.
        num_decoder_layers: layers of the decoder.
        dim_feedforward: features inside the feed-forward blocks.
        dropout: probability of dropout.
        activation: activation of the feed-forward blocks: ``"relu"``, ``"gelu"`` or a function.
        custom_encoder: replaces the encoder.
        custom_decoder: replaces the decoder.
        layer_norm_eps: ``eps`` of the layer norms.
        batch_first: whether inputs and output are ``(N, L, d_model)`` rather than ``(L, N, d_model)``.
        norm_first: whether to normalize before each block rather than after it.
        bias: whether linear maps and norms have biases.

    Example:
        >>> model = rgrad.nn.Transformer(8, 2, 1, 1, 16)
        >>> model(rgrad.zeros(5, 3, 8), rgrad.zeros(4, 3, 8)).shape
        torch.Size([4, 3, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made: dict[str, Any] = {"device": device, "dtype": dtype}

        def layer(kind: Callable[..., Module]) -> Module:
            return kind(
                d_model,
                nhead,
                dim_feedforward,
                dropout,
                activation,
                layer_norm_eps,
                batch_first,
                norm_first,
                bias,
                **made,
            )

        def norm() -> Module:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, **made)

        self.encoder = custom_encoder
        if custom_encoder is None:
            self.encoder = TransformerEncoder(layer(TransformerEncoderLayer), num_encoder_layers, norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            self.decoder = TransformerDecoder(layer(TransformerDecoderLayer), num_decoder_layers, norm())
        for p in self.parameters():
            if p.dim() > 1:
                init.xavier_uniform_(p)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Encodes `src` and decodes `tgt` with the result."""
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask: minus infinity above the diagonal, zero elsewhere."""
        return _causal_mask(sz, device, dtype)
