"""Small helpers shared by the modules, under the names that PyTorch gives them."""

from __future__ import annotations

from typing import Any

from .._ntuple import _ntuple as _ntuple
from .._ntuple import _pair as _pair
from .._ntuple import _quadruple as _quadruple
from .._ntuple import _reverse_repeat_tuple as _reverse_repeat_tuple
from .._ntuple import _single as _single
from .._ntuple import _triple as _triple

__all__ = ["consume_prefix_in_state_dict_if_present"]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Takes a prefix from the keys of a state dict, in place: that of a model saved from within a wrapper.

    Args:
        state_dict: the state; keys without the prefix are left alone.
        prefix: such as ``"module."``.

    Example:
        >>> state = rgrad.nn.Sequential(rgrad.nn.Linear(2, 1)).state_dict()
        >>> rgrad.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "0.")
        >>> list(state)
        ['weight', 'bias']
    """
    _consume(state_dict, prefix)
    # Metadata has the names of modules, without a dot at the end: that of the wrapped one becomes the empty name.
    metadata = getattr(state_dict, "_metadata", {})
    own = metadata.pop(prefix.removesuffix("."), None)
    if own is not None:
        metadata[""] = own
    _consume(metadata, prefix)


def _consume(names: dict[str, Any], prefix: str) -> None:
    for name in [name for name in names if name.startswith(prefix)]:
        names[name[len(prefix) :]] = names.pop(name)
