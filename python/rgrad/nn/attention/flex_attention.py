"""`torch.nn.attention.flex_attention`, which rgrad lacks: placeholders for names that packages import."""

from __future__ import annotations

from rgrad._absent import absent_class, absent_function

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "or_masks",
]

_HERE = "torch.nn.attention.flex_attention"
_WHY = "torch.nn.functional.scaled_dot_product_attention takes a mask"

BlockMask = absent_class(f"{_HERE}.BlockMask", _WHY)
AuxRequest = absent_class(f"{_HERE}.AuxRequest", _WHY)
AuxOutput = absent_class(f"{_HERE}.AuxOutput", _WHY)
create_mask = absent_function(f"{_HERE}.create_mask", _WHY)
or_masks = absent_function(f"{_HERE}.or_masks", _WHY)
and_masks = absent_function(f"{_HERE}.and_masks", _WHY)
create_block_mask = absent_function(f"{_HERE}.create_block_mask", _WHY)
flex_attention = absent_function(f"{_HERE}.flex_attention", _WHY)

# Block size of queries and keys; packages read it.
_DEFAULT_SPARSE_BLOCK_SIZE = 128
