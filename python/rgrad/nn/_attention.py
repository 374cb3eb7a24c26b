"""Multi-head attention."""

from __future__ import annotations

import math
import warnings

import rgrad
from rgrad import _C

Tensor = _C.Tensor
_nn = _C._nn


def canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: _C.dtype | None,
    other_name: str,
    target_type: _C.dtype,
    check_other: bool = True,
) -> Tensor | None:
    """Converts a mask to a term to add: a bool mask becomes minus infinity where it is True."""
    if mask is None:
        return None
    if mask.dtype != rgrad.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=3,
        )
    if mask.is_floating_point():
        return mask
    return rgrad.zeros_like(mask, dtype=target_type).masked_fill_(mask, -math.inf)


def _check_shapes(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Whether the inputs have a batch dimension."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    dim = query.dim()
    kind = "batched (3-D)" if dim == 3 else "unbatched (2-D)"
    if key.dim() != dim or value.dim() != dim:
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {dim}-D"
            f" but found {key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != dim - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {dim - 1}-D"
            f" but found {key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(
                f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D"
                f" but found {attn_mask.dim()}-D tensor instead"
            )
        expected = (num_heads, query.shape[0], key.shape[0])
        if dim == 2 and attn_mask.dim() == 3 and tuple(attn_mask.shape) != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}")
    return dim == 3


def _project(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: tuple[Tensor, Tensor, Tensor] | Tensor,
    bias: Tensor | None,
) -> tuple[Tensor, ...]:
    """Queries, keys and values from the inputs. The weights are three tensors, or one that contains them in order."""
    if isinstance(weights, Tensor):
        if query is key and key is value:
            # A single product if all three inputs are the same tensor.
            return _nn.linear(query, weights, bias).chunk(3, -1)
        weights = weights.chunk(3)  # type: ignore[assignment]
    biases = (None, None, None) if bias is None else bias.chunk(3)
    return tuple(_nn.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))


def _check_attn_mask(mask: Tensor, batch: int, heads: int, target: int, source: int) -> Tensor:
    """The mask with three dimensions."""
    if mask.dim() not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
    expected = (target, source) if mask.dim() == 2 else (batch * heads, target, source)
    if tuple(mask.shape) != expected:
        raise RuntimeError(f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {expected}.")
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


def _merged_mask(attn: Tensor | None, padding: Tensor | None, batch: int, heads: int, source: int) -> Tensor | None:
    """Combines the attention mask and the padding mask."""
    if padding is None:
        return attn
    for place, size in enumerate((batch, source)):
        if padding.shape[place] != size:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{place}] to be {size}, but got {padding.shape[place]}"
            )
    padding = padding.view(batch, 1, 1, source).expand(-1, heads, -1, -1).reshape(batch * heads, 1, source)
    return padding if attn is None else attn + padding


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The computation of :class:`rgrad.nn.MultiheadAttention`, with its parameters as arguments.

    Shape:
        query: ``(L, N, E)``, key and value: ``(S, N, *)``, or all without N. Output: ``(L, N, E)``; weights:
        ``(N, L, S)``, or ``(N, heads, L, S)`` if not averaged.
    """
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        # Identical tensors stay identical, which `_project` checks.
        seen = {id(x): x.unsqueeze(1) for x in (query, key, value)}
        query, key, value = seen[id(query)], seen[id(key)], seen[id(value)]
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    target, batch, embed_dim = query.shape
    source = key.size(0)
    attn_type = None if attn_mask is None else attn_mask.dtype
    padding = canonical_mask(key_padding_mask, "key_padding_mask", attn_type, "attn_mask", query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. The hint says that it is the causal one, which "
            "`nn.Transformer.generate_square_subsequent_mask` makes."
        )
    # The hint replaces the mask if nothing else needs a mask.
    is_causal = is_causal and padding is None and not need_weights
    mask = None if is_causal else canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
    if embed_dim != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed_dim}")
    if embed_dim % num_heads != 0:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
            )
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        for name, weight in zip("qkv", weights, strict=True):
            if weight is None:
                raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
        q, k, v = _project(query, key, value, weights, in_proj_bias)  # type: ignore[arg-type]
    else:
        if key.shape != value.shape:
            raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _project(query, key, value, in_proj_weight, in_proj_bias)
    if mask is not None:
        mask = _check_attn_mask(mask, batch, num_heads, target, source)

    def seen_by_all(m: Tensor | None) -> Tensor | None:
        return None if m is None else _nn.pad(m, (0, 1))

    if bias_k is not None and bias_v is not None:
        for name, static in (("key", static_k), ("value", static_v)):
            if static is not None:
                raise AssertionError(f"bias cannot be added to static {name}.")
        k, v = rgrad.cat([k, bias_k.repeat(1, batch, 1)]), rgrad.cat([v, bias_v.repeat(1, batch, 1)])
        mask, padding = seen_by_all(mask), seen_by_all(padding)
    head_dim = embed_dim // num_heads

    def by_head(x: Tensor) -> Tensor:
        return x.reshape(x.size(0), batch * num_heads, head_dim).transpose(0, 1)

    q = by_head(q)
    k = by_head(k) if static_k is None else _check_static("k", static_k, batch * num_heads, head_dim)
    v = by_head(v) if static_v is None else _check_static("v", static_v, batch * num_heads, head_dim)
    if add_zero_attn:
        zeros = k.new_zeros((batch * num_heads, 1, head_dim))
        k, v = rgrad.cat([k, zeros], 1), rgrad.cat([v, zeros], 1)
        mask, padding = seen_by_all(mask), seen_by_all(padding)
    source = k.size(1)
    mask = _merged_mask(mask, padding, batch, num_heads, source)
    dropout_p = dropout_p if training else 0.0
    attention = None
    if need_weights:
        q = q * math.sqrt(1.0 / head_dim)
        scores = rgrad.bmm(q, k.transpose(-2, -1)) if mask is None else rgrad.baddbmm(mask, q, k.transpose(-2, -1))
        attention = scores.softmax(-1)
        if dropout_p > 0.0:
            attention = _nn.dropout(attention, dropout_p)
        mixed = rgrad.bmm(attention, v).transpose(0, 1)
        attention = attention.view(batch, num_heads, target, source)
        attention = attention.mean(1) if average_attn_weights else attention
        attention = attention if batched else attention.squeeze(0)
    else:
        if mask is not None:
            mask = mask.unsqueeze(0) if mask.size(0) == 1 else mask.view(batch, num_heads, mask.size(1), source)

        def separated(x: Tensor) -> Tensor:
            return x.reshape(batch, num_heads, x.size(1), head_dim)

        mixed = _nn.scaled_dot_product_attention(
            separated(q), separated(k), separated(v), mask, dropout_p, is_causal
        ).permute(2, 0, 1, 3)
    output = _nn.linear(mixed.reshape(target * batch, embed_dim), out_proj_weight, out_proj_bias)
    output = output.view(target, batch, output.size(1))
    return (output if batched else output.squeeze(1)), attention


def _check_static(name: str, given: Tensor, rows: int, head_dim: int) -> Tensor:
    for dim, size in ((0, rows), (2, head_dim)):
        if given.size(dim) != size:
            raise AssertionError(f"expecting static_{name}.size({dim}) of {size}, but got {given.size(dim)}")
    return given
