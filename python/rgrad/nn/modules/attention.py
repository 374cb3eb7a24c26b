"""Attention modules."""

from __future__ import annotations

from typing import Any

import rgrad
from rgrad import _C

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = ["MultiheadAttention"]

Tensor = _C.Tensor


class MultiheadAttention(Module):
    """Attention over several heads.

    Args:
        embed_dim: features of the query and of the output; a multiple of `num_heads`.
        num_heads: number of heads.
        dropout: probability with which weights are zeroed in training.
        bias: whether the projections have biases.
        add_bias_kv: whether a learned key and value are added to the sequence.
        add_zero_attn: whether a key and value of zeros are added to the sequence.
        kdim: features of the keys, `embed_dim` by default.
        vdim: features of the values, `embed_dim` by default.
        batch_first: whether inputs and output are ``(N, L, features)`` rather than ``(L, N, features)``.

    Shape:
        query: ``(L, N, embed_dim)``; key: ``(S, N, kdim)``; value: ``(S, N, vdim)``; or all without N. Output:
        ``(L, N, embed_dim)``; weights: ``(N, L, S)``, or ``(N, num_heads, L, S)`` where not averaged.

    Example:
        >>> attention = rgrad.nn.MultiheadAttention(8, 2, batch_first=True)
        >>> x = rgrad.zeros(3, 5, 8)
        >>> output, weights = attention(x, x, x)
        >>> output.shape, weights.shape
        (torch.Size([3, 5, 8]), torch.Size([3, 5, 5]))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0,"
                f" got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def parameter(*shape: int, wanted: bool = True) -> Parameter | None:
            return Parameter(rgrad.empty(shape, device=device, dtype=dtype)) if wanted else None

        same = self._qkv_same_embed_dim
        shapes = {
            "q_proj_weight": (embed_dim, embed_dim),
            "k_proj_weight": (embed_dim, self.kdim),
            "v_proj_weight": (embed_dim, self.vdim),
        }
        for name, shape in shapes.items():
            self.register_parameter(name, parameter(*shape, wanted=not same))
        self.register_parameter("in_proj_weight", parameter(3 * embed_dim, embed_dim, wanted=same))
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim, wanted=bias))
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, parameter(1, 1, embed_dim, wanted=add_bias_kv))
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if self._parameters[name] is not None:
                init.xavier_uniform_(self._parameters[name])
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Applies attention.

        Args:
            query: the queries.
            key: the keys, which are compared with the queries.
            value: the values, whose weighted means are the output.
            key_padding_mask: ``(N, S)``; keys to leave out (True), or numbers to add to their scores.
            need_weights: whether to return the weights too.
            attn_mask: ``(L, S)`` or ``(N * num_heads, L, S)``; pairs to leave out, or numbers to add.
            average_attn_weights: whether the weights returned are the mean over the heads.
            is_causal: a hint that `attn_mask` is the causal one.

        Returns:
            The output and the weights; without `need_weights`, None in place of the weights.
        """
        swap = self.batch_first and query.dim() == 3
        if swap:
            # If arguments are the same tensor, so are their transposes: attention then uses one projection for them.
            seen = {id(x): x.transpose(0, 1) for x in (query, key, value)}
            query, key, value = seen[id(query)], seen[id(key)], seen[id(value)]
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (output.transpose(0, 1) if swap else output), weights
