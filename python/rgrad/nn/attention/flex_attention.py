"""`torch.nn.attention.flex_attention`, which rgrad lacks: placeholders for names that packages import."""

from __future__ import annotations

from rgrad._absent import absent_class, absent_function

__all__ = ["BlockMask", "create_block_mask", "flex_attention"]

_HERE = "torch.nn.attention.flex_attention"
_WHY = "torch.nn.functional.scaled_dot_product_attention takes a mask"

BlockMask = absent_class(f"{_HERE}.BlockMask", _WHY)
create_block_mask = absent_function(f"{_HERE}.create_block_mask", _WHY)
flex_attention = absent_function(f"{_HERE}.flex_attention", _WHY)
