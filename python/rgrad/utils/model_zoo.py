"""`torch.utils.model_zoo`: the older name of the function that downloads parameters."""

from __future__ import annotations

from rgrad.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
