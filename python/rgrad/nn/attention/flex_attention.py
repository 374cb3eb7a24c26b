"""Attention whose scores and mask are functions of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import rgrad
from rgrad import _C

from ._block_mask import (
    DEFAULT_BLOCK_SIZE,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    indices,
    noop_mask,
    or_masks,
)

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

Tensor = _C.Tensor
FlexKernelOptions = dict

# Packages read it.
_DEFAULT_SPARSE_BLOCK_SIZE = DEFAULT_BLOCK_SIZE


class AuxRequest(NamedTuple):
    """Which further results :func:`flex_attention` returns."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Further results of :func:`flex_attention`, ``(B, H, Q)``; None where they were not asked for."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def _check(query: Tensor, key: Tensor, value: Tensor, block_mask: BlockMask | None, enable_gqa: bool) -> None:
    if not query.dim() == key.dim() == value.dim() == 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.dtype != key.dtype or query.dtype != value.dtype:
        raise ValueError(
            "Expected query, key, and value to have the same dtype, but got "
            f"query.dtype: {query.dtype}, key.dtype: {key.dtype}, and value.dtype: {value.dtype} instead."
        )
    if query.device != key.device or query.device != value.device:
        raise ValueError(
            "Expected query, key, and value to have the same device type, but got "
            f"query.device: {query.device}, key.device: {key.device}, and value.device: {value.device} instead."
        )
    if query.size(-1) != key.size(-1):
        raise ValueError(
            "Expect query and key/value to have the same embedding dimension but got "
            f"E={query.size(-1)} and E={key.size(-1)}."
        )
    if key.shape[:3] != value.shape[:3]:
        raise ValueError(f"Expect key and value of equal sizes but the last, got {key.shape}, {value.shape}")
    heads, shared = query.size(1), key.size(1)
    if heads != shared and not enable_gqa:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={shared}. "
            "Try setting enable_gqa=True for GQA."
        )
    if heads % shared:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={shared}."
        )
    batch, shared = query.size(0), key.size(0)
    if batch != shared and (block_mask is None or shared != 1):
        raise ValueError(
            "Expect query and key/value to have the same batch size, or non-none block_mask, but got "
            f"block_mask={block_mask}, Bq={batch}, and Bkv={shared}."
        )


def _visible(block_mask: BlockMask, shape: tuple[int, ...], places: list[Tensor]) -> Tensor:
    """The mask of all scores: what `mask_mod` shows of partial blocks, and all of full ones."""
    if block_mask.seq_lengths[0] > shape[2] or block_mask.seq_lengths[1] > shape[3]:
        raise RuntimeError(
            "block_mask was created for a larger length than you're using it for: "
            f"{block_mask.seq_lengths} for {shape[2:]}. block_mask._adjust(q_len, kv_len) crops it to the first "
            "queries and keys, which is not what every mask_mod means."
        )
    if block_mask.seq_lengths[0] < shape[2] or block_mask.seq_lengths[1] < shape[3]:
        raise RuntimeError(
            f"block_mask was created for a smaller length than you're using it for: {block_mask.seq_lengths} for "
            f"{shape[2:]}"
        )
    for dim, name in enumerate(("batch", "heads")):
        if block_mask.shape[dim] not in (1, shape[dim]):
            raise RuntimeError(f"block_mask has {block_mask.shape[dim]} of {name} where the query has {shape[dim]}")
    rows, columns = block_mask.BLOCK_SIZE
    q, kv = (place.flatten() for place in places[2:])

    def of_every_score(blocks: Tensor) -> Tensor:
        return blocks.index_select(2, q // rows).index_select(3, kv // columns)

    partial, full = block_mask.to(q.device)._blocks()
    seen = of_every_score(partial) & block_mask.mask_mod(*places)
    return seen if full is None else seen | of_every_score(full)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: dict[str, Any] | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Computes attention, ``softmax(score_mod(query @ key.mT * scale)) @ value``, where a mask shows the keys.

    It is composed of operations, with all scores in memory, so gradients flow into the inputs and into what the
    functions capture. A query that sees no key has a result of zero.

    Args:
        query: ``(B, H, Q, E)``, of a floating point dtype.
        key: ``(B, H, K, E)``, or with fewer heads.
        value: ``(B, H, K, V)``, or with fewer heads.
        score_mod: changes scores: a function of them and of the indices of batch, head, query and key, which are
            tensors that broadcast with the scores ``(B, H, Q, K)``; see Note [Masks as functions].
        block_mask: what queries see; None for everything.
        scale: factor of the scores; ``1 / sqrt(E)`` by default.
        enable_gqa: whether groups of heads of the query share a head of key and value.
        return_lse: whether to also return the logarithms of the sums of exponentials of scores, ``(B, H, Q)``.
        kernel_options: accepted, without effect.
        return_aux: which further results to return, instead of `return_lse`.

    Returns:
        A tensor ``(B, H, Q, V)``; a pair of it and what was asked for besides.

    Raises:
        ValueError: sizes, dtypes or devices of the inputs do not fit together.
        RuntimeError: the mask is of other lengths.

    >>> from rgrad.nn.attention.flex_attention import flex_attention
    >>> q = rgrad.ones(1, 2, 3, 4)
    >>> flex_attention(q, q, q, lambda score, b, h, q, kv: score - (q - kv).abs()).shape
    torch.Size([1, 2, 3, 4])
    """
    _check(query, key, value, block_mask, enable_gqa)
    groups = query.size(1) // key.size(1)
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scale = query.size(-1) ** -0.5 if scale is None else scale
    # Exponentials of half types would be too coarse.
    wide = rgrad.float32 if query.dtype in (rgrad.float16, rgrad.bfloat16) else query.dtype
    scores = query.to(wide) @ key.to(wide).transpose(-2, -1) * scale
    shape = tuple(scores.shape)
    places = indices(shape, query.device)
    if score_mod is not None:
        scores = score_mod(scores, *places).to(wide).expand(shape)
    if block_mask is not None:
        scores = scores.masked_fill(~_visible(block_mask, shape, places), float("-inf"))
    # A row of minus infinity alone would be NaN.
    nothing = (scores == float("-inf")).all(-1, keepdim=True)
    weights = scores.masked_fill(nothing, 0.0).softmax(-1).masked_fill(nothing, 0.0)
    result = (weights @ value.to(wide)).to(query.dtype)
    if return_aux is not None:
        return result, AuxOutput(
            scores.logsumexp(-1) if return_aux.lse else None,
            scores.amax(-1) if return_aux.max_scores else None,
        )
    return (result, scores.logsumexp(-1)) if return_lse else result
