"""How `Module.to` and `load_state_dict` change parameters: in place, by new ones, or by exchange."""

from __future__ import annotations

_overwrite = False
_swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether `Module.to` and its like put new parameters in a module's place of the old ones."""
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether `Module.to` and its like put new parameters in a module's place of the old ones."""
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether `Module.to` and `load_state_dict` exchange parameters by `utils.swap_tensors`."""
    global _swap
    _swap = value


def get_swap_module_params_on_conversion() -> bool:
    """Whether `Module.to` and `load_state_dict` exchange parameters by `utils.swap_tensors`."""
    return _swap
