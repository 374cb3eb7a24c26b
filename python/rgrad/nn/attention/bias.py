"""Causal masks that attention recognizes."""

from __future__ import annotations

import warnings
from enum import IntEnum, auto
from typing import Any

import rgrad
from rgrad import _C

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]

Tensor = _C.Tensor


class CausalVariant(IntEnum):
    """At which corner the diagonal of a causal mask begins, if there are more keys than queries or fewer."""

    UPPER_LEFT = auto()
    LOWER_RIGHT = auto()


class CausalBias(Tensor):
    """A causal mask: a tensor of bools ``(seq_len_q, seq_len_kv)`` that says which keys a query sees.

    `scaled_dot_product_attention` takes it as `attn_mask`, on every device.

    Args:
        variant: where the diagonal begins.
        seq_len_q: number of queries.
        seq_len_kv: number of keys.
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        shift = seq_len_kv - seq_len_q if variant is CausalVariant.LOWER_RIGHT else 0
        made = rgrad.ones((seq_len_q, seq_len_kv), dtype=rgrad.bool).tril(shift).as_subclass(cls)
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        return made

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if variant is CausalVariant.LOWER_RIGHT and seq_len_q > seq_len_kv:
            warnings.warn(
                "The first queries of a lower right causal bias see no key if there are more queries than keys, which "
                "gives NaNs.",
                stacklevel=3,
            )

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return repr(self._materialize())

    def _materialize(self, device: Any = None) -> Tensor:
        """The mask as a plain tensor on a device."""
        plain = self.as_subclass(Tensor)
        return plain if device is None else plain.to(device)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "") == "scaled_dot_product_attention":
            names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
            given = dict(zip(names, args, strict=False)) | kwargs
            if given.get("is_causal"):
                raise ValueError("CausalBias should not be used with causal=True")
            mask = given["attn_mask"]
            if isinstance(mask, cls):
                if mask.variant is CausalVariant.UPPER_LEFT or mask.seq_len_q == mask.seq_len_kv:
                    given["attn_mask"], given["is_causal"] = None, True
                else:
                    given["attn_mask"] = mask._materialize(given["query"].device)
            inputs = [given.pop(name) for name in names[:3]]
            return func(*inputs, **given)
        result = super().__torch_function__(func, types, args, kwargs)  # type: ignore[misc]
        # What is computed from the mask is no causal mask.
        return result.as_subclass(Tensor) if isinstance(result, cls) and not hasattr(result, "variant") else result


def causal_upper_left(*size: int) -> CausalBias:
    """The causal mask whose diagonal begins at the first query and the first key.

    Args:
        *size: numbers of queries and of keys.

    >>> from rgrad.nn.attention.bias import causal_upper_left
    >>> causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return _of_size(CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """The causal mask whose diagonal ends at the last query and the last key.

    Args:
        *size: numbers of queries and of keys.

    >>> from rgrad.nn.attention.bias import causal_lower_right
    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return _of_size(CausalVariant.LOWER_RIGHT, size)


def _of_size(variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise AssertionError(f"a causal mask has 2 dimensions, got {len(size)}")
    return CausalBias(variant, *size)
