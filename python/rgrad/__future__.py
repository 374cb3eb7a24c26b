"""How `Module.to` and `load_state_dict` change parameters: in place, by replacement, or by exchange."""

from __future__ import annotations

_overwrite = False
_swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Sets whether `Module.to` and similar methods replace parameters by new ones."""
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether `Module.to` and similar methods replace parameters by new ones."""
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Sets whether `Module.to` and `load_state_dict` exchange parameters by `utils.swap_tensors`."""
    global _swap
    _swap = value


def get_swap_module_params_on_conversion() -> bool:
    """Whether `Module.to` and `load_state_dict` exchange parameters by `utils.swap_tensors`."""
    return _swap
